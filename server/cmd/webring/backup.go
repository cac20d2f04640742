package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"webring/edge/durable"
	"webring/server/backup"
	"webring/server/ledger"
	"webring/server/ledger/badgerstore"
)

// backupOptions are the flags of `webring backup`.
type backupOptions struct{ data string }

func (o *backupOptions) flags() *flag.FlagSet {
	fs := flag.NewFlagSet("webring backup", flag.ContinueOnError)
	defineData(fs, &o.data, "`folder` of the running origin")
	return fs
}

// backupOrigin asks the running origin for a backup. The file has its name only
// when it is whole.
func backupOrigin(args []string, out io.Writer) error {
	var o backupOptions
	words, err := parseWords(o.flags(), args, "")
	if err != nil {
		return err
	}
	if len(words) != 1 {
		return misused("backup")
	}
	path := words[0]
	if err := replaceable(path); err != nil {
		return err
	}
	folder, before, after := filepath.Dir(path), filepath.Base(path)+".", ".part"
	tellLeft(folder, before, after)
	// A temporary file that only its owner can read: it holds the keys.
	f, err := os.CreateTemp(folder, before+"*"+after)
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, end := removeOnSignal(f.Name())
	defer end()
	defer f.Close()
	err = operator(o.data).send(http.MethodGet, "/backup", nil, func(answer io.Reader) error {
		_, err := io.Copy(f, answer)
		return err
	})
	if errors.Is(err, errNotRunning) {
		return fmt.Errorf("%w; of one that is stopped, copy the whole folder", err)
	}
	if err != nil {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	rows, err := readThrough(f)
	if err != nil {
		return err
	}
	// It replaces an earlier backup, so it must be on disk first.
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	if err := durable.SyncFolder(folder); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s holds %d rows and the keys; with this file anyone can sign as this origin\n", path, rows)
	return err
}

// replaceable refuses a path that a file must not replace: a link, a pipe or a device. A
// backup is read again before it gets its name, so it cannot be piped.
func replaceable(path string) error {
	if path == "-" {
		return errors.New("backup writes to a file, which it reads again, and not to standard output; for a file of that name, give ./-")
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file, and a backup would take its place; name a new file, or an earlier backup", path)
	}
	return nil
}

// readThrough reads a backup to its end, which proves it whole.
func readThrough(f io.Reader) (rows int, err error) {
	r := backup.Read(bufio.NewReader(f), func(backup.File) error { return nil })
	for {
		_, more, err := r.Next()
		if err != nil || !more {
			return rows, err
		}
		rows++
	}
}

// tellLeft names the files and folders, with names that begin and end so, that killed
// processes may have left. It removes none: another process may be at work there.
func tellLeft(folder, before, after string) {
	entries, _ := os.ReadDir(folder) // one that cannot be listed can be written to
	for _, e := range entries {
		rest, begins := strings.CutPrefix(e.Name(), before)
		number, ends := strings.CutSuffix(rest, after)
		if begins && ends && strings.Trim(number, "0123456789") == "" {
			fmt.Fprintf(os.Stderr, "webring: %s is unfinished and may hold keys; remove it unless something is still at work there\n", filepath.Join(folder, e.Name()))
		}
	}
}

// restoreOptions are the flags of `webring restore`.
type restoreOptions struct {
	data, from string
	alone      bool
	capacity   int
}

func (o *restoreOptions) flags() *flag.FlagSet {
	fs := flag.NewFlagSet("webring restore", flag.ContinueOnError)
	defineData(fs, &o.data, "`folder` to be made; it must not hold a ledger")
	fs.StringVar(&o.from, "from", "", "`URL` of any edge, or of the old origin, that may have seen what came after the backup")
	fs.BoolVar(&o.alone, "alone", false, "no edge has seen what came after the backup: none ever followed this origin, or you will set up all anew")
	fs.IntVar(&o.capacity, "capacity", 1_000_000, "`members` that can ever join, as for serve")
	return fs
}

// restoreOrigin makes a data folder of a backup.
func restoreOrigin(args []string, out io.Writer) error {
	var o restoreOptions
	words, err := parseWords(o.flags(), args, "")
	if err != nil {
		return err
	}
	if len(words) != 1 {
		return misused("restore")
	}
	if (o.from != "") == o.alone {
		return errors.New("restore needs either --from URL, an edge that may have newer events, or --alone: an origin that signs again without what its edges have seen would be another one to them")
	}
	for _, name := range []string{"ledger", "head"} {
		if _, err := os.Lstat(filepath.Join(o.data, name)); !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("%s already holds %s; keep that aside and restore into a new folder", o.data, name)
		}
	}
	if err := os.MkdirAll(o.data, 0o700); err != nil {
		return err
	}
	if err := room(o.data, startFloor); err != nil {
		return err
	}
	// Everything is checked there, so that no serve can begin on a part.
	work, keep, end, err := workFolder(o.data, ".restoring-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	defer end()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	books, closeBooks, err := unpack(words[0], work, o.capacity, log)
	if err != nil {
		return err
	}
	added, err := catchUp(books, work, o.from)
	if err == nil {
		err = audit(books, out)
	}
	if err := errors.Join(err, closeBooks()); err != nil {
		return err
	}
	keep() // from here on a signal must not remove what was moved
	if err := moveAll(work, o.data); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "restored to %s, with %d events that the backup lacked\n", o.data, added)
	return err
}

