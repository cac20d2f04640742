package fastpath

import (
	"bytes"

	"webring/edge/front"
	"webring/edge/voucher"
)

// maxRequest is the longest request that is answered here, in bytes.
const maxRequest = 4 << 10

// Request is a plain read. It points into the connection's buffer, and holds until its
// answer has been given.
type Request struct {
	Target      []byte
	Route       int // as [Config.Serves] gave it
	Client      front.Client
	Holder      Holder   // of its connection
	IfNoneMatch [][]byte // its lines
	UserAgent   []byte   // the last line of it
	ID          []byte   // what it is called in answers and logs

	long                   bool     // as [Config.Serves] says
	ids, traces            [][]byte // lines of the fields that may name it
	madeID                 []byte
	maker                  front.IDMaker
	accept, acceptEncoding [][]byte
	proxyLines             [][]byte // of the field in which a proxy names its client
}

// PeekAll gives the lines of Accept, Accept-Encoding or If-None-Match, as fasthttp does.
func (r *Request) PeekAll(name string) [][]byte {
	switch name {
	case "Accept":
		return r.accept
	case "Accept-Encoding":
		return r.acceptEncoding
	case "If-None-Match":
		return r.IfNoneMatch
	}
	return nil
}

// reading says what was found at the beginning of what a client has sent.
type reading uint8

const (
	isPlain reading = iota // a plain read, whole
	isPart                 // what may become one
	isOther                // anything else
)

// parse takes the first request from b and gives its length. proxyField is the field in
// which a proxy names its client, "" for what no proxy sends. A request is plain
// if nothing about it is unusual: GET in HTTP/1.1 for a target that is served, every
// byte printable, one Host, no body, no word about the connection but to keep
// it, and the one API version if any. Everything else is left to fasthttp, which alone
// decides what a request is.
func (r *Request) parse(b []byte, cfg *Config, proxyField string) (n int, what reading) {
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
	r.Target = line[:len(line)-len(version)]
	if !front.IsPrintable(r.Target) || bytes.IndexByte(r.Target, ' ') >= 0 || bytes.IndexByte(r.Target, '#') >= 0 {
		return 0, isOther
	}
	var served bool
	if r.Route, r.long, served = cfg.Serves(r.Target); !served {
		return 0, isOther
	}
	r.IfNoneMatch, r.accept, r.acceptEncoding, r.proxyLines = r.IfNoneMatch[:0], r.accept[:0], r.acceptEncoding[:0], r.proxyLines[:0]
	r.UserAgent, r.ids, r.traces = nil, r.ids[:0], r.traces[:0]
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
			if hosts != 1 {
				return 0, isOther
			}
			r.identify()
			return at, isPlain
		}
		if !front.IsPrintable(line) {
			return 0, isOther
		}
		name, value := splitField(line)
		if name == nil || !r.take(name, value, cfg, &hosts) {
			return 0, isOther
		}
		if len(name) == len(proxyField) && bytes.EqualFold(name, []byte(proxyField)) {
			r.proxyLines = append(r.proxyLines, value)
		}
	}
}

// identify finds what the request is called, or makes it up.
func (r *Request) identify() {
	if r.ID = front.GivenID(r.ids, r.traces); r.ID == nil {
		r.madeID = r.maker.Append(r.madeID[:0])
		r.ID = r.madeID
	}
}

// partial says what a request is of which more is to come.
func partial(b []byte) reading {
	line := b[bytes.LastIndexByte(b, '\n')+1:]
	if len(b) >= maxRequest || !front.IsPrintable(bytes.TrimSuffix(line, []byte("\r"))) {
		return isOther
	}
	return isPart
}

// splitField splits a printable line. The name is nil when it cannot be one.
func splitField(line []byte) (name, value []byte) {
	for i, c := range line {
		if c == ':' {
			if i == 0 {
				return nil, nil
			}
			return line[:i], trimSpaces(line[i+1:])
		}
		if !isToken[c] {
			return nil, nil
		}
	}
	return nil, nil
}

// trimSpaces takes away spaces; a printable line has no tabs. [bytes.Trim] takes longer.
func trimSpaces(b []byte) []byte {
	for len(b) > 0 && b[0] == ' ' {
		b = b[1:]
	}
	for len(b) > 0 && b[len(b)-1] == ' ' {
		b = b[:len(b)-1]
	}
	return b
}

// isToken has the bytes of field names (RFC 9110, 5.6.2).
var isToken = func() (is [256]bool) {
	for c := range is {
		is[c] = '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z' || c < 0x80 && bytes.IndexByte([]byte("!#$%&'*+-.^_`|~"), byte(c)) >= 0
	}
	return is
}()

// take notes what a field says. It reports false for one with which a request
// is not plain. Most fields are known by their length not to matter.
func (r *Request) take(name, value []byte, cfg *Config, hosts *int) bool {
	is := func(field string) bool { return bytes.EqualFold(name, []byte(field)) }
	switch len(name) {
	case len("Host"):
		if is("Host") {
			*hosts++
			return isPlainHost(value)
		}
	case len("Expect"): // and Accept
		if is("Accept") {
			r.accept = append(r.accept, value)
		}
		return !is("Expect")
	case len("Upgrade"): // and Trailer, and Purpose
		return !is("Upgrade") && !is("Trailer") && !is("Purpose")
	case len("Connection"): // and User-Agent
		if is("User-Agent") {
			r.UserAgent = value
			return true
		}
		return !is("Connection") || bytes.EqualFold(value, []byte("keep-alive"))
	case len("Api-Version"): // and Traceparent, and Sec-Purpose
		if is(front.TraceField) {
			r.traces = append(r.traces, value)
			return true
		}
		return !is("Sec-Purpose") && (!is("Api-Version") || string(value) == cfg.APIVersion)
	case len(voucher.Field): // and X-Request-Id
		if is(front.IDField) {
			r.ids = append(r.ids, value)
			return true
		}
		return !is(voucher.Field)
	case len("If-None-Match"):
		if is("If-None-Match") {
			r.IfNoneMatch = append(r.IfNoneMatch, value)
		}
	case len("Content-Length"):
		return !is("Content-Length")
	case len("Accept-Encoding"):
		if is("Accept-Encoding") {
			r.acceptEncoding = append(r.acceptEncoding, value)
		}
	case len("Transfer-Encoding"):
		return !is("Transfer-Encoding")
	}
	return true
}

// isPlainHost reports whether a Host is a name or an IPv4 address, with or without a
// port: nothing that could be read in two ways.
func isPlainHost(host []byte) bool {
	for _, c := range host {
		if !('0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z' || c == '.' || c == '-' || c == ':') {
			return false
		}
	}
	name, port, found := bytes.Cut(host, []byte(":"))
	for _, c := range port {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(name) > 0 && len(port) <= 5 && (!found || len(port) > 0)
}
