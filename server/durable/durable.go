// Package durable makes files that are there whole or not at all, whatever ends the
// process or the machine, and that are still there afterwards. Those that hold secrets
// it also reads, as long as nobody else can.
package durable

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Write writes a file, in the place of one of that name.
func Write(path string, b []byte, mode fs.FileMode) error {
	return Create(filepath.Dir(path), mode, func(w io.Writer) (name string, err error) {
		_, err = w.Write(b)
		return filepath.Base(path), err
	})
}

// Create makes a file in a folder. fill writes it, and then gives it its name. Until it
// has that it is called .new- and a number, which is what a crash may leave.
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

// SyncFolder has the names in a folder survive a crash.
func SyncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
