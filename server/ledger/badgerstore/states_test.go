package badgerstore_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Wherever a process is killed while it keeps what it found, puts it back or gives
// it up, the next start finds every row, and closed leaves what had been found.
func TestKilledBetweenAnyTwoCallsLosesNothing(t *testing.T) {
	base, want := makeFolder(t, 3)
	found := readFolder(t, base)
	var all []string
	for name := range found {
		if name != headName {
			all = append(all, filepath.Base(name))
		}
	}
	slices.Sort(all)
	some, none := all[:len(all)/2], []string{}
	for _, c := range []struct {
		name   string
		folder string   // beside the files
		kept   []string // in it
		linked bool     // files, and not only tables, are the same here and there
		here   []string // where they belong
		change func(store string) error
	}{
		{name: "keeping begins", folder: "found.part", here: all},
		{name: "keeping, half", folder: "found.part", kept: some, here: all},
		{name: "keeping, a file in part", folder: "found.part", kept: all, here: all, change: func(store string) error {
			return os.Truncate(filepath.Join(store, "found.part", badgerManifest), 3)
		}},
		{name: "kept", folder: "found", kept: all, here: all},
		{name: "opened and changed", folder: "found", kept: all, here: all, change: func(store string) error {
			return errors.Join(os.WriteFile(filepath.Join(store, badgerManifest), []byte("x"), 0o600),
				os.WriteFile(filepath.Join(store, "000099.sst"), []byte("y"), 0o600))
		}},
		{name: "putting back, some removed", folder: "found", kept: all, here: some},
		{name: "putting back, all removed", folder: "found", kept: all, here: none},
		{name: "putting back, some there again", folder: "found", kept: all, here: some, linked: true},
		{name: "put back", folder: "found", kept: all, here: all, linked: true},
		{name: "put back, kept no more", folder: "found.part", kept: all, here: all, linked: true},
		{name: "put back, what was kept half removed", folder: "found.part", kept: some, here: all, linked: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			copyFolder(t, base, dir)
			store := filepath.Join(dir, storeName)
			if err := os.Mkdir(filepath.Join(store, c.folder), 0o700); err != nil {
				t.Fatal(err)
			}
			for _, name := range all {
				var err error
				from, to := filepath.Join(store, name), filepath.Join(store, c.folder, name)
				switch f := found[filepath.Join(storeName, name)]; {
				case !slices.Contains(c.kept, name):
				case c.linked || filepath.Ext(name) == ".sst":
					err = os.Link(from, to)
				default:
					err = errors.Join(os.WriteFile(to, f.data, 0o600), os.Truncate(to, f.size))
				}
				if !slices.Contains(c.here, name) {
					err = errors.Join(err, os.Remove(from))
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if c.change != nil {
				if err := c.change(store); err != nil {
					t.Fatal(err)
				}
			}

			s := opened(t, store)
			if got := digestRows(t, s); got != want {
				t.Error("not all rows are there")
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if !maps.EqualFunc(readFolder(t, dir), found, file.equal) {
				t.Error("closed, it is another folder than the one that was found")
			}
			s, l := openFolder(t, dir)
			if got := digestRows(t, s); got != want {
				t.Error("not all rows are there when they are accepted")
			}
			if err := errors.Join(l.Close(), s.Close()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

const badgerManifest = "MANIFEST"
