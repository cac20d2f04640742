package host

import (
	"fmt"
	"math/rand/v2"

	"webring/core/abi"
)

// ServeAll answers a GET for each of at most [abi.MaxTargets] targets, all at one head,
// into the response in the same place.
func (n *Native) ServeAll(targets [][]byte, all []Response) {
	random := rand.Uint64()
	n.mu.RLock()
	defer n.mu.RUnlock()
	if n.dirty {
		failAll(n.core.Seq(), n.core.BaseURL(), all)
		return
	}
	n.core.ServeAll(targets, random, all)
}

// ServeAll answers as [Native.ServeAll] does, in one call of the module. Where Serve
// would answer with the problem internal, every response is that, and so it is when the
// responses take more than [abi.MaxAnswers] bytes.
func (p *Pool) ServeAll(targets [][]byte, all []Response) {
	s, n := p.acquire()
	if n != nil {
		n.ServeAll(targets, all)
	} else if s == nil || !p.serveAll(s, targets, all) {
		h := p.head.Load()
		failAll(h.seq, h.baseURL, all)
	}
}

// failAll makes each response the problem internal.
func failAll(seq uint64, baseURL string, all []Response) {
	for i := range all {
		abi.Fail(seq, baseURL, &all[i])
	}
}

func (p *Pool) serveAll(s *slot, targets [][]byte, all []Response) (answered bool) {
	err := errTrap
	defer func() { p.release(s, err) }()
	answered, err = s.in.serveAll(targets, rand.Uint64(), all)
	return answered && err == nil
}

// serveAll answers several requests in one call. It reports false when the module
// refuses them.
func (in *instance) serveAll(targets [][]byte, random uint64, all []Response) (answered bool, err error) {
	var encoded []byte
	for _, target := range targets {
		var ok bool
		if encoded, ok = abi.AppendTarget(encoded, target); !ok {
			return false, nil
		}
	}
	reply, err := in.do(abi.OpServeAll, random, encoded)
	if err != nil || reply.Refused {
		return false, err
	}
	if !abi.DecodeResponses(reply.Rest, all) {
		return false, fmt.Errorf("%w: its responses are none", errTrap)
	}
	for i := range all {
		all[i].Seq = reply.Seq
	}
	return true, nil
}
