package publish

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"webring/core"
	"webring/core/snap"
	"webring/edge/tlog"
	"webring/server/ledger"
)

// Config says what a [Publisher] signs and keeps.
type Config struct {
	// Dir is the folder of the snapshots. It is made if absent, and belongs to
	// the publisher.
	Dir string
	// KeyPath is the file of the key that signs, which is made under the name Name if there
	// is none, and NextPath that of the key that is announced, if one is.
	KeyPath, NextPath, Name string
	// Core is the SHA-256 of the module that answers reads, zero if this process has
	// none, and ABI the version of its entry. Checkpoints name both, so that an edge
	// which comes to another state can say which core it lacks.
	Core [32]byte
	ABI  int
	// Capacity bounds how many members can ever join.
	Capacity int

	// Until keeps up to which time was signed; nil stands for the file signed-until in Dir.
	Until Until
	// Interval is the longest time between checkpoints; 0 stands for 15
	// seconds.
	Interval time.Duration
	// SnapshotEvery is after how many events a new snapshot is made; 0 stands
	// for 10 000. One is also made at a start with newer events, a day after the last one, and
	// as soon as a member's words are to be forgotten. If there is none yet, the
	// first checkpoint waits for it.
	SnapshotEvery uint64
	// Witnesses names the witnesses that are asked to cosign the log; nil asks none. AskEvery is
	// the time between questions; 0 stands for a minute, and less for no question of its own.
	Witnesses *tlog.Policy
	AskEvery  time.Duration
	// Grace is how long a snapshot is kept after the next one was made, for downloads
	// that are under way; 0 stands for an hour.
	Grace time.Duration

	Now func() time.Time // the clock
	Log *slog.Logger     // receives what operators should see
}

// snapshotAge is after how long a new snapshot is made although few events have come,
// and retryAfter how long the publisher waits after a failure to make one.
const (
	snapshotAge = 24 * time.Hour
	retryAfter  = time.Minute
)

// Publisher is the [Source] at the origin.
type Publisher struct {
	c Config

	wake    chan struct{} // holds a token when there may be something to sign
	stop    context.CancelFunc
	running sync.WaitGroup

	signing   sync.Mutex // one signature at a time; guards those below
	key, next *Key       // next is nil unless one is announced
	until     int64      // no checkpoint is signed for later than this is covered

	w witnessing

	shown
	ledger *ledger.Ledger // guarded by mu, like at
	at     position
}

var _ Source = (*Publisher)(nil)

// position is a point of the ledger that the writer has reached.
type position struct {
	size  uint64
	root  [32]byte
	state [16]byte
	// changed is the size without the events at the end that are about snapshots.
	changed uint64
	// redacted is the size right after the last redaction in this process.
	redacted uint64
	// back is the instant to which the ring's clock was set back, in milliseconds, until a
	// checkpoint of it is signed; 0 for none.
	back int64
}

// New prepares a publisher. It publishes nothing before [Publisher.Start].
func New(c Config) (*Publisher, error) {
	if c.Dir == "" || c.Capacity <= 0 {
		return nil, errors.New("publish: folder and capacity must be given")
	}
	key, err := OpenKey(c.KeyPath, c.Name)
	if err != nil {
		return nil, err
	}
	next, err := ReadNext(c.NextPath)
	if err != nil {
		return nil, err
	}
	if next != nil && next.Name() != key.Name() {
		return nil, fmt.Errorf("publish: the next key is named %s, and the present one %s", next.Name(), key.Name())
	}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("publish: %w", err)
	}
	c.Interval = cmp.Or(c.Interval, 15*time.Second)
	c.SnapshotEvery = cmp.Or(c.SnapshotEvery, 10_000)
	c.Grace = cmp.Or(c.Grace, time.Hour)
	c.AskEvery = cmp.Or(c.AskEvery, time.Minute)
	return &Publisher{c: c, key: key, next: next, wake: make(chan struct{}, 1), w: newWitnesses(), shown: shown{dir: c.Dir}}, nil
}

// Published is the ledger's hook ([ledger.Config.Publish]). Before Start it
// does nothing.
func (p *Publisher) Published(records []ledger.Record) {
	p.mu.Lock()
	books := p.ledger
	p.mu.Unlock()
	if books == nil {
		return
	}
	// The writer stands still: what it has applied is what is durable.
	books.View(func(v *ledger.View) { p.note(books, v, records) })
}

// note stores the position of the ledger. It runs in the writer, when all that is
// applied is durable.
func (p *Publisher) note(books *ledger.Ledger, v *ledger.View, records []ledger.Record) {
	st := v.State()
	size, root := books.Root()
	if st.Seq() != size {
		panic(fmt.Sprintf("publish: the state has %d events and the ledger %d", st.Seq(), size))
	}
	state := st.Digest()
	redaction, back := news(records)
	p.mu.Lock()
	p.at.size, p.at.root, p.at.state, p.at.changed = size, root, state, v.Changed()
	if redaction {
		p.at.redacted = size
	}
	if back > 0 {
		p.at.back = back
	}
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default: // the token that is there will do
	}
}

