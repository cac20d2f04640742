package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"webring/server/admin"
)

// trapsMetric collects how often instances of a core trapped.
func trapsMetric(traps func() uint64) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "webring_core_traps_total",
		Help: "Instances of the core that trapped and were rebuilt; 0 for the native core."}, func() float64 { return float64(traps()) })
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
