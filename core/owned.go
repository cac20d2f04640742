package core

// Proof says how a site proved itself.
type Proof uint8

// The proofs, in the order of their weight.
const (
	// ByFile is the token of the ring in a file of the site.
	ByFile Proof = 1 + iota
	// ByDNS is the token in a TXT record of its host.
	ByDNS
	// ByLink is a page of the site that links back to the ring.
	ByLink
)

var proofNames = [...]string{ByFile: "file", ByDNS: "dns", ByLink: "link"}

// String gives the proof's name in documents, or "" for no proof.
func (p Proof) String() string {
	if int(p) >= len(proofNames) {
		return ""
	}
	return proofNames[p]
}

// Claimed makes an account the owner of a member, which its site has named. The site
// counts as verified from then on.
type Claimed struct {
	Stamp  int64
	Member string // slug
	Owner  Account
	Proof  Proof // ByFile or ByDNS
}

// Changed changes what a member says of itself; what has a zero value stays as it is. The
// name and the description stand in it as commitments, as those of [Joined] do.
type Changed struct {
	Stamp       int64
	Member      string // slug
	Name        Commitment
	Description Commitment
	Cleared     bool // the member has no description from now on; then Description is zero
	Category    string
	Kind        Kind
}

// Moved gives a member another URL, which was scored as that of a registration is. The
// old URL is free. The site at the new one has proved nothing yet, and is awake.
type Moved struct {
	Stamp  int64
	Member string // slug
	URL    Commitment
	Report Commitment // zero when the scorer gave none
	Score  Score
}

// Left takes a member out of the ring at the wish of its owner, without a way back. It is a
// removal that redacts nothing. Earlier versions wrote it; now [Departed] takes its place.
type Left struct {
	Stamp  int64
	Member string // slug
}

// Departed takes a member out of the ring at the wish of its owner, who can take that back
// for [ReturnSpan]. Until it has [Returned] or [Lapsed], its URL stays with it. It counts as
// removed in everything else, and [Removed] can remove or redact it meanwhile.
type Departed struct {
	Stamp  int64
	Member string // slug
}

// Returned puts a departed member back at its place in join order, with all that was paid. With an
// Owner, it gives a member, departed or not, back to an earlier owner, which has taken it back from
// another one that the site named. No proof of the site holds any longer.
type Returned struct {
	Stamp   int64
	Member  string // slug
	Owner   Account
	Claimed bool // a site named that owner
}

// Lapsed says that a departed member can return no longer. Its URL is free.
type Lapsed struct {
	Stamp  int64
	Member string // slug
}

// Verified says that the site of a member has proved itself.
type Verified struct {
	Stamp  int64
	Member string // slug
	Proof  Proof
}

// Unverified says that the proof of a member's site is there no longer.
type Unverified struct {
	Stamp  int64
	Member string // slug
}

// Asleep says that the site of a member does not answer. Traversal passes over the member
// until it is [Awake] or has [Moved].
type Asleep struct {
	Stamp  int64
	Member string // slug
}

// Awake says that the site of a sleeping member answers again.
type Awake struct {
	Stamp  int64
	Member string // slug
}

// When gives the writer's stamp in milliseconds.
func (e *Claimed) When() int64    { return e.Stamp }
func (e *Changed) When() int64    { return e.Stamp }
func (e *Moved) When() int64      { return e.Stamp }
func (e *Left) When() int64       { return e.Stamp }
func (e *Verified) When() int64   { return e.Stamp }
func (e *Unverified) When() int64 { return e.Stamp }
func (e *Asleep) When() int64     { return e.Stamp }
func (e *Awake) When() int64      { return e.Stamp }
func (e *Departed) When() int64   { return e.Stamp }
func (e *Returned) When() int64   { return e.Stamp }
func (e *Lapsed) When() int64     { return e.Stamp }

func (*Claimed) eventType() byte    { return 8 }
func (*Changed) eventType() byte    { return 9 }
func (*Moved) eventType() byte      { return 10 }
func (*Left) eventType() byte       { return 11 }
func (*Verified) eventType() byte   { return 12 }
func (*Unverified) eventType() byte { return 13 }
func (*Asleep) eventType() byte     { return 14 }
func (*Awake) eventType() byte      { return 15 }
func (*Departed) eventType() byte   { return 17 }
func (*Returned) eventType() byte   { return 18 }
func (*Lapsed) eventType() byte     { return 19 }

// memberOfOwned is [MemberOf] for the events of this file.
func memberOfOwned(e Event) string {
	switch e := e.(type) {
	case *Claimed:
		return e.Member
	case *Changed:
		return e.Member
	case *Moved:
		return e.Member
	case *Left:
		return e.Member
	case *Verified:
		return e.Member
	case *Unverified:
		return e.Member
	case *Asleep:
		return e.Member
	case *Awake:
		return e.Member
	case *Departed:
		return e.Member
	case *Returned:
		return e.Member
	case *Lapsed:
		return e.Member
	}
	return ""
}

