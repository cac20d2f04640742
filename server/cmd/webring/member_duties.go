package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/edge"
	"webring/edge/forward"
	"webring/server"
	"webring/server/ledger"
	"webring/server/ledger/etcdstore"
	"webring/server/publish"
)

// clusterNode is what a node of a cluster has beside an origin that is the only one. It
// carries out the [duties] of a member.
type clusterNode struct {
	*originNode
	cluster   coordinator
	store     ledger.Store // the node's own
	forwarder *forward.Forwarder
	vouch     func(*http.Request)
	status    func() *server.ClusterStatus
	leave     func(ctx context.Context) error // of the member

	follower atomic.Pointer[ledger.Follower] // it goes on to read while this node leads

	relay  atomic.Pointer[publish.Relay] // nil while this node leads
	leads  atomic.Pointer[leading]       // nil while it does not
	signed [2][]byte                     // checkpoint and keys that were served last
	next   *ledger.Follower              // that is in memory already: the process has begun with it, or has led; else nil
}

// standby is a node's ledger while it follows, with what passes on the leader's checkpoints.
type standby struct {
	*ledger.Follower
	endRelay func()
}

// end implements [following].
func (s *standby) end() error {
	s.endRelay()
	return s.Follower.Close()
}

// follow implements [duties].
func (c *clusterNode) follow() (following, error) {
	f := c.next
	if c.next = nil; f == nil {
		var err error
		if f, err = c.openFollower(); err != nil {
			return nil, err
		}
	}
	if err := c.catchUp(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	c.follower.Store(f)
	c.books.set(f)
	relay, err := publish.NewRelay(publish.RelayConfig{
		Dir: syncPath(c.o.data), Verifiers: c.verifiers, Books: f, Leader: c.leader, Vouch: c.vouch, Now: c.o.clock, Told: func(at time.Time) { c.o.stamps.Told("the node that leads", at) },
		Checkpoint: c.signed[0], SignedKeys: c.signed[1], Log: c.log,
	})
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	c.published = func([]ledger.Record) { relay.Moved() }
	running, end := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		relay.Run(running)
	}()
	c.relay.Store(relay)
	c.desk.show(c.standbyBackend(relay, f))
	c.moved.tell()
	return &standby{f, func() {
		end()
		<-ended
		c.signed = [2][]byte{relay.Checkpoint(), relay.Keys()}
	}}, nil
}

// openFollower opens the node's ledger as one that follows.
func (c *clusterNode) openFollower() (*ledger.Follower, error) {
	return ledger.Follow(c.o.ledgerConfig(c.store, c.publish, c.disk.atLeast(writeFloor), c.failpoint, c.watch.committed()))
}

// catchUp shows readers what the ledger has and they have not seen: events that were stored
// when the last term ended, and not published.
func (c *clusterNode) catchUp(f *ledger.Follower) error {
	for {
		at, _ := c.answers.Head()
		if at > f.Size() {
			return fmt.Errorf("%w: it has %d events, and readers have seen %d", ledger.ErrDamaged, f.Size(), at)
		}
		records, err := f.Records(at, catchUpEvents)
		if err != nil || len(records) == 0 {
			return err
		}
		if err := c.answers.Apply(records); err != nil {
			return err
		}
	}
}

// catchUpEvents is how many events are read at a time.
const catchUpEvents = 256

func (c *clusterNode) verifiers() ([]string, error) { return verifiersOf(c.o.data) }

// leader gives the URL of the node that leads, "" if there is none or it is this one.
func (c *clusterNode) leader() (url string, changed <-chan struct{}) {
	l, changed := c.cluster.Leader()
	if l.Node == c.o.cluster.node {
		return "", changed
	}
	return l.URL, changed
}

