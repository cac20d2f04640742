package ledger

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"webring/edge/durable"
)

const (
	// MaxSkew is how far ahead of the clocks that are believed an event may be stamped.
	MaxSkew = 60 * time.Second
	// agrees is how far ahead of what others tell this machine's clock may be and still be told as
	// it is. Payments live for half a minute, so more would take their time.
	agrees = 5 * time.Second
	// believedAlone is for how long after the last sign of life a start is believed that no
	// other clock will ever confirm: for as long as no standing fades by the usual rules.
	believedAlone = 30 * 24 * time.Hour
	// vouchedFor is for how long after an operator has vouched for a machine's clock a process
	// believes it.
	vouchedFor = time.Hour
)

// A Clock is the clock of this machine, held against the others that are known. A stamp in a
// ledger stays, so one of a clock that is ahead takes all standings ahead with it, and keeps
// time from going on until it is there. So no turn of the writer changes anything while its
// stamp would be more than [MaxSkew] ahead of what is believed, each with the time that has
// passed since by the monotonic clock:
//
//   - what others tell: the newest blocks of payment networks, the checkpoints of another node
//     that leads ([Clock.Told]), and the operator ([Vouch]);
//   - while none of them has been heard to go on, what is kept, too: the last event and the last
//     signature ([Clock.Kept]), unless that is ahead of this machine's clock.
//
// Of several clocks, the one that is ahead counts: a chain that stands still keeps nothing
// from being written while another goes on, or over a restart. While nothing is known, anything
// is believed. [Clock.Kept], [Clock.Told] and [Clock.Check] do nothing with a nil Clock.
type Clock struct {
	wall  func() time.Time
	path  string
	alone bool

	mu         sync.Mutex
	kept, told instant
	teller     string    // where told comes from
	first      time.Time // that was told
	goesOn     bool      // a later one has been told since
	read       time.Time // when the file was read last
}

// instant is a time, without a monotonic reading, and when it was the time by the monotonic
// clock. The zero one is unknown.
type instant struct{ at, since time.Time }

// now is the instant at which it is at.
func now(at time.Time) instant { return instant{at.Round(0), time.Now()} }

// now is the instant with the time that has passed since.
func (i instant) now() time.Time { return i.at.Add(time.Since(i.since)) }

func (i instant) known() bool { return !i.since.IsZero() }

// NewClock gives the clock of a machine; nil stands for [time.Now]. path is the file of
// [Vouch], "" for none. alone says that no payment network and no other node will tell the
// time: then this clock is believed at first for thirty days after what is kept.
func NewClock(wall func() time.Time, path string, alone bool) *Clock {
	if wall == nil {
		wall = time.Now
	}
	return &Clock{wall: wall, path: path, alone: alone}
}

// Vouch writes, into the file at path, that the clock of this machine is right now. Processes
// believe it for an hour.
func Vouch(path string) error {
	return durable.Write(path, []byte(time.Now().UTC().Format(time.RFC3339)+"\n"), 0o644)
}

// Kept says which instant has been for certain: the latest of the last event and the last
// signature.
func (c *Clock) Kept(at time.Time) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if ahead := c.reading().Sub(at); c.alone && ahead > 0 && ahead <= believedAlone {
		at = at.Add(ahead)
	}
	c.kept = now(at)
}

// Told says that another clock is at an instant now.
func (c *Clock) Told(teller string, at time.Time) {
	if c == nil || at.IsZero() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hear(teller, at)
}

// hear is Told for a caller that holds mu.
func (c *Clock) hear(teller string, at time.Time) {
	// What was ahead of this machine's clock, and is taken back by a lower time from the same
	// teller, counts no more. A teller that lags for once takes nothing back.
	back := teller == c.teller && c.told.at.Sub(at) > MaxSkew && c.told.now().Sub(c.reading()) > MaxSkew
	if !c.told.known() || back {
		c.first = at
	}
	c.goesOn = c.goesOn || at.After(c.first)
	if !c.told.known() || back || at.After(c.told.now()) {
		c.told, c.teller = now(at), teller
	}
}

