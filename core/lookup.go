package core

import "bytes"

// BySlug finds the row with exactly this slug. Slugs of removed members are
// found too: they are never given again.
func (s *State) BySlug(slug []byte) (Ordinal, bool) {
	o, ok := s.slugs[string(slug)]
	return o, ok
}

// ByKey finds the member in the ring with this identity key ([AppendKey]).
func (s *State) ByKey(key []byte) (Ordinal, bool) {
	o, ok := s.keys[string(key)]
	return o, ok
}

// Resolve finds the member in the ring that from means, the way a visitor's
// page names itself. In this order: an exact slug; a canonical URL; the
// longest member URL that is a path-segment prefix of the given one on the
// same host; a bare host, when from has no scheme, port or path, as the
// earliest member on it. Hosts compare without "www.". Host names must have
// been converted to A-labels: a host with other characters is unknown.
//
// scratch is overwritten and may grow; passing the same one again makes the
// call free of allocations.
func (s *State) Resolve(from []byte, scratch *[]byte) (Ordinal, bool) {
	if o, ok := s.BySlug(from); ok && s.members[o].live() {
		return o, true
	}
	if bareHost(from) {
		host := appendLower((*scratch)[:0], bytes.TrimSuffix(from, dot))
		n := len(host)
		host = AppendKey(host, host)
		*scratch = host
		if l := s.hosts[string(host[n:])]; len(l) > 0 {
			return l[0], true
		}
		return 0, false
	}
	// No member's URL is longer, so of a longer one only the path can matter.
	if len(from) > MaxURL {
		if i := bytes.IndexAny(from, "?#"); i >= 0 {
			from = from[:i]
		}
	}
	buf, err := AppendURL((*scratch)[:0], from)
	*scratch = buf
	if err != nil {
		return 0, false
	}
	n := len(buf)
	buf = AppendKey(buf, buf)
	*scratch = buf
	key, more := buf[n:], true
	for more {
		if o, ok := s.ByKey(key); ok {
			return o, true
		}
		key, more = KeyParent(key)
	}
	return 0, false
}

var dot = []byte(".")

// bareHost says whether ref is a name without scheme, port and path.
func bareHost(ref []byte) bool {
	for _, c := range ref {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '.' || c == '_') {
			return false
		}
	}
	return len(ref) > 0
}

func appendLower(dst, name []byte) []byte {
	for _, c := range name {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		dst = append(dst, c)
	}
	return dst
}
