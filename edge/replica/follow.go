package replica

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net/http"
	"sync"
	"time"
)

const (
	// minPause and maxPause bound the wait before the next attempt.
	minPause, maxPause = 50 * time.Millisecond, 2 * time.Second
	// silence is how long a stream, which carries something every 10 seconds, may be
	// quiet, and pollSilence how long a long poll, which is held for 30 seconds.
	silence, pollSilence = 25 * time.Second, 45 * time.Second
	// pollFor is for how long polls are used where streams do not get through.
	pollFor = 5 * time.Minute
	// askEvery is the time between questions while the origin has no slot for a follower.
	askEvery = 2 * time.Second
	// maxNote is the longest signed checkpoint in bytes.
	maxNote = 8 << 10
)

// errNoStream is returned by stream when the response is not an event stream.
var errNoStream = errors.New("replica: no event stream")

// follow accepts checkpoints until ctx ends, from one origin after the other.
func (r *Replica) follow(ctx context.Context) {
	pause := minPause
	for ctx.Err() == nil {
		before, from := r.newest(), r.origin()
		if from == nil {
			select {
			case <-r.wake:
			case <-ctx.Done():
			}
			continue
		}
		err := r.connect(ctx, from)
		if ctx.Err() != nil {
			return
		}
		if r.newest() != before {
			pause = minPause
		}
		r.complain(from, err)
		r.origins.Skip(from.Origin)
		// Between half and all of the pause, so that edges do not return all at once.
		wait := time.NewTimer(pause/2 + rand.N(pause/2))
		select {
		case <-wait.C:
			pause = min(2*pause, maxPause)
		case <-r.wake:
			pause = minPause
		case <-ctx.Done():
		}
		wait.Stop()
	}
}

// newest is the id of the newest checkpoint, "" before the first.
func (r *Replica) newest() string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.signed == nil {
		return ""
	}
	return fmt.Sprintf("%d-%d", r.at.Size, r.at.Time)
}

// connect follows an origin over one connection, until that ends or something is refused.
// A checkpoint that is being accepted is not interrupted when the connection ends.
func (r *Replica) connect(ctx context.Context, from *origin) error {
	line, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(from.Gone(), cancel)()
	r.mu.Lock()
	r.disconnect = cancel
	r.mu.Unlock()
	var err error
	if time.Now().After(from.pollUntil) {
		err = r.stream(ctx, line, from)
		if errors.Is(err, errNoStream) && line.Err() == nil {
			from.pollUntil = time.Now().Add(pollFor)
			if errors.Is(err, errStalled) && r.origins.Several() {
				return err // it may be dead; it is polled when it is its turn again
			}
			r.log.Info("replica: no event stream gets through; polling", "origin", from.URL, "err", err)
			err = r.poll(ctx, line, from)
		}
	} else {
		err = r.poll(ctx, line, from)
	}
	if l, ok := errors.AsType[*laterError](err); ok {
		// The origin has no slot for another follower; a plain question needs none.
		r.log.Info("replica: the origin has no slot for another follower; asking now and then", "origin", from.URL, "err", err)
		return r.ask(ctx, line, from, l.after)
	}
	return err
}

// complain logs why following an origin stopped, once for each reason and minute.
func (r *Replica) complain(from *origin, err error) {
	if err == nil || err.Error() == from.complaint && time.Since(from.complained) < time.Minute {
		return
	}
	from.complaint, from.complained = err.Error(), time.Now()
	log := r.log.With("origin", from.URL)
	if errors.Is(err, errNotShown) {
		log.Error("replica: no core here takes what was signed; it is tried again", "err", err)
		return
	}
	if r.origins.Several() && (errors.Is(err, ErrShrunk) || errors.Is(err, ErrOlder)) {
		log.Warn("replica: this origin is behind what is shown here; the next one is asked", "err", err)
		return
	}
	served := "serving the last good state"
	if r.newest() == "" {
		served = "there is nothing to serve yet"
	}
	for _, refusal := range []error{ErrSignature, ErrOrigin, ErrShrunk, ErrOlder, ErrForked, ErrEvents, ErrState, ErrSnapshot} {
		if errors.Is(err, refusal) {
			log.Error("replica: refused; "+served, "err", err)
			return
		}
	}
	log.Warn("replica: not connected", "err", err)
}

