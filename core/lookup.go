package core

import (
	"bytes"

	"webring/core/flat"
)

// BySlug finds the row with exactly this slug. Slugs of removed members are
// found too: they are never given again.
func (s *State) BySlug(slug []byte) (Ordinal, bool) { return s.bySlug(flat.View(slug)) }

func (s *State) bySlug(slug string) (Ordinal, bool) {
	if len(slug) > MaxSlug {
		return 0, false
	}
	return s.findSlug(s.seed.Hash(slug), slug)
}

// findSlug finds a row by its slug and the slug's hash.
func (s *State) findSlug(hash uint64, slug string) (Ordinal, bool) {
	for p := s.slugs.Probe(hash); ; {
		var o uint32
		var ok bool
		if p, o, ok = s.slugs.Next(p); !ok || flat.Equal(s.Slug(Ordinal(o)), slug) {
			return Ordinal(o), ok
		}
	}
}

// ByKey finds the member in the ring with this identity key ([AppendKey]).
func (s *State) ByKey(key []byte) (Ordinal, bool) {
	o, ok := s.Holder(key)
	return o, ok && s.Stands(o)
}

// Holder finds the member that has the URL with this identity key, in the ring, hidden or
// departed. As long as there is one, no other member can register the URL.
func (s *State) Holder(key []byte) (Ordinal, bool) {
	if len(key) > MaxURL {
		return 0, false
	}
	return s.findKey(s.seed.Hash(flat.View(key)), flat.View(key))
}

// holdsURL says whether a row has a URL that no other member can register.
func (s *State) holdsURL(o Ordinal) bool {
	return s.has(o, live) || s.has(o, hidden) && s.url(o) != ""
}

// Hidden says whether a row is of a member that is hidden and was not removed since.
func (s *State) Hidden(o Ordinal) bool { return s.flags[o]&(hidden|removed) == hidden }

// Departed says whether the owner of the member with row o has taken it out of the ring and
// can take that back, and until when in milliseconds. The instant alone does not end it: the
// event [Lapsed] does.
func (s *State) Departed(o Ordinal) (until int64, departed bool) {
	if !s.isDeparted(o) {
		return 0, false
	}
	return min(s.statuses[o].changed+ReturnSpan, MaxStamp), true
}

func (s *store) isDeparted(o Ordinal) bool { return s.flags[o]&(hidden|removed) == hidden|removed }

// Quiet says that the member with row o is not verified, has been awake since it joined, and was
// never changed, as most are.
func (s *State) Quiet(o Ordinal) bool { return s.statuses[o] == status{} }

// Verified gives how the site of the member with row o proved itself, and when in
// milliseconds: 0 and 0 for a site that has not.
func (s *State) Verified(o Ordinal) (how Proof, at int64) {
	at, how = s.statuses[o].verification()
	return how, at
}

// Asleep says whether the member with row o is asleep, and in milliseconds since when it is
// or is not: 0 means when it joined.
func (s *State) Asleep(o Ordinal) (asleep bool, since int64) {
	return s.has(o, sleeping), s.statuses[o].since
}

// Changed gives when the owner of row o last changed or moved the member, took it out of the
// ring or back into it, in milliseconds, 0 for never.
func (s *State) Changed(o Ordinal) int64 { return s.statuses[o].changed }

// Claimed says whether the site of the member with row o has named its owner.
func (s *State) Claimed(o Ordinal) bool { return s.has(o, claimed) }

// findKey finds the holder of a key by the key's hash, too.
func (s *State) findKey(hash uint64, key string) (Ordinal, bool) {
	var buf [MaxURL]byte
	for p := s.keys.Probe(hash); ; {
		var o uint32
		var ok bool
		if p, o, ok = s.keys.Next(p); !ok || string(AppendKey(buf[:0], flat.Bytes(s.url(Ordinal(o))))) == key {
			return Ordinal(o), ok
		}
	}
}

// findHost finds the member that a bare host means by the host's name and its hash.
func (s *State) findHost(hash uint64, host string) (Ordinal, bool) {
	var buf [MaxURL]byte
	for p := s.hosts.Probe(hash); ; {
		var o uint32
		var ok bool
		if p, o, ok = s.hosts.Next(p); !ok || string(KeyHost(AppendKey(buf[:0], flat.Bytes(s.url(Ordinal(o)))))) == host {
			return Ordinal(o), ok
		}
	}
}

// Named finds the member in the ring with exactly this slug. [State.Resolve] tries
// it first.
func (s *State) Named(slug []byte) (Ordinal, bool) {
	if len(slug) > MaxSlug {
		return 0, false
	}
	o, ok := s.findSlug(s.seed.Hash(flat.View(slug)), flat.View(slug))
	return o, ok && s.Stands(o)
}

