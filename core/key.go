package core

import (
	"bytes"

	"webring/core/flat"
)

// key is the identity key of a member's URL, and the hashes by which a member
// is found.
type key struct {
	bytes      [MaxURL]byte
	len, hosts int // length of the key, and of the host with which it begins
	hash, host uint64
}

func (k *key) text() string { return flat.View(k.bytes[:k.len]) }

func (k *key) hostText() string { return flat.View(k.bytes[:k.hosts]) }

// of makes the key of a URL that is canonical: see [isCanonical].
func (k *key) of(seed *flat.Seed, url string) {
	k.spell(url)
	k.hash, k.host = seed.Hash(k.text()), seed.Hash(k.hostText())
}

// spell is [key.of] without the hashes.
func (k *key) spell(url string) {
	// Shorter than a canonical URL by its scheme at least.
	text := AppendKey(k.bytes[:0], flat.Bytes(url))
	k.len, k.hosts = len(text), len(KeyHost(text))
}

// depth says how far below the root of its host a member's site lies: two for each
// segment of its path, and one for a query or a port.
func (k *key) depth() (n int) {
	for i, c := range k.bytes[k.hosts:k.len] {
		switch {
		case c == '/':
			n += 2
		case c == '?':
			return n | 1
		case c == ':' && i == 0:
			n = 1
		}
	}
	return n
}

// isCanonical says whether url is what [AppendURL] would write.
func isCanonical(url string) bool {
	if isPlainURL(url) {
		return true
	}
	canonical, err := AppendURL(nil, []byte(url))
	return err == nil && string(canonical) == url
}

// The places in a plain URL where a byte may stand.
const (
	inHost = 1 << iota
	inPath
)

var plain = func() (table [256]byte) {
	for c := range 128 {
		c := byte(c)
		if c >= 'a' && c <= 'z' || isDigit(c) || c == '-' || c == '_' {
			table[c] |= inHost
		}
		if isUnreserved(c) && c != '.' || bytes.IndexByte([]byte("!$&'()*+,;=:@"), c) >= 0 {
			table[c] |= inPath
		}
	}
	return table
}()

// isPlainURL says that url is canonical, for the URLs that most members have:
// no port, query or escape, and no segment of the path that begins with a dot.
// Of others it says nothing. Loading a ring asks it of every member, and it
// takes a tenth of what [AppendURL] does.
func isPlainURL(url string) bool {
	const scheme = "https://"
	at := len(scheme)
	switch {
	case len(url) > MaxURL || len(url) <= at || url[:4] != scheme[:4]:
		return false
	case url[4:at] == scheme[4:]:
	case url[4:at-1] == "://":
		at--
	default:
		return false
	}
	host, label := at, at
	for ; at < len(url); at++ {
		c := url[at]
		if plain[c]&inHost != 0 {
			continue
		}
		if c != '.' && c != '/' || at == label || at-label > maxLabelBytes {
			return false
		}
		if label = at + 1; c == '/' {
			break
		}
	}
	if at == len(url) {
		return at > label && at-label <= maxLabelBytes && at-host <= maxHostBytes
	}
	if at-host > maxHostBytes {
		return false
	}
	for at++; at < len(url); at++ {
		c := url[at]
		if plain[c]&inPath == 0 && c != '/' && (c != '.' || url[at-1] == '/') {
			return false
		}
	}
	return true
}
