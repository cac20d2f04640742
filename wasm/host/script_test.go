package host

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"

	"webring/core/abi"
	"webring/core/coretest"
)

// call is one use of the entry.
type call struct {
	op  uint32
	arg uint64
	in  []byte
}

// A script is what a seed asks of a core: its history, with damaged records
// between the right ones and members joining an almost full ring, targets of
// all kinds along the way, and damaged and right snapshots at its end. It does
// not depend on any answer but the snapshot, which snapshot gives.
type script struct {
	*rand.Rand
	seed  uint64
	names []string // of members: slugs and URLs
	calls []call
}

const (
	scriptLength  = 70
	scriptTargets = 100
	capacity      = 24
)

func (s *script) call(op uint32, arg uint64, in []byte) { s.calls = append(s.calls, call{op, arg, in}) }

// newScript writes the script of a seed up to the question for the snapshot,
// its last call.
func newScript(seed uint64) *script {
	s := &script{Rand: rand.New(rand.NewPCG(seed, 0x77617374)), seed: seed}
	s.call(abi.OpOpen, capacity, nil)
	steps := coretest.Generate(seed, scriptLength)
	for i, step := range steps {
		if step.Event == nil {
			s.call(abi.OpAdvance, uint64(step.Now), nil)
		} else {
			record := abi.AppendRecord(nil, abi.Record{Event: step.EventBytes, Texts: step.TextBytes})
			if s.IntN(4) == 0 {
				s.call(abi.OpApply, 0, s.damage(record))
			}
			if s.IntN(8) == 0 {
				event := s.damage(step.EventBytes)
				s.call(abi.OpApply, 0, abi.AppendRecord(nil, abi.Record{Event: event, Texts: step.TextBytes}))
			}
			s.call(abi.OpApply, 0, record)
		}
		if step.Texts != nil {
			s.names = append(s.names, step.Texts.Name.Value, step.Texts.URL.Value)
		}
		for s.askedSoFar() < scriptTargets*(i+1)/len(steps) {
			s.call(abi.OpServe, s.Uint64(), s.target())
		}
	}
	s.call(abi.OpRewind, 1_760_000_000+uint64(s.IntN(1e6)), nil)
	s.call(abi.OpServe, s.Uint64(), []byte("/api/leaderboard"))
	s.call(abi.OpServe, s.Uint64(), []byte("/api/ring"))
	s.call(abi.OpServeAll, s.Uint64(), s.several())
	s.call(abi.OpServeAll, s.Uint64(), s.damage(s.several()))
	s.call(abi.OpBaseURL, 0, nil)
	s.call(abi.OpDigest, 0, nil)
	s.call(99, 0, nil)
	s.call(abi.OpAdvance, 1<<63, nil)
	s.call(abi.OpSnapshot, 0, nil)
	return s
}

func (s *script) askedSoFar() (n int) {
	for _, c := range s.calls {
		if c.op == abi.OpServe {
			n++
		}
	}
	return n
}

// after writes what follows once the snapshot is known.
func (s *script) after(snapshot []byte) []call {
	s.calls = nil
	for range 6 {
		s.call(abi.OpOpen, capacity, s.damage(snapshot))
	}
	s.call(abi.OpOpen, 1<<40, snapshot)
	s.call(abi.OpOpen, 1, snapshot)
	s.call(abi.OpOpen, capacity, snapshot)
	s.call(abi.OpDigest, 0, nil)
	for range 4 {
		s.call(abi.OpServe, s.Uint64(), s.target())
	}
	return s.calls
}

// damage cuts bytes off, flips a bit, or adds bytes.
func (s *script) damage(b []byte) []byte {
	b = append([]byte(nil), b...)
	if len(b) == 0 {
		return []byte{byte(s.Uint32())}
	}
	switch s.IntN(5) {
	case 0:
		return b[:s.IntN(len(b))]
	case 1:
		return append(b, byte(s.Uint32()))
	}
	b[s.IntN(len(b))] ^= 1 << s.IntN(8)
	return b
}

// target makes a request target: an endpoint with parameters in some encoding,
// or something like one.
func (s *script) target() []byte {
	path := s.pick("/api", "/api/ring", "/api/ring", "/api/ring/next", "/api/ring/prev", "/api/ring/random", "/api/categories",
		"/api/widget", "/api/leaderboard", "/api/leaderboard", "/next", "/prev", "/random", "/api/ring/"+s.reference(), "/nothing", "", "/api/")
	if s.IntN(12) == 0 {
		path = strings.ReplaceAll(path, "a", s.pick("%61", "%6", "%zz", "A", "%FF"))
	}
	var query []string
	for range s.IntN(5) {
		switch s.IntN(10) {
		case 0, 1, 2:
			query = append(query, "from="+s.encode(s.reference()))
		case 3, 4:
			query = append(query, "kind="+s.pick("agent", "mcp", "website", "", "Agent", "%61gent"))
		case 5:
			query = append(query, "category="+s.pick("general", "tools", "a", "x-", "", "unused", "GENERAL", "a%00b"))
		case 6:
			query = append(query, "limit="+s.number())
		case 7:
			query = append(query, s.pick("offset=", "page=")+s.number())
		case 8:
			query = append(query, "format="+s.pick("redirect", "json", ""))
		default:
			query = append(query, s.garbage())
		}
	}
	target := path
	if len(query) > 0 || s.IntN(10) == 0 {
		target += "?" + strings.Join(query, s.pick("&", "&", "&", "&&", ";"))
	}
	b := []byte(target)
	if s.IntN(15) == 0 {
		b = s.damage(b)
	}
	return b
}

// several makes the input of an OpServeAll.
func (s *script) several() (in []byte) {
	for range s.IntN(8) {
		in, _ = abi.AppendTarget(in, s.target())
	}
	return in
}

func (s *script) reference() string {
	ref := s.pick("alpha-0", "beta-1", "a-very-long-name-indeed-2", "nobody", "a.com", "www.a.com", "h1.example", "https://a.com/foo/bar",
		"HTTPS://A.COM:443/./foo/../foo", "//a.com", "", "-", strings.Repeat("x", s.IntN(400)))
	if len(s.names) > 0 && s.IntN(2) == 0 {
		ref = s.names[s.IntN(len(s.names))] + s.pick("", "", "/", "/deeper", "?q=1", "#f")
	} else if s.IntN(2) == 0 {
		ref = fmt.Sprintf("%s-%d", s.pick("alpha", "beta", "a-very-long-name-indeed"), s.IntN(scriptLength/2))
	}
	return ref
}

func (s *script) encode(v string) string {
	switch s.IntN(3) {
	case 0:
		return url.QueryEscape(v)
	case 1:
		return url.PathEscape(v)
	}
	return v
}

func (s *script) number() string {
	return s.pick(fmt.Sprint(s.IntN(30)), fmt.Sprint(s.IntN(600)), "0", "1", "500", "501", "-1", "007", "", "x", "1e3",
		"9007199254740993", "9223372036854775808", "99999999999999999999999", "%31", "+1")
}

func (s *script) garbage() string {
	b := make([]byte, s.IntN(20))
	for i := range b {
		b[i] = byte(s.Uint32())
	}
	return string(b)
}

func (s *script) pick(from ...string) string { return from[s.IntN(len(from))] }
