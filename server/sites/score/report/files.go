package report

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"webring/edge/durable"
	"webring/server/ledger"
)

// Earlier versions kept reports as files in a folder: drafts in one below it, and those that
// were held in another. Backups had the latter beside the ledger's rows.
const (
	draftsFolder = "drafts"
	heldFolder   = "held"
)

// What is taken over in one turn of the writer.
const (
	takenReports = 256
	takenBytes   = ledger.MaxTurnBytes / 2
)

// RestoreFile stores a report of an earlier version's backup as a file in its folder, which
// [Store.TakeOver] reads.
func RestoreFile(folder, id string, text []byte) error {
	if _, err := parse(id, text); err != nil {
		return err
	}
	held := filepath.Join(folder, heldFolder)
	if err := os.MkdirAll(held, 0o700); err != nil {
		return err
	}
	return durable.Write(filepath.Join(held, id), text, 0o600)
}

// parse reads a report from the file with this name.
func parse(id string, text []byte) (*Report, error) {
	r := new(Report)
	if !validID(id) || json.Unmarshal(text, r) != nil || r.ID != id {
		return nil, fmt.Errorf("report: %q is not a report", id)
	}
	return r, nil
}

// file is a report of an earlier version.
type file struct {
	path string
	at   int64 // of its last change, in Unix milliseconds
	*Report
}

// TakeOver stores the reports that an earlier version kept in a folder, and then removes their
// files; with none left, also the folder. What is no report stays there. It gives how many
// it took.
func (s *Store) TakeOver(ctx context.Context, folder string) (taken int, err error) {
	s.sweeping.Lock()
	defer s.sweeping.Unlock()
	s.oldest = ""
	for _, name := range []string{draftsFolder, heldFolder} { // a draft that was held meanwhile is in both
		dir := filepath.Join(folder, name)
		entries, err := os.ReadDir(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return taken, err
		}
		var some []file
		size := 0
		for i, e := range entries {
			path := filepath.Join(dir, e.Name())
			text, err := os.ReadFile(path)
			if err != nil {
				return taken, err
			}
			if r, err := parse(e.Name(), text); err == nil {
				info, err := e.Info()
				if err != nil {
					return taken, err
				}
				some, size = append(some, file{path, info.ModTime().UnixMilli(), r}), size+len(text)
			}
			if i < len(entries)-1 && size < takenBytes && len(some) < takenReports {
				continue
			}
			if err := s.take(ctx, some); err != nil {
				return taken, err
			}
			taken, some, size = taken+len(some), nil, 0
		}
		_ = os.Remove(dir) // fails if something is left
	}
	_ = os.Remove(folder)
	return taken, nil
}

// take stores some reports as drafts, of which the next sweep holds those that are wanted, and removes
// their files.
func (s *Store) take(ctx context.Context, some []file) error {
	err := s.books.Do(ctx, func(tx *ledger.Tx) error {
		for _, f := range some {
			if err := put(tx, f.at, f.Report); err != nil {
				return err
			}
		}
		return nil
	})
	for _, f := range some {
		if err == nil {
			err = os.Remove(f.path)
		}
	}
	return err
}
