package badgerstore

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Opening changes files: Badger cuts a write-ahead file at the first entry that
// it cannot read and removes tables that its manifest does not name, and what was
// cut off may be all that a restoration could have used. So a start tries a copy
// first, in a folder beside, and touches the store only when it is accepted: when
// the ledger has found everything in the copy whole. Whoever closes before, could
// not open, or dies leaves the store as it was found, and at most a copy that the
// next start removes.
const (
	trialName = "trial"
	// foundName is the folder in which versions before the first release kept what
	// they found, until it was accepted.
	foundName = "found"
)

// makeTrial copies what lies in dir, if that is anything, and gives the copy's
// folder.
func makeTrial(dir string) (trial string, err error) {
	names, err := filesIn(dir)
	if err == nil {
		err = endTrial(dir)
	}
	if err != nil || len(names) == 0 {
		return "", err
	}
	trial = filepath.Join(dir, trialName)
	if err := os.Mkdir(trial, 0o700); err != nil {
		return "", err
	}
	if err := copyFiles(names, dir, trial, true); err != nil {
		// Half of it would take room that a full disk does not have.
		return "", errors.Join(err, endTrial(dir))
	}
	return trial, nil
}

// endTrial removes the copy, if there is one.
func endTrial(dir string) error { return os.RemoveAll(filepath.Join(dir, trialName)) }

// filesIn names the files in dir, but no folders.
func filesIn(dir string) (names []string, err error) {
	// What lies beside it may be a part, or cut. Who takes that for damage, and
	// restores a backup, loses what is whole in there.
	found := filepath.Join(dir, foundName)
	if _, err := os.Lstat(found); !errors.Is(err, os.ErrNotExist) {
		return nil, errors.Join(err, fmt.Errorf("a start of an earlier version was cut short and left the whole store in %s: "+
			"start that version once more, or remove the files beside that folder, move in those that are in it, and remove it", found))
	}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if !e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// copyFiles copies files from one folder to another. Tables are not written to as
// long as none are merged: a second name for them will do, if it may be given.
func copyFiles(names []string, from, to string, link bool) error {
	for _, name := range names {
		from, to := filepath.Join(from, name), filepath.Join(to, name)
		if link && filepath.Ext(name) == ".sst" && os.Link(from, to) == nil {
			continue
		}
		if err := copyFile(from, to); err != nil {
			return err
		}
	}
	return nil
}

// copyFile copies a file. Zeros are left out: most of a write-ahead file
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
	return out.Truncate(size)
}
