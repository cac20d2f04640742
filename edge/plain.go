package edge

import (
	"bytes"

	"webring/core/api"
	"webring/edge/describe"
	"webring/edge/uri"
	"webring/edge/voucher"
)

// maxPlain is the longest request that a lane takes, in bytes, header included.
const maxPlain = 4 << 10

// plainRead is a request that a lane answers. What it points to is the
// connection's buffer.
type plainRead struct {
	target      []byte
	ifNoneMatch [][]byte
	client      [][]byte                   // the lines in which a proxy names its client
	noted       [len(notedFields)][][]byte // the lines of each of them
}

// notedFields are those that say which form of a page is asked for.
var notedFields = [...]string{notedAccept: "Accept", notedAcceptEncoding: "Accept-Encoding"}

// The places of notedFields.
const (
	notedAccept = iota
	notedAcceptEncoding
)

// PeekAll gives the lines of one of them, or of If-None-Match.
func (q *plainRead) PeekAll(name string) [][]byte {
	if name == "If-None-Match" {
		return q.ifNoneMatch
	}
	for i, f := range notedFields {
		if f == name {
			return q.noted[i]
		}
	}
	return nil
}

// note keeps a line of one of them.
func (q *plainRead) note(i int, value []byte) { q.noted[i] = append(q.noted[i], value) }

// front says whether the front page is asked for.
func (q *plainRead) front() bool { return len(q.target) == 1 || q.target[1] == '?' }

// reading says what was found at the beginning of what a client has sent.
type reading uint8

const (
	isPlain reading = iota // a plain read, whole
	isPart                 // what may become one
	isOther                // anything else
)

// parse takes the first request from b and gives its length; named is the field in
// which a proxy names its client, "" for what no proxy sends. A request is plain
// if nothing about it is unusual: GET in HTTP/1.1 for one of the paths, every
// byte printable, one Host, no body, no word about the connection but to keep
// it, version 1 if any, and no wish for the front page as Markdown. What is not
// plain is no matter of opinion here: all of it is left to fasthttp, which is the
// judge of what a request is.
func (q *plainRead) parse(b []byte, paths *plainPaths, named string) (n int, what reading) {
	const method, version = "GET /", " HTTP/1.1\r\n"
	if len(b) < len(method) || string(b[:len(method)]) != method {
		if len(b) < len(method) && string(b) == method[:len(b)] {
			return 0, isPart
		}
		return 0, isOther
	}
	end := bytes.IndexByte(b, '\n')
	if end < 0 {
		return 0, partial(b)
	}
	line := b[len(method)-1 : end+1]
	if len(line) < len(version) || string(line[len(line)-len(version):]) != version {
		return 0, isOther
	}
	q.target = line[:len(line)-len(version)]
	if !uri.IsPrintable(q.target) || bytes.IndexByte(q.target, ' ') >= 0 || bytes.IndexByte(q.target, '#') >= 0 || !paths.have(q.target) {
		return 0, isOther
	}
	q.ifNoneMatch, q.client = q.ifNoneMatch[:0], q.client[:0]
	for i := range q.noted {
		q.noted[i] = q.noted[i][:0]
	}
	hosts := 0
	for at := end + 1; ; {
		length := bytes.IndexByte(b[at:], '\n')
		if length < 0 {
			return 0, partial(b)
		}
		line := b[at : at+length]
		at += length + 1
		if len(line) == 0 || line[len(line)-1] != '\r' {
			return 0, isOther
		}
		if line = line[:len(line)-1]; len(line) == 0 {
			if hosts != 1 || q.front() && prefersMarkdown(listField(q, "Accept")) {
				return 0, isOther
			}
			return at, isPlain
		}
		if !uri.IsPrintable(line) {
			return 0, isOther
		}
		name, value := field(line)
		if name == nil || !q.take(name, value, &hosts) {
			return 0, isOther
		}
		if len(name) == len(named) && bytes.EqualFold(name, []byte(named)) {
			q.client = append(q.client, value)
		}
	}
}

