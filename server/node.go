package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/edge"
	"webring/edge/forward"
	"webring/edge/voucher"
	"webring/server/ledger"
	"webring/server/ledger/cluster"
	"webring/server/paid"
	"webring/server/pay/x402"
	"webring/server/publish"
)

// Node is an origin as a node of a cluster. It does what the node's role asks for: it is the
// [cluster.RoleHandler] of its participant.
type Node struct {
	*Origin
	cluster   *cluster.Cluster
	part      *cluster.Participant
	forwarder *forward.Forwarder // to the leader
	vouch     func(*http.Request)

	reading  atomic.Pointer[ledger.Follower] // it goes on to read while this node leads
	relay    atomic.Pointer[publish.Relay]   // nil while this node leads
	signed   [2][]byte                       // checkpoint and keys that were served last
	endRelay func()
	watched  atomic.Pointer[paid.Service] // watches the payment networks while this node follows

	running sync.WaitGroup
	end     context.CancelFunc
	over    chan struct{} // closed when the participant has ended
	why     error         // after over
}

// start takes part in the cluster in the background, and waits for an event to answer with.
func (n *Node) start(ctx context.Context) (err error) {
	if n.cluster, err = cluster.Open(*n.Config.Cluster); err != nil {
		return err
	}
	n.part = cluster.NewParticipant(n.cluster, n)
	secrets := n.Edge.EdgeSecrets
	if n.vouch, err = voucher.ForOwn(secrets); err != nil {
		return err
	}
	n.forwarder, err = forward.New(forward.Config{ToLeader: true, Secrets: secrets, Reach: n.reach, TrustedProxies: n.Edge.TrustedProxies, BaseURL: n.Core.BaseURL, Log: n.Log})
	if err != nil {
		return err
	}
	n.passHops = SendHops(n.forwarder)
	running, end := context.WithCancel(context.Background())
	n.end = end
	n.running.Go(func() { n.followLeader(running) })
	n.running.Go(func() {
		defer close(n.over)
		n.why = n.part.Run(running)
	})
	for {
		moved := n.Moved.Wait()
		if at, _ := n.Core.Head(); at > 0 && n.answers.now.Load() != nil {
			return nil
		}
		select {
		case <-moved:
		case <-n.over:
			return n.why
		case <-ctx.Done():
			return nil
		}
	}
}

// close ends the part of this node in the cluster.
func (n *Node) close() error {
	if n.end != nil {
		n.end()
		n.running.Wait()
	}
	if n.forwarder != nil {
		n.forwarder.Close()
	}
	if n.cluster == nil {
		return nil
	}
	return n.cluster.Close()
}

// Fit is [cluster.RoleHandler.Fit]: the disk has room for payments, the clock is believed, a payment
// network answers and agrees about the time, and the writer of a leader goes on.
func (n *Node) Fit() error {
	if err := cmp.Or(n.Payments.Ready(), n.Ledger.Clock.Check(0)); err != nil {
		return err
	}
	if l := n.leader.Load(); l != nil {
		_, err := checkWriter(l.Books)
		return cmp.Or(err, l.Payments.Down())
	}
	if s := n.watched.Load(); s != nil {
		return s.Down()
	}
	return nil
}

