package core

import "strings"

// foldOwned folds the events of owned.go.
func (s *State) foldOwned(e Event, texts []byte) error {
	switch e := e.(type) {
	case *Claimed:
		return s.claim(e)
	case *Changed:
		return s.change(e, texts)
	case *Moved:
		return s.move(e, texts)
	case *Left:
		if _, err := s.standingMember(e.Member); err != nil {
			return err
		}
		return s.remove(e.Member, false)
	case *Verified:
		return s.verify(e)
	case *Unverified:
		return s.unverify(e.Member)
	case *Asleep:
		return s.sleep(e)
	case *Awake:
		return s.wake(e)
	case *Departed:
		return s.depart(e)
	case *Returned:
		return s.comeBack(e)
	case *Lapsed:
		if o, known := s.bySlug(e.Member); known && !s.isDeparted(o) {
			return ErrNotDeparted
		}
		return s.remove(e.Member, false)
	}
	return nil
}

// verification gives when the site proved itself, and how.
func (t *status) verification() (at int64, proof Proof) {
	return t.verified >> 2, Proof(t.verified & 3)
}

// verification is the same in the form of a status.
func (m *Member) verification() int64 { return verification(m.Verified, m.Proof) }

func verification(at int64, proof Proof) int64 { return at<<2 | int64(proof) }

// note changes what the digest covers of a row besides its head.
func (s *State) note(o Ordinal, change func(told *status)) {
	s.digest.sub(s.hashRow(o))
	change(&s.statuses[o])
	s.digest.add(s.hashRow(o))
}

func (s *State) claim(e *Claimed) error {
	o, err := s.standingMember(e.Member)
	if err != nil {
		return err
	}
	s.note(o, func(told *status) {
		s.own(o, e.Owner)
		s.flags[o] |= claimed
		told.verified = verification(e.Stamp, e.Proof)
	})
	return nil
}

func (s *State) verify(e *Verified) error {
	o, err := s.standingMember(e.Member)
	if err != nil {
		return err
	}
	if _, proof := s.statuses[o].verification(); proof == e.Proof {
		return ErrVerified
	}
	s.note(o, func(told *status) { told.verified = verification(e.Stamp, e.Proof) })
	return nil
}

func (s *State) unverify(slug string) error {
	o, err := s.standingMember(slug)
	switch {
	case err != nil:
		return err
	case s.statuses[o].verified == 0:
		return ErrUnverified
	}
	s.note(o, func(told *status) { told.verified = 0 })
	return nil
}

// sleep and wake change the lists of those that are asleep, in which a hidden member is
// not.

func (s *State) sleep(e *Asleep) error {
	o, err := s.standingMember(e.Member)
	switch {
	case err != nil:
		return err
	case s.has(o, sleeping):
		return ErrAsleep
	}
	if s.has(o, live) {
		s.reserve(s.rows, s.used)
		m := s.Member(o)
		category, _ := s.categories.find(m.Category)
		s.dropOff(o, m.Kind, category)
	}
	s.note(o, func(told *status) {
		s.flags[o] |= sleeping
		told.since = e.Stamp
	})
	return nil
}

func (s *State) wake(e *Awake) error {
	o, err := s.standingMember(e.Member)
	switch {
	case err != nil:
		return err
	case !s.has(o, sleeping):
		return ErrAwake
	}
	if s.has(o, live) {
		m := s.Member(o)
		category, _ := s.categories.find(m.Category)
		s.getUp(o, m.Kind, category)
	}
	s.note(o, func(told *status) {
		s.flags[o] &^= sleeping
		told.since = e.Stamp
	})
	return nil
}

// depart takes a member out of the ring. It keeps its URL, and is marked as hidden besides
// removed.
func (s *State) depart(e *Departed) error {
	o, err := s.standingMember(e.Member)
	switch {
	case err != nil:
		return err
	case s.has(o, hidden):
		return ErrHidden
	}
	s.note(o, func(told *status) {
		s.stepOut(o, removed|hidden)
		told.changed = e.Stamp
	})
	return nil
}

// comeBack puts a departed member back into the ring, or gives a member back to an earlier owner.
func (s *State) comeBack(e *Returned) error {
	o, known := s.bySlug(e.Member)
	given := e.Owner != Account{}
	switch {
	case !known:
		return ErrUnknown
	case !s.isDeparted(o) && (!given || s.has(o, removed) || s.Owner(o) == e.Owner):
		return ErrNotDeparted
	case s.isDeparted(o) && s.full(o):
		return ErrCategories
	}
	departed := s.isDeparted(o)
	s.note(o, func(told *status) {
		if departed {
			s.stepIn(o)
			told = &s.statuses[o] // which may lie elsewhere now
		}
		if given {
			s.own(o, e.Owner)
			if s.flags[o] &^= claimed; e.Claimed {
				s.flags[o] |= claimed
			}
			told.verified = 0
		}
		told.changed = e.Stamp
	})
	if departed {
		s.touch(o)
	}
	return nil
}

