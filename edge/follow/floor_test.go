package follow

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	log "webring/edge/tlog"
)

// A replica that has lost its state boots from a snapshot only if the history before that goes
// through the checkpoint that it has kept, whoever signs. Tiles show it, or all events where the
// origin has no tiles.
func TestASnapshotContinuesWhatWasSignedBefore(t *testing.T) {
	for name, c := range map[string]struct {
		forged   bool
		tiles    func(tile []byte) []byte
		want     error
		from     string // of the first events that are asked for
		evidence bool
	}{
		"the same history":                    {tiles: whole, from: log.EntriesPath(0, 6)},
		"the same history, without tiles":     {tiles: none, want: errAbsent},
		"a forged history":                    {forged: true, tiles: whole, want: ErrForked, evidence: true},
		"a forged history, without tiles":     {forged: true, tiles: none, want: errAbsent},
		"a forged history, with other tiles":  {forged: true, tiles: altered, want: ErrEvents},
		"the same history, with other tiles":  {tiles: altered, want: ErrEvents},
		"the same history, with short tiles":  {tiles: short, want: ErrEvents},
		"the same history, with longer tiles": {tiles: long, want: errTooLong},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOrigin(t)
			first := o.records[0]
			o.join("a", "b")
			o.sign()
			dir := t.TempDir()
			o.booted(func(cfg *Config) { cfg.Dir = dir })
			states, err := filepath.Glob(filepath.Join(dir, "state-*"))
			if err != nil || len(states) == 0 {
				t.Fatalf("%q %v", states, err)
			}
			for _, state := range states {
				if err := os.Truncate(state, 20); err != nil {
					t.Fatal(err)
				}
			}
			if c.forged {
				fork := emptyOrigin(t, signer{Signer: o.signer, word: o.key})
				if err := fork.state.Apply(first.Event, first.Texts); err != nil {
					t.Fatal(err)
				}
				fork.records = append(fork.records, first)
				fork.tree.Add(first.Event)
				fork.join("x", "y")
				o = fork
			}
			o.join("c", "d", "e")
			o.snapshot()
			o.join("f")
			o.sign()
			if tile := c.tiles(leaves(o.records)); tile != nil {
				o.files[log.TilePath(tlog.Tile{H: log.TileHeight, W: len(o.records)})] = tile
			}
			o.asked = nil
			f := o.newReplica(func(cfg *Config) { cfg.Dir = dir })
			if f.shown.Load() != 0 {
				t.Fatal("a state that is lost is shown")
			}
			err = f.accept(t.Context(), o.signed)
			if !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			if shown := f.shown.Load() != 0; shown != (c.want == nil) {
				t.Errorf("shown: %v", shown)
			}
			if c.want == nil {
				f.agrees(o)
			}
			asked := ""
			for _, path := range o.asked {
				if asked == "" && strings.HasPrefix(path, entriesPath) {
					asked = path
				}
			}
			if asked != c.from {
				t.Errorf("asked for %q first, want %q", asked, c.from)
			}
			text, err := os.ReadFile(filepath.Join(dir, contradictionName))
			if (err == nil) != c.evidence {
				t.Fatalf("evidence: %v\n%s", err, f.log)
			}
			if !c.evidence {
				return
			}
			found, err := log.ParseContradiction(text)
			if err != nil {
				t.Fatal(err)
			}
			keys, _ := log.Keys(o.key)
			if earlier, later, err := found.Check(keys); err != nil || earlier.N != 3 || later.N != 7 {
				t.Errorf("%v: %d and %d events", err, earlier.N, later.N)
			}
		})
	}
}

func whole(tile []byte) []byte { return tile }

func none([]byte) []byte { return nil }

func altered(tile []byte) []byte {
	tile[40] ^= 1
	return tile
}

func short(tile []byte) []byte { return tile[:len(tile)-tlog.HashSize] }

func long(tile []byte) []byte { return append(tile, 0) }
