package admin

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"webring/edge/follow"
	"webring/edge/forward"
)

// Edge is what is collected from an edge when it is asked for.
type Edge struct {
	Replica *follow.Replica
	// Forwarder passes requests on; nil until the edge has started.
	Forwarder atomic.Pointer[forward.Forwarder]
}

var (
	replicaSequenceDesc    = desc("replica_sequence", "Events that this edge shows.")
	replicaAgeDesc         = desc("replica_age_seconds", "Time since the newest checkpoint came, or since it was signed if that is longer.")
	replicaStaleDesc       = desc("replica_stale", "1 while answers are marked as stale, and 0 otherwise.")
	replicaUnreachableDesc = desc("replica_unreachable", "1 while this edge does not come to what its origin signs, and 0 otherwise.")
	replicaOriginDesc      = desc("replica_origin", "1 for the origin of the latest checkpoint, and 0 for the others.", "origin")
	forwardOriginDesc      = desc("forward_origin", "1 for the origin that the next request is passed on to, and 0 for others that are named.", "origin")
)

// Describe is for [prometheus.Collector].
func (e *Edge) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{replicaSequenceDesc, replicaAgeDesc, replicaStaleDesc, replicaUnreachableDesc, replicaOriginDesc, forwardOriginDesc} {
		to <- d
	}
}

// Collect is for [prometheus.Collector].
func (e *Edge) Collect(to chan<- prometheus.Metric) {
	to <- Gauge(replicaSequenceDesc, float64(e.Replica.Position()))
	if age, known := e.Replica.Age(); known {
		to <- Gauge(replicaAgeDesc, age.Seconds())
	}
	to <- YesNo(replicaStaleDesc, e.Replica.Stale())
	to <- YesNo(replicaUnreachableDesc, e.Replica.Unreached() != nil)
	f := e.Forwarder.Load()
	if f == nil {
		return
	}
	all, followed := e.Replica.Followed()
	for _, o := range all {
		to <- YesNo(replicaOriginDesc, o == followed, o)
	}
	asked, _ := f.Asked()
	for i, o := range asked {
		to <- YesNo(forwardOriginDesc, i == 0, o)
	}
}

// Checks are what the readiness of an edge that has started depends on. It is not ready when what it
// shows is older than most; 0 allows any age. A silent origin, one that has lost events, and an edge that
// has to be upgraded are told of and are no reason by themselves to send requests elsewhere: they concern all edges
// alike, what these have stays right, and its age counts.
func (e *Edge) Checks(most time.Duration) []Check {
	age := func() time.Duration {
		d, _ := e.Replica.Age() // it is known: there is something to show
		return d.Round(time.Second)
	}
	return []Check{
		{Name: "replica", Ask: func() (string, error) { return fmt.Sprintf("it shows %d events", e.Replica.Position()), nil }},
		{Name: "age", Ask: func() (string, error) {
			d := age()
			if most > 0 && d > most {
				return "", fmt.Errorf("what is shown is as of %s ago, and --ready-age allows %s", d, most)
			}
			return fmt.Sprintf("what is shown is as of %s ago", d), nil
		}},
		{Name: "reach", Advisory: true, Ask: func() (string, error) { return "it comes to what the origin signs", e.Replica.Unreached() }},
		{Name: "origin", Advisory: true, Ask: func() (string, error) {
			if d := age(); d > follow.StaleAfter {
				return "", fmt.Errorf("no new checkpoint for %s; answers are marked stale", d)
			}
			all, followed := e.Replica.Followed()
			if followed == "" {
				followed = "the folder; none has come since the start"
			}
			return fmt.Sprintf("its checkpoints come from %s; of %d that are named", followed, len(all)), nil
		}},
		{Name: "payments", Advisory: true, Ask: func() (string, error) {
			origins, refused := e.Forwarder.Load().Asked()
			if refused != nil {
				return "", fmt.Errorf("no origin took the last request that was passed on: %w", refused)
			}
			return "passed on to " + origins[0], nil
		}},
	}
}
