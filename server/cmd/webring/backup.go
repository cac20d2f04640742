package main

import (
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
	"webring/server"
	"webring/server/backup"
)

// backupOrigin asks the running origin for a backup. The file has its name only
// when it is whole.
func backupOrigin(fs *flag.FlagSet) action {
	o := defineData(fs, "`folder` of the running origin")
	return func(words []string, out io.Writer) error {
		if len(words) != 1 {
			return errUsage
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
		err = o.send(http.MethodGet, "/backup", nil, func(answer io.Reader) error {
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
		rows, err := backup.Count(f)
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

// restoreOrigin makes a data folder of a backup.
func restoreOrigin(fs *flag.FlagSet) action {
	o := defineData(fs, "`folder` to be made; it must not hold a ledger")
	var from list
	fs.Var(&from, "from", "`URL` of an edge, or of the old origin, that may have seen what came after the backup; name each, and the longest history is taken (repeatable)")
	alone := fs.Bool("alone", false, "use only if there are no edges, or you will reset them all")
	capacity := fs.Int("capacity", 1_000_000, "`members` that can ever join, as for serve")
	return func(words []string, out io.Writer) error {
		data := string(*o)
		if len(words) != 1 {
			return errUsage
		}
		if (len(from) > 0) == *alone {
			return errors.New("restore needs either --from URL for each edge, since one may have newer events, or --alone if there are no edges: an edge refuses an origin that lacks events which the edge has seen")
		}
		for _, name := range []string{"ledger", "head"} {
			if _, err := os.Lstat(filepath.Join(data, name)); !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("%s already holds %s; keep that aside and restore into a new folder", data, name)
			}
		}
		if err := os.MkdirAll(data, 0o700); err != nil {
			return err
		}
		// Everything is checked there, so that no serve can begin on a part.
		work, keep, end, err := workFolder(data, ".restoring-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(work)
		defer end()
		room := (&server.Volume{Dir: work}).AtLeast(server.StartFloor)
		if err := room(); err != nil {
			return err
		}
		books, err := backup.Unpack(words[0], work, *capacity, room, slog.New(slog.NewTextHandler(os.Stderr, nil)))
		if err != nil {
			return err
		}
		added := uint64(0)
		if len(from) > 0 {
			var keys []string
			if keys, err = server.Verifiers(work); err == nil { // the origin may have changed to the next one since
				added, err = backup.CatchUp(context.Background(), books.Ledger, from, keys...)
			}
		}
		if err == nil {
			err = audit(books, out)
		}
		if err := errors.Join(err, books.Close()); err != nil {
			return err
		}
		keep() // from here on a signal must not remove what was moved
		if err := backup.Install(work, data); err != nil {
			return err
		}
		_, err = fmt.Fprintf(out, "restored to %s, with %d events that the backup lacked\n", data, added)
		return err
	}
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
