package main

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"webring/edge"
	"webring/edge/follow"
	"webring/edge/forward"
	"webring/server/admin"
)

// watchEdge opens the second listener of an edge that has nothing to show yet.
func (o *edgeOptions) watchEdge(passed passedSockets, log *slog.Logger) (*admin.Server, error) {
	s, err := o.shell.watch(passed, log)
	s.Starting("the replica has nothing to show yet: it asks " + strings.Join(o.origins, " and "))
	return s, err
}

// edgeStarted has an edge collected from, and readiness depend on it.
func (o *edgeOptions) edgeStarted(s *admin.Server, r *follow.Replica, forwarder *forward.Forwarder, shell *edge.Shell, traps *traps, out io.Writer) {
	if s == nil {
		return
	}
	s.Add(shell.Metrics(), trapsMetric(traps.sum), upstreamMetrics{r, forwarder})
	s.Started(edgeChecks(r, forwarder, o.readyAge)...)
	announceWatch(s, out)
}

// edgeChecks are what an edge's readiness depends on. A silent origin, and an edge that has
// to be upgraded, are told of and are no reason by themselves to send requests elsewhere:
// they concern all edges alike, what these have stays right, and its age counts.
func edgeChecks(r *follow.Replica, forwarder *forward.Forwarder, most time.Duration) []admin.Check {
	age := func() time.Duration {
		d, _ := r.Age() // it is known: there is something to show
		return d.Round(time.Second)
	}
	return []admin.Check{
		{Name: "replica", Ask: func() (string, error) { return fmt.Sprintf("it shows %d events", r.Position()), nil }},
		{Name: "age", Ask: func() (string, error) {
			if d := age(); most > 0 && d > most {
				return "", fmt.Errorf("what is shown is as of %s ago, and --ready-age allows %s", d, most)
			}
			return fmt.Sprintf("what is shown is as of %s ago", age()), nil
		}},
		{Name: "reach", Advisory: true, Ask: func() (string, error) { return "it comes to what the origin signs", r.Unreached() }},
		{Name: "origin", Advisory: true, Ask: func() (string, error) {
			if d := age(); d > follow.StaleAfter {
				return "", fmt.Errorf("no new checkpoint for %s; answers are marked stale", d)
			}
			all, followed := r.Followed()
			if followed == "" {
				followed = "the folder; none has come since the start"
			}
			return fmt.Sprintf("its checkpoints come from %s; of %d that are named", followed, len(all)), nil
		}},
		{Name: "payments", Advisory: true, Ask: func() (string, error) {
			origins, refused := forwarder.Asked()
			if refused != nil {
				return "", fmt.Errorf("no origin took the last request that was passed on: %w", refused)
			}
			return "passed on to " + origins[0], nil
		}},
	}
}

// replicaMetrics collects what an edge's replica says of itself.
type replicaMetrics struct{ r *follow.Replica }

var (
	replicaSequenceDesc    = prometheus.NewDesc("webring_replica_sequence", "Events that this edge shows.", nil, nil)
	replicaAgeDesc         = prometheus.NewDesc("webring_replica_age_seconds", "Time since the newest checkpoint came, or since it was signed if that is longer.", nil, nil)
	replicaStaleDesc       = prometheus.NewDesc("webring_replica_stale", "1 while answers are marked as stale, and 0 otherwise.", nil, nil)
	replicaUnreachableDesc = prometheus.NewDesc("webring_replica_unreachable", "1 while this edge does not come to what its origin signs and must be upgraded, and 0 otherwise.", nil, nil)
)

// Describe is for [prometheus.Collector].
func (c replicaMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{replicaSequenceDesc, replicaAgeDesc, replicaStaleDesc, replicaUnreachableDesc} {
		to <- d
	}
}

// Collect is for [prometheus.Collector].
func (c replicaMetrics) Collect(to chan<- prometheus.Metric) {
	to <- admin.Gauge(replicaSequenceDesc, float64(c.r.Position()))
	if age, known := c.r.Age(); known {
		to <- admin.Gauge(replicaAgeDesc, age.Seconds())
	}
	to <- admin.Gauge(replicaStaleDesc, yes(c.r.Stale()))
	to <- admin.Gauge(replicaUnreachableDesc, yes(c.r.Unreached() != nil))
}

// upstreamMetrics collects which of its origins an edge asks.
type upstreamMetrics struct {
	r         *follow.Replica
	forwarder *forward.Forwarder
}

var (
	replicaOriginDesc = prometheus.NewDesc("webring_replica_origin", "1 for the origin of the latest checkpoint, and 0 for the others.", []string{"origin"}, nil)
	forwardOriginDesc = prometheus.NewDesc("webring_forward_origin", "1 for the origin that the next request is passed on to, and 0 for others that are named.", []string{"origin"}, nil)
)

// Describe is for [prometheus.Collector].
func (c upstreamMetrics) Describe(to chan<- *prometheus.Desc) {
	to <- replicaOriginDesc
	to <- forwardOriginDesc
}

// Collect is for [prometheus.Collector].
func (c upstreamMetrics) Collect(to chan<- prometheus.Metric) {
	all, followed := c.r.Followed()
	for _, o := range all {
		to <- admin.Gauge(replicaOriginDesc, yes(o == followed), o)
	}
	asked, _ := c.forwarder.Asked()
	for i, o := range asked {
		to <- admin.Gauge(forwardOriginDesc, yes(i == 0), o)
	}
}

// yes is 1 for true, as metrics have it.
func yes(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// traps counts those of all cores that were shown, one after the other.
type traps struct {
	mu     sync.Mutex
	before uint64
	now    func() uint64 // nil before the first
}

// of goes on with another core.
func (t *traps) of(core any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.now != nil {
		t.before += t.now()
	}
	t.now = trapsOf(core)
}

func (t *traps) sum() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.now == nil {
		return t.before
	}
	return t.before + t.now()
}
