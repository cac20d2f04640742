package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"webring/server/admin"
	"webring/server/ledger"
	"webring/server/ledger/cluster"
	"webring/server/paid"
	"webring/server/publish"
)

// Watch has this origin collected from, and readiness depend on it.
func (o *Origin) Watch(s *admin.Server) {
	payments := func() *paid.Service {
		if l := o.Leader(); l != nil {
			return l.Payments
		}
		return nil
	}
	attention := func() int {
		if l := o.Leader(); l != nil {
			return int(l.attention.Load())
		}
		return 0
	}
	behind := func() (behind time.Duration, here bool) {
		if v := o.visitor.Load(); v != nil {
			return v.Behind(), true
		}
		return 0, false
	}
	s.Add(&admin.Origin{Ledger: &o.Books, Payments: payments, Attention: attention, Free: o.disk.Space, Behind: behind})
	if o.node != nil {
		s.Add(o.node)
	}
	if o.Witnesses != nil {
		s.Add(WitnessMetrics{o})
	}
	s.StartedWith(o.checks)
}

// countAttention counts the payments that need attention: each minute, and in a ledger of so
// many that this takes long, for a hundredth of the time.
func (l *Leader) countAttention(ctx context.Context) {
	for {
		began := time.Now()
		n, err := l.Operator.Attention()
		if err == nil {
			l.attention.Store(int64(n))
		} else if !errors.Is(err, ledger.ErrClosed) {
			l.log.Warn("payments that need attention cannot be counted", "err", err)
		}
		select {
		case <-time.After(max(time.Minute, 100*time.Since(began))):
		case <-ctx.Done():
			return
		}
	}
}

// checks are what readiness depends on at the moment.
func (o *Origin) checks() (checks []admin.Check) {
	l := o.Leader()
	if o.node != nil {
		checks = append(checks, admin.Check{Name: "role", Ask: o.node.checkRole})
	}
	disk := admin.Check{Name: "disk", Ask: func() (string, error) {
		if err := o.Payments.Ready(); err != nil {
			return "", err
		}
		free, err := o.disk.Space()
		return fmt.Sprintf("%d MiB are free, and %d are needed", free>>20, PayFloor>>20), err
	}}
	if l == nil {
		if o.node != nil && o.node.relay.Load() != nil { // it shows what another node has signed
			checks = append(checks, disk, admin.Check{Name: "age", Ask: o.node.checkAge}, admin.Check{Name: "payments", Advisory: true,
				Ask: func() (string, error) { return "this node could take them", o.node.Fit() }})
		}
		return checks
	}
	checks = append(checks, admin.Check{Name: "ledger", Ask: func() (string, error) { return checkWriter(l.Books) }}, disk,
		admin.Check{Name: "clock", Ask: func() (string, error) { return checkClock(l.Books, l.Payments, o.Ledger.Now()) }})
	checks = append(checks, admin.Check{Name: "log", Ask: func() (string, error) { return "no other history is known", l.publisher.Contradicted() }})
	if o.Witnesses != nil {
		checks = append(checks, admin.Check{Name: "witnesses", Advisory: true, Ask: func() (string, error) { return checkWitnesses(l.publisher.Witnessed()) }})
	}
	for i, n := range l.Payments.Networks() {
		checks = append(checks, admin.Check{Name: "chain:" + n.Network, Ask: func() (string, error) {
			n := l.Payments.Networks()[i]
			return fmt.Sprintf("the newest block is %s old", time.Since(n.Block).Round(time.Second)), n.Down()
		}})
	}
	return checks
}

// checkWitnesses says how far the log is witnessed. It fails while a witness does not cosign.
func checkWitnesses(w publish.Witnessed) (string, error) {
	var failed []error
	for _, one := range w.By {
		if one.Err != nil {
			failed = append(failed, fmt.Errorf("%s did not cosign: %w", one.Name, one.Err))
		}
	}
	told := "nothing is witnessed yet"
	if w.Size > 0 {
		told = fmt.Sprintf("witnessed to %d events, %s ago", w.Size, max(time.Since(w.At), 0).Round(time.Second))
	}
	if len(failed) > 0 {
		return "", fmt.Errorf("%s; %w", told, errors.Join(failed...))
	}
	return told, nil
}

// WitnessMetrics are what is collected about the witnesses of the node that leads.
type WitnessMetrics struct{ *Origin }

