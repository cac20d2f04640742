package main

import (
	"archive/tar"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"time"

	"webring/edge/durable"
	"webring/server"
	"webring/server/backup"
	"webring/server/ledger/badgerstore"
)

// backupOrigin asks the running origin for a backup. The file has its name only
// when it is whole.
func backupOrigin(flags *flag.FlagSet) action {
	o := defineData(flags, "`folder` of the running origin")
	return func(words []string, out io.Writer) error {
		if len(words) != 1 {
			return errUsage
		}
		path := words[0]
		if err := replaceable(path); err != nil {
			return err
		}
		folder := filepath.Dir(path)
		if _, err := removeLeft(folder, parts); err != nil {
			return err
		}
		// A temporary file that only its owner can read: it holds the keys.
		part, _, end, err := workIn(func() (string, error) {
			f, err := os.CreateTemp(folder, filepath.Base(path)+".*.part")
			if err != nil {
				return "", err
			}
			return f.Name(), f.Close()
		})
		if err != nil {
			return err
		}
		defer os.Remove(part)
		defer end()
		f, err := os.OpenFile(part, os.O_RDWR, 0)
		if err != nil {
			return err
		}
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

// parts are the names of unfinished backups, whatever they were to be called.
var parts = regexp.MustCompile(`\.[0-9]+\.part$`)

// workNames matches names that begin so and end with a number.
func workNames(before string) *regexp.Regexp {
	return regexp.MustCompile("^" + regexp.QuoteMeta(before) + "[0-9]*$")
}

// left gives the files and folders with such names: other processes are at work there, or were killed.
func left(folder string, names *regexp.Regexp) (paths []string) {
	entries, _ := os.ReadDir(folder) // one that cannot be listed can be written to
	for _, e := range entries {
		if path := filepath.Join(folder, e.Name()); names.MatchString(e.Name()) && (names != parts || isPart(path)) {
			paths = append(paths, path)
		}
	}
	return paths
}

// isPart says whether a file can be the beginning of a backup, and not that of another program.
func isPart(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || info.Mode().Perm() != 0o600 {
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	if info.Size() == 0 {
		return true
	}
	_, err = tar.NewReader(f).Next()
	return err == nil || errors.Is(err, io.ErrUnexpectedEOF)
}

// removeLeft removes what killed processes have left, and says so. A process at work holds a lock.
func removeLeft(folder string, names *regexp.Regexp) (working bool, err error) {
	for _, path := range left(folder, names) {
		lock, err := badgerstore.Lock(path)
		switch {
		case errors.Is(err, badgerstore.ErrLocked):
			working = true
			continue
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err == nil:
			err = errors.Join(os.RemoveAll(path), lock.Close())
		}
		if err != nil {
			return working, fmt.Errorf("%s is unfinished, may hold keys, and cannot be removed: %w", path, err)
		}
		fmt.Fprintf(os.Stderr, "webring: removed %s, which a process that was killed had left\n", path)
	}
	return working, nil
}

// The names of folders in which restore and seed make what is moved to a data folder.
const restoring, seeding = ".restoring-", ".seeding-"

// unfinished says why no ring begins in a data folder: a restore or a seed has left a part there, or is at
// work. The head is moved last, so with it the ring is whole.
func unfinished(data string) error {
	if _, err := os.Lstat(filepath.Join(data, "head")); err == nil {
		return nil
	}
	for before, command := range map[string]string{restoring: "restore", seeding: "seed"} {
		if paths := left(data, workNames(before)); len(paths) > 0 {
			return fmt.Errorf("%s is of a webring %s that is at work or was killed, so the ring in %s is not whole; let it finish, or run webring %s again, which starts over; if you want a new ring instead, remove that folder", paths[0], command, data, command)
		}
	}
	return nil
}

// restoreOrigin makes a data folder of a backup.
func restoreOrigin(flags *flag.FlagSet) action {
	o := defineData(flags, "`folder` to be made; it must not hold a ledger")
	var from list
	flags.Var(&from, "from", "`URL` of an edge, or of the old origin, that may have seen what came after the backup; name each, and the longest history is taken (repeatable)")
	alone := flags.Bool("alone", false, "use only if there are no edges, or you will reset them all")
	capacity := flags.Int("capacity", 1_000_000, "`members` that can ever join, as for serve")
	return func(words []string, out io.Writer) error {
		data := string(*o)
		if len(words) != 1 {
			return errUsage
		}
		if (len(from) > 0) == *alone {
			return errors.New("restore needs either --from URL for each edge, since one may have newer events, or --alone if there are no edges: an edge refuses an origin that lacks events which the edge has seen")
		}
		// A restore that was killed while it moved what it had made has left a ledger without a head.
		moved := filepath.Join(data, "ledger")
		halfway := len(left(data, workNames(restoring))) > 0
		for _, path := range []string{moved, filepath.Join(data, "head")} {
			if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) && !(path == moved && halfway) {
				return fmt.Errorf("%s already holds %s; keep that aside and restore into a new folder", data, filepath.Base(path))
			}
		}
		if err := os.MkdirAll(data, 0o700); err != nil {
			return err
		}
		// Everything is checked there, so that no serve can begin on a part.
		work, keep, end, err := workFolder(data, restoring)
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
		if halfway {
			if err := os.RemoveAll(moved); err != nil {
				return err
			}
		}
		if err := backup.Install(work, data); err != nil {
			return err
		}
		_, err = fmt.Fprintf(out, "restored to %s, with %d events that the backup lacked\n", data, added)
		return err
	}
}

// workFolder makes a folder in data, with a name that begins so, for what is moved to data
// once it is whole, and returns the functions of [removeOnSignal]. One process works there at a time.
func workFolder(data, before string) (work string, keep, end func(), err error) {
	for _, made := range []string{restoring, seeding} {
		switch working, err := removeLeft(data, workNames(made)); {
		case err != nil:
			return "", nil, nil, err
		case working:
			return "", nil, nil, fmt.Errorf("another process makes a ring in %s; let it finish", data)
		}
	}
	return workIn(func() (string, error) { return os.MkdirTemp(data, before) })
}

// workIn makes a file or folder and locks it: what has no lock, a killed process has left. It returns the
// functions of [removeOnSignal]; end unlocks, too.
func workIn(create func() (string, error)) (path string, keep, end func(), err error) {
	for {
		if path, err = create(); err != nil {
			return "", nil, nil, err
		}
		lock, err := badgerstore.Lock(path)
		if err == nil {
			if _, err = os.Lstat(path); err == nil {
				keep, end := removeOnSignal(path)
				return path, keep, func() { end(); lock.Close() }, nil
			}
			lock.Close()
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, badgerstore.ErrLocked) {
			return "", nil, nil, err
		}
		// Another process has removed it as left, before it was locked.
	}
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
