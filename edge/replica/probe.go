package replica

import (
	"context"
	"errors"
	"time"
)

// Probe asks the first of the origins once for its checkpoint, and gives the events that
// it speaks of and when it was signed. It fails when the configuration is wrong, when the
// origin does not answer, and when the checkpoint is not signed with a key that is trusted.
// It keeps nothing. Of the configuration it needs Origins and Keys; with Dir, what the edge
// on that folder has learned of the keys counts, too.
func Probe(ctx context.Context, cfg Config) (events uint64, signed time.Time, err error) {
	dir := cfg.Dir
	cfg.Dir = ""
	cfg.Open = func(context.Context, []byte) (Core, error) { return nil, errors.New("replica: a probe opens nothing") }
	cfg.Show = func(Core) {}
	r, err := New(ctx, cfg)
	if err != nil {
		return 0, time.Time{}, err
	}
	defer r.client.CloseIdleConnections()
	if r.keys, err = newKeyring(cfg.Keys, dir, r.log); err != nil {
		return 0, time.Time{}, err
	}
	b, err := r.get(ctx, "/sync/checkpoint", maxNote, true)
	if err != nil {
		return 0, time.Time{}, err
	}
	to, err := r.open(b)
	if err != nil {
		return 0, time.Time{}, err
	}
	return to.Size, time.UnixMilli(to.Time), nil
}
