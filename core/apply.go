package core

// Apply folds the next event of the ledger into the state: its encoding, and
// for one that commits to texts the encoding of its [Texts], which is empty when they were
// redacted. The caller verifies that texts match their commitments.
//
// Any bytes may be given. After an error, the state is unchanged. A stamp later
// than the clock raises the clock, and [SetBack] sets it to its own. Ranks and
// standings may only be read after the next [State.Advance].
//
// Errors wrap [ErrEvent] or [ErrTexts], or are one of the errors of state.go.
func (s *State) Apply(event, texts []byte) error {
	e, err := decodeEvent(event, &s.reading)
	if err == nil {
		err = s.fold(e, texts)
	}
	// The decoded event aliases event and texts, which the caller may change now.
	if _, bids := e.(*Bid); bids {
		s.reading.bid = Bid{}
	} else {
		s.reading = reused{}
	}
	return err
}

// fold is [State.Apply] for an event that has been decoded.
func (s *State) fold(e Event, texts []byte) (err error) {
	if len(texts) > 0 && !CommitmentsOf(e).Some() {
		return &reason{ErrTexts, "the event has none"}
	}
	if _, rules := e.(*Rules); !rules && s.rules == nil {
		return ErrNotOpened
	}
	if _, back := e.(*SetBack); !back && e.When() < s.stamp {
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
		if err = checkWords(e, texts); err == nil {
			err = s.remove(e.Member, e.Redacted)
		}
	case *Adjusted:
		err = s.adjust(e)
	case *Hidden:
		if err = checkWords(e, texts); err == nil {
			err = s.hide(e.Member)
		}
	case *Shown:
		if err = checkWords(e, texts); err == nil {
			err = s.show(e.Member)
		}
	case *SetBack:
		s.setBack(e.Stamp)
	case *Payees, *Keys: // for those who read the ledger; the state has nothing of them
	case *Snapshotted:
		if e.Size > s.seq {
			err = ErrAhead
		}
	default:
		err = s.foldOwned(e, texts)
	}
	if err != nil {
		return err
	}
	s.seq++
	s.stamp = e.When()
	s.clock = max(s.clock, s.stamp/1000)
	return nil
}

// checkWords refuses words of a reason that are beyond the limits. The state does not keep them.
func checkWords(e Event, texts []byte) error {
	_, _, err := textsOf(CommitmentsOf(e), texts)
	return err
}

func (s *State) join(e *Joined, texts []byte) error {
	m := Member{Slug: e.Slug, Kind: e.Kind, Category: e.Category, Score: e.Score,
		Owner: AccountOf(e.Payment.Payer), Joined: e.Stamp, Fee: e.Fee, Bids: e.Bid}
	if e.Bid > 0 {
		m.LastBid = e.Stamp
	}
	if s.rows >= s.capacity {
		return ErrCapacity
	}
	var found place
	found.slug = s.seed.Hash(m.Slug)
	if _, taken := s.findSlug(found.slug, m.Slug); taken {
		return ErrSlugTaken
	}
	if len(texts) > 0 {
		t, _, err := textsOf(CommitmentsOf(e), texts)
		if err != nil {
			return err
		}
		found.of(s.seed, t.URL.Value)
		if _, taken := s.findKey(found.key.hash, found.text()); taken {
			return ErrURLTaken
		}
		if _, used := s.categories.find(e.Category); !used && len(s.categories.names) >= maxCategoriesFold {
			return ErrCategories
		}
		m.Name, m.URL, m.Description, m.Report = t.Name.Value, t.URL.Value, t.Description.Value, t.Report.Value
	}
	s.scratch = m.appendHead(s.scratch[:0])
	o := s.add(&m, s.scratch, &found)
	s.digest.add(s.hashRow(o))
	s.owners.add(hashOwner(o, m.Owner[:ownerBegin]))
	s.paid += m.Total()
	return nil
}

// place holds the hashes under which a new row goes into the indexes.
type place struct {
	slug uint64 // hash of the slug
	key         // of the URL, if the row has one
}

// add puts a new row into the state, and into all indexes that follow from it,
// but not into digest and ranking. The caller has checked that slug and URL are
// free; head is what [Member.appendHead] writes. [Restorer] does the same for many
// rows at once.
func (s *State) add(m *Member, head []byte, in *place) Ordinal {
	s.reserve(s.rows+1, s.used+rowSize(len(head)))
	o := s.put(head, m)
	s.set(o, m)
	s.slugs.Insert(in.slug, uint32(o))
	if m.URL != "" && !m.Removed {
		s.keys.Insert(in.hash, uint32(o))
		s.enter(o, m.Kind, m.Category, &in.key)
	}
	s.touch(o)
	return o
}

// set writes the columns of a row that later events can change.
func (s *State) set(o Ordinal, m *Member) {
	a := &s.accounts[o]
	a.total, a.lastBid = m.Total(), m.LastBid
	if m.Bids > 0 {
		s.flags[o] |= funded
	}
	if m.Removed {
		s.flags[o] |= removed
	}
	if m.Redacted {
		s.flags[o] |= redacted
	}
	if m.Hidden || m.Departed {
		s.flags[o] |= hidden
	}
	if m.Claimed {
		s.flags[o] |= claimed
	}
	if m.Asleep {
		s.flags[o] |= sleeping
	}
	if told := (status{m.HealthSince, m.verification(), m.Changed}); told != (status{}) {
		s.statuses[o] = told // memory that is never written takes none
	}
}