// stream follows by an event stream. The stream is read while a checkpoint is being
// accepted, and of those that come meanwhile only the newest is accepted next. A stream
// without a checkpoint for [Replica.mostQuiet] is closed, even if other lines come: its
// source may have lost the origin, and another connection may lead to another source.
func (r *Replica) stream(ctx, line context.Context, from *origin) error {
	header := map[string]string{"Accept": "text/event-stream", "Cache-Control": "no-cache"}
	if id := r.newest(); id != "" {
		header["Last-Event-ID"] = id
	}
	line, answered, end := r.hurried(line)
	defer end()
	res, err := r.request(line, "/sync/checkpoint", silence, 0, header)
	answered()
	if errors.Is(err, errStalled) {
		return errors.Join(errNoStream, err)
	}
	if err != nil {
		return err
	}
	if media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); media != "text/event-stream" {
		res.Body.Close()
		return fmt.Errorf("%w but %q", errNoStream, media)
	}
	news, ended := make(chan event, 1), make(chan error, 1)
	var reading sync.WaitGroup
	reading.Go(func() {
		defer res.Body.Close()
		defer close(news)
		ended <- readEvents(res.Body, news)
	})
	defer reading.Wait()
	defer end()
	for {
		late := time.NewTimer(r.mostQuiet())
		select {
		case e, ok := <-news:
			late.Stop()
			if !ok {
				return <-ended
			}
			if err := r.take(ctx, from, e); err != nil {
				return err
			}
		case <-late.C:
			return fmt.Errorf("replica: event stream: %w", errStalled)
		}
	}
}

// readEvents puts the newest event into news, in place of one that was not taken, until
// the stream ends. The records of both are joined.
func readEvents(body io.Reader, news chan event) error {
	lines := bufio.NewReaderSize(body, maxNote)
	for heard := false; ; heard = true {
		e, err := readEvent(lines)
		if errors.Is(err, errStalled) && !heard {
			return errors.Join(errNoStream, err)
		}
		if err != nil {
			return err
		}
		select {
		case overtaken := <-news:
			e.carried = overtaken.carried.then(e.carried)
		default:
		}
		news <- e
	}
}

// ask follows by asking for the newest checkpoint now and then, for a while.
func (r *Replica) ask(ctx, line context.Context, from *origin, d time.Duration) error {
	for until := time.Now().Add(d); time.Now().Before(until); {
		signed, err := r.getNote(line, "/sync/checkpoint")
		if err != nil {
			return r.heed(err)
		}
		if err := r.take(ctx, from, event{signed: signed}); err != nil {
			return err
		}
		if err := rest(line, askEvery); err != nil {
			return err
		}
	}
	return nil
}

// event is one of a stream: a checkpoint, and what may have come with it.
type event struct {
	signed  []byte
	carried carried
}

// readEvent reads the data of the next event (WHATWG HTML, "Server-sent
// events"), as the lines of a text, and the ledger's events that it carries.
func readEvent(r *bufio.Reader) (event, error) {
	var data, from, events []byte
	for {
		line, err := r.ReadSlice('\n')
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return event{}, fmt.Errorf("replica: event stream: %w", err)
		}
		line = bytes.TrimRight(line, "\r\n")
		end := bytes.IndexByte(line, ':') + 1
		value := bytes.TrimPrefix(line[end:], []byte(" "))
		switch string(line[:end]) {
		case "data:":
			data = append(append(data, value...), '\n')
		case "from:":
			from = append(from[:0], value...)
		case "events:":
			if events, err = base64.StdEncoding.AppendDecode(events, value); err != nil {
				from = nil // the records will be fetched
			}
		}
		if len(line) == 0 && len(data) > 0 {
			return event{data, decodeCarried(from, events)}, nil
		}
		if len(data) > maxNote || len(events) > maxCarried {
			return event{}, errTooLong
		}
	}
}

// poll follows by asking again and again; the answer is held until there is
// something new.
func (r *Replica) poll(ctx, line context.Context, from *origin) error {
	newest, since := r.newest(), time.Now()
	for first := r.origins.Several(); time.Now().Before(from.pollUntil); first = false {
		path := "/sync/checkpoint"
		asking, answered, end := line, func() {}, func() {}
		if first {
			asking, answered, end = r.hurried(line)
		} else if newest != "" {
			path += "?after=" + newest
		}
		signed, err := r.getNote(asking, path)
		answered()
		end()
		if err != nil {
			return err
		}
		if err := r.take(ctx, from, event{signed: signed}); err != nil {
			return err
		}
		if now := r.newest(); now != newest {
			newest, since = now, time.Now()
			continue
		}
		if r.origins.Several() && time.Since(since) > newsTime {
			return fmt.Errorf("replica: polls: %w", errStalled)
		}
		// A server that answers at once must not be asked in a tight loop.
		if err := rest(line, time.Second); err != nil {
			return err
		}
	}
	return nil
}

func (r *Replica) getNote(ctx context.Context, path string) ([]byte, error) {
	res, err := r.request(ctx, path, pollSilence, slack, map[string]string{"Cache-Control": "no-cache"})
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	return io.ReadAll(http.MaxBytesReader(nil, res.Body, maxNote))
}

func rest(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
