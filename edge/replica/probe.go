package replica

import (
	"context"
	"errors"
	"time"
)

// Probe asks the origin once for its checkpoint, and gives the events that it speaks of
// and when it was signed. It fails when the configuration is wrong, when the origin does
// not answer, and when the checkpoint does not verify under the key. It keeps nothing. Of
// the configuration it needs Origin and Key.
func Probe(ctx context.Context, cfg Config) (events uint64, signed time.Time, err error) {
	cfg.Dir = ""
	cfg.Open = func(context.Context, []byte) (Core, error) { return nil, errors.New("replica: a probe opens nothing") }
	cfg.Show = func(Core) {}
	r, err := New(ctx, cfg)
	if err != nil {
		return 0, time.Time{}, err
	}
	defer r.client.CloseIdleConnections()
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
