package follow

import (
	"context"
	"log/slog"
	"time"
)

// Probe asks the first of the origins once for its checkpoint, and returns how many events
// that has and when it was signed. It fails when the configuration is wrong, when the origin
// does not answer, and when the checkpoint is not signed with a key that is trusted. It keeps
// nothing. Of the configuration it needs Origins and Keys; with Dir, what the edge on that
// folder has learned of the keys counts, too.
func Probe(ctx context.Context, cfg Config) (events uint64, signed time.Time, err error) {
	keys, err := newKeyring(cfg.Keys, cfg.Dir, slog.Default())
	if err != nil {
		return 0, time.Time{}, err
	}
	cfg.Verify = keys.verify
	l, err := NewLink(cfg.LinkConfig)
	if err != nil {
		return 0, time.Time{}, err
	}
	defer l.Close()
	at, err := l.Checkpoint(ctx)
	return at.Size, time.UnixMilli(at.Time), err
}
