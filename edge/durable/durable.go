// Package durable writes files that survive a crash: after it, a file is whole or absent,
// and it is there if the function that wrote it has returned. The package also reads files
// with secrets, and refuses those that other users can read, and keys that were altered.
package durable

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Write writes a file, and replaces one of that name.
func Write(path string, b []byte, mode fs.FileMode) error {
	return Create(filepath.Dir(path), mode, func(w io.Writer) (name string, err error) {
		_, err = w.Write(b)
		return filepath.Base(path), err
	})
}

// Create makes a file in a folder. fill writes the contents and returns the file's
// name. Until then the file is called .new- and a number; a crash may leave that.
func Create(folder string, mode fs.FileMode, fill func(io.Writer) (name string, err error)) (err error) {
	f, err := os.CreateTemp(folder, ".new-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	name, err := fill(f)
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), filepath.Join(folder, name)); err != nil {
		return err
	}
	return SyncFolder(folder)
}

// SyncFolder syncs a folder, so that the names in it survive a crash.
func SyncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
