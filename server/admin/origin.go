package admin

import (
	"math/big"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"webring/server/ledger"
	"webring/server/paid"
)

// Origin is what is collected from a running origin when it is asked for.
type Origin struct {
	Ledger interface{ View(func(*ledger.View)) }
	// Payments gives the service that takes payments, nil while this node takes none.
	Payments func() *paid.Service
	// Attention gives how many payments an operator should look at.
	Attention func() int
	// Free gives the free space of the disk of the ledger, in bytes.
	Free func() (uint64, error)
	// Behind gives how far visits to members are behind their schedule, if this node visits.
	Behind func() (behind time.Duration, here bool)
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("webring_"+name, help, labels, nil)
}

var (
	membersDesc     = desc("members", "Members in the ring.")
	sequenceDesc    = desc("ledger_sequence", "Events in the ledger.")
	openDesc        = desc("reservations_open", "Payments without a known outcome.")
	oldestDesc      = desc("reservation_oldest_age_seconds", "Age of the oldest payment without a known outcome; 0 if there is none.")
	unconfirmedDesc = desc("payments_unconfirmed", "Payments that have their effect and that their network could still undo.")
	attentionDesc   = desc("payments_need_attention", "Payments that are overdue, vanished, diverted or without effect, as webring payments list shows them.")
	gasDesc         = desc("gas_wasted_last_hour", "Wei wasted on gas within an hour, on payments that failed at the ring's expense.")
	headAgeDesc     = desc("chain_head_age_seconds", "Age of the newest block that the node has told of.", "network")
	chainUpDesc     = desc("chain_up", "1 while the node answers, payments can be taken and the chain makes blocks, and 0 otherwise.", "network")
	asleepDesc      = desc("members_asleep", "Members with a site that does not answer; traversal skips them.")
	behindDesc      = desc("visits_behind_seconds", "How far the visits to members are behind their schedule.")
	freeDesc        = desc("disk_free_bytes", "Free space on the disk of the ledger.")
)

// Describe is for [prometheus.Collector].
func (o *Origin) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{membersDesc, sequenceDesc, openDesc, oldestDesc, unconfirmedDesc, attentionDesc, gasDesc, headAgeDesc, chainUpDesc, asleepDesc, behindDesc, freeDesc} {
		to <- d
	}
}

// Collect is for [prometheus.Collector].
func (o *Origin) Collect(to chan<- prometheus.Metric) {
	now := time.Now()
	o.Ledger.View(func(v *ledger.View) {
		to <- Gauge(membersDesc, float64(v.State().Len()))
		to <- Gauge(asleepDesc, float64(v.State().Sleeping()))
		to <- Gauge(sequenceDesc, float64(v.State().Seq()))
		to <- Gauge(openDesc, float64(v.OpenPayments()))
		to <- Gauge(unconfirmedDesc, float64(v.UnconfirmedPayments()))
		age := time.Duration(0)
		if since, some := v.OpenSince(); some {
			age = max(now.Sub(since), 0)
		}
		to <- Gauge(oldestDesc, age.Seconds())
	})
	if p := o.Payments(); p != nil {
		to <- Gauge(attentionDesc, float64(o.Attention()))
		g := p.GasWasted()
		wasted, _ := new(big.Int).Add(g.New, g.Paid).Float64()
		to <- Gauge(gasDesc, wasted)
		for _, n := range p.Networks() {
			to <- YesNo(chainUpDesc, n.Down() == nil, n.Network)
			if !n.Block.IsZero() {
				to <- Gauge(headAgeDesc, now.Sub(n.Block).Seconds(), n.Network)
			}
		}
	}
	if behind, here := o.Behind(); here {
		to <- Gauge(behindDesc, behind.Seconds())
	}
	if free, err := o.Free(); err == nil {
		to <- Gauge(freeDesc, float64(free))
	}
}

// Gauge makes a sample of a metric that goes up and down.
func Gauge(d *prometheus.Desc, v float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

// YesNo makes a sample that is 1 for yes and 0 for no.
func YesNo(d *prometheus.Desc, yes bool, labels ...string) prometheus.Metric {
	if yes {
		return Gauge(d, 1, labels...)
	}
	return Gauge(d, 0, labels...)
}

// Counter makes a sample of a metric that only grows.
func Counter(d *prometheus.Desc, v uint64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
}
