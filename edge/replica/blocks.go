package replica

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"webring/core/snap"
)

const (
	// maxBlocks is how many bytes of early events are kept on disk for
	// followers.
	maxBlocks = 256 << 20
	// blockLife is for how long. Only a follower with all that leads to a block can see
	// that it is not the signed one, and then asks again: so a wrong block must not be
	// kept for long. Nor must words beside events, which may be redacted.
	blockLife = time.Minute
)

// blocks keeps early events that were asked for upstream: whole blocks, or as much of
// one as was signed, each in a file with its number for a name. Followers check them
// against a signed root, as they would if they came from the origin.
type blocks struct {
	dir     string // "" keeps none
	most    int64  // bytes
	flights singleflight.Group

	mu     sync.Mutex
	forgot uint64 // how often everything was
}

// block gives at least the first events of a block that are needed. It asks upstream
// once for all followers that want the block at a time.
func (r *Replica) block(n, need uint64) ([]snap.Record, error) {
	v, err, _ := r.blocks.flights.Do(strconv.FormatUint(n, 10), func() (any, error) {
		if records, ok := r.blocks.kept(n); ok && uint64(len(records)) >= need {
			return records, nil
		}
		if !r.pace.spare() {
			return nil, snap.ErrBusy
		}
		ctx, cancel := context.WithTimeout(context.Background(), passOn)
		defer cancel()
		before := r.blocks.times()
		b, err := r.get(ctx, fmt.Sprintf("/sync/events?from=%d", n*snap.BlockEvents), snap.MaxRange, false)
		if err != nil {
			return nil, errors.Join(snap.ErrNotHeld, err)
		}
		records, err := snap.DecodeRecords(b)
		if err == nil {
			err = add(new(snap.Tree), records)
		}
		if err != nil {
			return nil, errors.Join(snap.ErrNotHeld, err)
		}
		r.blocks.keep(n, b, before)
		return records, nil
	})
	if err != nil {
		return nil, err
	}
	return v.([]snap.Record), nil
}

func (b *blocks) path(n uint64) string { return filepath.Join(b.dir, strconv.FormatUint(n, 10)) }

// kept reads a block that is not too old.
func (b *blocks) kept(n uint64) ([]snap.Record, bool) {
	if b.dir == "" {
		return nil, false
	}
	about, err := os.Stat(b.path(n))
	if err != nil || time.Since(about.ModTime()).Abs() > blockLife { // the clock may have stepped back
		return nil, false
	}
	text, err := os.ReadFile(b.path(n))
	if err != nil {
		return nil, false
	}
	records, err := snap.DecodeRecords(text)
	return records, err == nil
}

func (b *blocks) times() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.forgot
}

// keep writes a block to disk if there is room, unless all blocks were forgotten since
// it was asked for.
func (b *blocks) keep(n uint64, text []byte, asked uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dir == "" || b.forgot != asked || os.MkdirAll(b.dir, 0o700) != nil {
		return
	}
	b.prune(int64(len(text)))
	name := b.path(n)
	err := os.WriteFile(name+".new", text, 0o600)
	if err == nil {
		err = os.Rename(name+".new", name)
	}
	if err != nil {
		os.Remove(name + ".new")
	}
}

// prune deletes the files that are too old, then the oldest until there is room.
func (b *blocks) prune(room int64) {
	entries, err := os.ReadDir(b.dir)
	if err != nil {
		return
	}
	var files []os.FileInfo
	total := room
	for _, e := range entries {
		about, err := e.Info()
		if err != nil {
			continue
		}
		files = append(files, about)
		total += about.Size()
	}
	slices.SortFunc(files, func(x, y os.FileInfo) int { return x.ModTime().Compare(y.ModTime()) })
	for _, f := range files {
		if total <= b.most && time.Since(f.ModTime()) <= blockLife {
			return
		}
		if os.Remove(filepath.Join(b.dir, f.Name())) == nil {
			total -= f.Size()
		}
	}
}

// forget drops everything, because words beside events were redacted.
func (b *blocks) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forgot++
	if b.dir != "" {
		os.RemoveAll(b.dir)
	}
}
