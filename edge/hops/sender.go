package hops

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"
)

const (
	// interval is how often counts are reported: what a node loses that is killed.
	interval = time.Minute
	// sendTime bounds one attempt to send a report, and lastTime all of them at the end.
	sendTime = 15 * time.Second
	lastTime = 5 * time.Second
)

// ErrRefused is wrapped by an error of [Config.Send] that says that the receiver does not
// want this report, now or later. The report is given up.
var ErrRefused = errors.New("hops: the report was refused")

// Config says what a [Sender] reports, and where to.
type Config struct {
	Counter *Counter
	// Send delivers a report and returns when the receiver has stored it. It may be called
	// again with a report that has been received already.
	Send func(ctx context.Context, report []byte) error
	// Now is the clock by which hops have a day, [time.Now] when nil.
	Now func() time.Time
	// Log receives what operators should see, [slog.Default] when nil.
	Log *slog.Logger
}

// Sender reports counts. While the receiver cannot be reached, they are added up in memory.
type Sender struct {
	cfg    Config
	id     SenderID
	number uint64 // of the last report
	days   map[uint32]*day
	frozen []byte // the last report, until it has been received
	failed bool
}

// day is what has not been reported of one day.
type day struct {
	hops   uint64
	counts map[uint32]Count // by row
}

// NewSender prepares a sender.
func NewSender(cfg Config) *Sender {
	s := &Sender{cfg: cfg, days: map[uint32]*day{}}
	rand.Read(s.id[:]) // never fails
	if s.cfg.Now == nil {
		s.cfg.Now = time.Now
	}
	s.cfg.Log = cmp.Or(s.cfg.Log, slog.Default())
	return s
}

// Run reports once a minute until ctx ends, and then once more.
func (s *Sender) Run(ctx context.Context) {
	each := time.NewTicker(interval)
	defer each.Stop()
	for {
		select {
		case <-each.C:
			s.report(ctx)
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTime)
			defer cancel()
			s.report(last)
			return
		}
	}
}

// report sends all that was counted.
func (s *Sender) report(ctx context.Context) {
	s.take()
	for s.freeze() {
		within, cancel := context.WithTimeout(ctx, sendTime)
		err := s.cfg.Send(within, s.frozen)
		cancel()
		refused := errors.Is(err, ErrRefused)
		if err == nil || refused {
			s.frozen = nil
		}
		if err != nil && (!s.failed || refused) {
			s.cfg.Log.Warn("hops are not received; they are added up here meanwhile", "given up", refused, "err", err)
		}
		if s.failed = err != nil; err != nil {
			return
		}
	}
}

// take adds what was counted to the present day.
func (s *Sender) take() {
	now := uint32(s.cfg.Now().Unix() / (24 * 60 * 60))
	today := s.days[now]
	if today == nil {
		today = &day{counts: map[uint32]Count{}}
		s.days[now] = today
	}
	today.hops += s.cfg.Counter.Take(func(row uint32, from, to uint64) {
		c := today.counts[row]
		today.counts[row] = Count{Row: row, From: c.From + from, To: c.To + to}
	})
	if today.hops == 0 && len(today.counts) == 0 {
		delete(s.days, now)
	}
}

// freeze makes the next report, unless the one before is still to be received, or reports
// that there is nothing.
func (s *Sender) freeze() bool {
	if s.frozen != nil {
		return true
	}
	if len(s.days) == 0 {
		return false
	}
	first := slices.Min(slices.Collect(maps.Keys(s.days)))
	d := s.days[first]
	s.number++
	r := Report{Sender: s.id, Number: s.number, Day: first, Hops: d.hops}
	for _, row := range slices.Sorted(maps.Keys(d.counts)) {
		if len(r.Counts) == MaxCounts {
			break
		}
		r.Counts = append(r.Counts, d.counts[row])
		delete(d.counts, row)
	}
	d.hops = 0
	if len(d.counts) == 0 {
		delete(s.days, first)
	}
	s.frozen = r.Append(nil)
	return true
}