var (
	witnessedDesc    = prometheus.NewDesc("webring_witnessed_sequence", "Events that the witnesses have cosigned, as the file of --witness-policy asks.", nil, nil)
	witnessedAgeDesc = prometheus.NewDesc("webring_witnessed_age_seconds", "Time since the newest of these cosignatures.", nil, nil)
	witnessUpDesc    = prometheus.NewDesc("webring_witness_up", "1 while a witness answers with cosignatures, and 0 otherwise.", []string{"witness"}, nil)
)

// Describe is for [prometheus.Collector].
func (w WitnessMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{witnessedDesc, witnessedAgeDesc, witnessUpDesc} {
		to <- d
	}
}

// Collect is for [prometheus.Collector].
func (w WitnessMetrics) Collect(to chan<- prometheus.Metric) {
	l := w.Leader()
	if l == nil {
		return
	}
	witnessed := l.publisher.Witnessed()
	to <- admin.Gauge(witnessedDesc, float64(witnessed.Size))
	if witnessed.Size > 0 {
		to <- admin.Gauge(witnessedAgeDesc, max(time.Since(witnessed.At), 0).Seconds())
	}
	for _, one := range witnessed.By {
		to <- admin.YesNo(witnessUpDesc, one.Err == nil, one.Name)
	}
}

// checkWriter says whether the ledger's writer takes more.
func checkWriter(books *ledger.Ledger) (string, error) {
	if err := cmp.Or(books.Stuck(), books.Err()); err != nil {
		return "", err
	}
	var events uint64
	books.View(func(v *ledger.View) { events = v.State().Seq() })
	return fmt.Sprintf("%d events; the writer answers", events), nil
}

// checkClock compares this machine's clock with the ledger and with the chains that make
// blocks.
func checkClock(books *ledger.Ledger, payments *paid.Service, now time.Time) (string, error) {
	if err := books.CheckClock(); err != nil {
		return "", err
	}
	var last int64
	books.View(func(v *ledger.View) { last = v.State().LastStamp() })
	if early := time.UnixMilli(last).Sub(now); early > ledger.MaxSkew {
		return "", fmt.Errorf("the clock is %s before the last event: set it", early.Round(time.Second))
	}
	told := ""
	for _, n := range payments.Networks() {
		skewed := errors.Is(n.Err, paid.ErrSkew)
		if n.Block.IsZero() || n.Still > 0 || n.Err != nil && !skewed {
			continue // it does not tell the time
		}
		told = fmt.Sprintf("%s away from the newest block of %s", n.Asked.Sub(n.Block).Abs().Round(time.Second), n.Network)
		if skewed {
			return "", fmt.Errorf("the clock is %s: set it, unless that chain stands still", told)
		}
	}
	if told == "" {
		told = "after the last event; no chain tells the time"
	}
	return told, nil
}

// checkRole says what this node does. It is ready while it takes payments or can pass them on.
func (n *Node) checkRole() (string, error) {
	s := n.Status()
	told := fmt.Sprintf("%s is the %s", s.Node, s.Role)
	switch {
	case s.Role == string(cluster.RoleRefused):
		return "", fmt.Errorf("%s is refused: %s", s.Node, s.Reason)
	case s.Role == string(cluster.RoleLeader):
		return fmt.Sprintf("%s leads since %s, term %d, transaction %d", s.Node, s.Since.Format(time.RFC3339), s.Epoch, s.Serial), nil
	case s.Leader == "" || s.Leader == s.Node:
		err := fmt.Errorf("%s, and no node leads: payments are not taken", told)
		if why := n.cluster.Trouble(); why != nil {
			err = fmt.Errorf("%w: %w", err, why)
		}
		return "", err
	}
	return fmt.Sprintf("%s of %s at %s, transaction %d", told, s.Leader, s.LeaderURL, s.Serial), nil
}

// checkAge says how old it is what this node shows of what another one has signed.
func (n *Node) checkAge() (string, error) {
	relay := n.relay.Load()
	if relay == nil {
		return "this node leads", nil
	}
	if err := relay.Trouble(); err != nil {
		return "", err
	}
	age, known := relay.Age()
	if !known {
		return "", errors.New("nothing that the leader has signed has come yet")
	}
	if relay.Stale() {
		return "", fmt.Errorf("what the leader has signed last is %s old; answers are marked stale", age.Round(time.Second))
	}
	return fmt.Sprintf("what is shown is as of %s ago", age.Round(time.Second)), nil
}

// askTime bounds how long a collection waits for etcd.
const askTime = 2 * time.Second

