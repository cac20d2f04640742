// Package badgerstore keeps a ledger's rows in Badger.
//
// Values always stay in Badger's tree; its value log is not used, so it needs no garbage
// collection. Blocks are not compressed and carry checksums that every read verifies.
// Before Badger opens the files, the package looks for damage that would make Badger crash
// or that Badger would ignore: see inspect.go. Opening changes files, so it is tried on a
// copy first: see trial.go. A disk that fills up during a commit must not end the process:
// see reserve.go. Damage that no single file shows, such as a transaction that was cut off
// a write-ahead file, is found by the ledger.
package badgerstore

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"golang.org/x/sys/unix"

	"webring/server/ledger"
)

// ErrLocked says that another process has the lock of a folder: it has the store there
// open. A second process cannot open a store, not even to read.
var ErrLocked = errors.New("badgerstore: another process has the store open; operator commands go through the running origin")

// memTable is the size of Badger's table in memory. A transaction may fill
// 15 % of it, which leaves [ledger.MaxBatch] with room to spare.
const memTable = 32 << 20

// Store is a [ledger.Store].
type Store struct {
	db   *badger.DB
	dir  string
	log  *slog.Logger
	lock *FolderLock
	// trial says that db is a copy of what was found, which therefore deletes
	// nothing, and copied that it never becomes anything else.
	trial, copied bool
	// nextWAL is the write-ahead file after the one that has its room.
	nextWAL string
	fault   atomic.Pointer[error] // the first one of the disk
}

// Fault is the first error that the disk has given since the store was opened, nil if there was none.
func (s *Store) Fault() error {
	if err := s.fault.Load(); err != nil {
		return *err
	}
	return nil
}

// guard runs what reads files, and says of what it fails. The tables are mapped into memory. If the disk cannot
// give a page of them, the system sends a signal, which would end the process. This covers what the caller reads itself:
// Badger commits, flushes and merges tables elsewhere, and there a signal ends the process.
func (s *Store) guard(run func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			if _, fault := p.(interface{ Addr() uintptr }); !fault {
				panic(p)
			}
			err = fmt.Errorf("badgerstore: a mapped file cannot be read: %w", unix.EIO)
		}
		err = s.blame(err)
	}()
	return run()
}

// blame says that the disk is the cause of an error, and keeps it, if that is so.
func (s *Store) blame(err error) error {
	if err = ledger.Disk(err); errors.Is(err, ledger.ErrDisk) && s.fault.CompareAndSwap(nil, &err) {
		s.log.Error("no payment is taken any more", "err", err)
	}
	return err
}

// Open opens the store in dir, which is made if it does not exist. Badger's
// warnings and errors go to log. It fails with [ErrLocked], or with
// [ledger.ErrDamaged] when a file is not as Badger left it, but not when the system
// refuses to open files, to make them, or to let them grow.
//
// Until [Store.Accept], closing the store leaves dir as it was found; so does
// Open when it fails.
func Open(dir string, log *slog.Logger) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("badgerstore: %w", err)
	}
	lock, err := Lock(dir)
	if err != nil {
		return nil, err
	}
	s := &Store{dir: dir, log: log, lock: lock}
	trial, err := makeTrial(dir)
	if err != nil {
		return nil, fmt.Errorf("badgerstore: copy what was found: %w", ledger.Disk(errors.Join(err, lock.Close())))
	}
	s.trial = trial != ""
	if err := s.openFound(cmp.Or(trial, dir), dir); err != nil {
		return nil, errors.Join(err, endTrial(dir), lock.Close())
	}
	return s, nil
}

// OpenCopy makes a copy of the store in dir in a new folder and opens it for reading:
// [Store.Commit] fails, and [Store.Accept] does nothing. The caller holds the lock of dir
// ([Lock]) meanwhile, and removes the folder afterwards. Errors are those of [Open].
func OpenCopy(dir, folder string, log *slog.Logger) (*Store, error) {
	if err := os.Mkdir(folder, 0o700); err != nil {
		return nil, fmt.Errorf("badgerstore: %w", err)
	}
	lock, err := Lock(folder)
	if err != nil {
		return nil, err
	}
	names, err := filesIn(dir)
	if err == nil {
		// Soon the store may be opened, and a table emptied.
		err = copyFiles(names, dir, folder, false)
	}
	if err != nil {
		return nil, fmt.Errorf("badgerstore: copy what was found: %w", ledger.Disk(errors.Join(err, lock.Close())))
	}
	s := &Store{dir: folder, log: log, lock: lock, trial: true, copied: true}
	if err := s.openFound(folder, dir); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return s, nil
}