func (e *Claimed) check() error {
	switch {
	case e.Owner == Account{}:
		return bad("owner")
	case e.Proof != ByFile && e.Proof != ByDNS:
		return bad("proof")
	}
	return moderation(e.Member, "")
}

func (e *Changed) check() error {
	switch {
	case e.Category != "" && !ValidCategory(e.Category):
		return bad("category")
	case e.Kind != 0 && e.Kind.String() == "":
		return bad("kind")
	case e.Cleared && e.Description.Given():
		return bad("description")
	case *e == Changed{Stamp: e.Stamp, Member: e.Member}:
		return bad("change of nothing")
	}
	return moderation(e.Member, "")
}

func (e *Moved) check() error {
	switch {
	case !e.URL.Given():
		return bad("commitment")
	case e.Score.check() != nil:
		return bad("score")
	}
	return moderation(e.Member, "")
}

func (e *Verified) check() error {
	if e.Proof.String() == "" {
		return bad("proof")
	}
	return moderation(e.Member, "")
}

func (e *Returned) check() error {
	if e.Claimed && e.Owner == (Account{}) {
		return bad("owner")
	}
	return moderation(e.Member, "")
}

func (e *Left) check() error       { return moderation(e.Member, "") }
func (e *Unverified) check() error { return moderation(e.Member, "") }
func (e *Asleep) check() error     { return moderation(e.Member, "") }
func (e *Awake) check() error      { return moderation(e.Member, "") }
func (e *Departed) check() error   { return moderation(e.Member, "") }
func (e *Lapsed) check() error     { return moderation(e.Member, "") }

func (e *Claimed) appendBody(b []byte) []byte {
	b = append(appendString(b, e.Member), e.Owner[:]...)
	return append(b, byte(e.Proof))
}

// How a description changes.
const (
	keepsDescription = iota
	clearsDescription
	givesDescription
)

func (e *Changed) appendBody(b []byte) []byte {
	b = appendOptional(appendString(b, e.Member), e.Name)
	switch {
	case e.Cleared:
		b = append(b, clearsDescription)
	case e.Description.Given():
		b = append(append(b, givesDescription), e.Description[:]...)
	default:
		b = append(b, keepsDescription)
	}
	return append(appendString(b, e.Category), byte(e.Kind))
}

func (e *Moved) appendBody(b []byte) []byte {
	b = append(appendString(b, e.Member), e.URL[:]...)
	return appendScore(appendOptional(b, e.Report), e.Score)
}

func (e *Returned) appendBody(b []byte) []byte {
	b = appendString(b, e.Member)
	if e.Owner == (Account{}) {
		return b
	}
	return appendFlag(append(b, e.Owner[:]...), e.Claimed)
}

func (e *Verified) appendBody(b []byte) []byte {
	return append(appendString(b, e.Member), byte(e.Proof))
}

func (e *Left) appendBody(b []byte) []byte       { return appendString(b, e.Member) }
func (e *Unverified) appendBody(b []byte) []byte { return appendString(b, e.Member) }
func (e *Asleep) appendBody(b []byte) []byte     { return appendString(b, e.Member) }
func (e *Awake) appendBody(b []byte) []byte      { return appendString(b, e.Member) }
func (e *Departed) appendBody(b []byte) []byte   { return appendString(b, e.Member) }
func (e *Lapsed) appendBody(b []byte) []byte     { return appendString(b, e.Member) }

// owned reads the body of an event of this file, nil for another type.
func (r *reader) owned(typ byte, when int64) Event {
	switch typ {
	case 8:
		return &Claimed{Stamp: when, Member: r.string(), Owner: r.account(), Proof: Proof(r.byte())}
	case 9:
		e := &Changed{Stamp: when, Member: r.string(), Name: r.optional()}
		switch r.byte() {
		case keepsDescription:
		case clearsDescription:
			e.Cleared = true
		case givesDescription:
			e.Description = r.commitment()
		default:
			r.failed = true
		}
		e.Category, e.Kind = r.string(), Kind(r.byte())
		return e
	case 10:
		return &Moved{Stamp: when, Member: r.string(), URL: r.commitment(), Report: r.optional(), Score: r.score()}
	case 11:
		return &Left{Stamp: when, Member: r.string()}
	case 12:
		return &Verified{Stamp: when, Member: r.string(), Proof: Proof(r.byte())}
	case 13:
		return &Unverified{Stamp: when, Member: r.string()}
	case 14:
		return &Asleep{Stamp: when, Member: r.string()}
	case 15:
		return &Awake{Stamp: when, Member: r.string()}
	case 17:
		return &Departed{Stamp: when, Member: r.string()}
	case 18:
		e := &Returned{Stamp: when, Member: r.string()}
		if !r.failed && len(r.rest) > 0 {
			e.Owner, e.Claimed = r.account(), r.flag()
			r.failed = r.failed || e.Owner == Account{}
		}
		return e
	case 19:
		return &Lapsed{Stamp: when, Member: r.string()}
	}
	return nil
}

func (r *reader) account() (a Account) {
	copy(a[:], r.take(len(a)))
	return a
}