// pay adds a bid, or a credit that counts as one. A removed member keeps what is paid for it, too:
// a payment can settle after its member has left.
func (s *State) pay(slug string, amount, stamp int64) error {
	o, known := s.bySlug(slug)
	if !known {
		return ErrUnknown
	}
	a := &s.accounts[o]
	if a.total+amount > MaxTotal {
		return ErrTotal
	}
	s.unrank(o)
	fee, head := s.row(o)
	lasting := hashHead(o, head)
	s.digest.sub(s.hashTail(lasting, o, fee))
	a.total += amount
	a.lastBid = stamp
	s.flags[o] |= funded
	s.digest.add(s.hashTail(lasting, o, fee))
	s.paid += amount
	s.touch(o)
	return nil
}

func (s *State) remove(slug string, redact bool) error {
	o, err := s.standingMember(slug)
	if err == ErrRemoved && (redact && !s.has(o, redacted) || s.has(o, hidden)) {
		err = nil // it was removed before; its words are redacted now, or it cannot return
	}
	if err != nil {
		return err
	}
	s.unrank(o)
	s.digest.sub(s.hashRow(o))
	s.giveUp(o)
	s.flags[o] = s.flags[o]&^hidden | removed
	if redact {
		s.flags[o] |= redacted
		m := s.Member(o).clone()
		m.forget()
		s.rewrite(o, &m)
	}
	s.digest.add(s.hashRow(o))
	return nil
}

// hide takes a member out of the ring. Whatever was paid for it, and its URL, stay
// with it.
func (s *State) hide(slug string) error {
	o, err := s.standingMember(slug)
	switch {
	case err != nil:
		return err
	case s.has(o, hidden):
		return ErrHidden
	}
	s.digest.sub(s.hashRow(o))
	s.stepOut(o, hidden)
	s.digest.add(s.hashRow(o))
	return nil
}

// show puts a hidden member back into the ring.
func (s *State) show(slug string) error {
	o, err := s.standingMember(slug)
	switch {
	case err != nil:
		return err
	case !s.has(o, hidden):
		return ErrShown
	case s.full(o):
		return ErrCategories
	}
	s.digest.sub(s.hashRow(o))
	s.stepIn(o)
	s.digest.add(s.hashRow(o))
	s.touch(o)
	return nil
}

// setBack sets the clock back to an instant, and what rows say of later ones. Everything that
// depends on time is derived anew with the next Advance.
func (s *State) setBack(stamp int64) {
	for o := range Ordinal(s.rows) {
		m := s.Member(o)
		if max(m.Joined, m.LastBid, m.HealthSince, m.Verified, m.Changed) <= stamp {
			continue
		}
		s.digest.sub(s.hashRow(o))
		m = m.clone()
		for _, at := range [...]*int64{&m.Joined, &m.LastBid, &m.HealthSince, &m.Verified, &m.Changed} {
			*at = min(*at, stamp)
		}
		s.rewrite(o, &m)
		s.accounts[o].lastBid = m.LastBid
		s.statuses[o] = status{m.HealthSince, m.verification(), m.Changed}
		s.digest.add(s.hashRow(o))
	}
	s.ranking.stale = true
	s.clock = stamp / 1000
}

// stepOut takes a member out of the ring and sets its flags. It keeps its URL.
func (s *State) stepOut(o Ordinal, flags byte) {
	s.unrank(o)
	if s.has(o, live) {
		m := s.Member(o)
		var k key
		k.of(s.seed, m.URL)
		s.leave(o, &m, &k)
	}
	s.flags[o] |= flags
}

// stepIn undoes stepOut, but for the ranking. A member without texts was redacted: the event
// that removes it comes later.
func (s *State) stepIn(o Ordinal) {
	s.flags[o] &^= removed | hidden
	if s.url(o) == "" {
		return
	}
	s.reserve(s.rows, s.used)
	m := s.Member(o) // its strings lie where the state lies now
	var k key
	k.of(s.seed, m.URL)
	s.enter(o, m.Kind, m.Category, &k)
}

// full says whether a member cannot step in because its category is gone, and no further one
// can be opened.
func (s *State) full(o Ordinal) bool {
	m := s.Member(o)
	_, used := s.categories.find(m.Category)
	return m.URL != "" && !used && len(s.categories.names) >= maxCategoriesFold
}

func (s *State) adjust(e *Adjusted) error {
	switch e.Adjustment {
	case Credit:
		return s.pay(e.Member, e.Amount, e.Stamp)
	case Void:
		if _, ok := s.bySlug(e.Member); !ok {
			return ErrUnknown
		}
		s.voided += e.Amount
	case Unclaimed:
		s.paid += e.Amount
	}
	return nil
}

// standingMember finds a member that was not removed. A hidden one counts: it keeps
// what is paid for it. So does a member without texts: they were redacted, and the
// event that removes it comes later.
func (s *State) standingMember(slug string) (Ordinal, error) {
	o, ok := s.bySlug(slug)
	switch {
	case !ok:
		return 0, ErrUnknown
	case s.has(o, removed):
		return o, ErrRemoved
	}
	return o, nil
}