// news says whether one of the records takes a member's words away, and to which instant one
// sets the clock of the ring back; 0 for none.
func news(records []ledger.Record) (redaction bool, back int64) {
	for _, r := range records {
		e, _ := core.DecodeEvent(r.Event)
		switch e := e.(type) {
		case *core.Removed:
			redaction = redaction || e.Redacted
		case *core.SetBack:
			back = e.Stamp
		}
	}
	return redaction, back
}

// Start publishes the ledger from its present end on. When it returns there is
// a checkpoint, which names a snapshot if there are events and the folder can be
// written. The ledger's hook must be Published.
func (p *Publisher) Start(ctx context.Context, books *ledger.Ledger) error {
	if err := p.openSnapshots(books); err != nil {
		return err
	}
	if err := p.beginUntil(); err != nil {
		return err
	}
	if err := p.openWitnessed(books); err != nil {
		return err
	}
	p.mu.Lock()
	p.ledger, p.books, p.begun = books, books, books.Size()
	p.mu.Unlock()
	err := books.Do(ctx, func(tx *ledger.Tx) error {
		// Otherwise another function of this group appended something, and the
		// hook will be called before this group is answered.
		if tx.State().Seq() == books.Size() {
			p.note(books, tx.View(), nil)
			if p.newest().Size > 0 || books.Size() == 0 {
				return nil
			}
			// No request is served yet, so the writer may take its time.
			if err := p.keepFirst(tx); err != nil {
				p.c.Log.Error("the first snapshot could not be made; edges start from all events", "err", err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	p.signing.Lock()
	p.tellKeys(ctx, false)
	p.signing.Unlock()
	if err := p.sign(ctx); err != nil && !errors.Is(err, ErrContradicted) {
		return err
	}
	ctx, p.stop = context.WithCancel(context.Background())
	due := make(chan struct{}, 1)
	if newest := p.newest(); p.position().changed > newest.Size || !p.told(newest.Snapshot) {
		due <- struct{}{} // at the start, whatever has come since the last one
	}
	p.running.Go(func() { p.keepSigning(ctx, due) })
	p.running.Go(func() { p.keepSnapshots(ctx, due) })
	if p.c.Witnesses != nil && p.c.AskEvery > 0 {
		p.running.Go(func() { p.keepAsking(ctx) })
	}
	return nil
}

// Close ends what Start began. The newest checkpoint goes on being served. It
// is to be called before the ledger is closed.
func (p *Publisher) Close() error {
	if p.stop != nil {
		p.stop()
	}
	p.running.Wait()
	return nil
}

// keepSigning signs whatever is newest, and asks for a snapshot when it is time.
func (p *Publisher) keepSigning(ctx context.Context, due chan<- struct{}) {
	tick := time.NewTicker(p.c.Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		case <-tick.C:
		}
		if err := p.sign(ctx); err != nil && ctx.Err() == nil {
			p.c.Log.Error("the checkpoint could not be signed; edges stay at the last one", "err", err)
		}
		if p.snapshotDue() {
			select {
			case due <- struct{}{}:
			default: // one is being made, or about to be
			}
		}
	}
}

// sign makes the checkpoint of the newest position, unless the last one says the same.
// Times of checkpoints never go back, not even over a restart, unless the ring's clock was set
// back: followers take a checkpoint of more events with an earlier time.
func (p *Publisher) sign(ctx context.Context) error {
	p.signing.Lock()
	defer p.signing.Unlock()
	return p.signNext(ctx)
}

// signNext is sign for a caller that holds signing.
func (p *Publisher) signNext(ctx context.Context) error {
	if err := p.Contradicted(); err != nil {
		return err
	}
	if err := p.goBack(ctx); err != nil {
		return err
	}
	c, keys, due := p.due()
	if !due {
		return nil
	}
	if err := p.maySign(ctx, c.Time); err != nil {
		return err
	}
	signed, err := p.key.signText(c.Text(), p.next)
	var log []byte
	if err == nil {
		// Ed25519 signatures are deterministic: a checkpoint of one size is always the same text.
		log, err = p.key.signText(logCheckpoint(c).Text(), p.next)
	}
	if err == nil && keys == nil {
		keys, err = p.key.signKeys(c.Time, p.next)
	}
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.signed, p.last, p.keys = signed, c, keys
	p.log, p.logged = log, c.Size
	if p.w.cosigned != nil && c.Size == uint64(p.w.at.N) {
		p.w.statement = signed
	}
	p.changed.Send()
	return nil
}

// due gives the checkpoint that is due, if one is, and the keys that are published, nil if
// they are to be signed anew.
func (p *Publisher) due() (c snap.Checkpoint, keys []byte, due bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at.back > 0 {
		return c, nil, false // it came after goBack, which is called again first
	}
	c = snap.Checkpoint{Origin: p.key.Name(), Size: p.at.size, Root: p.at.root, State: p.at.state,
		Time: max(p.c.Now().UnixMilli(), p.last.Time), Core: p.c.Core, ABI: p.c.ABI}
	if n := len(p.snapshots); n > 0 {
		c.Snapshot = p.snapshots[n-1].Snapshot
	}
	if c == p.last && p.keys != nil {
		return c, nil, false
	}
	// A follower resumes by size and time, so two checkpoints must not share both.
	if c.Size == p.last.Size && c.Time == p.last.Time {
		c.Time++
	}
	return c, p.keys, true
}
