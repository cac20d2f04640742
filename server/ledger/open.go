package ledger

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"os"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/mod/sumdb/tlog"

	"webring/core"
	"webring/core/snap"
)

var (
	// ErrDamaged says that what is stored contradicts itself.
	ErrDamaged = errors.New("ledger: the data folder is damaged")
	// ErrBehindHead says that the store lacks transactions that the head saw.
	ErrBehindHead = errors.New("ledger: the store has lost its newest transactions")
	// ErrNoHead says that there is a store without the head that belongs to it.
	ErrNoHead = errors.New("ledger: the head is missing")
	// ErrDisk says that the disk fails. What is stored may be whole.
	ErrDisk = errors.New("ledger: the disk gives errors")
)

// Remedy ends the message of every refusal, including those of a store. Nothing less is safe: a ledger
// that went on from a damaged store would sign another history than edges have seen, or take a payment
// twice.
const Remedy = "nothing was started, and the data folder is as it was; move it aside and restore a backup whole, with webring restore, into a new folder"

// diskRemedy ends the message of every error with [ErrDisk].
const diskRemedy = "this says nothing against the data, and a backup lacks every payment since it was made: do not restore one. Stop, look at the disk (dmesg, smartctl), copy all that can be read of the data folder to another disk (ddrescue), and start from the copy"

// faults are errors of a disk or of its file system. They are recognised by their text, because Badger
// keeps nothing else of them. The last one is EUCLEAN, which not all systems have.
var faults = []string{syscall.EIO.Error(), syscall.ENXIO.Error(), syscall.ENODEV.Error(), syscall.ENODATA.Error(), syscall.EBADMSG.Error(),
	syscall.ESTALE.Error(), syscall.ETIMEDOUT.Error(), syscall.ENOTCONN.Error(), "structure needs cleaning"}

// Disk gives err as an [ErrDisk], in words that say what to do, if the disk is its cause.
func Disk(err error) error {
	if err == nil || errors.Is(err, ErrDisk) || !slices.ContainsFunc(faults, func(fault string) bool { return strings.Contains(err.Error(), fault) }) {
		return err
	}
	return fmt.Errorf("%w: %w; %s", ErrDisk, err, diskRemedy)
}

// Refuse says that a start refuses what is stored: for [ErrDisk] if the disk is the cause of why, or else
// for the kind of damage. What a newer version wrote is no damage.
func Refuse(kind, why error) error {
	switch why = Disk(why); {
	case errors.Is(why, ErrDisk):
		return why
	case errors.Is(why, core.ErrNewer) || errors.Is(why, errNewerRows):
		return fmt.Errorf("ledger: %w; nothing was started, and the data folder is as it was", why)
	}
	return fmt.Errorf("%w: %w; %s", kind, why, Remedy)
}

func refuse(kind error, format string, args ...any) error {
	return Refuse(kind, fmt.Errorf(format, args...))
}

// Open checks everything that is stored, folds it, and starts the writer. An
// empty store without a head becomes a new ledger.
//
// It refuses with [ErrDamaged], [ErrBehindHead], [ErrNoHead] or [ErrDisk], in words that
// say what was found and what to do. [core.ErrCapacity] means that
// [Config.Capacity] is below the number of members and open registrations. The caller
// closes the store, also after an error.
func Open(c Config) (*Ledger, error) {
	f, err := Follow(c)
	if err != nil {
		return nil, err
	}
	l, err := f.Lead(c.Store)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return l, nil
}

// read checks everything that is stored, folds it, compares it with the tree, and accepts it.
func (l *Ledger) read() (err error) {
	if err := l.store().Verify(); err != nil {
		return refuse(ErrDamaged, "checking the store: %w", err)
	}
	if err := knownRows(l.store()); err != nil {
		return refuse(ErrDamaged, "%w", err)
	}
	end, err := transactions(l.store())
	if err != nil {
		return err
	}
	seen, err := l.openHead(l.cfg.HeadPath, end)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.head.file.Close())
		}
	}()
	f, err := l.foldEvents()
	switch {
	case errors.Is(err, core.ErrCapacity):
		return fmt.Errorf("ledger: more members have joined than the capacity allows: %w", err)
	case err != nil:
		return refuse(ErrDamaged, "%w", err)
	case f.size != end.Size:
		return refuse(ErrDamaged, "there are %d events, but transaction %d left %d", f.size, end.Serial, end.Size)
	}
	if err := l.checkTree(f, end, seen); err != nil {
		return err
	}
	if err := l.loadIndex(); err != nil {
		return refuse(ErrDamaged, "%w", err)
	}
	if err := l.checkCapacity(); err != nil {
		return err
	}
	if err := l.store().Accept(); err != nil {
		return err
	}
	// A crash between commit and head leaves the head one behind.
	if err := l.head.write(end); err != nil {
		return err
	}
	l.state.Advance(l.state.Clock())
	l.durable.Store(&end)
	return nil
}

