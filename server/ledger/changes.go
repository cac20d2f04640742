package ledger

import "time"

// Changes gives the instants, in order, at which the owner of a member changed or moved it,
// from one on.
func (v *View) Changes(slug string, since time.Time) (at []time.Time, err error) {
	prefix := changeKey(slug)
	// Few members have any.
	if some, err := v.hasUnder(prefix); err != nil || !some {
		return nil, err
	}
	first, err := v.firstSince(since)
	if err != nil {
		return nil, err
	}
	numbers, err := v.numbersFrom(prefix, changeKey(slug, first))
	if err != nil {
		return nil, err
	}
	for _, seq := range numbers {
		e, err := v.event(seq)
		if err != nil {
			return nil, err
		}
		at = append(at, time.UnixMilli(e.When()).UTC())
	}
	return at, nil
}