// Now is the time of this machine or, if that is too far ahead to be believed, the one that is. If
// it is ahead of what others tell, and not by that much, it counts no further than they agree. While none of
// them has been heard to go on, what was kept a moment ago says that they stand still, and not that it is ahead.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	wall := c.wall()
	believed, some := c.believed(wall.Round(0))
	switch ahead, told := wall.Round(0).Sub(believed), c.told.now(); {
	case some && ahead > MaxSkew:
		return believed
	case c.told.known() && ahead > agrees && wall.Round(0).Sub(told) <= MaxSkew:
		return told.Add(agrees)
	}
	return wall
}

// reading is the time of this machine, without the monotonic one: that does not go ahead with
// it.
func (c *Clock) reading() time.Time { return c.wall().Round(0) }

// believed is what the others say, false if they say nothing. The caller holds mu.
func (c *Clock) believed(wall time.Time) (at time.Time, some bool) {
	if at, some = c.others(wall); some && wall.Sub(at) > agrees && c.vouched(wall) {
		c.hear("the operator", wall)
		return c.others(wall)
	}
	return at, some
}

func (c *Clock) others(wall time.Time) (at time.Time, some bool) {
	kept := c.kept.now()
	switch {
	case !c.told.known():
		return kept, c.kept.known()
	case !c.goesOn && c.kept.known() && kept.Sub(wall) <= MaxSkew && kept.After(c.told.now()):
		return kept, true
	}
	return c.told.now(), true
}

// vouched says whether the operator vouches for a reading of this machine's clock. It looks
// once a second at the most.
func (c *Clock) vouched(wall time.Time) bool {
	if c.path == "" || time.Since(c.read) < time.Second {
		return false
	}
	c.read = time.Now()
	text, err := os.ReadFile(c.path)
	if err != nil {
		return false
	}
	at, err := time.Parse(time.RFC3339, strings.TrimSpace(string(text)))
	return err == nil && wall.Sub(at) > -MaxSkew && wall.Sub(at) < vouchedFor
}

// Check says why nothing may be stamped now, if last, in milliseconds, is the last stamp of the
// ledger: an error that wraps [ErrClock]; nil if it may.
func (c *Clock) Check(last int64) error {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	wall := c.reading()
	believed, some := c.believed(wall)
	if !some {
		return nil
	}
	ahead, teller := wall.Sub(believed), c.teller
	if !c.told.known() && wall.Before(believed) {
		believed, teller = wall, "this machine's clock" // the ledger does not vouch for itself
	}
	early := time.UnixMilli(last).Sub(believed)
	switch {
	case ahead > MaxSkew && c.told.known():
		return fmt.Errorf("%w: this machine's clock is %s ahead of %s: set the clock, or run webring clock trust if it is right", ErrClock, ahead.Round(time.Second), teller)
	case ahead > MaxSkew:
		return fmt.Errorf("%w: nothing confirms this machine's clock, which is %s after the last that the ring has signed or written: set the clock, or run webring clock trust if it is right", ErrClock, ahead.Round(time.Second))
	case early > MaxSkew:
		return fmt.Errorf("%w: the last event is stamped %s later than it is now by %s, since a clock was ahead: run webring clock back if that is right", ErrClock, early.Round(time.Second), teller)
	}
	return nil
}

var (
	// ErrNotNow is wrapped by what a [Tx] answers to every change while none may be made.
	// Nothing has happened, and reading goes on.
	ErrNotNow = errors.New("ledger: nothing is written now")
	// ErrNoRoom is an ErrNotNow: [Config.Room] says that there is none.
	ErrNoRoom = fmt.Errorf("%w: there is no room to write", ErrNotNow)
	// ErrClock is an ErrNotNow: [Config.Clock] does not believe the stamp.
	ErrClock = fmt.Errorf("%w: the clock is not believed", ErrNotNow)
)