// BeginHead makes the head of an empty ledger, unless there is one. [Open] accepts such a
// head with any store, and updates it. BeginHead refuses a head that has seen a transaction
// with [ErrBehindHead], and a file that is no head with [ErrDamaged].
func BeginHead(path string) error {
	l := Ledger{memory: &memory{}}
	if _, err := l.openHead(path, beginning()); err != nil {
		return err
	}
	return l.head.file.Close()
}

// openHead opens the head of a store that ends at transaction end, or makes that of a new ledger. It
// gives the transaction that the head saw.
func (l *Ledger) openHead(path string, end Position) (seen Position, err error) {
	l.head, err = openHead(path)
	if errors.Is(err, os.ErrNotExist) {
		if end.Serial > 0 {
			return seen, refuse(ErrNoHead, "the store holds %d transactions, but there is no %s", end.Serial, path)
		}
		l.head, err = createHead(path, end)
	}
	if err != nil {
		return seen, fmt.Errorf("ledger: open the head: %w", err)
	}
	seen, err = l.head.read()
	if err != nil {
		err = refuse(ErrDamaged, "%s: %w", path, err)
	} else if end.Serial < seen.Serial {
		err = refuse(ErrBehindHead, "the store ends at transaction %d with %d events, but %s says that transaction %d with %d events was durable",
			end.Serial, end.Size, path, seen.Serial, seen.Size)
	}
	if err != nil {
		l.head.file.Close()
	}
	return seen, err
}

var errNewerRows = errors.New("rows of a kind that this version does not know: a newer version wrote them; install that version again")

// knownRows fails if there are rows of an unknown kind.
func knownRows(store Store) error {
	for from := 0; from <= 0xff; {
		first := 0x100
		err := store.Scan(nil, []byte{byte(from)}, func(key, _ []byte) error {
			first = int(key[0])
			return ErrStop
		})
		if err != nil {
			return err
		}
		if first <= 0xff && strings.IndexByte(prefixes, byte(first)) < 0 {
			return errNewerRows
		}
		from = first + 1
	}
	return nil
}

// transactions reads the rows of all transactions, which are numbered from 1
// without a gap, and gives the last.
func transactions(store Store) (end Position, err error) {
	end = beginning()
	err = store.Scan([]byte{prefixTransaction}, nil, func(key, value []byte) error {
		p, err := parseTransaction(key, value)
		if err != nil {
			return refuse(ErrDamaged, "after transaction %d: %w", end.Serial, err)
		}
		if p.Serial != end.Serial+1 {
			return refuse(ErrDamaged, "transaction %d is missing", end.Serial+1)
		}
		if p.Size < end.Size {
			return refuse(ErrDamaged, "transaction %d shrinks the ledger", p.Serial)
		}
		end = p
		return nil
	})
	return end, err
}

// foldEvents folds the stored events into the state, which is empty.
func (l *Ledger) foldEvents() (*fold, error) {
	// There is room for all members at once. Besides their texts, their rows need about as much as the
	// salts in these.
	rows, size := 0, 0
	err := l.store().Scan([]byte{prefixEvent}, nil, func(key, value []byte) error {
		if _, row, err := parseEventKey(key); err != nil || row != rowTexts {
			return err
		}
		rows, size = rows+1, size+len(value)+32
		return nil
	})
	if err != nil {
		return nil, err
	}
	l.state.Expect(rows, size)
	l.announced = announced{}
	f := &fold{state: l.state, announced: &l.announced, leaves: sha256.New(), wordless: map[string]bool{}, reworded: map[string]bool{}}
	if err := l.store().Scan([]byte{prefixEvent}, nil, f.row); err != nil {
		return nil, err
	}
	if err := f.apply(); err != nil {
		return nil, err
	}
	for slug := range f.wordless {
		return nil, fmt.Errorf("the texts of %s are missing", slug)
	}
	return f, nil
}

// checkCapacity says whether there is room for all: each open registration needs it, and may
// have been paid for.
func (l *Ledger) checkCapacity() error {
	if rows, open := l.state.Rows(), len(l.index.urls); rows+open > l.state.Capacity() {
		return fmt.Errorf("ledger: %d members have joined and %d registrations are being paid for, more than the capacity of %d allows: %w",
			rows, open, l.state.Capacity(), core.ErrCapacity)
	}
	return nil
}

// checkTree compares the stored hashes with those of the events, and the roots with the
// hashes.
func (l *Ledger) checkTree(f *fold, points ...Position) error {
	stored, count := sha256.New(), uint64(0)
	err := l.store().Scan([]byte{prefixHash}, nil, func(key, value []byte) error {
		if len(value) != tlog.HashSize || !bytes.Equal(key, numberKey(prefixHash, count)) {
			return fmt.Errorf("tree hash %d is missing", count)
		}
		count++
		stored.Write(value)
		return nil
	})
	if err != nil {
		return refuse(ErrDamaged, "%w", err)
	}
	if !bytes.Equal(stored.Sum(nil), f.leaves.Sum(nil)) {
		return refuse(ErrDamaged, "the stored tree is not that of the %d events", f.size)
	}
	for _, p := range points {
		root, err := tlog.TreeHash(int64(p.Size), l.HashReader())
		if err != nil {
			return refuse(ErrDamaged, "root at %d events: %w", p.Size, err)
		}
		if root != p.Root {
			return refuse(ErrDamaged, "the root at %d events is not the one that was stored", p.Size)
		}
	}
	return nil
}

