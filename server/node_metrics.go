package server

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"webring/server/admin"
	"webring/server/ledger/cluster"
)

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
