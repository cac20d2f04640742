package cluster

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"webring/core"
	"webring/server/devchain/faults"
	"webring/server/ledger"
	"webring/server/ledger/cluster/etcdtest"
	"webring/server/ledger/ledgertest"
)

var (
	historyTime = flag.Duration("history.time", 6*time.Second, "how long nodes take payments while etcd and the network fail")
	historySeed = flag.Uint64("history.seed", 0, "what faults there are; 0 stands for others each time")
)

// testHistories has three nodes take payments while members of etcd, links and nodes fail,
// and then holds what they have against what was acknowledged. Without the comparisons, the
// same must find violations.
func testHistories(t *testing.T, e *etcdtest.Cluster, unfenced bool) {
	seed := *historySeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	w := &world{t: t, e: e, c: config(t, e, ""), seed: seed}
	w.c.Unfenced = unfenced
	violations := w.run()
	t.Logf("seed %d: %d payments acknowledged, %d terms, %d lost answers, %d late requests, %d zombies, %d restarts, %d backups; %d violations", seed, len(w.answers),
		w.terms.Load(), w.lost.Load(), w.late.Load(), w.zombies.Load(), w.restarts.Load(), w.backups.Load(), len(violations))
	switch {
	case unfenced && len(violations) == 0:
		t.Error("without the comparisons, nothing was violated")
	case unfenced:
		t.Logf("the first: %s", violations[0])
	default:
		for _, v := range violations {
			t.Error(v)
		}
		if len(w.answers) == 0 || w.terms.Load() < 2 {
			t.Error("too little has happened")
		}
	}
}

// world is a cluster under faults, and what was seen of it.
type world struct {
	t     *testing.T
	e     *etcdtest.Cluster
	c     Config
	seed  uint64
	seats []*seat
	begin ledger.Batch
	base  ledger.Position

	open   sync.RWMutex // held for reading by a payment
	closed bool         // no payments any more
	log    recorder

	mu       sync.Mutex // guards what was seen
	answers  []ledgertest.Answer
	entries  []ledgertest.Entry
	writes   []ledgertest.Write
	findings []string

	terms, lost, late, zombies, restarts, backups, payments atomic.Int64
	requests                                                sync.WaitGroup // that are late
}

// found notes what must not be.
func (w *world) found(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.findings = append(w.findings, fmt.Sprintf(format, args...))
}

// wrong reports whether something was found that must not be.
func (w *world) wrong() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.findings) > 0
}

func (w *world) random(n uint64) *rand.Rand { return rand.New(rand.NewPCG(w.seed, n)) }

func (w *world) run() (violations []string) {
	first := ledgertest.NewStore()
	dir := w.t.TempDir()
	w.ring(first, dir)
	begun(w.t, w.c.as("a"), w.base)
	w.log.w = w
	w.log.at.Store(&w.base)
	ctx, cancel := context.WithCancel(context.Background())
	var watching, living, failing sync.WaitGroup
	watching.Go(func() { w.witness(ctx) })
	watching.Go(func() { w.observe(ctx) })
	for i, name := range []string{"a", "b", "c"} {
		s := &seat{w: w, name: name, store: first.Copy(), dir: w.t.TempDir(), random: w.random(uint64(i) + 100)}
		copyHead(w.t, dir, s.dir)
		s.connect()
		w.seats = append(w.seats, s)
	}
	for _, s := range w.seats {
		living.Go(func() { s.run(ctx) })
	}
	began := time.Now()
	more := func() bool {
		switch took := time.Since(began); {
		case w.c.Unfenced:
			return took < *historyTime && w.zombies.Load() == 0 || took < time.Minute && !w.wrong()
		default:
			return took < *historyTime || took < *historyTime+time.Minute && (w.terms.Load() < 2 || w.zombies.Load() == 0)
		}
	}
	failing.Go(func() { w.failMembers(more, w.random(1)) })
	failing.Go(func() { w.failNodes(ctx, more, w.random(2)) })
	failing.Wait()
	for _, s := range w.seats {
		s.mu.Lock()
		s.calm = true
		s.mu.Unlock()
	}
	w.requests.Wait()
	w.agree()
	cancel()
	living.Wait()
	watching.Wait()
	return w.check()
}

