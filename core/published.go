package core

import "strings"

// Payees says at which payees the ring receives payments from now on, in addition to those of
// earlier events of this kind. It comes before the first payment to any of them. Nobody is ever
// taken off the list: old transfers still count.
type Payees struct {
	Stamp int64
	List  []Payee // sorted by network and then by account, each once
}

// Payee is a token and an account on a network, as in [Payment].
type Payee struct {
	Network string // such as "tempo:42431"
	Account string // in the spelling of [Payment.Payee]
}

// MaxPayees is how many payees one event has.
const MaxPayees = 32

// Compare orders payees by network, and then by account.
func (p Payee) Compare(q Payee) int {
	if c := strings.Compare(p.Network, q.Network); c != 0 {
		return c
	}
	return strings.Compare(p.Account, q.Account)
}

// Keys says which keys sign the checkpoints of the ledger, as verifiers of signed notes. It comes
// with each change of a key: when the next one is announced, and both sign, and when it signs alone.
type Keys struct {
	Stamp   int64
	Current string
	Next    string // "" if none is announced
}

// Snapshotted says which snapshot was made of the state after Size events. A snapshot with another
// digest, or a state with another by the same core, is a lie that the ledger itself proves.
type Snapshotted struct {
	Stamp  int64
	Size   uint64   // events; at most those before this one
	State  [16]byte // [State.Digest] after those
	Core   [32]byte // SHA-256 of the core that computed it: another may come to another digest
	Digest [32]byte // SHA-256 of the file
	Bytes  int64    // of the file
}

// When gives the writer's stamp in milliseconds.
func (e *Payees) When() int64      { return e.Stamp }
func (e *Keys) When() int64        { return e.Stamp }
func (e *Snapshotted) When() int64 { return e.Stamp }

func (*Payees) eventType() byte      { return 20 }
func (*Keys) eventType() byte        { return 21 }
func (*Snapshotted) eventType() byte { return 22 }

func (e *Payees) check() error {
	if len(e.List) == 0 || len(e.List) > MaxPayees {
		return bad("number of payees")
	}
	for i, p := range e.List {
		if !note(p.Network) || !note(p.Account) || i > 0 && e.List[i-1].Compare(p) >= 0 {
			return bad("payee")
		}
	}
	return nil
}

func (e *Keys) check() error {
	if !note(e.Current) || len(e.Next) > MaxNote || e.Next == e.Current {
		return bad("key")
	}
	return nil
}

func (e *Snapshotted) check() error {
	if e.Size == 0 || e.Size >= 1<<63 || e.Bytes < 1 {
		return bad("snapshot")
	}
	return nil
}

func (e *Payees) appendBody(b []byte) []byte {
	b = append(b, byte(len(e.List)))
	for _, p := range e.List {
		b = appendString(appendString(b, p.Network), p.Account)
	}
	return b
}

func (e *Keys) appendBody(b []byte) []byte { return appendString(appendString(b, e.Current), e.Next) }

func (e *Snapshotted) appendBody(b []byte) []byte {
	b = append(append(appendNumber(b, int64(e.Size)), e.State[:]...), e.Core[:]...)
	return appendNumber(append(b, e.Digest[:]...), e.Bytes)
}

// published reads the body of an event of this file, nil for another type.
func (r *reader) published(typ byte, when int64) Event {
	switch typ {
	case 20:
		e := &Payees{Stamp: when}
		for n := int(r.byte()); n > 0 && !r.failed; n-- {
			e.List = append(e.List, Payee{r.string(), r.string()})
		}
		return e
	case 21:
		return &Keys{Stamp: when, Current: r.string(), Next: r.string()}
	case 22:
		e := &Snapshotted{Stamp: when, Size: uint64(r.number())}
		copy(e.State[:], r.take(len(e.State)))
		copy(e.Core[:], r.take(len(e.Core)))
		copy(e.Digest[:], r.take(len(e.Digest)))
		e.Bytes = r.number()
		return e
	}
	return nil
}
