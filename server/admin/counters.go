package admin

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"webring/server/paid"
	"webring/server/sites/score"
	"webring/server/sites/visits"
)

// Counters count what an origin does and what nothing else remembers. Its functions may be
// called concurrently.
type Counters struct {
	payments     *prometheus.CounterVec
	paymentTook  *prometheus.HistogramVec
	asks, groups *prometheus.CounterVec
	visits       *prometheus.CounterVec
	groupTook    prometheus.Histogram
}

// NewCounters prepares the counters of an origin. One that has counted nothing is 0, and not
// missing.
func NewCounters() *Counters {
	opts := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Name: "webring_" + name, Help: help}
	}
	c := &Counters{
		payments: prometheus.NewCounterVec(opts("payments_total", "Payment credentials by what came of them; one that is pending counts again with its outcome."), []string{"operation", "method", "outcome"}),
		paymentTook: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "webring_payment_duration_seconds", Help: "Time from a payment's credential to its stored outcome.",
			Buckets: []float64{0.5, 1, 2.5, 5, 10, 30, 60, 120, 300}}, []string{"operation"}),
		asks:   prometheus.NewCounterVec(opts("scorer_asks_total", "Questions for the score of a site, by outcome."), []string{"outcome"}),
		visits: prometheus.NewCounterVec(opts("visits_total", "Visits to members, by what they found."), []string{"outcome"}),
		groups: prometheus.NewCounterVec(opts("ledger_commits_total", "Groups of changes that were written to the ledger, by outcome."), []string{"outcome"}),
		groupTook: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "webring_ledger_commit_duration_seconds", Help: "Time to make a group of changes durable.",
			Buckets: []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5}}),
	}
	c.Methods(paid.OtherMethod)
	for _, outcome := range asked {
		c.asks.WithLabelValues(outcome)
	}
	for _, outcome := range visits.Outcomes() {
		c.visits.WithLabelValues(string(outcome))
	}
	for _, outcome := range []string{stored, failed} {
		c.groups.WithLabelValues(outcome)
	}
	return c
}

// Methods names payment methods that the origin has.
func (c *Counters) Methods(names ...string) {
	for _, operation := range []string{paid.OpRegister, paid.OpBid} {
		c.paymentTook.WithLabelValues(operation)
		for _, method := range names {
			for _, o := range paid.Outcomes() {
				c.payments.WithLabelValues(operation, method, string(o))
			}
		}
	}
}

// All are the metrics in which these counters are collected.
func (c *Counters) All() []prometheus.Collector {
	return []prometheus.Collector{c.payments, c.paymentTook, c.asks, c.visits, c.groups, c.groupTook}
}

// Ended counts a payment; it is [paid.Config.Ended].
func (c *Counters) Ended(e paid.Ended) {
	c.payments.WithLabelValues(e.Operation, e.Method, string(e.Outcome)).Inc()
	switch e.Outcome {
	case paid.OutcomeRefused, paid.OutcomePending:
	default:
		c.paymentTook.WithLabelValues(e.Operation).Observe(e.Took.Seconds())
	}
}

// Visited counts a visit to a member; it is [visits.Config.Visited].
func (c *Counters) Visited(o visits.Outcome) { c.visits.WithLabelValues(string(o)).Inc() }

// The outcomes of a group of changes.
const stored, failed = "stored", "failed"

// Committed counts a group of changes; it is [webring/server/ledger.Config.Committed].
func (c *Counters) Committed(took time.Duration, err error) {
	outcome := stored
	if err != nil {
		outcome = failed
	}
	c.groups.WithLabelValues(outcome).Inc()
	c.groupTook.Observe(took.Seconds())
}

// The outcomes of a question for a score.
var asked = []string{"scored", "not_scorable", "bad_target", "pending", "busy", "unavailable", "abandoned"}

// Scorer counts the questions that are put to s.
func (c *Counters) Scorer(s paid.Scorer) paid.Scorer { return countedScorer{s, c} }

type countedScorer struct {
	paid.Scorer
	c *Counters
}

// Score asks, and counts what came of it.
func (s countedScorer) Score(ctx context.Context, client, url string) (score.Result, error) {
	r, err := s.Scorer.Score(ctx, client, url)
	s.c.asks.WithLabelValues(outcomeOf(ctx, err)).Inc()
	return r, err
}

func outcomeOf(ctx context.Context, err error) string {
	down, isDown := errors.AsType[*score.Unavailable](err)
	switch {
	case err == nil:
		return "scored"
	case errors.Is(err, score.ErrBadTarget):
		return "bad_target"
	case errors.As(err, new(*score.NotScorable)):
		return "not_scorable"
	case errors.As(err, new(*score.Pending)):
		return "pending"
	case isDown && down.Busy:
		return "busy"
	case !isDown && ctx.Err() != nil:
		return "abandoned"
	}
	return "unavailable"
}