// unpack restores a backup into a folder and opens it.
func unpack(path, dir string, capacity int, log *slog.Logger) (*ledger.Ledger, func() error, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	store, err := badgerstore.Open(filepath.Join(dir, "ledger"), log)
	if err != nil {
		return nil, nil, err
	}
	r := backup.Read(bufio.NewReader(f), func(k backup.File) error {
		return durable.Write(filepath.Join(dir, k.Name), k.Data, 0o600)
	})
	head := filepath.Join(dir, "head")
	rows := 0
	err = ledger.Restore(store, head, func() (ledger.Row, bool, error) {
		if rows++; rows%256 == 1 {
			if err := room(dir, startFloor); err != nil {
				return ledger.Row{}, false, err
			}
		}
		return r.Next()
	})
	if err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	return openBooks(store, ledger.Config{HeadPath: head, Capacity: capacity, Room: (&volume{dir: dir}).atLeast(startFloor)})
}

// catchUp adds what an edge has beyond the ledger, if there is an edge to ask.
func catchUp(books *ledger.Ledger, dir, from string) (added uint64, err error) {
	if from == "" {
		return 0, nil
	}
	keys, err := verifiersOf(dir) // the origin may have changed to the next one since
	if err != nil {
		return 0, err
	}
	return backup.CatchUp(context.Background(), books, from, keys...)
}

// moveAll moves everything to the data folder. The head comes last, because nothing opens
// without it.
func moveAll(work, data string) error {
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

// workFolder makes a folder in data, with a name that begins so, for what is moved to data
// once it is whole. It names what other processes have left, and returns the functions of
// [removeOnSignal].
func workFolder(data, before string) (work string, keep, end func(), err error) {
	tellLeft(data, before, "")
	if work, err = os.MkdirTemp(data, before); err != nil {
		return "", nil, nil, err
	}
	keep, end = removeOnSignal(work)
	return work, keep, end, nil
}

// removeOnSignal makes the process end at once on a signal, and then removes the file or
// folder, which is as large as the ledger. After keep, a signal no longer ends the process,
// for the moment that moving the result takes; end restores the default. Once a signal has
// come, neither returns, so that nothing uses what is removed.
func removeOnSignal(path string) (keep, end func()) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	ended := context.AfterFunc(ctx, func() {
		// Other goroutines write there until the process has ended, so it is removed
		// until it does not come back.
		for range 10 {
			_ = os.RemoveAll(path)
			time.Sleep(10 * time.Millisecond)
			if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
				break
			}
		}
		fmt.Fprintln(os.Stderr, "webring: interrupted")
		os.Exit(1)
	})
	keep = sync.OnceFunc(func() {
		if !ended() {
			select {}
		}
	})
	return keep, func() { keep(); stop() }
}
