package abi

import (
	"encoding/binary"

	"webring/core"
	"webring/core/api"
	"webring/core/flat"
	"webring/core/snap"
)

// Version is the version of what [Core.Call] takes and gives. A host drives
// only modules of its own version; it grows with any change to an operation or
// to an encoding here, and not with the documents themselves.
const Version = 9

// The operations of [Core.Call], by what they take in arg and in, and what
// follows the header in their reply.
const (
	// OpVersion: rest is [Version] as u32. It is the one operation that every
	// version has.
	OpVersion uint32 = iota
	// OpOpen: starts with capacity arg from an empty ledger.
	OpOpen
	// OpApply: folds the records in, at most [MaxRecords], in order. Refused,
	// the records before the one at the position in the header have been applied.
	// With an arg of 1, a record is refused, too, if its texts are not those that its
	// event commits to: hosts that share the code of [snap.Verify] call that instead.
	OpApply
	// OpAdvance: brings the clock to second arg, unless it is there already.
	OpAdvance
	// OpRewind: sets the clock back to second arg, but not before the last event.
	OpRewind
	// OpServe: answers a GET for the target in with the random bits arg; rest
	// is a response.
	OpServe
	// OpBaseURL: rest is the base URL.
	OpBaseURL
	// OpDigest: rest is the digest of the state, 16 bytes.
	OpDigest
	// OpSnapshot: rest is a snapshot of the state.
	OpSnapshot
	// OpRoom: allocates room for the memory of an image, arg bytes; rest is its address
	// as u64. The host writes the memory there.
	OpRoom
	// OpAttach: starts from the image with the header in and the memory in the room, with
	// capacity arg; see [core.Attach]. Refused, the core is as it was. The room is freed
	// in any case.
	OpAttach
	// OpServeAll: answers a GET for each of the targets in, at most [MaxTargets], with
	// the random bits arg for all; rest are as many responses. Refused when they would
	// take more than [MaxAnswers] bytes.
	OpServeAll
	// OpLoad: begins to load a snapshot of arg bytes, with the capacity that the core has.
	// The room that this takes is in proportion to arg. The core answers from what it has
	// until OpLoaded. A snapshot that is being loaded is given up.
	OpLoad
	// OpPiece: takes the next bytes in of the snapshot. Refused, it is given up.
	OpPiece
	// OpLoaded: starts from the snapshot, all of which has been taken. Refused, the core is
	// as it was, and the snapshot is given up.
	OpLoaded
)

// Bounds of one OpServeAll: the number of targets, and the bytes of all responses. A
// sitemap reads the most: ten documents of 500 members with the longest words fit in.
const (
	MaxTargets = 256
	MaxAnswers = 48 << 20
)

// MaxRecords is how many records one OpApply takes.
const MaxRecords = snap.BlockEvents

// maxReused is the longest buffer that is reused for the next answer: long enough for the
// longest document, 500 members with the longest words, but not for a snapshot.
const maxReused = 8 << 20

// maxCapacity is what an [core.Ordinal] can count.
const maxCapacity = 1<<32 - 1

// maxRoom is the memory of a guest, and more than any image takes.
const maxRoom = 1<<32 - 1

// Reply is what a call answered.
type Reply struct {
	Refused bool   // then Rest says why, in UTF-8
	Seq     uint64 // records applied
	Second  int64  // the clock
	Last    int64  // second of the last event; the clock is never before it
	Rest    []byte
}

// replyHeader is the length of a reply without its rest.
const replyHeader = 1 + 8 + 8 + 8

// DecodeReply reads all of b. Rest aliases b. It reports false for what is no
// reply.
func DecodeReply(b []byte) (r Reply, ok bool) {
	if len(b) < replyHeader || b[0] > 1 {
		return r, false
	}
	r.Refused = b[0] == 1
	r.Seq = binary.LittleEndian.Uint64(b[1:])
	r.Second = int64(binary.LittleEndian.Uint64(b[9:]))
	r.Last = int64(binary.LittleEndian.Uint64(b[17:]))
	r.Rest = b[replyHeader:]
	return r, true
}

