package cluster_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"webring/core"
	"webring/server/ledger"
	"webring/server/ledger/badgerstore"
	"webring/server/ledger/cluster"
	"webring/server/ledger/cluster/etcdtest"
	"webring/server/paid"
	"webring/server/pay/mpp"
	"webring/server/pay/x402"
	"webring/server/sites/score"
)

var (
	bidsTime     = flag.Duration("bids.time", 10*time.Second, "how long BenchmarkBids has payers bid")
	bidsPayers   = flag.Int("bids.payers", 64, "how many bid at a time")
	bidsDelay    = flag.Duration("bids.delay", 2*time.Millisecond, "how long what a member of etcd sends to another takes")
	bidsStandbys = flag.Int("bids.standbys", 1, "nodes that follow")
)

// settled is a payment network on which everything is settled at once.
type settled struct{}

// transfer is the payload of a credential.
type transfer struct {
	ID, Payer string
	Cents     int64
	Filler    string // makes it as long as a signed transaction
}

func (settled) Name() string        { return "settled" }
func (settled) Network() string     { return "settled:1" }
func (settled) Payee() string       { return "the ring" }
func (settled) Life() time.Duration { return paid.ChallengeLife }
func (settled) PaysGas() bool       { return false }
func (settled) Pace() time.Duration { return 0 }

func (settled) TokenDomain() *mpp.TypedDomain                       { return nil }
func (settled) ToSign(mpp.Challenge, [20]byte) (*mpp.ToSign, error) { return nil, nil }
func (settled) Payer(account [20]byte) string                       { return core.Account(account).String() }
func (settled) Unused(context.Context, mpp.Payment) error           { return nil }
func (settled) Request(cents int64) (string, error) {
	return mpp.EncodeJSON(map[string]int64{"cents": cents})
}

func (settled) Exact(string) (offer x402.Offer, ok bool) { return offer, false }

func (settled) Decode(c mpp.Credential) (mpp.Payment, error) {
	var t transfer
	if err := json.Unmarshal(c.Payload, &t); err != nil {
		return mpp.Payment{}, err
	}
	return mpp.Payment{Method: "settled", Cents: t.Cents, Raw: []byte(t.Filler), Reference: "0x" + t.ID, ReplayKey: t.ID, Payer: t.Payer, Payee: "the ring",
		ValidBefore: time.Now().Add(time.Minute)}, nil
}

func (settled) InTime(mpp.Payment, time.Time, time.Time) *mpp.Rejection { return nil }
func (settled) Simulate(context.Context, mpp.Payment) error             { return nil }
func (settled) Holds(context.Context, mpp.Payment, int64) error         { return nil }
func (settled) Clock(context.Context) (time.Time, error)                { return time.Now(), nil }
func (settled) Outcome(context.Context, mpp.Payment, time.Time) (mpp.Outcome, error) {
	return paidAndDeep, nil
}
func (settled) Broadcast(context.Context, mpp.Payment, mpp.Expenses) (mpp.Outcome, error) {
	return paidAndDeep, nil
}
func (settled) Transfers(_ context.Context, since time.Time, _ func(mpp.Transfer) error) (time.Time, error) {
	return since, nil
}
func (settled) Received(context.Context, string, string) (mpp.Transfer, error) {
	return mpp.Transfer{}, mpp.ErrNoTransfer
}

var paidAndDeep = mpp.Outcome{State: mpp.Settled, Deep: true}

// noScore is never asked: bids need none.
type noScore struct{}

func (noScore) Score(context.Context, string, string) (score.Result, error) {
	return score.Result{}, nil
}

// seat is one node of a cluster in this process.
type seat struct {
	*ledger.Follower
	cluster *cluster.Cluster
	store   *badgerstore.Store
	term    atomic.Pointer[cluster.Term]

	mu      sync.Mutex
	commits []time.Duration
}

// take opens a node on a folder.
func take(b *testing.B, dir string, c cluster.Config) *seat {
	b.Helper()
	s := &seat{}
	var err error
	if s.store, err = badgerstore.Open(filepath.Join(dir, "ledger"), slog.New(slog.DiscardHandler)); err != nil {
		b.Fatal(err)
	}
	s.Follower, err = ledger.Follow(ledger.Config{Store: s.store, HeadPath: filepath.Join(dir, "head"), Capacity: 100,
		Room: func() error {
			if t := s.term.Load(); t != nil {
				return t.Room()
			}
			return nil
		},
		Committed: func(took time.Duration, _ error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.commits = append(s.commits, took)
		}})
	if err == nil {
		s.cluster, err = cluster.Open(c)
	}
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// took gives the durations of the commits since it was asked last, in order of their length.
func (s *seat) took() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.commits
	s.commits = nil
	slices.Sort(all)
	return all
}

