package host

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/tetratelabs/wazero/api"

	"webring/core/abi"
	"webring/wasm/host/sharedmem"
)

// errTrap is wrapped by the errors of calls after which an instance must not be
// used again.
var errTrap = errors.New("host: the module trapped")

// background is the context of calls, which nothing ends.
var background = context.Background()

// smallInput is how many bytes a call may pass without asking the guest for memory.
const smallInput = 64 << 10

// instance is one copy of the guest with memory of its own. It has one user at
// a time.
type instance struct {
	module      api.Module
	memory      api.Memory
	call, input api.Function // each with a stack of its own, so looked up once
	stack       [3]uint64    // parameters and results
	small       uint32       // where inputs of up to smallInput bytes go
	stderr      firstBytes   // what the guest printed when it crashed

	linear *sharedmem.Memory // its memory, nil where wazero made it
	from   *image            // that it began from
	shared []byte            // the part of its memory that it then shared with others

	batch []byte // records on their way in

	seq     uint64 // records applied
	second  int64  // the clock
	last    int64  // second of the last event
	rewinds uint64 // how often its second was set back

	at *head // the last published head that it was at, nil before the first
}

// bind looks up what the guest must export.
func (in *instance) bind(module api.Module) error {
	in.module, in.memory = module, module.Memory()
	in.call, in.input = module.ExportedFunction("call"), module.ExportedFunction("input")
	if in.memory == nil || in.call == nil || in.input == nil {
		return errors.New("host: the module does not export memory, call and input")
	}
	in.stack[0] = smallInput
	if err := in.run(in.input); err != nil {
		return in.trapped(err)
	}
	in.small = uint32(in.stack[0])
	reply, err := in.do(abi.OpVersion, 0, nil)
	switch {
	case err != nil:
		return err
	case reply.Refused || len(reply.Rest) != 4:
		return errors.New("host: the module does not say its version")
	}
	if v := binary.LittleEndian.Uint32(reply.Rest); v != abi.Version {
		return fmt.Errorf("host: the module's entry has version %d, this host knows %d", v, abi.Version)
	}
	return nil
}

// run calls a function of the guest with what is on the stack.
func (in *instance) run(f api.Function) error {
	return f.CallWithStack(background, in.stack[:])
}

// do performs one operation. The reply's rest lies in the guest's memory: it
// holds until the next one. An error means that the instance is broken.
func (in *instance) do(op uint32, arg uint64, data []byte) (abi.Reply, error) {
	at := in.small
	if len(data) > smallInput {
		in.stack[0] = uint64(len(data))
		if err := in.run(in.input); err != nil {
			return abi.Reply{}, in.trapped(err)
		}
		at = uint32(in.stack[0])
	}
	if !in.memory.Write(at, data) {
		return abi.Reply{}, fmt.Errorf("%w: its input lies outside its memory", errTrap)
	}
	in.stack[0], in.stack[1], in.stack[2] = uint64(op), arg, uint64(len(data))
	if err := in.run(in.call); err != nil {
		return abi.Reply{}, in.trapped(err)
	}
	out, ok := in.memory.Read(uint32(in.stack[0]>>32), uint32(in.stack[0]))
	if !ok {
		return abi.Reply{}, fmt.Errorf("%w: its reply lies outside its memory", errTrap)
	}
	reply, ok := abi.DecodeReply(out)
	if !ok {
		return abi.Reply{}, fmt.Errorf("%w: its reply is none", errTrap)
	}
	in.seq, in.second, in.last = reply.Seq, reply.Second, reply.Last
	return reply, nil
}

// must performs an operation that only a broken core refuses.
func (in *instance) must(op uint32, arg uint64, data []byte) (abi.Reply, error) {
	reply, err := in.do(op, arg, data)
	if err == nil && reply.Refused {
		err = fmt.Errorf("%w: operation %d was refused: %.200s", errTrap, op, reply.Rest)
	}
	return reply, err
}

// serve answers one request, at the position and second of the instance.
func (in *instance) serve(target []byte, random uint64, r *Response) error {
	reply, err := in.must(abi.OpServe, random, target)
	if err != nil {
		return err
	}
	if !abi.DecodeResponse(reply.Rest, r) {
		return fmt.Errorf("%w: its response is none", errTrap)
	}
	r.Seq = reply.Seq
	return nil
}

// apply folds encoded records, at most [abi.MaxRecords], into the instance.
func (in *instance) apply(records [][]byte) (abi.Reply, error) {
	in.batch = in.batch[:0]
	for _, r := range records {
		in.batch = append(in.batch, r...)
	}
	reply, err := in.do(abi.OpApply, 0, in.batch)
	if cap(in.batch) > 1<<20 {
		in.batch = nil
	}
	return reply, err
}

func (in *instance) advance(second int64) error {
	_, err := in.must(abi.OpAdvance, uint64(max(second, 0)), nil)
	return err
}

// head gives the head at which the instance is.
func (in *instance) head(rewinds uint64) (*head, error) {
	reply, err := in.must(abi.OpBaseURL, 0, nil)
	if err != nil {
		return nil, err
	}
	return &head{seq: in.seq, second: in.second, last: in.last, rewinds: rewinds, baseURL: string(reply.Rest)}, nil
}

func (in *instance) digest() (seq uint64, digest [16]byte, err error) {
	reply, err := in.must(abi.OpDigest, 0, nil)
	if err == nil && copy(digest[:], reply.Rest) != len(digest) {
		err = fmt.Errorf("%w: its digest is none", errTrap)
	}
	return reply.Seq, digest, err
}

func (in *instance) trapped(err error) error {
	if bytes.Contains(in.stderr.text, []byte("out of memory")) {
		err = fmt.Errorf("%w: %w", ErrMemory, err)
	}
	return fmt.Errorf("%w: %w; it said: %s", errTrap, err, in.stderr.text)
}

// close frees the memory of an instance. It does nothing to a nil one.
func (in *instance) close() {
	if in == nil {
		return
	}
	if in.module != nil {
		_ = in.module.Close(background)
	}
	in.linear.Unmap()
	in.linear = nil
}

// firstBytes holds the beginning of what is written to it: a Go program that crashes
// prints the reason first.
type firstBytes struct{ text []byte }

func (t *firstBytes) Write(p []byte) (int, error) {
	t.text = append(t.text, p[:min(len(p), 1024-len(t.text))]...)
	return len(p), nil
}