// Call drives a core from a host that does not share its memory. It takes an operation, a
// number and bytes, and returns bytes. Calls on one core must not run at the same time. Call
// accepts any input: it refuses what it cannot do, and the core stays usable.
//
// The reply is valid until the next call. Integers are little-endian:
//
//	reply = refused(u8, 0 or 1) seq(u64) second(i64) last(i64) rest
//
// [AppendRecord] writes records and [AppendTarget] targets; [DecodeReply],
// [DecodeResponse] and [DecodeResponses] read what comes back.
func (c *Core) Call(op uint32, arg uint64, in []byte) []byte {
	if op == OpServe {
		return c.Answer(arg, in)
	}
	c.ready = false
	if cap(c.reply) > maxReused {
		c.reply = nil
	}
	c.reply = append(c.reply[:0], make([]byte, replyHeader)...)
	if why := c.do(op, arg, in); why != "" {
		c.reply = append(c.reply[:replyHeader], why...)
		c.reply[0] = 1
	}
	c.putHeader(flat.Write(c.reply[:1]))
	return c.reply
}

// putHeader writes the header of a reply, but for its first byte.
func (c *Core) putHeader(w flat.Pen) {
	w.Put(c.Seq(), 8).Put(uint64(c.Second()), 8).Put(uint64(c.Last()), 8)
}

// ahead is the length of what is before the texts in the reply to OpServe.
const ahead = replyHeader + responseHeader

// leastAnswer is the length of the first buffer for answers.
const leastAnswer = 64 << 10

// Answer is Call for OpServe, which nearly all calls are. The body is written in its place
// in the reply and is not copied. The header of the reply is written once for all answers
// between two other operations.
func (c *Core) Answer(random uint64, target []byte) []byte {
	if !c.ready {
		c.prepare()
	}
	r := &c.response
	api.Serve(c.state, target, random, r)
	at, within := flat.Within(r.Body, r.Location)
	n := len(r.Body)
	if !within || len(r.Next)+len(r.Prev) > 0 || flat.Address(r.Body) != flat.Address(c.answer)+ahead {
		at, n = c.gather(at, within)
	}
	putResponse(flat.Write(c.answer[:replyHeader]), r, at)
	return c.answer[:ahead+n]
}

// prepare brings ranks up to date, makes a buffer for answers, and begins them.
func (c *Core) prepare() {
	if !c.settled {
		c.Advance(0)
		c.settled = true
	}
	if len(c.answer) == 0 || len(c.answer) > maxReused {
		c.newAnswer(leastAnswer)
	}
	c.beginAnswers()
}

// beginAnswers writes the header of the next replies. A buffer longer than maxReused serves
// one reply only.
func (c *Core) beginAnswers() {
	c.putHeader(flat.Write(c.answer[:0]).Byte(0))
	c.ready = len(c.answer) <= maxReused
}

// newAnswer makes a buffer of size bytes for answers, in which bodies are written.
func (c *Core) newAnswer(size int) {
	c.answer = make([]byte, size)
	c.response.Body = c.answer[ahead:ahead]
}

// gather copies into the reply the texts of an answer that do not lie there yet. It gives
// the length of all texts, and where Location lies among them. If Location lies within the
// body, that is at.
func (c *Core) gather(at int, within bool) (now, length int) {
	r := &c.response
	body := r.Body
	parts := [...][]byte{nil, r.Next, r.Prev}
	if !within {
		at, parts[0] = len(body), r.Location
	}
	length = len(body)
	for _, part := range parts {
		length += len(part)
	}
	if flat.Address(body) != flat.Address(c.answer)+ahead || length > len(c.answer)-ahead {
		// The buffer is long enough for the next answer of this length.
		c.newAnswer(ahead + max(length, cap(body)))
		c.beginAnswers()
	}
	rest := c.answer[ahead:]
	r.Body = rest[:copy(rest, body)]
	rest = rest[len(body):]
	for _, part := range parts {
		rest = rest[copy(rest, part):]
	}
	return at, length
}

