package risk

import (
	"context"
	"hash/maphash"
	"slices"
	"sync"

	"webring/core"
	"webring/server/ledger"
	"webring/server/paid/form"
	"webring/server/sites/fetch"
)

// domains finds the members on a registrable domain. The core's index is by host, because
// the core has no list of public suffixes. domains takes some 20 bytes for each member;
// its zero value has no members.
type domains struct {
	mu   sync.Mutex
	seed maphash.Seed
	last map[uint32]core.Ordinal // by a hash of the domain: the member that joined last there
	next []core.Ordinal          // by ordinal: the next member on the domain, after the last the first

	// Members that have moved since they were added are found here instead.
	moved map[core.Ordinal]bool
	later map[uint32][]core.Ordinal // by a hash of the domain, in the order of their moves
}

// members calls f with the members on a domain, in the order in which they joined, and then
// with those that moved there, until it returns false. Hidden ones count: they keep their
// URLs.
func (d *domains) members(st *core.State, domain string, f func(core.Ordinal) (more bool)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reach(st, st.Rows())
	hash := d.hash(domain)
	ends := func(at core.Ordinal) bool {
		m := st.Member(at)
		// Two domains can have the same 32-bit hash.
		return !m.Removed && form.IsOrBelow(form.HostOf(m.URL), domain) && !f(at)
	}
	if last, ok := d.last[hash]; ok {
		for at := d.next[last]; ; at = d.next[at] {
			if !d.moved[at] && ends(at) {
				return
			}
			if at == last {
				break
			}
		}
	}
	for _, at := range d.later[hash] {
		if ends(at) {
			return
		}
	}
}

// Moved notes that a member has another URL from now on; old is the one before.
func (d *domains) Moved(st *core.State, at core.Ordinal, old string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if int(at) >= len(d.next) {
		return // it will be added by its new URL
	}
	if d.moved == nil {
		d.moved, d.later = map[core.Ordinal]bool{}, map[uint32][]core.Ordinal{}
	}
	if d.moved[at] {
		hash := d.hash(fetch.Domain(form.HostOf(old)))
		d.later[hash] = slices.DeleteFunc(d.later[hash], func(o core.Ordinal) bool { return o == at })
	}
	d.moved[at] = true
	hash := d.hash(fetch.Domain(form.HostOf(st.Member(at).URL)))
	d.later[hash] = append(d.later[hash], at)
}

// reach adds the members that joined since the last call, up to a number of rows.
func (d *domains) reach(st *core.State, rows int) {
	if d.last == nil {
		d.seed, d.last = maphash.MakeSeed(), map[uint32]core.Ordinal{}
	}
	for o := core.Ordinal(len(d.next)); int(o) < min(rows, st.Rows()); o++ {
		d.next = append(d.next, o)
		m := st.Member(o)
		if m.URL == "" {
			continue // redacted
		}
		hash := d.hash(fetch.Domain(form.HostOf(m.URL)))
		if last, ok := d.last[hash]; ok {
			d.next[o], d.next[last] = d.next[last], o
		}
		d.last[hash] = o
	}
}

// Learn adds the members of a ledger a few at a time, so that no request waits for all of
// them. It ends early when ctx is done.
func (d *domains) Learn(ctx context.Context, books *ledger.Ledger) {
	const atOnce = 4096
	for rows, done := atOnce, false; !done && ctx.Err() == nil; rows += atOnce {
		books.View(func(v *ledger.View) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.reach(v.State(), rows)
			done = rows >= v.State().Rows()
		})
	}
}

func (d *domains) hash(domain string) uint32 { return uint32(maphash.String(d.seed, domain)) }
