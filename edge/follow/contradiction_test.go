package follow

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"webring/core/snap"
	log "webring/edge/tlog"
)

// An edge that refuses another history than the one that it shows keeps the evidence, which can be
// checked without it.
func TestContradictionIsKept(t *testing.T) {
	for name, c := range map[string]struct {
		first, more []string // join in the history, and in the other one
		want        error
	}{
		"as many events":  {[]string{"a"}, []string{"b"}, ErrForked},
		"more events":     {[]string{"a"}, []string{"b", "c", "d"}, ErrEvents},
		"fewer events":    {[]string{"a", "b", "c"}, []string{"b"}, ErrShrunk},
		"only older ones": {[]string{"a", "b"}, []string{}, ErrShrunk},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOrigin(t)
			fork := emptyOrigin(t, signer{Signer: o.signer, word: o.key})
			fork.records, fork.tree = append(fork.records, o.records...), o.tree
			if err := fork.state.Apply(o.records[0].Event, o.records[0].Texts); err != nil {
				t.Fatal(err)
			}
			o.join(c.first...)
			o.sign()
			fork.join(c.more...)
			fork.at.Time = o.at.Time
			fork.sign()
			dir := t.TempDir()
			f := o.booted(func(cfg *Config) { cfg.Dir = dir })
			o.mu.Lock()
			longer := fork.records
			if len(o.records) > len(longer) {
				longer = o.records // the one of the readers
			}
			o.records, o.at, o.files = fork.records, fork.at, map[string][]byte{log.TilePath(tlog.Tile{H: log.TileHeight, W: len(longer)}): leaves(longer)}
			o.mu.Unlock()
			if err := f.accept(t.Context(), fork.signed); !errors.Is(err, c.want) {
				t.Fatalf("%v", err)
			}
			// The edge says so, and what to do, until it comes to what the origin signs.
			why, word := f.Unreached(), "two histories"
			if len(c.more) == 0 {
				word = "the origin has lost"
			}
			if why == nil || !strings.Contains(why.Error(), word) || !strings.Contains(why.Error(), "webring restore") || !f.Stale() {
				t.Errorf("%v", why)
			}
			if said, err := Unreachable(dir); err != nil || why == nil || said != why.Error() {
				t.Errorf("%q %v", said, err)
			}
			text, err := os.ReadFile(filepath.Join(dir, contradictionName))
			if len(c.more) == 0 {
				if err == nil || strings.Contains(f.log.String(), "is not known") {
					t.Errorf("an older checkpoint: %s\n%s", text, f.log)
				}
				return
			}
			if err != nil {
				t.Fatalf("%v\n%s", err, f.log)
			}
			found, err := log.ParseContradiction(text)
			if err != nil {
				t.Fatal(err)
			}
			keys, _ := log.Keys(o.key)
			earlier, later, err := found.Check(keys)
			if err != nil || earlier.N != 2 || later.N != int64(len(longer)) {
				t.Errorf("%v: %d and %d events", err, earlier.N, later.N)
			}
		})
	}
}

// An old checkpoint, from a cache or from a node that lags, is no sign that the origin has lost events. An
// origin that has them again is followed on.
func TestAnOriginThatIsBehindIsToldOf(t *testing.T) {
	o := newOrigin(t)
	o.join("a")
	old := o.sign()
	restored := o.beside()
	restored.copies(o)
	o.join("b")
	o.sign()
	f := o.booted()
	if err := f.accept(t.Context(), old); !errors.Is(err, ErrShrunk) || f.Unreached() != nil {
		t.Errorf("an old checkpoint: %v, %v", err, f.Unreached())
	}
	restored.at.Time = o.at.Time
	if err := f.accept(t.Context(), restored.sign()); !errors.Is(err, ErrShrunk) || f.Unreached() == nil {
		t.Errorf("an origin without the last event: %v, %v", err, f.Unreached())
	}
	f.takes(o.sign())
	if f.Unreached() != nil {
		t.Errorf("it has the event again: %v", f.Unreached())
	}
}

// leaves is the tile of leaf hashes over a few records.
func leaves(records []snap.Record) (tile []byte) {
	for _, r := range records {
		hash := tlog.RecordHash(r.Event)
		tile = append(tile, hash[:]...)
	}
	return tile
}