var (
	roleDesc        = prometheus.NewDesc("webring_cluster_role", "1 for the role that this node has: leader, standby or refused, and 0 for the others.", []string{"role"}, nil)
	clusterLeadDesc = prometheus.NewDesc("webring_cluster_leader", "1 for the node that leads as far as this node knows, and 0 for the others.", []string{"node"}, nil)
	termsDesc       = prometheus.NewDesc("webring_cluster_terms_total", "Terms in which this node has led since the process began.", nil, nil)
	serialDesc      = prometheus.NewDesc("webring_cluster_serial", "The last transaction of the ledger that is durable here.", nil, nil)
	lagDesc         = prometheus.NewDesc("webring_cluster_lag_seconds", "Age of what the leader has signed last and this node shows; 0 at the leader.", nil, nil)
	etcdDesc        = prometheus.NewDesc("webring_cluster_etcd_up", "1 while etcd answers this node, and 0 otherwise.", nil, nil)
	headDesc        = prometheus.NewDesc("webring_cluster_head", "The last transaction that etcd has committed.", nil, nil)
	standbysDesc    = prometheus.NewDesc("webring_cluster_standbys", "Nodes that could take over.", nil, nil)
	tailDesc        = prometheus.NewDesc("webring_cluster_tail_bytes", "Bytes of transactions in etcd that not all nodes have.", nil, nil)
)

// Describe is for [prometheus.Collector].
func (n *Node) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{roleDesc, clusterLeadDesc, termsDesc, serialDesc, lagDesc, etcdDesc, headDesc, standbysDesc, tailDesc} {
		to <- d
	}
}

// Collect is for [prometheus.Collector]. It asks etcd for the ring.
func (n *Node) Collect(to chan<- prometheus.Metric) {
	state, _ := n.part.State()
	for _, r := range []cluster.Role{cluster.RoleLeader, cluster.RoleStandby, cluster.RoleRefused} {
		to <- admin.YesNo(roleDesc, state.Role == r, string(r))
	}
	to <- admin.Counter(termsDesc, state.Terms)
	to <- admin.Gauge(serialDesc, float64(n.Status().Serial))
	if relay := n.relay.Load(); relay == nil {
		to <- admin.Gauge(lagDesc, 0)
	} else if age, known := relay.Age(); known {
		to <- admin.Gauge(lagDesc, age.Seconds())
	}
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	seen, err := n.cluster.Status(ctx)
	to <- admin.YesNo(etcdDesc, err == nil)
	if err != nil {
		return
	}
	leader, _ := n.cluster.Leader()
	standbys := 0
	for _, node := range seen.Nodes {
		if node.Role == cluster.RoleStandby {
			standbys++
		}
		to <- admin.YesNo(clusterLeadDesc, node.Name == leader.Node, node.Name)
	}
	to <- admin.Gauge(headDesc, float64(seen.Head.Serial))
	to <- admin.Gauge(standbysDesc, float64(standbys))
	to <- admin.Gauge(tailDesc, float64(seen.TailBytes))
}

// The ledger maps its files into memory, so a full disk can end the process instead of
// failing a write. The disk is measured once a second, and the store has allocated room for
// what it writes in that time. The floors are for everything else. Reading needs no room.
const (
	// PayFloor is the free space in bytes below which no payment is taken.
	PayFloor = 256 << 20
	// StartFloor is the free space in bytes that opening a ledger needs, and that making
	// one goes on needing: the store writes into mapped files, where a process that finds
	// no room is ended by the system.
	StartFloor = 128 << 20
	// WriteFloor is the free space in bytes below which nothing is written to the
	// ledger: payments that were taken before stay open until there is room. Half
	// of it may yet be used by tables that the store makes of what it holds.
	WriteFloor = 64 << 20
)

// Volume is the disk of a folder, measured at most once a second. It may be used
// concurrently.
type Volume struct {
	Dir string

	mu       sync.Mutex
	measured time.Time
	free     uint64
	err      error
}

// AtLeast gives a function that says whether floor bytes are free.
func (v *Volume) AtLeast(floor uint64) func() error {
	return func() error {
		free, err := v.Space()
		if err == nil && free < floor {
			err = fmt.Errorf("the disk of %s has %d MiB free, and needs %d MiB: make room", v.Dir, free>>20, floor>>20)
		}
		return err
	}
}

// Space gives the free space in bytes.
func (v *Volume) Space() (uint64, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if now := time.Now(); now.Sub(v.measured) >= time.Second {
		v.measured = now
		v.free, v.err = free(v.Dir)
	}
	return v.free, v.err
}

func free(dir string) (uint64, error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return 0, fmt.Errorf("free space of %s: %w", dir, err)
	}
	return fs.Bavail * uint64(fs.Bsize), nil
}
