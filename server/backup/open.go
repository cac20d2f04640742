package backup

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"webring/edge/durable"
	"webring/server/aside"
	"webring/server/ledger"
	"webring/server/ledger/badgerstore"
)

// Books are a ledger with its store, for a command that works on a folder alone.
type Books struct {
	*ledger.Ledger
	store *badgerstore.Store
}

// Open opens the ledger of a store, whatever Store and Observe c has. It closes the store after an error.
func Open(store *badgerstore.Store, c ledger.Config) (*Books, error) {
	c.Store, c.Observe = store, aside.ObserveOwners // news of events that are added are written later
	books, err := ledger.Open(c)
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return &Books{books, store}, nil
}

// Close closes ledger and store. The store of a ledger that broke is not closed: what failed would
// fail again, and the next start reads what is stored.
func (b *Books) Close() error {
	err := b.Ledger.Close()
	if errors.Is(b.Err(), ledger.ErrBroken) {
		return err
	}
	return errors.Join(err, b.store.Close())
}

// Unpack restores the backup in a file into an empty folder, and opens its ledger. room fails when
// the disk is too full to go on.
func Unpack(path, dir string, capacity int, room func() error, log *slog.Logger) (*Books, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	store, err := badgerstore.Open(filepath.Join(dir, "ledger"), log)
	if err != nil {
		return nil, err
	}
	r := Read(bufio.NewReader(f), func(k File) error { return durable.Write(filepath.Join(dir, k.Name), k.Data, 0o600) })
	head := filepath.Join(dir, "head")
	rows := 0
	err = ledger.Restore(store, head, func() (ledger.Row, bool, error) {
		if rows++; rows%256 == 1 {
			if err := room(); err != nil {
				return ledger.Row{}, false, err
			}
		}
		return r.Next()
	})
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return Open(store, ledger.Config{HeadPath: head, Capacity: capacity, Room: room})
}

// OpenCopy copies the ledger of a stopped origin to an empty folder, and opens the copy: opening
// writes, which a folder that can only be read does not allow. No origin can start meanwhile.
func OpenCopy(data, work string, capacity int, log *slog.Logger) (_ *Books, err error) {
	from, head := filepath.Join(data, "ledger"), filepath.Join(work, "head")
	lock, err := badgerstore.Lock(from)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(data, "head"))
	if err == nil {
		err = os.WriteFile(head, text, 0o600)
	}
	var store *badgerstore.Store
	if err == nil {
		store, err = badgerstore.OpenCopy(from, filepath.Join(work, "ledger"), log)
	}
	if err = errors.Join(err, lock.Close()); err != nil {
		return nil, ledger.Disk(err)
	}
	return Open(store, ledger.Config{HeadPath: head, Capacity: capacity})
}

// Install moves everything from the folder work to a data folder. The head comes last, because
// nothing opens without it.
func Install(work, data string) error {
	entries, err := os.ReadDir(work)
	if err != nil {
		return err
	}
	for _, last := range []bool{false, true} {
		for _, e := range entries {
			if (e.Name() == "head") != last {
				continue
			}
			if err := os.Rename(filepath.Join(work, e.Name()), filepath.Join(data, e.Name())); err != nil {
				return err
			}
		}
		if err := durable.SyncFolder(data); err != nil {
			return err
		}
	}
	return nil
}

// Count reads a backup to its end, which proves it whole, and gives the number of its rows.
func Count(f io.Reader) (rows int, err error) {
	r := Read(bufio.NewReader(f), func(File) error { return nil })
	for {
		_, more, err := r.Next()
		if err != nil || !more {
			return rows, err
		}
		rows++
	}
}
