package tlog

import (
	"bytes"
	"crypto/sha256"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/tlog"
)

func TestPaths(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{TilePath(tlog.Tile{H: 8, L: 0, N: 1234067, W: 256}), "/log/tile/0/x001/x234/067"},
		{TilePath(tlog.Tile{H: 8, L: 1, N: 0, W: 17}), "/log/tile/1/000.p/17"},
		{EntriesPath(273, 112), "/log/tile/entries/273.p/112"},
		{EntriesPath(1000, 256), "/log/tile/entries/x001/000"},
		{TextsPath(999, 1), "/log/texts/999.p/1"},
	} {
		if c.got != c.want {
			t.Errorf("%s, not %s", c.got, c.want)
		}
		tile, texts, ok := ParsePath(c.want)
		again := TilePath(tile)
		switch {
		case texts:
			again = TextsPath(tile.N, tile.W)
		case tile.L < 0:
			again = EntriesPath(tile.N, tile.W)
		}
		if !ok || again != c.want {
			t.Errorf("%s is read as %+v", c.want, tile)
		}
	}
	for _, path := range []string{"", "/log/tile/", "/log/tile/64/000", "/log/tile/0/0", "/log/tile/0/1000", "/log/tile/0/000.p/256", "/log/tile/0/000.p/0", "/log/tile/data/000", "/log/tile/8/data/000", "/log/texts/-01", "/log/entries/000", "tile/8/0/000"} {
		if tile, _, ok := ParsePath(path); ok {
			t.Errorf("%s is read as %+v", path, tile)
		}
	}
}

func FuzzEntries(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(AppendEntry(AppendEntry(nil, []byte("one")), nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		entries, err := Entries(b)
		if err != nil {
			return
		}
		var again []byte
		for _, e := range entries {
			again = AppendEntry(again, e)
		}
		if !bytes.Equal(again, b) || len(entries) > TileWidth {
			t.Errorf("%d entries of %x", len(entries), b)
		}
	})
}

func FuzzParseProof(f *testing.F) {
	hash := tlog.Hash(sha256.Sum256(nil))
	f.Add((&Proof{Entry: []byte("an event"), Index: 3, Hashes: tlog.RecordProof{hash}, Checkpoint: []byte("a\n4\nb\n\n— a c\n")}).Text())
	f.Add([]byte(proofForm + "\nindex 0\n\na\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, err := ParseProof(b); err == nil && (!bytes.Equal(p.Text(), b) || p.Index < 0) {
			t.Errorf("%q is spelled %q", b, p.Text())
		}
	})
}

func FuzzParseContradiction(f *testing.F) {
	hash := tlog.Hash(sha256.Sum256(nil))
	note := func(size string) []byte { return []byte("a\n" + size + "\nb\n\n— a c\n") }
	f.Add((&Contradiction{Keys: []string{"k"}, Earlier: note("1"), Later: note("2"), Root: hash, Proof: tlog.TreeProof{hash}}).Text())
	f.Add([]byte(strings.Repeat("\n\n", 4)))
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, err := ParseContradiction(b); err == nil && !bytes.Equal(c.Text(), b) {
			t.Errorf("%q is spelled %q", b, c.Text())
		}
	})
}
