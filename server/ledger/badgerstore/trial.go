package badgerstore

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
)

// Opening changes files: Badger cuts a write-ahead file at the first entry that it cannot read, and
// removes tables that its manifest does not name. What it removes may be needed to repair the store.
// So a start opens a copy first, in a subfolder, and changes the store only when the ledger has found
// the copy whole and accepts it. A process that closes, fails or dies before that leaves the store as
// it was found, and at most a copy, which the next start removes.
const trialName = "trial"

// makeTrial copies the files in dir and gives the copy's folder, or "" if there are none.
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
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if !e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// copyFiles copies files from one folder to another. Tables are written only when they are
// merged, so with link they get a second name instead, if the file system allows that.
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
