package host

import (
	"math/rand/v2"

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
	coretest.Asker
	seed  uint64
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
	s := &script{Asker: coretest.Asker{Rand: rand.New(rand.NewPCG(seed, 0x77617374)), Members: scriptLength / 2}, seed: seed}
	s.call(abi.OpOpen, capacity, nil)
	steps := coretest.Generate(seed, scriptLength)
	for i, step := range steps {
		if step.Event == nil {
			s.call(abi.OpAdvance, uint64(step.Now), nil)
		} else {
			record := abi.AppendRecord(nil, abi.Record{Event: step.EventBytes, Texts: step.TextBytes})
			if s.IntN(4) == 0 {
				s.call(abi.OpApply, 0, s.Damage(record))
			}
			if s.IntN(8) == 0 {
				event := s.Damage(step.EventBytes)
				s.call(abi.OpApply, 0, abi.AppendRecord(nil, abi.Record{Event: event, Texts: step.TextBytes}))
			}
			s.call(abi.OpApply, 0, record)
		}
		if step.Texts != nil {
			s.Names = append(s.Names, step.Texts.Name.Value, step.Texts.URL.Value)
		}
		for s.askedSoFar() < scriptTargets*(i+1)/len(steps) {
			s.call(abi.OpServe, s.Uint64(), s.Target())
		}
	}
	s.call(abi.OpRewind, 1_760_000_000+uint64(s.IntN(1e6)), nil)
	s.call(abi.OpServe, s.Uint64(), []byte("/api/leaderboard"))
	s.call(abi.OpServe, s.Uint64(), []byte("/api/ring"))
	s.call(abi.OpServeAll, s.Uint64(), s.several())
	s.call(abi.OpServeAll, s.Uint64(), s.Damage(s.several()))
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
		s.load(s.Damage(snapshot))
	}
	s.call(abi.OpLoad, 1<<40, nil)
	s.call(abi.OpOpen, 1, nil)
	s.load(snapshot)
	s.call(abi.OpOpen, 1<<40, nil)
	s.call(abi.OpOpen, capacity, nil)
	s.load(snapshot)
	s.call(abi.OpDigest, 0, nil)
	for range 4 {
		s.call(abi.OpServe, s.Uint64(), s.Target())
	}
	return s.calls
}

// load has a snapshot loaded in pieces of all lengths.
func (s *script) load(snapshot []byte) {
	s.call(abi.OpLoad, uint64(len(snapshot)), nil)
	for len(snapshot) > 0 {
		n := 1 + s.IntN(len(snapshot))
		s.call(abi.OpPiece, 0, snapshot[:n])
		snapshot = snapshot[n:]
	}
	s.call(abi.OpLoaded, 0, nil)
}

// several makes the input of an OpServeAll.
func (s *script) several() (in []byte) {
	for range s.IntN(8) {
		in, _ = abi.AppendTarget(in, s.Target())
	}
	return in
}