// loadIndex reads the blocklist, and the reservations that are open, to be confirmed, or
// failed a moment ago.
func (l *Ledger) loadIndex() error {
	failed := failedKey(max(0, l.cfg.Now().Add(-FailurePeriod).UnixMilli()), "")
	for _, list := range []struct {
		from  []byte
		state ReservationState
	}{{[]byte{prefixOpen}, Reserved}, {[]byte{prefixConfirm}, Applied}, {failed, Failed}} {
		err := l.store().Scan(list.from[:1], list.from, func(key, _ []byte) error {
			if len(key) < len(list.from) {
				return errors.New("malformed row")
			}
			r, err := reservation(l.store().Get, string(key[len(list.from):]))
			if err == nil && r.State != list.state {
				err = fmt.Errorf("it is %s", r.State)
			}
			if err == nil {
				l.index.change(nil, r)
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("a reservation listed as %s: %w", list.state, err)
		}
	}
	err := l.store().Scan([]byte{prefixBlock}, nil, func(key, value []byte) error {
		b, err := parseBlock(string(key), value)
		if err == nil {
			l.index.blocks.put(b)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("blocklist: %w", err)
	}
	return nil
}

// fold takes the rows of the events in order.
type fold struct {
	state     *core.State
	announced *announced
	size      uint64
	event     []byte    // the last event row, not applied yet; none while size is 0
	texts     []byte    // the row of its texts, empty if there is none
	leaves    hash.Hash // over all hashes that the tree must store, in their order
	edge      []tlog.Hash
	// wordless are members without texts that have not been removed with redaction. reworded are
	// members that got texts with a later event than their registration.
	wordless, reworded map[string]bool
}

func (f *fold) row(key, value []byte) error {
	seq, row, err := parseEventKey(key)
	if err != nil {
		return err
	}
	if row == rowTexts {
		if f.size == 0 || seq != f.size-1 {
			return fmt.Errorf("texts without event %d", seq)
		}
		f.texts = append(f.texts, value...)
		return nil
	}
	if seq != f.size {
		return fmt.Errorf("event %d is missing", f.size)
	}
	if err := f.apply(); err != nil {
		return err
	}
	f.event, f.texts = append(f.event[:0], value...), f.texts[:0]
	f.size++
	return nil
}

// apply folds the last event, which now has all its rows.
func (f *fold) apply() error {
	if f.size == 0 {
		return nil
	}
	seq := f.size - 1
	e, err := core.DecodeEvent(f.event)
	if err == nil {
		err = snap.VerifyTexts(e, f.texts)
	}
	if err != nil {
		return fmt.Errorf("event %d: %w", seq, err)
	}
	if err := f.state.Apply(f.event, f.texts); err != nil {
		return fmt.Errorf("event %d: %w", seq, err)
	}
	if err := f.words(e); err != nil {
		return fmt.Errorf("event %d: %w", seq, err)
	}
	f.announced.take(seq, e)
	f.grow(seq, tlog.RecordHash(f.event))
	return nil
}

// words tracks members without words, and members that got others.
func (f *fold) words(e core.Event) error {
	slug := core.MemberOf(e)
	_, joins := e.(*core.Joined)
	removed, removes := e.(*core.Removed)
	switch {
	case removes && removed.Redacted:
		if !f.wordless[slug] || f.reworded[slug] {
			return errors.New("the texts of a redacted member are still there")
		}
		delete(f.wordless, slug)
	case len(f.texts) > 0 && !joins:
		f.reworded[slug] = true
	case len(f.texts) == 0 && core.CommitmentsOf(e).Some():
		f.wordless[slug] = true
	}
	return nil
}

// grow adds a leaf to the right edge of the tree: the subtrees that are full,
// by level. Each one that it completes is stored after it.
func (f *fold) grow(seq uint64, h tlog.Hash) {
	level := 0
	f.leaves.Write(h[:])
	for ; seq>>level&1 == 1; level++ {
		h = tlog.NodeHash(f.edge[level], h)
		f.leaves.Write(h[:])
	}
	if level == len(f.edge) {
		f.edge = append(f.edge, h)
	}
	f.edge[level] = h
}

func parseEventKey(key []byte) (seq uint64, row byte, err error) {
	if len(key) != 1+8+1 || key[9] > rowTexts {
		return 0, 0, errors.New("the key of an event is malformed")
	}
	return binary.BigEndian.Uint64(key[1:]), key[9], nil
}