// do performs an operation and appends to the reply what follows the header, or says why it
// refuses.
func (c *Core) do(op uint32, arg uint64, in []byte) (why string) {
	switch op {
	case OpVersion:
		c.reply = binary.LittleEndian.AppendUint32(c.reply, Version)
	case OpOpen:
		return c.open(arg)
	case OpApply:
		return c.applyAll(in, arg == 1)
	case OpAdvance, OpRewind:
		if arg > core.MaxStamp/1000 {
			return "abi: second out of range"
		}
		if op == OpAdvance {
			c.Advance(int64(arg))
		} else {
			c.Rewind(int64(arg))
		}
		c.settled = true
	case OpBaseURL:
		c.reply = append(c.reply, c.BaseURL()...)
	case OpDigest:
		_, digest := c.Digest()
		c.reply = append(c.reply, digest[:]...)
	case OpSnapshot:
		c.reply = c.AppendSnapshot(c.reply)
	case OpRoom:
		if arg > maxRoom {
			return "abi: room out of range"
		}
		c.room = make([]byte, arg)
		c.reply = binary.LittleEndian.AppendUint64(c.reply, flat.Address(c.room))
	case OpAttach:
		return c.attach(arg, in)
	case OpServeAll:
		return c.serveAll(arg, in)
	case OpLoad:
		return c.load(arg)
	case OpPiece:
		return c.piece(in)
	case OpLoaded:
		return c.loaded()
	default:
		return "abi: no such operation"
	}
	return ""
}

func (c *Core) open(capacity uint64) (why string) {
	if capacity > maxCapacity {
		return "abi: capacity out of range"
	}
	c.state, c.settled = New(int(capacity), c.state.Secret()).state, false
	return ""
}

func (c *Core) load(size uint64) (why string) {
	c.loader = nil
	if size > maxRoom {
		return "abi: size out of range"
	}
	c.loader = snap.NewLoader(c.state.Capacity(), c.state.Secret(), int(size), Means{})
	return ""
}

func (c *Core) piece(in []byte) (why string) {
	if c.loader == nil {
		return notLoading
	}
	if err := c.loader.Add(in); err != nil {
		c.loader = nil
		return err.Error()
	}
	return ""
}

func (c *Core) loaded() (why string) {
	loader := c.loader
	if c.loader = nil; loader == nil {
		return notLoading
	}
	st, err := loader.State()
	if err != nil {
		return err.Error()
	}
	c.state, c.settled = st, false
	return ""
}

const notLoading = "abi: no snapshot is being loaded"

func (c *Core) attach(capacity uint64, header []byte) (why string) {
	memory := c.room
	c.room = nil
	if capacity > maxCapacity {
		return "abi: capacity out of range"
	}
	attached, err := Attach(int(capacity), header, memory)
	if err != nil {
		return err.Error()
	}
	c.state, c.settled = attached.state, true
	return ""
}

func (c *Core) applyAll(in []byte, verify bool) (why string) {
	var err error
	if c.records, err = snap.AppendRecords(c.records[:0], in); err != nil {
		return err.Error()
	}
	defer clear(c.records) // they alias the input
	c.settled = false
	for _, r := range c.records {
		if verify {
			err = snap.Verify(r.Event, r.Texts)
		}
		if err == nil {
			err = c.Apply(r.Event, r.Texts)
		}
		if err != nil {
			return err.Error()
		}
	}
	return ""
}

// AppendRecord appends a record to the input of [OpApply]; see
// [snap.AppendRecord].
func AppendRecord(dst []byte, r Record) []byte { return snap.AppendRecord(dst, r) }