// Follow is [cluster.RoleHandler.Follow]. Paid requests go to the leader from then on.
func (n *Node) Follow() (cluster.Follower, error) {
	f := n.follower
	if n.follower = nil; f == nil {
		var err error
		if f, err = ledger.Follow(n.Ledger); err != nil {
			return nil, err
		}
	}
	if err := n.showStored(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	n.reading.Store(f)
	n.Books.set(f)
	relay, err := publish.NewRelay(publish.RelayConfig{
		Dir: SyncPath(n.Data), Verifiers: func() ([]string, error) { return Verifiers(n.Data) }, Books: f, Leader: n.leaderElsewhere, Vouch: n.vouch, Now: n.Ledger.Now,
		Told:       func(at time.Time) { n.Ledger.Clock.Told("the node that leads", at) },
		Checkpoint: n.signed[0], SignedKeys: n.signed[1], Log: n.Log,
	})
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	n.published = func([]ledger.Record) { relay.Moved() }
	running, end := context.WithCancel(context.Background())
	var relaying sync.WaitGroup
	relaying.Go(func() { relay.Run(running) })
	watched := paid.Watch(n.Payments)
	n.watched.Store(watched)
	n.endRelay = func() {
		end()
		relaying.Wait()
		_ = watched.Close(running) // it holds no request
		n.signed = [2][]byte{relay.Checkpoint(), relay.Keys()}
	}
	n.relay.Store(relay)
	n.answers.show(n.standbyBackend(relay, f))
	n.Moved.Send()
	return f, nil
}

// showStored shows readers what the ledger has and they have not seen: events that were stored when
// the last term ended, and not published.
func (n *Node) showStored(f *ledger.Follower) error {
	const page = 256
	for {
		at, _ := n.Core.Head()
		if at > f.Size() {
			return fmt.Errorf("%w: it has %d events, and readers have seen %d", ledger.ErrDamaged, f.Size(), at)
		}
		records, err := f.Records(at, page)
		if err != nil || len(records) == 0 {
			return err
		}
		if err := n.Core.Apply(records); err != nil {
			return err
		}
	}
}

// Lead is [cluster.RoleHandler.Lead]. It replaces the follower by the ledger that a term writes.
func (n *Node) Lead(ctx context.Context, t *cluster.Term) (broken <-chan struct{}, err error) {
	f := n.reading.Load()
	n.endRelay()
	books, err := f.Lead(t.Store(n.store))
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	n.Books.set(books)
	l, err := n.lead(ctx, books, t)
	if err != nil {
		return nil, errors.Join(err, books.Close())
	}
	l.Operator.Cluster = n.Status
	n.leader.Store(l)
	n.relay.Store(nil)
	b := n.leaderBackend(l)
	for pattern, answer := range b.paid {
		b.paid[pattern] = n.within(t, answer)
	}
	b.control = n.control(b.control)
	n.answers.show(b)
	return books.Done(), nil
}

// endLead answers as a standby again. Requests that are held are told that their payments are
// pending, as after a crash. Reads, and edges that follow this node, go on with what it has until it
// follows another.
func (n *Node) endLead(l *Leader) error {
	n.leader.Store(nil)
	n.answers.show(n.standbyBackend(l.publisher, nil))
	now, cancel := context.WithCancel(context.Background())
	cancel() // what is in flight is not waited for
	err := l.close(now)
	n.signed = [2][]byte{l.publisher.Checkpoint(), l.publisher.Keys()}
	if err != nil {
		n.Log.Warn("publishing has not ended well", "err", err)
	}
	if err := l.Books.Close(); err != nil {
		return fmt.Errorf("%w: what is stored here is not known for sure: %w", ledger.ErrBroken, err)
	}
	if n.follower, err = l.Books.Resume(n.store); err != nil {
		n.Log.Warn("the ledger is read anew", "err", err)
	}
	return nil
}

// End is [cluster.RoleHandler.End].
func (n *Node) End() error {
	if l := n.leader.Load(); l != nil {
		return n.endLead(l)
	}
	n.endRelay()
	return n.reading.Load().Close()
}

// leaderElsewhere gives the URL of the node that leads, "" if there is none or it is this one.
func (n *Node) leaderElsewhere() (url string, changed <-chan struct{}) {
	l, changed := n.cluster.Leader()
	if l.Node == n.Config.Cluster.Node {
		return "", changed
	}
	return l.URL, changed
}

// followLeader has paid requests go to whichever node leads, until ctx ends.
func (n *Node) followLeader(ctx context.Context) {
	for ctx.Err() == nil {
		url, changed := n.leaderElsewhere()
		var to []string
		if url != "" {
			to = append(to, url)
		}
		if err := n.forwarder.SetOrigins(to...); err != nil {
			n.Log.Error("the leader cannot be reached at the address that it gives", "url", url, "err", err)
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// standbyBackend answers while this node follows: paid requests go to the leader. books are nil while
// the ledger is being opened.
func (n *Node) standbyBackend(source publish.Source, books StandbyBooks) *backend {
	standby := &Standby{Books: books, Keys: n.KeyFiles, Cluster: n.Status, Log: n.Log}
	b := &backend{paid: map[string]edge.Handler{}, others: map[string]edge.Handler{}, source: source, control: n.control(standby.Handler())}
	for pattern := range PaidOperations {
		b.paid[pattern] = n.forwarder.Paid
	}
	for _, pattern := range OnlyAtOrigin {
		b.others[pattern] = n.forwarder.Pass
	}
	b.others[reportsPattern] = n.showReports()
	return b
}

// control adds to what answers the operator
//
//	POST /cluster/leave
//
// which makes the ring a single origin again, this one. It can be repeated after any failure.
func (n *Node) control(rest http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", rest)
	mux.HandleFunc("POST /cluster/leave", func(w http.ResponseWriter, r *http.Request) {
		signed, err := n.leave(r.Context())
		if errors.Is(err, cluster.ErrNotLeading) {
			rest.ServeHTTP(w, r)
			return
		}
		if err == nil {
			err = n.beAlone(r.Context(), signed)
		}
		if err != nil {
			n.Log.Error("the ring was not made a single origin", "err", err)
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		n.Log.Warn("the ring is a single origin again, this one: start it without --etcd and what belongs to it")
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(n.Status()) // a client that is gone cannot be told
	})
	return mux
}

// leave takes the ring out of etcd, unless this node did so before, and gives the time up to which
// checkpoints were signed there.
func (n *Node) leave(ctx context.Context) (signed int64, err error) {
	if err = n.part.Leave(ctx); err == nil {
		return n.cluster.Until(), nil
	}
	s, asked := n.cluster.Status(ctx)
	if asked != nil || !s.Tombstone || s.Single != n.Config.Cluster.Node {
		return 0, err
	}
	if f := n.reading.Load(); f == nil || f.Position() != s.Head {
		return 0, fmt.Errorf("this folder is not at transaction %d, where the ring has ended in etcd", s.Head.Serial)
	}
	return s.Until, nil
}

// beAlone makes the data folder that of an only origin, which signs for later times than the cluster
// has.
func (n *Node) beAlone(ctx context.Context, signed int64) error {
	until, err := publish.OpenUntil(SyncPath(n.Data))
	if err == nil {
		err = until.MoveUntil(ctx, signed)
	}
	if err != nil {
		return err
	}
	return cluster.RemoveMarker(n.Data)
}

// confirmTime bounds how long a refusal waits for etcd.
const confirmTime = 3 * time.Second

// within answers a paid request in a term only. What the ledger of a node says of a payment is true
// only while the node leads, so etcd is asked before a payer is refused.
func (n *Node) within(t *cluster.Term, answer edge.Handler) edge.Handler {
	return func(ctx *fasthttp.RequestCtx, client string, secure bool) {
		if !t.Live() {
			n.forwarder.Paid(ctx, client, secure)
			return
		}
		answer(ctx, client, secure)
		h, status := &ctx.Request.Header, ctx.Response.StatusCode()
		pays := len(h.Peek("Authorization")) > 0 || len(h.Peek(x402.SignatureField)) > 0
		if status != fasthttp.StatusPaymentRequired && !(pays && status >= 400) {
			return
		}
		sure := t.Live()
		if sure && pays {
			asking, cancel := context.WithTimeout(context.Background(), confirmTime)
			defer cancel()
			sure = t.Confirm(asking)
		}
		if sure {
			return
		}
		// Another node may have taken the payment meanwhile.
		code, detail := api.NotLeader, "Another node of this ring takes payments now. Nothing was charged; send the same request again."
		if pays {
			code, detail = api.PaymentPending, "Another node of this ring takes payments now, and may know what became of this one. Do not pay again: send the same request with the same credential again."
		}
		ctx.Response.Reset()
		setProblem(ctx, n.Core.BaseURL(), code, detail)
		ctx.Response.Header.Set("Cache-Control", "no-store")
		ctx.Response.Header.Set("Retry-After", "2")
	}
}

// reach waits until readers see the ledger at a position. Answers to payments that were passed on
// wait for it.
func (n *Node) reach(ctx context.Context, seq uint64) bool {
	for {
		moved := n.Moved.Wait()
		if at, _ := n.Core.Head(); at >= seq {
			return true
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return false
		}
	}
}

// stale says whether what readers are shown may be behind the ring.
func (n *Node) stale() bool {
	r := n.relay.Load()
	return r != nil && r.Stale()
}

// Status is what an operator is shown of this node.
func (n *Node) Status() *ClusterStatus {
	state, _ := n.part.State()
	leader, _ := n.cluster.Leader()
	s := &ClusterStatus{Node: n.Config.Cluster.Node, Role: string(state.Role), Since: state.Since.UTC(), Leader: leader.Node, LeaderURL: leader.URL, Epoch: state.Epoch}
	if state.Reason != nil {
		s.Reason = state.Reason.Error()
	}
	if f := n.reading.Load(); f != nil {
		s.Serial = f.Position().Serial
	}
	return s
}