// passOn has paid requests go to whichever node leads, until ctx ends.
func (c *clusterNode) passOn(ctx context.Context) {
	for {
		url, changed := c.leader()
		var to []string
		if url != "" {
			to = append(to, url)
		}
		if err := c.forwarder.SetOrigins(to...); err != nil {
			c.log.Error("the leader cannot be reached by what it says of itself", "url", url, "err", err)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// standbyBackend answers while this node follows: paid requests go to the leader.
// books are nil while the ledger is being opened.
func (c *clusterNode) standbyBackend(source publish.Source, books server.StandbyBooks) *backend {
	control := &server.Standby{Books: books, Keys: func() map[string]string { return keyFiles(c.o) }, Cluster: c.status, Log: c.log}
	b := &backend{paid: map[string]edge.Handler{}, others: map[string]edge.Handler{}, source: source, control: c.clusterControl(control.Handler())}
	for pattern := range paidOperations {
		b.paid[pattern] = c.forwarder.Paid
	}
	for _, pattern := range onlyAtOrigin {
		b.others[pattern] = c.forwarder.Pass
	}
	b.others[reportsPattern] = c.scorer.report()
	return b
}

// ruler is a node that leads.
type ruler struct {
	*leading
	c *clusterNode
}

// lead implements [duties].
func (c *clusterNode) lead(ctx context.Context, f following, t term) (reign, error) {
	s := f.(*standby)
	s.endRelay()
	timed := &timedStore{Replicated: t.Store(c.store)}
	books, err := s.Lead(timed)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	c.books.set(books)
	l, err := c.originNode.lead(ctx, books, &leaderTerm{t, timed})
	if err != nil {
		return nil, errors.Join(err, books.Close())
	}
	c.leads.Store(l)
	c.relay.Store(nil)
	l.operator.Cluster = c.status
	b := l.backend(c.originNode)
	for path, h := range b.paid {
		b.paid[path] = c.within(t, h)
	}
	b.control = c.clusterControl(b.control)
	c.desk.show(b)
	return &ruler{l, c}, nil
}

// clusterControl adds to what answers the operator
//
//	POST /cluster/leave
//
// which makes the ring a single origin again, this one. It can be asked again after any failure.
func (c *clusterNode) clusterControl(rest http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", rest)
	mux.HandleFunc("POST /cluster/leave", func(w http.ResponseWriter, r *http.Request) {
		until, err := c.left(r.Context())
		if errors.Is(err, errNotLeading) {
			rest.ServeHTTP(w, r)
			return
		}
		if err == nil {
			err = c.beAlone(r.Context(), until)
		}
		if err != nil {
			c.log.Error("the ring was not made a single origin", "err", err)
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		c.log.Warn("the ring is a single origin again, this one: start it without --etcd and what belongs to it")
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(c.status()) // a client that is gone cannot be told
	})
	return mux
}

// left ends the ring's time in etcd, unless this node did so before, and gives the time up to which
// checkpoints were signed there.
func (c *clusterNode) left(ctx context.Context) (until int64, err error) {
	err = c.leave(ctx)
	if err != nil {
		s, asked := c.cluster.Status(ctx)
		if asked != nil || !s.Tombstone || s.Single != c.o.cluster.node {
			return 0, err
		}
		f := c.follower.Load()
		if f == nil || f.Position() != s.Head {
			return 0, fmt.Errorf("this folder is not at transaction %d, where the ring has ended in etcd", s.Head.Serial)
		}
		return s.Until, nil
	}
	return c.cluster.Until(), nil
}

// beAlone makes the data folder that of an only origin, which signs for later times than
// the cluster has.
func (c *clusterNode) beAlone(ctx context.Context, signed int64) error {
	until, err := publish.OpenUntil(syncPath(c.o.data))
	if err == nil {
		err = until.MoveUntil(ctx, signed)
	}
	if err != nil {
		return err
	}
	return etcdstore.RemoveMarker(c.o.data)
}

// within answers a paid request in a term only. What the ledger of a node says of a payment
// is true as long as the node leads.
func (c *clusterNode) within(t term, answer edge.Handler) edge.Handler {
	return func(ctx *fasthttp.RequestCtx, client string, secure bool) {
		if !t.Live() {
			c.forwarder.Paid(ctx, client, secure)
			return
		}
		answer(ctx, client, secure)
		status, pays := ctx.Response.StatusCode(), len(ctx.Request.Header.Peek("Authorization")) > 0
		if (status == fasthttp.StatusPaymentRequired || pays && status >= 400) && (!t.Live() || pays && !confirmed(t)) {
			// Another node may have taken the payment meanwhile, and then no refusal is true.
			c.notLeader(ctx)
		}
	}
}

// confirmed asks etcd whether this node still leads, before a payer is refused.
func confirmed(t term) bool {
	ctx, cancel := context.WithTimeout(context.Background(), confirmTime)
	defer cancel()
	return t.Confirm(ctx)
}

// confirmTime bounds how long a refusal waits for etcd.
const confirmTime = 3 * time.Second

// notLeader answers a paid request that was in work when a term ended, in place of a refusal or
// a challenge.
func (c *clusterNode) notLeader(ctx *fasthttp.RequestCtx) {
	code, detail := api.NotLeader, "Another node of this ring takes payments now. Nothing was charged; send the same request again."
	if len(ctx.Request.Header.Peek("Authorization")) > 0 {
		code, detail = api.PaymentPending, "Another node of this ring takes payments now, and may know what became of this one. Do not pay again: send the same request with the same credential again."
	}
	ctx.Response.Reset()
	ctx.SetStatusCode(code.Status())
	ctx.SetContentType("application/problem+json")
	ctx.Response.Header.Set("Cache-Control", "no-store")
	ctx.Response.Header.Set("Retry-After", "2")
	ctx.SetBody(api.AppendProblem(nil, c.answers.BaseURL(), code, detail, nil))
}

// broken implements [reign].
func (r *ruler) broken() <-chan struct{} { return r.books.Done() }

// end implements [reign]. Requests that are held are told that their payments are pending,
// as after a crash. Reads, and edges that follow this node, go on with what it has until it
// follows another.
func (r *ruler) end() error {
	c := r.c
	c.leads.Store(nil)
	b := c.standbyBackend(r.publisher, nil)
	c.desk.show(b)
	err := r.leading.close(timeUp())
	c.signed = [2][]byte{r.publisher.Checkpoint(), r.publisher.Keys()}
	if err != nil {
		c.log.Warn("publishing has not ended well", "err", err)
	}
	if err := r.books.Close(); err != nil {
		return fmt.Errorf("%w: what is stored here is not known for sure: %w", ledger.ErrBroken, err)
	}
	if c.next, err = r.books.Resume(c.store); err != nil {
		c.log.Warn("the ledger is read anew", "err", err)
	}
	return nil
}

// reach waits until readers see the ledger at a position, for the answers to payments that
// were passed on.
func (c *clusterNode) reach(ctx context.Context, seq uint64) bool {
	for {
		moved := c.moved.next()
		if at, _ := c.answers.Head(); at >= seq {
			return true
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return false
		}
	}
}

// serial is the last transaction that is durable here.
func (c *clusterNode) serial() uint64 {
	if f := c.follower.Load(); f != nil {
		return f.Position().Serial
	}
	return 0
}
