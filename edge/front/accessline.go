package front

import (
	"bytes"
	"strconv"
	"time"
)

// AccessLine is one answered request. The slices are read during the call that takes it.
type AccessLine struct {
	At                        time.Time     // when the request had arrived
	Took                      time.Duration // until the answer was there, without sending it
	ID                        []byte        // as [GivenID] or [AppendID] gives it
	Client                    Client
	Method, Target, UserAgent []byte
	Status, Bytes             int // Bytes are the body's, 0 for a stream
}

// maxText is how much of a path, a from and a User-Agent is written, in bytes.
const maxText = 256

// fields appends the fields of a line in one format. What clients have sent is always in
// quotation marks.
type fields struct {
	dst   []byte
	json  bool
	begun bool
}

// name begins a field.
func (f *fields) name(name string) {
	switch {
	case f.json && f.begun:
		f.dst = append(f.dst, ',')
	case f.json:
		f.dst = append(f.dst, '{')
	case f.begun:
		f.dst = append(f.dst, ' ')
	}
	f.begun = true
	if f.json {
		f.dst = append(append(append(f.dst, '"'), name...), `":`...)
	} else {
		f.dst = append(append(f.dst, name...), '=')
	}
}

// quoted appends text: bytes that are not printable ASCII as escapes, each by itself, and
// no more than maxText of it.
func (f *fields) quoted(name string, text []byte) {
	const hex = "0123456789abcdef"
	f.name(name)
	f.dst = append(f.dst, '"')
	for _, c := range text[:min(len(text), maxText)] {
		switch {
		case c == '"' || c == '\\':
			f.dst = append(f.dst, '\\', c)
		case ' ' <= c && c < 0x7f:
			f.dst = append(f.dst, c)
		case f.json:
			f.dst = append(f.dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			f.dst = append(f.dst, '\\', 'x', hex[c>>4], hex[c&15])
		}
	}
	f.dst = append(f.dst, '"')
}

// word appends text of this project's own, which needs no escapes.
func (f *fields) word(name, text string) {
	f.name(name)
	if f.json {
		f.dst = append(append(append(f.dst, '"'), text...), '"')
	} else {
		f.dst = append(f.dst, text...)
	}
}

func (f *fields) number(name string, n int64) {
	f.name(name)
	f.dst = strconv.AppendInt(f.dst, n, 10)
}

// withoutAuthority cuts scheme and authority off a target in absolute form: a client may
// write a password there.
func withoutAuthority(path []byte) []byte {
	scheme, rest, found := bytes.Cut(path, []byte("://"))
	if !found || bytes.IndexByte(scheme, '/') >= 0 {
		return path
	}
	if at := bytes.IndexByte(rest, '/'); at >= 0 {
		return rest[at:]
	}
	return root
}

var root = []byte("/")

// appendLine appends a line as it is written. Clients are named by their networks unless
// whole is set.
func appendLine(dst []byte, l *AccessLine, json, whole bool) []byte {
	var room [64]byte
	f := fields{dst: dst, json: json}
	f.name("time")
	if json {
		f.dst = append(f.dst, '"')
	}
	f.dst = l.At.UTC().AppendFormat(f.dst, "2006-01-02T15:04:05.000Z")
	if json {
		f.dst = append(f.dst, '"')
	}
	f.word("level", "INFO")
	f.word("msg", "request")
	f.quoted("request", l.ID)
	if whole {
		f.quoted("client", append(room[:0], l.Client.String()...))
	} else {
		f.quoted("client", l.Client.AppendNetwork(room[:0]))
	}
	f.quoted("method", l.Method)
	path, query, _ := bytes.Cut(l.Target, []byte("?"))
	path = withoutAuthority(path)
	f.quoted("path", path)
	if from := Parameter(query, "from"); len(from) > 0 {
		f.quoted("from", from)
	}
	f.number("status", int64(l.Status))
	f.number("bytes", int64(l.Bytes))
	f.number("took_us", l.Took.Microseconds())
	f.quoted("agent", l.UserAgent)
	if json {
		f.dst = append(f.dst, '}')
	}
	return append(f.dst, '\n')
}
