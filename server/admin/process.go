package admin

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Traps counts how often instances of a core trapped, over all cores that a process shows one after
// the other. The native core has none.
type Traps struct {
	mu     sync.Mutex
	before uint64
	now    interface{ Traps() uint64 } // nil for the native core
}

// Show goes on with another core.
func (t *Traps) Show(core any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.now != nil {
		t.before += t.now.Traps()
	}
	t.now, _ = core.(interface{ Traps() uint64 })
}

func (t *Traps) sum() float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.now == nil {
		return float64(t.before)
	}
	return float64(t.before + t.now.Traps())
}

// Metric is the sum.
func (t *Traps) Metric() prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "webring_core_traps_total",
		Help: "Instances of the core that trapped and were rebuilt; 0 for the native core."}, t.sum)
}

// Certificates collects how long the certificates that a listener shows are valid.
type Certificates struct {
	// NotAfter is when the first of them expires, zero while one is missing.
	NotAfter func() time.Time
}

var certificateExpiryDesc = desc("certificate_expiry_timestamp_seconds", "When the certificate that the listener shows expires; of several the first, and nothing while one is missing.")

// Describe is for [prometheus.Collector].
func (c Certificates) Describe(to chan<- *prometheus.Desc) { to <- certificateExpiryDesc }

// Collect is for [prometheus.Collector].
func (c Certificates) Collect(to chan<- prometheus.Metric) {
	if at := c.NotAfter(); !at.IsZero() {
		to <- Gauge(certificateExpiryDesc, float64(at.Unix()))
	}
}
