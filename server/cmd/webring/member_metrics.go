package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"webring/server/admin"
	"webring/server/ledger/etcdstore"
)

// clusterWatch asks etcd for the ring from time to time, for the metrics.
type clusterWatch struct {
	cluster coordinator
	seen    atomic.Pointer[etcdstore.Status] // nil while etcd does not answer
}

// askTime is how often etcd is asked, and within what it has to answer.
const askTime = 5 * time.Second

// run asks until ctx ends.
func (w *clusterWatch) run(ctx context.Context) {
	for ctx.Err() == nil {
		within, cancel := context.WithTimeout(ctx, askTime)
		s, err := w.cluster.Status(within)
		cancel()
		if err == nil {
			w.seen.Store(&s)
		} else {
			w.seen.Store(nil)
		}
		pause(ctx, askTime)
	}
}

// clusterMetrics collects what the part of this node in its cluster is, and what it has seen
// of the others.
type clusterMetrics struct {
	*memberRoles
	watch *clusterWatch
}

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
func (c clusterMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{roleDesc, clusterLeadDesc, termsDesc, serialDesc, lagDesc, etcdDesc, headDesc, standbysDesc, tailDesc} {
		to <- d
	}
}

// Collect is for [prometheus.Collector].
func (c clusterMetrics) Collect(to chan<- prometheus.Metric) {
	state, _ := c.member.now()
	for _, r := range allRoles {
		to <- admin.Gauge(roleDesc, oneIf(state.role == r), string(r))
	}
	to <- admin.Counter(termsDesc, state.terms)
	to <- admin.Gauge(serialDesc, float64(c.serial()))
	if relay := c.relay.Load(); relay == nil {
		to <- admin.Gauge(lagDesc, 0)
	} else if age, known := relay.Age(); known {
		to <- admin.Gauge(lagDesc, age.Seconds())
	}
	seen := c.watch.seen.Load()
	to <- admin.Gauge(etcdDesc, oneIf(seen != nil))
	if seen == nil {
		return
	}
	leader, _ := c.cluster.Leader()
	standbys := 0
	for _, n := range seen.Nodes {
		if n.Role == etcdstore.RoleStandby {
			standbys++
		}
		to <- admin.Gauge(clusterLeadDesc, oneIf(n.Name == leader.Node), n.Name)
	}
	to <- admin.Gauge(headDesc, float64(seen.Head.Serial))
	to <- admin.Gauge(standbysDesc, float64(standbys))
	to <- admin.Gauge(tailDesc, float64(seen.TailBytes))
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
