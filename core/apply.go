package core

// Apply folds the next event of the ledger into the state: its encoding, and
// for a [Joined] the encoding of its [Texts], which is empty when they were
// redacted. Whether texts match their commitments is the caller's to verify.
//
// Any bytes may be given. On an error, which says why, the state is as it was.
// A stamp later than the clock raises it; an earlier one is taken as it is.
// Ranks and standings are behind until the next [State.Advance].
func (s *State) Apply(event, texts []byte) error {
	e, err := DecodeEvent(event)
	if err != nil {
		return err
	}
	if _, joins := e.(*Joined); !joins && len(texts) > 0 {
		return &reason{ErrTexts, "only a registration has texts"}
	}
	if _, rules := e.(*Rules); !rules && s.rules == nil {
		return ErrNotOpened
	}
	if e.When() < s.stamp {
		return ErrStampOrder
	}
	switch e := e.(type) {
	case *Rules:
		s.rules = e
		s.ranking.stale = true
	case *Joined:
		err = s.join(e, texts)
	case *Bid:
		err = s.pay(e.Member, e.Amount, e.Stamp)
	case *Removed:
		err = s.remove(e)
	case *Adjusted:
		err = s.adjust(e)
	}
	if err != nil {
		return err
	}
	s.seq++
	s.stamp = e.When()
	s.clock = max(s.clock, s.stamp/1000)
	return nil
}

func (s *State) join(e *Joined, texts []byte) error {
	m := Member{Slug: e.Slug, Kind: e.Kind, Category: e.Category, Score: e.Score,
		Joined: e.Stamp, Fee: e.Fee, Bids: e.Bid}
	if e.Bid > 0 {
		m.LastBid = e.Stamp
	}
	if len(s.members) >= s.capacity {
		return ErrCapacity
	}
	if _, taken := s.slugs[e.Slug]; taken {
		return ErrSlugTaken
	}
	if len(texts) > 0 {
		t, err := DecodeTexts(texts)
		if err != nil {
			return err
		}
		if err := t.check(e); err != nil {
			return err
		}
		if m.key, err = canonicalKey(t.URL.Value); err != nil {
			return err
		}
		if _, taken := s.keys[m.key]; taken {
			return ErrURLTaken
		}
		if len(s.lists[Filter{Category: e.Category}]) == 0 && len(s.categories) >= maxCategoriesFold {
			return ErrCategories
		}
		m.Name, m.URL, m.Description, m.Report = t.Name.Value, t.URL.Value, t.Description.Value, t.Report.Value
	}
	o := Ordinal(len(s.members))
	s.members = append(s.members, m)
	s.slugs[m.Slug] = o
	s.paid += m.Total()
	if m.live() {
		s.enter(o)
	}
	s.rows.add(s.hashRow(o))
	s.ranking.touch(o)
	return nil
}

// canonicalKey gives the identity key of a URL that must be canonical already.
func canonicalKey(url string) (string, error) {
	canonical, err := AppendURL(nil, []byte(url))
	if err != nil || string(canonical) != url {
		return "", &reason{ErrTexts, "URL is not canonical"}
	}
	return string(AppendKey(nil, canonical)), nil
}

// pay adds a bid, or a credit that counts as one.
func (s *State) pay(slug string, amount, stamp int64) error {
	o, err := s.standingMember(slug)
	if err != nil {
		return err
	}
	m := &s.members[o]
	if m.Total()+amount > MaxTotal {
		return ErrTotal
	}
	s.rows.sub(s.hashRow(o))
	m.Bids += amount
	m.LastBid = stamp
	s.rows.add(s.hashRow(o))
	s.paid += amount
	s.ranking.touch(o)
	return nil
}

func (s *State) remove(e *Removed) error {
	o, err := s.standingMember(e.Member)
	if err == ErrRemoved && e.Redacted && !s.members[o].Redacted {
		err = nil // only its words are left to go
	}
	if err != nil {
		return err
	}
	m := &s.members[o]
	if m.live() {
		s.leave(o)
	}
	s.rows.sub(s.hashRow(o))
	m.Removed = true
	if e.Redacted {
		m.Redacted = true
		m.Name, m.URL, m.Description, m.Report, m.key = "", "", "", "", ""
	}
	s.rows.add(s.hashRow(o))
	s.ranking.touch(o)
	return nil
}

func (s *State) adjust(e *Adjusted) error {
	switch e.Adjustment {
	case Credit:
		return s.pay(e.Member, e.Amount, e.Stamp)
	case Void:
		if _, ok := s.slugs[e.Member]; !ok {
			return ErrUnknown
		}
		s.voided += e.Amount
	case Unclaimed:
		s.paid += e.Amount
	}
	return nil
}

// standingMember finds a member that was not removed. One whose texts were
// redacted counts: its removal is still to come.
func (s *State) standingMember(slug string) (Ordinal, error) {
	o, ok := s.slugs[slug]
	switch {
	case !ok:
		return 0, ErrUnknown
	case s.members[o].Removed:
		return o, ErrRemoved
	}
	return o, nil
}
