package badgerstore_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Wherever a process is killed while it copies what it found, tries the copy or
// removes it, the next start finds every row, and closed leaves what had been
// found.
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
	for _, c := range []struct {
		name   string
		copied []string
		change func(trial string) error
	}{
		{name: "copying begins"},
		{name: "half is copied, or removed", copied: all[:len(all)/2]},
		{name: "a file is copied in part", copied: all, change: func(trial string) error {
			return os.Truncate(filepath.Join(trial, badgerManifest), 3)
		}},
		{name: "all is copied", copied: all},
		{name: "opened and changed", copied: all, change: func(trial string) error {
			return errors.Join(os.WriteFile(filepath.Join(trial, badgerManifest), []byte("x"), 0o600),
				os.WriteFile(filepath.Join(trial, "000099.sst"), []byte("y"), 0o600))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			copyFolder(t, base, dir)
			store := filepath.Join(dir, storeName)
			trial := filepath.Join(store, "trial")
			if err := os.Mkdir(trial, 0o700); err != nil {
				t.Fatal(err)
			}
			for _, name := range c.copied {
				var err error
				from, to := filepath.Join(store, name), filepath.Join(trial, name)
				if f := found[filepath.Join(storeName, name)]; filepath.Ext(name) == ".sst" {
					err = os.Link(from, to)
				} else {
					err = errors.Join(os.WriteFile(to, f.data, 0o600), os.Truncate(to, f.size))
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if c.change != nil {
				if err := c.change(trial); err != nil {
					t.Fatal(err)
				}
			}

			mustOpen(t, dir, want)
			if !maps.EqualFunc(readFolder(t, dir), found, file.equal) {
				t.Error("closed, it is another folder than the one that was found")
			}
			mustAccept(t, dir, want)
		})
	}
}

const badgerManifest = "MANIFEST"
