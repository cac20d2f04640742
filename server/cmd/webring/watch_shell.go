package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"webring/edge"
	"webring/edge/metrics"
	"webring/server/admin"
)

// shellMetrics collects what a shell has counted, and the traps of the core behind it.
type shellMetrics struct {
	shell *edge.Shell
	traps func() uint64
}

var (
	requestsDesc = prometheus.NewDesc("webring_requests_total", "Answers to requests, by the pattern of the path and the status.", []string{"route", "status"}, nil)
	tookDesc     = prometheus.NewDesc("webring_request_duration_seconds", "Time from a request that was read whole to its answer, without sending it.", []string{"route"}, nil)
	refusalsDesc = prometheus.NewDesc("webring_limiter_refusals_total", "Requests and connections that a limit refused, by what was used up.", []string{"reason"}, nil)
	hitsDesc     = prometheus.NewDesc("webring_cache_hits_total", "Answers that were found in the cache.", nil, nil)
	missesDesc   = prometheus.NewDesc("webring_cache_misses_total", "Answers that were made because the cache did not have them.", nil, nil)
	trapsDesc    = prometheus.NewDesc("webring_core_traps_total", "Instances of the core that trapped and were built anew; 0 for the native core.", nil, nil)
)

// Describe is for [prometheus.Collector].
func (c *shellMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{requestsDesc, tookDesc, refusalsDesc, hitsDesc, missesDesc, trapsDesc} {
		to <- d
	}
}

// Collect is for [prometheus.Collector].
func (c *shellMetrics) Collect(to chan<- prometheus.Metric) {
	m := c.shell.Metrics()
	m.EachStatus(func(route, status string, n uint64) { to <- admin.Counter(requestsDesc, n, route, status) })
	m.EachTaken(func(t metrics.Taken) {
		buckets := make(map[float64]uint64, len(t.Within))
		for i, n := range t.Within {
			buckets[metrics.Bounds[i].Seconds()] = n
		}
		to <- prometheus.MustNewConstHistogram(tookDesc, t.Count, t.Sum.Seconds(), buckets, t.Route)
	})
	m.EachRefusal(func(r metrics.Reason, n uint64) { to <- admin.Counter(refusalsDesc, n, r.String()) })
	hits, misses := m.Cache()
	to <- admin.Counter(hitsDesc, hits)
	to <- admin.Counter(missesDesc, misses)
	to <- admin.Counter(trapsDesc, c.traps())
}

// certificateMetrics collects how long the certificate of the listener is valid.
type certificateMetrics struct{ certificates }

var certificateExpiryDesc = prometheus.NewDesc("webring_certificate_expiry_timestamp_seconds", "When the certificate that the listener shows expires; of several the first, and nothing while one is missing.", nil, nil)

// Describe is for [prometheus.Collector].
func (c certificateMetrics) Describe(to chan<- *prometheus.Desc) { to <- certificateExpiryDesc }

// Collect is for [prometheus.Collector].
func (c certificateMetrics) Collect(to chan<- prometheus.Metric) {
	if at := c.NotAfter(); !at.IsZero() {
		to <- admin.Gauge(certificateExpiryDesc, float64(at.Unix()))
	}
}

// watchCertificates has the certificates of a listener collected from, if it speaks TLS.
func watchCertificates(s *admin.Server, c certificates) {
	if c != nil {
		s.Add(certificateMetrics{c})
	}
}

// trapsOf gives what counts the traps of a core: the native one has none.
func trapsOf(core any) func() uint64 {
	if pool, ok := core.(interface{ Traps() uint64 }); ok {
		return pool.Traps
	}
	return func() uint64 { return 0 }
}