// standingWords gives the row that an event is about, and the words that came with it.
func (s *State) standingWords(slug string, c Commitments, texts []byte) (o Ordinal, t Texts, absent bool, err error) {
	if o, err = s.standingMember(slug); err == nil {
		t, absent, err = textsOf(c, texts)
	}
	return o, t, absent, err
}

// change revises a row by what its owner says of it. Words that are absent were redacted,
// and so were all of the member: the event that removes it comes later. A row without
// words takes none: then those of its registration were redacted.
func (s *State) change(e *Changed, texts []byte) error {
	o, t, absent, err := s.standingWords(e.Member, CommitmentsOf(e), texts)
	if err != nil {
		return err
	}
	if e.Category != "" && s.has(o, live) && !absent {
		if _, used := s.categories.find(e.Category); !used && len(s.categories.names) >= maxCategoriesFold {
			return ErrCategories
		}
	}
	s.revise(o, func(m *Member) {
		if e.Category != "" {
			m.Category = e.Category
		}
		if e.Kind != 0 {
			m.Kind = e.Kind
		}
		m.Changed = e.Stamp
		switch {
		case absent:
			m.forget()
		case m.URL != "":
			if e.Name.Given() {
				m.Name = t.Name.Value
			}
			if e.Description.Given() || e.Cleared {
				m.Description = t.Description.Value
			}
		}
	})
	return nil
}

// move revises a row by another URL. Its words are absent as those of a change can be.
func (s *State) move(e *Moved, texts []byte) error {
	o, t, absent, err := s.standingWords(e.Member, CommitmentsOf(e), texts)
	if err != nil {
		return err
	}
	worded := s.url(o) != ""
	if !absent && worded {
		var k key
		k.of(s.seed, t.URL.Value)
		if holder, taken := s.findKey(k.hash, k.text()); taken && holder != o {
			return ErrURLTaken
		}
	}
	s.revise(o, func(m *Member) {
		m.Score = e.Score
		m.Verified, m.Proof, m.Changed = 0, 0, e.Stamp
		if m.Asleep {
			m.Asleep, m.HealthSince = false, e.Stamp
		}
		switch {
		case absent:
			m.forget()
		case worded:
			m.URL, m.Report = t.URL.Value, t.Report.Value
		}
	})
	return nil
}

// revise changes the row of a member that was not removed, and all indexes by which it is
// found. edit changes the words, the kind, the category, the score and the status.
func (s *State) revise(o Ordinal, edit func(*Member)) {
	s.digest.sub(s.hashRow(o))
	m, inRing := s.Member(o).clone(), s.has(o, live)
	var k key
	if s.holdsURL(o) {
		k.of(s.seed, m.URL)
		s.keys.Remove(k.hash, uint32(o))
		if inRing {
			s.leave(o, &m, &k)
		}
	}
	edit(&m)
	s.rewrite(o, &m)
	if s.flags[o] &^= sleeping; m.Asleep {
		s.flags[o] |= sleeping
	}
	s.statuses[o] = status{m.HealthSince, m.verification(), m.Changed}
	if m.URL != "" {
		k.of(s.seed, m.URL)
		s.keys.Insert(k.hash, uint32(o))
		if inRing {
			s.enter(o, m.Kind, m.Category, &k)
		}
	} else {
		s.unrank(o)
	}
	s.digest.add(s.hashRow(o))
}

// rewrite writes the words of a row anew, in its place or behind all others. The owner stays.
// m must not lie in the memory of the state. What the row said before is deleted.
func (s *State) rewrite(o Ordinal, m *Member) {
	m.Owner = s.Owner(o)
	s.scratch = m.appendHead(s.scratch[:0])
	_, head := s.row(o)
	size, old := rowSize(len(s.scratch)), rowSize(len(head))
	more := 0
	if size > old {
		more = size
	}
	s.reserve(s.rows, s.used+more)
	clear(s.texts[4*int(s.at[o]):][:old])
	if size > old {
		s.waste += old
		s.at[o] = uint32(s.used / 4)
		s.used += size
	} else {
		s.waste += old - size
	}
	s.write(o, s.scratch, m)
}

// clone returns a copy of the member with strings outside the memory of the state.
func (m Member) clone() Member {
	for _, text := range [...]*string{&m.Slug, &m.Name, &m.URL, &m.Description, &m.Category, &m.Report, &m.Score.Provider, &m.Score.Version} {
		*text = strings.Clone(*text)
	}
	return m
}

// forget deletes the words of a member.
func (m *Member) forget() { m.Name, m.URL, m.Description, m.Report = "", "", "", "" }