// partial is what a request is of which more is to come.
func partial(b []byte) reading {
	if len(b) >= maxPlain {
		return isOther
	}
	return isPart
}

// field splits a line. The name is nil when it cannot be one.
func field(line []byte) (name, value []byte) {
	for i, c := range line {
		if c == ':' {
			if i == 0 {
				return nil, nil
			}
			return line[:i], trim(line[i+1:])
		}
		if !token[c] {
			return nil, nil
		}
	}
	return nil, nil
}

// token are the bytes of field names (RFC 9110, 5.6.2).
var token = func() (is [256]bool) {
	for c := range is {
		is[c] = '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z' || c < 0x80 && bytes.IndexByte([]byte("!#$%&'*+-.^_`|~"), byte(c)) >= 0
	}
	return is
}()

// take notes what a field says. It reports false for one with which a request
// is not plain. By length most fields are known not to matter.
func (q *plainRead) take(name, value []byte, hosts *int) bool {
	is := func(field string) bool { return bytes.EqualFold(name, []byte(field)) }
	switch len(name) {
	case len("Host"):
		if is("Host") {
			*hosts++
			return plainHost(value)
		}
	case len("Expect"): // and Accept
		if is("Accept") {
			q.note(notedAccept, value)
		}
		return !is("Expect")
	case len("Upgrade"): // and Trailer
		return !is("Upgrade") && !is("Trailer")
	case len("Connection"):
		return !is("Connection") || bytes.EqualFold(value, []byte("keep-alive"))
	case len("Api-Version"):
		return !is("Api-Version") || string(value) == apiVersion
	case len(voucher.Field):
		return !is(voucher.Field)
	case len("If-None-Match"):
		if is("If-None-Match") {
			q.ifNoneMatch = append(q.ifNoneMatch, value)
		}
	case len("Content-Length"):
		return !is("Content-Length")
	case len("Accept-Encoding"):
		if is("Accept-Encoding") {
			q.note(notedAcceptEncoding, value)
		}
	case len("Transfer-Encoding"):
		return !is("Transfer-Encoding")
	}
	return true
}

// plainHost says whether a Host is a name or an IPv4 address, with or without a
// port: nothing that could be read in two ways.
func plainHost(host []byte) bool {
	for _, c := range host {
		if !('0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z' || c == '.' || c == '-' || c == ':') {
			return false
		}
	}
	name, port, found := bytes.Cut(host, []byte(":"))
	if found {
		for _, c := range port {
			if c < '0' || c > '9' {
				return false
			}
		}
	}
	return len(name) > 0 && len(port) <= 5 && (!found || len(port) > 0)
}

// plainPaths are the paths that lanes answer: those of the core, spelled
// without escapes, and the front page, which most people ask for and nothing else.
type plainPaths struct {
	exact  map[string]bool
	detail bool // those below /api/ring/, too
}

// newPlainPaths leaves out what is deprecated: those answers carry more.
func newPlainPaths(deprecated map[string]describe.Deprecation) *plainPaths {
	p := &plainPaths{exact: map[string]bool{"/": true}}
	for _, path := range api.Paths() {
		_, old := deprecated[path]
		if path == string(ringPrefix)+"{slug}" {
			p.detail = !old
		} else {
			p.exact[path] = !old
		}
	}
	return p
}

// have says whether the path of a target is one of them.
func (p *plainPaths) have(target []byte) bool {
	path := target
	if i := bytes.IndexByte(target, '?'); i >= 0 {
		path = target[:i]
	}
	if plain, known := p.exact[string(path)]; known {
		return plain
	}
	if !p.detail || len(path) <= len(ringPrefix) || string(path[:len(ringPrefix)]) != string(ringPrefix) {
		return false
	}
	for _, c := range path[len(ringPrefix):] {
		if !('0' <= c && c <= '9' || 'a' <= c && c <= 'z' || c == '-') {
			return false
		}
	}
	return true
}
