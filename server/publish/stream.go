package publish

import (
	"encoding/base64"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"webring/core/snap"
)

// stream is the body of an event stream (WHATWG HTML, "Server-sent events"). The
// connection's goroutine reads it and sends each piece at once, so a follower needs no
// goroutine of its own. When the follower has gone, the write fails.
type stream struct {
	sources   *Switch
	stopping  <-chan struct{}
	conn      net.Conn
	heartbeat time.Duration
	release   func()

	sent    string // id of the checkpoint sent last
	size    uint64 // and how many events it has; 0 for one of another stream
	pending []byte // read next
}

// stream answers with checkpoints as they come.
func (h *handlers) stream(ctx *fasthttp.RequestCtx, release func()) {
	answer(ctx, "text/event-stream", forNobody)
	ctx.Response.Header.Set("X-Accel-Buffering", "no") // for proxies that would wait for more
	ctx.SetConnectionClose()
	ctx.Response.SetBodyStream(&stream{
		sources: h.Switch, stopping: ctx.Done(), conn: ctx.Conn(), heartbeat: h.heartbeat,
		release: release,
		sent:    string(ctx.Request.Header.Peek("Last-Event-ID")),
		pending: []byte(":\n\n"), // lets the header go out
	}, -1)
}

// Read waits for what is to be sent next. It ends when the server stops.
func (s *stream) Read(b []byte) (int, error) {
	if len(s.pending) == 0 && !s.wait() {
		return 0, io.EOF
	}
	// The server's bound on writing is for answers that have an end.
	if err := s.conn.SetWriteDeadline(time.Now().Add(sendTime)); err != nil {
		return 0, err
	}
	n := copy(b, s.pending)
	s.pending = s.pending[n:]
	return n, nil
}

// Close ends the stream and releases the semaphore.
func (s *stream) Close() error {
	s.release()
	return nil
}

// wait fills pending with the next checkpoint, or with a comment after a silence of
// [heartbeat]. It returns false when the server stops.
func (s *stream) wait() bool {
	silence := time.NewTimer(s.heartbeat)
	defer silence.Stop()
	for {
		replaced := s.sources.replaced.Wait()
		source := s.sources.source()
		changed := source.Changed()
		note := source.Checkpoint()
		if id, size, ok := idOf(note); ok && id != s.sent {
			s.sent = id
			s.pending = s.appendEvents(nil, source, size)
			s.pending = appendEvent(s.pending, id, note)
			return true
		}
		select {
		case <-changed:
		case <-replaced:
		case <-silence.C:
			s.pending = []byte(":\n\n")
			return true
		case <-s.stopping:
			return false
		}
	}
}

const (
	// mostCarried is how many events come with a checkpoint, and mostCarriedBytes how
	// long they may be.
	mostCarried, mostCarriedBytes = 64, 32 << 10
	// carriedLine is how many bytes of them make a line.
	carriedLine = 3 << 10
)

// appendEvents appends the ledger's events since the checkpoint that was sent before, if
// they are few. A follower then needs no further request for them, which would take as
// long again. Clients that do not know these fields skip them.
func (s *stream) appendEvents(b []byte, source Source, size uint64) []byte {
	from := s.size
	s.size = size
	if from == 0 || size <= from || size-from > mostCarried {
		return b
	}
	var carried []byte
	for at := from; at < size; {
		// A range ends with its block.
		records, err := source.Events(at, int(min(size-at, snap.BlockEvents-at%snap.BlockEvents)))
		if err != nil || len(records) == 0 {
			return b // the follower asks for them
		}
		for _, r := range records {
			if carried = snap.AppendRecord(carried, r); len(carried) > mostCarriedBytes {
				return b
			}
		}
		at += uint64(len(records))
	}
	b = append(strconv.AppendUint(append(b, "from: "...), from, 10), '\n')
	for line := range slices.Chunk(carried, carriedLine) {
		b = append(base64.StdEncoding.AppendEncode(append(b, "events: "...), line), '\n')
	}
	return b
}

func appendEvent(b []byte, id string, note []byte) []byte {
	b = append(append(append(b, "id: "...), id...), '\n')
	for line := range strings.SplitSeq(strings.TrimSuffix(string(note), "\n"), "\n") {
		b = append(append(append(b, "data: "...), line...), '\n')
	}
	return append(b, '\n')
}
