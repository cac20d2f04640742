package badgerstore

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
)

// Opening changes files: Badger cuts a write-ahead file at the first entry that
// it cannot read and removes tables that its manifest does not name, and what was
// cut off may be all that a restoration could have used. So what a start finds is
// kept in a folder beside until it is accepted, when the ledger has found
// everything whole. Whoever closes before, or could not open, leaves the store as
// it was found.
//
// The folder has its name only when it is whole, and as long as it has it nothing
// was accepted since: a start that finds it puts it back first.
const (
	foundName = "found"
	partName  = "found.part"
)

// keep puts aside what lies in dir, and says whether that is anything. Tables are
// not written to as long as none are merged, so a second name for them will do;
// all else is copied.
func keep(dir string) (bool, error) {
	part := filepath.Join(dir, partName)
	if err := os.RemoveAll(part); err != nil {
		return false, err
	}
	names, err := filesIn(dir)
	if err != nil || len(names) == 0 {
		return false, err
	}
	if err := copyInto(part, dir, names); err != nil {
		// Half of it would take room that a full disk does not have.
		return false, errors.Join(err, os.RemoveAll(part))
	}
	if err := os.Rename(part, filepath.Join(dir, foundName)); err != nil {
		return false, err
	}
	return true, syncFolder(dir)
}

// copyInto makes a folder with what has these names in dir, durably.
func copyInto(part, dir string, names []string) error {
	if err := os.Mkdir(part, 0o700); err != nil {
		return err
	}
	for _, name := range names {
		from, to := filepath.Join(dir, name), filepath.Join(part, name)
		if filepath.Ext(name) == ".sst" && os.Link(from, to) == nil {
			continue
		}
		if err := copyFile(from, to); err != nil {
			return err
		}
	}
	return syncFolder(part)
}

// putBack makes dir what it was when it was kept, if it was. It may be repeated
// when it was interrupted.
func putBack(dir string) error {
	found := filepath.Join(dir, foundName)
	kept, err := filesIn(found)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	changed, err := filesIn(dir)
	if err != nil {
		return err
	}
	for _, name := range changed {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	for _, name := range kept {
		from, to := filepath.Join(found, name), filepath.Join(dir, name)
		if os.Link(from, to) == nil {
			continue
		}
		if err := copyFile(from, to); err != nil {
			return err
		}
	}
	if err := syncFolder(dir); err != nil {
		return err
	}
	return forget(dir)
}

// forget gives up what was kept, durably.
func forget(dir string) error {
	part := filepath.Join(dir, partName)
	if err := os.RemoveAll(part); err != nil {
		return err
	}
	err := os.Rename(filepath.Join(dir, foundName), part)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	// With its old name and some of its files it would be put back.
	if err := syncFolder(dir); err != nil {
		return err
	}
	return os.RemoveAll(part)
}

// filesIn names the files in dir, but no folders.
func filesIn(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if !e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// copyFile copies a file durably. Zeros are left out: most of a write-ahead file
// are room for what is to come.
func copyFile(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	buf, zeros, size := make([]byte, 64<<10), make([]byte, 64<<10), int64(0)
	for {
		n, err := io.ReadFull(in, buf)
		if n > 0 && !bytes.Equal(buf[:n], zeros[:n]) {
			if _, err := out.WriteAt(buf[:n], size); err != nil {
				return err
			}
		}
		size += int64(n)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(out.Truncate(size), out.Sync())
}

func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