// openFound opens a folder with what was found in dir.
func (s *Store) openFound(folder, dir string) error {
	err := inspect(folder)
	if err == nil {
		err = s.open(folder)
	}
	if err == nil {
		return nil
	}
	// The operator does not know of the copy, which is removed soon.
	err = errors.New(strings.ReplaceAll(err.Error(), folder, dir))
	if slices.ContainsFunc(denials, func(no error) bool { return strings.Contains(err.Error(), no.Error()) }) {
		return fmt.Errorf("badgerstore: the system does not let it be opened: %w", err)
	}
	return ledger.Refuse(ledger.ErrDamaged, err)
}

// denials are errors of the system that say nothing about the files. They must not count as
// damage: the remedy for that is an older ledger, and would lose payments. They are
// recognised by their text, because Badger keeps nothing else of them.
var denials = []error{unix.EACCES, unix.EPERM, unix.EROFS, unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.ENOSPC, unix.EDQUOT, unix.EFBIG}

// open opens Badger in the store's folder, or in that of its copy. There nothing
// merges tables: Badger empties those that it has merged before it removes them,
// and would so empty what was found. Nor does it then wait for tables to be merged.
func (s *Store) open(dir string) error {
	c := configuration(dir, s.log)
	if s.trial {
		c = c.WithNumCompactors(0).WithNumLevelZeroTablesStall(math.MaxInt32)
	}
	db, err := badger.Open(c)
	if err != nil {
		return fmt.Errorf("badger: %w", err)
	}
	s.db = db
	if s.trial {
		return nil
	}
	if err := s.reserve(); err != nil {
		return errors.Join(err, db.Close())
	}
	return nil
}

func configuration(dir string, log *slog.Logger) badger.Options {
	return badger.DefaultOptions(dir).
		WithBypassLockGuard(true). // see [Lock]
		WithLogger(logger{log}).
		WithMetricsEnabled(false).
		WithSyncWrites(true).
		WithDetectConflicts(false). // the ledger is the only writer
		WithNumVersionsToKeep(1).
		WithVerifyValueChecksum(true).
		WithChecksumVerificationMode(options.OnBlockRead).
		WithCompression(options.None).
		WithBlockCacheSize(0).
		WithMemTableSize(memTable).
		WithNumMemtables(2).
		WithNumCompactors(2).
		WithValueThreshold(1 << 20).
		WithValueLogFileSize(1 << 20)
}

// Lock takes the lock of a folder, and fails with [ErrLocked] while another process has it.
// [Open] holds the lock of a store's folder; other callers need it to read the files
// there, or for a folder without a store. Closing it releases the lock.
//
// It is the lock that Badger would take itself. Taken here, it also covers trial and
// inspection, and its error is distinct.
func Lock(dir string) (*FolderLock, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("badgerstore: %w", err)
	}
	err = unix.Flock(int(d.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return &FolderLock{d}, nil
	}
	d.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, fmt.Errorf("%w (%s)", ErrLocked, dir)
	}
	return nil, fmt.Errorf("badgerstore: lock %s: %w", dir, err)
}

// FolderLock is the lock of a folder.
type FolderLock struct{ d *os.File }

// Close releases the lock. It unlocks the file before it closes it: a process that is being started
// has a copy of the file for a moment, and would hold the lock as long.
func (l *FolderLock) Close() error {
	return errors.Join(unix.Flock(int(l.d.Fd()), unix.LOCK_UN), l.d.Close())
}

// Get implements [ledger.Store].
func (s *Store) Get(key []byte) (value []byte, err error) {
	err = s.guard(func() error {
		value, err = s.get(key)
		return err
	})
	return value, err
}