// Resolve finds the member in the ring that from names, as a visitor's page names
// itself. It tries, in this order:
//
//   - an exact slug
//   - a canonical URL
//   - the longest member URL that is a prefix of from, by whole path segments, on the
//     same host. If a member is at the root of the host, one below it is found for
//     pages other than its own address only if its site is verified or the same account
//     owns both: strangers do not name other people's pages
//   - a bare host, if from has no scheme, port or path: the member at the root of the
//     host, or else the one with the shortest path, and of several the earliest
//
// An address with a port or a path and without a scheme, such as host/path, means that page.
// Hosts compare without "www.". Host names must be A-labels: a host with other
// characters is unknown. A URL may have up to 2048 bytes without its query; a
// malformed query is ignored.
//
// scratch is overwritten and may grow; passing the same one again makes the
// call free of allocations.
func (s *State) Resolve(from []byte, scratch *[]byte) (Ordinal, bool) {
	if o, ok := s.Named(from); ok {
		return o, true
	}
	return s.ResolveAddress(from, scratch)
}

// ResolveAddress is [State.Resolve] for what is known to be no slug of a member in
// the ring.
func (s *State) ResolveAddress(from []byte, scratch *[]byte) (Ordinal, bool) {
	if bareHost(from) {
		host := appendLower((*scratch)[:0], bytes.TrimSuffix(from, dot))
		n := len(host)
		host = AppendKey(host, host)
		*scratch = host
		if host = host[n:]; len(host) > maxHostBytes {
			return 0, false
		}
		return s.findHost(s.seed.Hash(flat.View(host)), flat.View(host))
	}
	page, buf := from, (*scratch)[:0]
	if len(page) > maxPage {
		end := bytes.IndexAny(page, "?#")
		if end < 0 || end > maxPage {
			return 0, false
		}
		page = page[:end]
	}
	if scheme := missingScheme(page); scheme != "" {
		buf = append(append(buf, scheme...), page...)
		page = buf
	}
	begin := len(buf)
	buf, err := appendURL(buf, page)
	if err != nil {
		// The query or fragment is malformed: the path alone says which page it is.
		if end := bytes.IndexAny(page, "?#"); end >= 0 {
			buf, err = appendURL(buf[:begin], page[:end])
		}
	}
	*scratch = buf
	if err != nil {
		return 0, false
	}
	n := len(buf)
	buf = AppendKey(buf, buf[begin:])
	*scratch = buf
	key, whole := buf[n:], true
	if len(key) > MaxURL {
		whole = false
		// No member has so long a key: the walk begins with the longest parent that one
		// can have.
		key, _, _ = bytes.Cut(key, []byte("?"))
		if len(key) > MaxURL {
			key = key[:bytes.LastIndexByte(key[:MaxURL+1], '/')]
		}
	}
	for more := true; more; whole = false {
		if o, ok := s.ByKey(key); ok && (whole || s.holdsBelow(o, key)) {
			return o, true
		}
		key, more = KeyParent(key)
	}
	return 0, false
}

// holdsBelow reports whether the member with this key is found for the pages below
// its address, too: if another member is at the root of the host, only if its site has
// proved itself, or one account owns both.
func (s *State) holdsBelow(o Ordinal, key []byte) bool {
	end := bytes.IndexAny(key, "/?")
	if end < 0 {
		return true
	}
	root, ok := s.ByKey(key[:end])
	return !ok || s.statuses[o].verified != 0 || s.sameOwner(o, root)
}

// maxPage is the longest address of a page that is read, in bytes. Pages lie below
// members' addresses, so it is much longer than one of these; most servers take no
// longer one.
const maxPage = 2048

var dot = []byte(".")

// missingScheme gives what an address lacks that begins with a host and has a port or a path,
// as people write it: "https://", or before the port of http that. It is "" for any other.
func missingScheme(page []byte) string {
	end := bytes.IndexAny(page, ":/?#")
	if end <= 0 {
		return ""
	}
	if page[end] != ':' {
		return "https://"
	}
	port := page[end+1:]
	if i := bytes.IndexAny(port, "/?#"); i >= 0 {
		port = port[:i]
	}
	for _, c := range port {
		if !isDigit(c) {
			return ""
		}
	}
	switch string(bytes.TrimLeft(port, "0")) {
	case "": // none: what is before the colon may be a scheme
		return ""
	case "80":
		return "http://"
	}
	return "https://"
}

// bareHost says whether ref is a name without scheme, port and path.
func bareHost(ref []byte) bool {
	for _, c := range ref {
		if !isLetter(c) && !isDigit(c) && c != '-' && c != '.' && c != '_' {
			return false
		}
	}
	return len(ref) > 0
}

func appendLower(dst, name []byte) []byte {
	for _, c := range name {
		dst = append(dst, lower(c))
	}
	return dst
}