// ring makes a ledger with one member.
func (w *world) ring(store *ledgertest.Store, dir string) {
	head := filepath.Join(dir, "head")
	if err := ledger.BeginHead(head); err != nil {
		w.t.Fatal(err)
	}
	books, err := ledger.Open(ledger.Config{Store: store, HeadPath: head, Capacity: 10})
	if err == nil {
		err = books.Do(w.t.Context(), func(tx *ledger.Tx) error {
			_, err := tx.Append(&core.Rules{Stamp: tx.Stamp(), Name: "Ring", BaseURL: "https://ring.example", Fee: 100, MinBid: 100, Decay: 1}, nil)
			if err == nil {
				_, err = tx.Append(&core.Joined{Stamp: tx.Stamp(), Slug: "ada", Kind: core.Agent, Category: "general", Fee: 100},
					&core.Texts{Name: core.Text{Value: "Ada"}, URL: core.Text{Value: "https://ada.example/"}})
			}
			return err
		})
	}
	if err == nil {
		err = books.Close()
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.begin = ledger.Batch{}
	store.Scan(nil, nil, func(key, value []byte) error {
		w.begin[string(key)] = slices.Clone(value)
		return nil
	})
	w.base.Serial = 1
	at, err := ledger.Batch{string(serialKey(1)): w.begin[string(serialKey(1))]}.Position()
	if err != nil {
		w.t.Fatal(err)
	}
	w.base = at
}

func serialKey(serial uint64) []byte { return binary.BigEndian.AppendUint64([]byte("t"), serial) }

func copyHead(t testing.TB, from, to string) {
	b, err := os.ReadFile(filepath.Join(from, "head"))
	if err == nil {
		err = os.WriteFile(filepath.Join(to, "head"), b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// recorder is a copy that keeps the log.
type recorder struct {
	w  *world
	at atomic.Pointer[ledger.Position]
}

func (r *recorder) Position() ledger.Position { return *r.at.Load() }

func (r *recorder) Apply(b ledger.Batch) error {
	at, err := b.Position()
	if err != nil {
		return err
	}
	r.w.mu.Lock()
	r.w.entries = append(r.w.entries, ledgertest.Entry{Serial: at.Serial, Rows: maps.Clone(b)})
	r.w.mu.Unlock()
	r.at.Store(&at)
	return nil
}

// witness records the log, and holds trimming back until it has it.
func (w *world) witness(ctx context.Context) {
	c, r := opened(w.t, w.c.as("witness")), &w.log
	var reporting sync.WaitGroup
	defer reporting.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	reporting.Go(func() {
		for wait(ctx, 100*time.Millisecond) == nil {
			c.Admit(ctx, r.Position())
		}
	})
	if err := c.Admit(ctx, w.base); err != nil {
		w.found("the witness: %v", err)
	}
	if err := c.Follow(ctx, r); ctx.Err() == nil {
		w.found("the witness: %v", err)
	}
}

// observe records what is written to the log, as far as it is not compacted away before.
func (w *world) observe(ctx context.Context) {
	c, rev := opened(w.t, w.c.as("")), int64(1)
	for ctx.Err() == nil {
		client, i := c.members.pick()
		watch, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
		for r := range client.Watch(watch, c.keys.tail(), clientv3.WithPrefix(), clientv3.WithRev(rev), clientv3.WithFilterDelete()) {
			rev = max(rev, r.CompactRevision, r.Header.Revision+1)
			for _, e := range r.Events {
				serial, err := c.keys.serial(string(e.Kv.Key))
				if err != nil {
					w.found("%v", err)
				}
				w.mu.Lock()
				w.writes = append(w.writes, ledgertest.Write{Serial: serial, Value: string(e.Kv.Value)})
				w.mu.Unlock()
			}
		}
		cancel()
		c.members.failed(i)
		wait(ctx, longPause)
	}
}

// seat is a place for a node: what it keeps, and how it reaches etcd.
type seat struct {
	w      *world
	name   string
	dir    string // of its head
	links  []*faults.Link
	random *rand.Rand // of the requests; guarded by mu

	mu       sync.Mutex
	calm     bool // no request is lost or late any more
	store    *ledgertest.Store
	follower *ledger.Follower
	cancel   context.CancelFunc // ends the present life
	then     func()             // what happens before the next one
	old      *Term              // the last that has ended
}

func (s *seat) connect() {
	for _, m := range s.w.e.Members {
		l, err := faults.NewLink(m.Client.Address)
		if err != nil {
			s.w.t.Fatal(err)
		}
		s.w.t.Cleanup(l.Close)
		s.links = append(s.links, l)
	}
}

// intercept loses answers and has requests come late. A late request has none of the caller's options:
// they say where etcd's client wants to know the peer, and the client goes on before the request is sent.
func (s *seat) intercept(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	s.mu.Lock()
	luck, delay := s.random.IntN(100), time.Duration(s.random.Int64N(int64(3*time.Second)))
	switch {
	case method != pb.KV_Txn_FullMethodName || s.calm || luck >= 8:
		s.mu.Unlock()
		return invoke(ctx, method, req, reply, cc, opts...)
	case luck < 4:
		s.mu.Unlock()
		s.w.lost.Add(1)
		invoke(ctx, method, req, reply, cc, opts...)
	default:
		s.w.requests.Go(func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			if wait(ctx, delay) == nil {
				invoke(ctx, method, req, new(pb.TxnResponse), cc, grpc.WaitForReady(true))
			}
		})
		s.mu.Unlock()
		s.w.late.Add(1)
	}
	return grpcstatus.Error(codes.Unavailable, "the answer is lost")
}

// run lives one life after the other.
func (s *seat) run(ctx context.Context) {
	c := s.w.c.as(s.name)
	c.Endpoints, c.dial = nil, []grpc.DialOption{grpc.WithChainUnaryInterceptor(s.intercept)}
	for _, l := range s.links {
		c.Endpoints = append(c.Endpoints, l.Address)
	}
	for ctx.Err() == nil {
		life, cancel := context.WithCancel(ctx)
		s.mu.Lock()
		s.cancel = cancel
		s.mu.Unlock()
		err := s.live(life, c)
		switch {
		case errors.Is(err, ErrTooOld):
			s.w.backups.Add(1)
			s.restore(s.w.furthest())
		case err != nil && ctx.Err() == nil && life.Err() == nil:
			s.w.found("%s: %v", s.name, err)
			wait(ctx, time.Second)
		}
		cancel()
		s.mu.Lock()
		then := s.then
		s.then = nil
		s.mu.Unlock()
		if then != nil {
			then()
		}
	}
}

// live opens the node on what it keeps, and has it take part until it is lost or ctx ends.
func (s *seat) live(ctx context.Context, c Config) error {
	cluster, err := Open(c)
	if err != nil {
		return err
	}
	defer cluster.Close()
	for ctx.Err() == nil {
		s.mu.Lock()
		store := s.store
		s.mu.Unlock()
		f, err := ledger.Follow(ledger.Config{Store: store, HeadPath: filepath.Join(s.dir, "head"), Capacity: 10})
		if err != nil {
			return err
		}
		s.mu.Lock()
		s.follower = f
		s.mu.Unlock()
		term, err := cluster.Stand(ctx, f)
		if err != nil {
			return errors.Join(err, f.Close())
		}
		s.w.terms.Add(1)
		if err := s.lead(ctx, term, f, store); err != nil {
			return err
		}
	}
	return nil
}

// lead takes payments until the term or the life is over.
func (s *seat) lead(ctx context.Context, term *Term, f *ledger.Follower, store *ledgertest.Store) error {
	books, err := f.Lead(term.Store(slow{store}))
	if err != nil {
		return errors.Join(err, term.Close())
	}
	var paying sync.WaitGroup
	for range 3 {
		paying.Go(func() {
			for ctx.Err() == nil && term.Live() && s.w.pay(s.name, books) == nil {
			}
		})
	}
	to, asked := "", false
	select {
	case <-ctx.Done():
	case <-term.Done():
	case to = <-term.Handover():
		asked = true
	}
	books.Close() // its error is that of the term
	paying.Wait()
	if asked {
		err = term.Resign(ctx, to)
	} else {
		err = term.Close()
	}
	if err != nil && ctx.Err() == nil && !errors.Is(err, ErrLost) {
		s.w.t.Logf("%s: the term ended with %v", s.name, err)
	}
	s.mu.Lock()
	s.old = term
	s.mu.Unlock()
	return nil
}

// pay reserves a payment, applies it, and notes that this was acknowledged.
func (w *world) pay(node string, books *ledger.Ledger) error {
	w.open.RLock()
	defer w.open.RUnlock()
	if w.closed {
		return ledger.ErrClosed
	}
	id := fmt.Sprintf("payment-%d", w.payments.Add(1))
	r := &ledger.Reservation{ID: id, State: ledger.Reserved, Operation: ledger.OperationBid, Member: "ada", Cents: 100, Payer: "0x1",
		ReplayKeys: []string{id}, ValidBefore: time.Now().Add(time.Minute)}
	if err := books.Do(context.Background(), func(tx *ledger.Tx) error { return tx.Reserve(r) }); err != nil {
		return err
	}
	err := books.Do(context.Background(), func(tx *ledger.Tx) (err error) {
		r.Seq, err = tx.Append(&core.Bid{Stamp: tx.Stamp(), Member: "ada", Amount: r.Cents,
			Payment: core.Payment{Method: "tempo", Network: "tempo:42431", Transaction: "0x" + id, Payer: r.Payer}}, nil)
		if err != nil {
			return err
		}
		r.State, r.Response = ledger.Applied, &ledger.Response{Status: 200, Body: []byte(id)}
		return tx.Update(r)
	})
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answers = append(w.answers, ledgertest.Answer{Node: node, Payment: id, Transaction: "0x" + id, Cents: r.Cents, Status: 200, Position: r.Seq + 1, Body: []byte(id)})
	return nil
}

// saved is a copy of what a node keeps.
type saved struct {
	store *ledgertest.Store
	head  []byte
}

// save copies what a node keeps. The head is not ahead of the store.
func (s *seat) save() saved {
	head, err := os.ReadFile(filepath.Join(s.dir, "head"))
	if err != nil {
		s.w.t.Error(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return saved{s.store.Copy(), head}
}

// restore puts a copy in place of what a node keeps. The node must not live.
func (s *seat) restore(c saved) {
	if err := os.WriteFile(filepath.Join(s.dir, "head"), c.head, 0o600); err != nil {
		s.w.t.Error(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store = c.store.Copy()
}

func (s *seat) position() ledger.Position {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.follower == nil {
		return ledger.Position{}
	}
	return s.follower.Position()
}

// furthest is a backup of the node that has the most.
func (w *world) furthest() saved {
	return slices.MaxFunc(w.seats, func(a, b *seat) int { return int(int64(a.position().Serial) - int64(b.position().Serial)) }).save()
}

// failMembers has the members of etcd fail, one at a time.
func (w *world) failMembers(more func() bool, r *rand.Rand) {
	for more() {
		m := w.e.Members[r.IntN(len(w.e.Members))]
		mend := m.Peer.Open
		switch r.IntN(4) {
		case 0:
			m.Kill()
			mend = m.Start
		case 1:
			m.Pause()
			mend = m.Resume
		case 2:
			m.Peer.Silence()
		case 3:
			m.Peer.Cut()
		}
		time.Sleep(time.Duration(r.Int64N(int64(1500 * time.Millisecond))))
		mend()
		time.Sleep(time.Duration(r.Int64N(int64(time.Second))))
	}
}

// failNodes has nodes and their links fail, loses leases, compacts, and wakes zombies.
func (w *world) failNodes(ctx context.Context, more func() bool, r *rand.Rand) {
	in := opened(w.t, w.c.as(""))
	olds := map[*seat]saved{}
	for round := 0; more(); round++ {
		s := w.seats[r.IntN(len(w.seats))]
		if l, _ := in.leading(ctx); round%2 == 0 {
			for _, leads := range w.seats {
				if leads.name == l.Node {
					s = leads
				}
			}
		}
		pause, what := time.Duration(r.Int64N(int64(500*time.Millisecond))), r.IntN(8)
		if round == 0 {
			what = 0
		}
		short, cancel := context.WithTimeout(ctx, time.Second)
		switch what {
		case 0: // what is on its way arrives after the lease
			for _, l := range s.links {
				l.Silence()
			}
			pause += w.c.lease
		case 1:
			for _, l := range s.links {
				l.Cut()
			}
		case 2:
			for _, l := range s.links {
				l.Delay(50 * time.Millisecond)
			}
		case 3:
			if _, lease := in.leading(short); lease != 0 {
				client, _ := in.members.pick()
				client.Revoke(short, lease)
			}
		case 4:
			client, _ := in.members.pick()
			if now, err := client.Get(short, in.keys.head()); err == nil {
				client.Compact(short, now.Header.Revision)
			}
		case 5: // the node dies, and goes on with what it had
			w.restarts.Add(1)
			s.end(s.save())
		case 6: // the node dies, and goes on with what it had a while ago
			if old, ok := olds[s]; ok {
				w.restarts.Add(1)
				s.end(old)
			}
			olds[s] = s.save()
		case 7:
			in.Handover(short, s.name)
		}
		cancel()
		w.wake(in)
		time.Sleep(pause)
		for _, l := range s.links {
			l.Open()
			l.Delay(0)
		}
	}
}

// end ends the present life of a node, which goes on with a copy.
func (s *seat) end(with saved) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.then = func() { s.restore(with) }
	if s.cancel != nil {
		s.cancel()
	}
}

// leading gives the leader and its lease.
func (c *Cluster) leading(ctx context.Context) (l Leader, lease clientv3.LeaseID) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	client, i := c.members.pick()
	resp, err := client.Get(ctx, c.keys.leader())
	if err != nil {
		c.members.failed(i)
		return l, 0
	}
	for _, kv := range resp.Kvs {
		lease = clientv3.LeaseID(kv.Lease)
		decodeText(kv.Value, &l)
	}
	return l, lease
}

// wake has nodes write that lead no longer, as a process does that was paused between its
// last look at the clock and its write.
func (w *world) wake(in *Cluster) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	now, err := in.Current(ctx)
	if err != nil {
		return
	}
	for _, s := range w.seats {
		s.mu.Lock()
		old := s.old
		s.mu.Unlock()
		if old == nil || now.Serial <= old.store.at.at.Serial {
			continue // nobody has led since
		}
		s.mu.Lock()
		s.old = nil
		s.mu.Unlock()
		w.zombies.Add(1)
		z := newTerm(in, old.lease, time.Now())
		z.epoch, z.store.head, z.store.at = old.epoch, old.store.head, old.store.at
		at := old.store.at.at
		at.Serial++
		rows := ledger.Batch{string(serialKey(at.Serial)): append(binary.BigEndian.AppendUint64(nil, at.Size), at.Root[:]...)}
		plain, _ := appendGroup(nil, rows)
		next := head{at: at, epoch: z.epoch, written: old.store.at.written}
		stop := context.AfterFunc(ctx, func() { z.cancel(ErrLost) })
		err := z.move(&z.store.head, next.encode(), clientv3.OpPut(in.keys.group(at.Serial), string(in.sealer.seal(at.Serial, compress(plain)))))
		if err == nil {
			w.found("%s led no longer, and wrote transaction %d", s.name, at.Serial)
		}
		stop()
		z.cancel(ErrLost)
	}
}

// agree waits until all nodes have what etcd has. Without the comparisons that need not come.
func (w *world) agree() {
	w.open.Lock()
	w.closed = true
	w.open.Unlock()
	in := opened(w.t, w.c.as(""))
	patience := time.Minute
	if w.c.Unfenced {
		patience = 2 * time.Second
	}
	for began := time.Now(); time.Since(began) < patience; time.Sleep(20 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		now, err := in.Current(ctx)
		cancel()
		if err == nil && w.log.Position() == now && !slices.ContainsFunc(w.seats, func(s *seat) bool { return s.position() != now }) {
			return
		}
	}
	w.found("the nodes do not come to the same transaction")
}

// check gives everything that is not as it was promised.
func (w *world) check() []string {
	h := ledgertest.History{Begin: w.begin, Log: w.entries, Writes: w.writes, Answers: w.answers}
	violations := w.findings
	for _, s := range w.seats {
		books, err := ledger.Open(ledger.Config{Store: s.store, HeadPath: filepath.Join(s.dir, "head"), Capacity: 10})
		if err != nil {
			violations = append(violations, fmt.Sprintf("%s cannot be opened: %v", s.name, err))
			continue
		}
		defer books.Close()
		h.Nodes = append(h.Nodes, ledgertest.Node{Name: s.name, Books: books})
	}
	if len(h.Nodes) == 0 {
		return violations
	}
	found, err := h.Check()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, v := range found {
		violations = append(violations, v.String())
	}
	return violations
}
