package visits

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"webring/core"
	"webring/server/ledger"
)

const (
	// failures in a row make a member asleep if the first is that long ago. Visits are a day
	// apart, so it is the third day.
	failures    = 3
	failingTime = 47 * time.Hour
	// misses is how many visits in a row have to find that what has verified a member is gone.
	misses = 3

	nextKey      = "at"
	memberPrefix = "m"

	// recorded is how many visits are recorded in one turn, which holds the rows of so many.
	recorded = 100
	// writeRetry is the wait after a turn that has failed.
	writeRetry = time.Minute
)

// note is the row of a member.
type note struct {
	failed int
	since  int64 // second of the first failure
	missed int
	about  uint64 // checksum of what was visited
}

// aboutOf is a checksum of what is visited: what was found at another URL, or of another kind,
// says nothing.
func aboutOf(m target) uint64 {
	sum := fnv.New32a()
	fmt.Fprint(sum, m.Kind, " ", m.URL)
	return uint64(sum.Sum32())
}

func readNote(view *ledger.View, slug string) (n note, err error) {
	value, err := view.Value(ledger.Visits, memberPrefix+slug)
	var fields [4]uint64
	for i := range fields {
		x, size := binary.Uvarint(value)
		if size <= 0 {
			return n, err // as without a row: it only counts
		}
		fields[i], value = x, value[size:]
	}
	return note{int(fields[0]), int64(fields[1]), int(fields[2]), fields[3]}, err
}

func (n note) encode() []byte {
	if n.failed == 0 && n.missed == 0 {
		return nil
	}
	var value []byte
	for _, x := range [...]uint64{uint64(n.failed), uint64(n.since), uint64(n.missed), n.about} {
		value = binary.AppendUvarint(value, x)
	}
	return value
}

// nextMinute reads which minute is next, 0 if none was written.
func nextMinute(view *ledger.View) (int64, error) {
	value, err := view.Value(ledger.Visits, nextKey)
	if err != nil || value == nil {
		return 0, err
	}
	at, n := binary.Uvarint(value)
	if n <= 0 {
		return 0, fmt.Errorf("visits: the row of the next minute is malformed")
	}
	return int64(at), nil
}

// record writes what visits have found, and that next is the next minute unless it is
// [nothingDue]. asked says that an owner has asked for them. It tries until it has succeeded,
// and is not ok when ctx or the ledger ends before.
func (v *Visitor) record(ctx context.Context, all []sight, next int64, asked bool) (ok bool) {
	for {
		n := min(len(all), recorded)
		err := v.cfg.Ledger.Do(ctx, func(tx *ledger.Tx) error {
			// What may fail comes before the first event.
			if n == len(all) && next != nothingDue {
				if err := tx.Put(ledger.Visits, nextKey, binary.AppendUvarint(nil, uint64(next))); err != nil {
					return err
				}
			}
			var events []core.Event
			for _, s := range all[:n] {
				changes, err := judgeVisit(tx, &s, asked)
				if err != nil {
					return err
				}
				events = append(events, changes...)
			}
			for i, e := range events {
				if _, err := tx.Append(e, nil); err != nil {
					if i == 0 {
						return err
					}
					// The ledger ends at an error now. The member changes by a later visit.
					v.log.Error("visits: a change is left to the next visit", "member", core.MemberOf(e), "err", err)
				}
			}
			return nil
		})
		switch {
		case err == nil:
			if all = all[n:]; len(all) == 0 {
				return true
			}
		case ctx.Err() != nil, errors.Is(err, ledger.ErrClosed), errors.Is(err, ledger.ErrBroken):
			return false
		default:
			v.log.Error("visits: what was found cannot be stored yet", "err", err)
			if !v.wait(ctx, writeRetry) {
				return false
			}
		}
	}
}

// judgeVisit writes the row of a member after a visit, and gives the events by which its
// state changes. A member that is not there any more, or was moved or is of another kind since,
// stays as it is.
func judgeVisit(tx *ledger.Tx, s *sight, asked bool) (events []core.Event, err error) {
	st := tx.State()
	o, known := st.BySlug([]byte(s.slug))
	if !known || s.outcome == PutOff {
		return nil, nil
	}
	m, there := targetOf(st, o)
	n, err := readNote(tx.View(), s.slug)
	if err != nil {
		return nil, err
	}
	before := n.encode()
	switch {
	case !there:
		n, s.fed, s.feed = note{}, true, ""
		s.icon = &iconRow{}
	case m.URL != s.URL || m.Kind != s.Kind:
		return nil, nil
	default:
		if about := aboutOf(m); n.about != about {
			n = note{about: about}
		}
		events = n.judge(m, s, tx.Stamp(), asked)
	}
	if s.fed {
		if err := keepFeed(tx, s.target, s.feed); err != nil {
			return nil, err
		}
	}
	if s.icon != nil {
		if err := keep(tx, iconPrefix+s.slug, s.icon.encode()); err != nil {
			return nil, err
		}
	}
	now := n.encode()
	if bytes.Equal(now, before) {
		return events, nil
	}
	return events, tx.Put(ledger.Visits, memberPrefix+s.slug, now)
}

// judge counts a visit, and gives the events by which the state of its member changes.
func (n *note) judge(m target, s *sight, stamp int64, asked bool) (events []core.Event) {
	switch {
	case s.alive():
		n.failed, n.since = 0, 0
		if m.Asleep {
			events = append(events, &core.Awake{Stamp: stamp, Member: m.slug})
		}
	case !asked && !m.Asleep:
		if n.failed++; n.failed == 1 {
			n.since = s.at.Unix()
		}
		if n.failed >= failures && s.at.Unix()-n.since >= int64(failingTime/time.Second) {
			n.failed, n.since = 0, 0
			events = append(events, &core.Asleep{Stamp: stamp, Member: m.slug})
		}
	}
	switch shown := s.token; {
	case shown != 0 || s.linked:
		if n.missed = 0; shown == 0 {
			shown = core.ByLink
		}
		if m.Proof == 0 {
			events = append(events, &core.Verified{Stamp: stamp, Member: m.slug, Proof: shown})
		}
	case m.Proof == 0:
		n.missed = 0
	case m.byToken() && !s.looked, !m.byToken() && !s.read:
	case !asked:
		if n.missed++; n.missed >= misses {
			n.missed = 0
			events = append(events, &core.Unverified{Stamp: stamp, Member: m.slug})
		}
	}
	return events
}