func (s *Store) get(key []byte) ([]byte, error) {
	txn := s.db.NewTransaction(false)
	defer txn.Discard()
	item, err := txn.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, ledger.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("badgerstore: get: %w", err)
	}
	value, err := item.ValueCopy(nil)
	if err != nil {
		return nil, fmt.Errorf("badgerstore: get: %w", err)
	}
	return value, nil
}

// Scan implements [ledger.Store]. It reads one snapshot. An error of fn is none of the disk.
func (s *Store) Scan(prefix, from []byte, fn func(key, value []byte) error) error {
	var ended error // by fn
	err := s.guard(func() error {
		return s.scan(prefix, from, func(key, value []byte) bool {
			ended = fn(key, value)
			return ended == nil
		})
	})
	if errors.Is(ended, ledger.ErrStop) {
		ended = nil
	}
	return cmp.Or(err, ended)
}

func (s *Store) scan(prefix, from []byte, fn func(key, value []byte) (goOn bool)) error {
	txn := s.db.NewTransaction(false)
	defer txn.Discard()
	// Values are stored with their keys. Prefetching would start a goroutine for each and take twice as
	// long.
	it := txn.NewIterator(badger.IteratorOptions{Prefix: prefix})
	defer it.Close()
	if bytes.Compare(from, prefix) < 0 {
		from = prefix
	}
	goOn := true
	for it.Seek(from); goOn && it.Valid(); it.Next() {
		item := it.Item()
		err := item.Value(func(value []byte) error {
			goOn = fn(item.Key(), value)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Accept implements [ledger.Store].
func (s *Store) Accept() error {
	if !s.trial || s.copied {
		return nil
	}
	err := errors.Join(s.db.Close(), endTrial(s.dir), removeEmpty(s.dir))
	if err == nil {
		s.trial = false
		err = s.open(s.dir)
	}
	if err != nil {
		return fmt.Errorf("badgerstore: accept: %w", err)
	}
	return nil
}

// Commit implements [ledger.Store].
func (s *Store) Commit(b ledger.Batch) error {
	if s.trial {
		return errors.New("badgerstore: commit: what is stored has not been accepted")
	}
	txn := s.db.NewTransaction(true)
	defer txn.Discard()
	for key, value := range b {
		var err error
		if value == nil {
			err = txn.Delete([]byte(key))
		} else {
			err = txn.Set([]byte(key), value)
		}
		if err != nil {
			return fmt.Errorf("badgerstore: commit: %w", err)
		}
	}
	if err := s.blame(txn.Commit()); err != nil {
		return fmt.Errorf("badgerstore: commit: %w", err)
	}
	if _, err := os.Stat(s.nextWAL); err == nil {
		// Without room for it there is soon none to commit, and this is stored.
		_ = s.reserve()
	}
	return nil
}

// Verify implements [ledger.Store]: it runs the checksums of all tables, and
// reads every row.
func (s *Store) Verify() error {
	if err := s.guard(s.db.VerifyChecksum); err != nil {
		return fmt.Errorf("badgerstore: %w", err)
	}
	return s.Scan(nil, nil, func(_, _ []byte) error { return nil })
}

// Close implements [ledger.Store].
func (s *Store) Close() error {
	if err := errors.Join(s.db.Close(), endTrial(s.dir), s.lock.Close()); err != nil {
		return fmt.Errorf("badgerstore: close: %w", err)
	}
	return nil
}

// logger writes Badger's lines to the log, its information at the debug level.
type logger struct{ log *slog.Logger }

func (l logger) line(f func(string, ...any), format string, args []any) {
	f("badger: the store of the ledger has something to say", "detail", strings.TrimSpace(fmt.Sprintf(format, args...)))
}

func (l logger) Errorf(format string, args ...any)   { l.line(l.log.Error, format, args) }
func (l logger) Warningf(format string, args ...any) { l.line(l.log.Warn, format, args) }
func (l logger) Infof(format string, args ...any)    { l.line(l.log.Debug, format, args) }
func (l logger) Debugf(format string, args ...any)   { l.line(l.log.Debug, format, args) }
