package monitor

import (
	"context"

	"webring/core"
	"webring/core/snap"
	log "webring/edge/tlog"
)

// bundle is what one bundle of entries came to.
type bundle struct {
	records []snap.Record
	err     error
}

// bundles fetches the events of the checkpoint with their texts, some bundles at a time, and
// gives them in their order.
func (r *run) bundles(ctx context.Context, each func([]snap.Record)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	line := make(chan chan bundle, ahead-1)
	go func() {
		defer close(line)
		for n := int64(0); n*log.TileWidth < r.At.N; n++ {
			one := make(chan bundle, 1)
			select {
			case line <- one:
			case <-ctx.Done():
				return
			}
			go func() {
				records, err := r.bundle(ctx, n)
				one <- bundle{records, err}
			}()
		}
	}()
	for one := range line {
		b := <-one
		if b.err != nil {
			return b.err
		}
		each(b.records)
	}
	return ctx.Err()
}

// maxTexts is longer than any bundle of texts, in bytes.
const (
	maxEntries = log.TileWidth * (2 + core.MaxEvent)
	maxTexts   = log.TileWidth * (2 + core.MaxTexts)
)

// bundle fetches the events of one bundle, and their texts.
func (r *run) bundle(ctx context.Context, n int64) ([]snap.Record, error) {
	width := int(min(log.TileWidth, r.At.N-n*log.TileWidth))
	read := func(path string, most int64) ([][]byte, error) {
		a, err := r.from.get(ctx, path, most)
		if err != nil {
			return nil, err
		}
		all, err := log.Entries(a.body)
		if err != nil || len(all) != width {
			return nil, wrong("%s has not the %d entries that it must have", path, width)
		}
		return all, nil
	}
	events, err := read(log.EntriesPath(n, width), maxEntries)
	if err != nil {
		return nil, err
	}
	texts, err := read(log.TextsPath(n, width), maxTexts)
	if err != nil {
		return nil, err
	}
	records := make([]snap.Record, width)
	for i := range records {
		records[i] = snap.Record{Event: events[i], Texts: texts[i]}
	}
	return records, nil
}