// ringOf makes a ledger with one member in a folder.
func ringOf(b *testing.B, dir string) {
	b.Helper()
	store, err := badgerstore.Open(filepath.Join(dir, "ledger"), slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	books, err := ledger.Open(ledger.Config{Store: store, HeadPath: filepath.Join(dir, "head"), Capacity: 100})
	if err == nil {
		err = books.Do(b.Context(), func(tx *ledger.Tx) error {
			_, err := tx.Append(&core.Rules{Stamp: tx.Stamp(), Name: "Ring", BaseURL: "https://ring.example", Fee: 100, MinBid: 100, Grace: 1, Decay: 1}, nil)
			if err == nil {
				_, err = tx.Append(&core.Joined{Stamp: tx.Stamp(), Slug: "ada", Kind: core.Agent, Category: "general", Fee: 100},
					&core.Texts{Name: core.Text{Value: "Ada"}, URL: core.Text{Value: "https://ada.dev"}})
			}
			return err
		})
	}
	if err == nil {
		err = books.Close()
	}
	if err == nil {
		err = store.Close()
	}
	if err != nil {
		b.Fatal(err)
	}
}

// BenchmarkBids measures durable bids, each from its challenge to its stored answer, on a
// ledger that is replicated by three members of etcd on this machine. The payment network
// settles at once, and members are slow to each other.
func BenchmarkBids(b *testing.B) {
	etcd := etcdtest.Start(b, etcdtest.Config{Delay: *bidsDelay})
	first := b.TempDir()
	ringOf(b, first)
	key := filepath.Join(b.TempDir(), "key")
	if err := cluster.NewKeyFile(key); err != nil {
		b.Fatal(err)
	}
	config := cluster.Config{Endpoints: etcd.Endpoints(), Ring: "bids", Node: "leader", Advertise: "http://127.0.0.1:1", KeyFile: key}
	folders := []string{first}
	for range *bidsStandbys {
		dir := b.TempDir()
		if err := os.CopyFS(dir, os.DirFS(first)); err != nil {
			b.Fatal(err)
		}
		folders = append(folders, dir)
	}
	leader := take(b, first, config)
	if err := cluster.Init(b.Context(), config, cluster.Start{At: leader.Position()}); err != nil {
		b.Fatal(err)
	}
	term, err := leader.cluster.Stand(b.Context(), leader)
	if err != nil {
		b.Fatal(err)
	}
	leader.term.Store(term)
	books, err := leader.Lead(term.Store(leader.store))
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	var standing sync.WaitGroup
	for i, dir := range folders[1:] {
		c := config
		c.Node = fmt.Sprint("standby-", i)
		s := take(b, dir, c)
		standing.Go(func() {
			if _, err := s.cluster.Stand(ctx, s); err != nil && ctx.Err() == nil {
				b.Errorf("%s: %v", c.Node, err)
			}
			s.Close()
			s.cluster.Close()
			s.store.Close()
		})
	}
	secret := make([]byte, mpp.MinKey)
	rand.Read(secret)
	service, err := paid.New(paid.Config{Ledger: books, Methods: []paid.Method{settled{}}, Scorer: noScore{}, Realm: "ring.example", Keys: mpp.Keys{Current: secret},
		Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}

	// One payer alone, then all of them.
	bid(b, service, 1, 2*time.Second) // what comes first is slower
	leader.took()
	bid(b, service, 1, *bidsTime/2)
	alone := leader.took()
	var memory atomic.Int64
	watch, stopWatching := context.WithCancel(ctx)
	standing.Go(func() {
		for watch.Err() == nil {
			for _, m := range etcd.Members {
				memory.Store(max(memory.Load(), m.Memory()))
			}
			select {
			case <-watch.Done():
			case <-time.After(500 * time.Millisecond):
			}
		}
	})
	began, node, members := time.Now(), ownCPU(b), etcdCPU(etcd)
	took := bid(b, service, *bidsPayers, *bidsTime)
	elapsed, bids := time.Since(began), float64(len(took))
	node, members = ownCPU(b)-node, etcdCPU(etcd)-members
	stopWatching()
	var committing time.Duration
	groups := leader.took()
	for _, d := range groups {
		committing += d
	}
	var database int64
	for _, m := range etcd.Members {
		database = max(database, m.DBSize())
	}
	for name, value := range map[string]float64{
		"bids/s": bids / elapsed.Seconds(), "node-µs-cpu": float64(node.Microseconds()) / bids, "etcd-µs-cpu": float64(members.Microseconds()) / bids,
		"groups/s": float64(len(groups)) / elapsed.Seconds(), "committing-%": 100 * committing.Seconds() / elapsed.Seconds(), "bid-ms": ms(took[len(took)/2]), "bid-p99-ms": ms(took[len(took)*99/100]), "commit-ms": ms(alone[len(alone)/2]),
		"etcd-MiB": float64(memory.Load()) / (1 << 20), "database-MiB": float64(database) / (1 << 20),
	} {
		b.ReportMetric(value, name)
	}
	b.ReportMetric(0, "ns/op")

	if err := service.Close(ctx); err != nil {
		b.Error(err)
	}
	if size := books.Size(); size != uint64(len(took))+2 && !b.Failed() {
		b.Logf("%d events in all", size)
	}
	if err := books.Close(); err != nil {
		b.Error(err)
	}
	cancel()
	standing.Wait()
	if err := term.Resign(b.Context(), ""); err != nil {
		b.Error(err)
	}
	leader.cluster.Close()
	if err := leader.store.Close(); err != nil {
		b.Error(err)
	}
}

// ownCPU is the processor time of this process: of the nodes, the payers and the slow links.
func ownCPU(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func etcdCPU(c *etcdtest.Cluster) (all time.Duration) {
	for _, m := range c.Members {
		all += m.CPU()
	}
	return all
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// bid has so many payers bid for a time, and gives how long each bid took, in order.
func bid(b *testing.B, service *paid.Service, payers int, d time.Duration) []time.Duration {
	b.Helper()
	var mu sync.Mutex
	var all []time.Duration
	var paying sync.WaitGroup
	until := time.Now().Add(d)
	for i := range payers {
		paying.Go(func() {
			payer := fmt.Sprint("payer-", i)
			var took []time.Duration
			for time.Now().Before(until) {
				began := time.Now()
				if err := bidOnce(b.Context(), service, payer); err != nil {
					b.Error(err)
					return
				}
				took = append(took, time.Since(began))
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, took...)
		})
	}
	paying.Wait()
	if len(all) == 0 {
		b.Fatal("there were no bids")
	}
	slices.Sort(all)
	return all
}

var filler = strings.Repeat("0123456789abcdef", 32)

func bidOnce(ctx context.Context, service *paid.Service, payer string) error {
	call := paid.Call{Operation: paid.OpBid, Body: []byte(`{"member":"ada","amount":"1.00"}`), Client: payer, Secure: true}
	offer := service.Handle(ctx, call)
	if offer.Status != 402 {
		return fmt.Errorf("unpaid: %d %s", offer.Status, offer.Body)
	}
	challenge, err := offered(offer)
	if err != nil {
		return err
	}
	id := make([]byte, 32)
	rand.Read(id)
	payload, err := json.Marshal(transfer{hex.EncodeToString(id), payer, 100, filler})
	if err != nil {
		return err
	}
	credential, err := mpp.Credential{Challenge: challenge, Payload: payload}.Header()
	if err != nil {
		return err
	}
	call.Authorization = []string{credential}
	if a := service.Handle(ctx, call); a.Status != 200 {
		return fmt.Errorf("paid: %d %s", a.Status, a.Body)
	}
	return nil
}

// offered reads the challenge of a 402.
func offered(a paid.Answer) (c mpp.Challenge, err error) {
	values := map[string]string{}
	for _, h := range a.Header {
		if h[0] != "WWW-Authenticate" {
			continue
		}
		for _, p := range strings.Split(strings.TrimPrefix(h[1], mpp.Scheme+" "), ", ") {
			name, value, _ := strings.Cut(p, "=")
			values[name] = strings.Trim(value, `"`)
		}
	}
	text, err := json.Marshal(values)
	if err != nil {
		return c, err
	}
	return c, json.Unmarshal(text, &c)
}
