package follow

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"webring/core/snap"
)

// following runs a replica until the test is over.
func (f *follower) following(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.Run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// followed runs a test in a bubble, with a replica that follows an origin and has its first checkpoint.
func followed(t *testing.T, test func(t *testing.T, o *fakeOrigin, f *follower)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o := newOrigin(t)
		o.sign()
		f := o.newReplica()
		defer f.following(t)()
		synctest.Wait()
		test(t, o, f)
	})
}

func TestAFrozenOriginMakesAnswersStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOrigin(t)
		f := o.newReplica()
		if !f.Stale() {
			t.Error("fresh without a checkpoint")
		}
		o.sign()
		defer f.following(t)()
		synctest.Wait()
		for range 5 {
			time.Sleep(20 * time.Second)
			o.sign()
			synctest.Wait()
			if f.Stale() {
				t.Error("stale while checkpoints come")
			}
		}
		// From now on it says the same again and again.
		time.Sleep(60 * time.Second)
		if f.Stale() {
			t.Error("stale after 60 s")
		}
		time.Sleep(time.Second)
		if !f.Stale() {
			t.Error("fresh after 61 s")
		}
		time.Sleep(2 * time.Second)
		if log := f.log.String(); strings.Count(log, "answers are marked stale") != 1 {
			t.Errorf("the log says %s", log)
		}
		f.agrees(o)
		o.join("a")
		o.sign()
		synctest.Wait()
		if f.Stale() {
			t.Error("stale after news")
		}
		f.agrees(o)
	})
}

// Before anything is shown, nothing is stale, and nothing since 1970.
func TestNothingIsStaleBeforeTheFirstCheckpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOrigin(t)
		o.leave(true)
		f := o.newReplica()
		defer f.following(t)()
		time.Sleep(3 * time.Minute)
		if log := f.log.String(); strings.Contains(log, "stale") || strings.Contains(log, "1970") {
			t.Errorf("the log says %s", log)
		}
	})
}

// What was signed long ago is not fresh because it came now.
func TestAnOldCheckpointIsStaleFromTheBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOrigin(t)
		signed := o.sign()
		time.Sleep(2 * time.Minute)
		f := o.newReplica()
		f.takes(signed)
		if !f.Stale() {
			t.Error("fresh")
		}
	})
}

func TestALostOriginIsFoundWithinTwoSeconds(t *testing.T) {
	followed(t, func(t *testing.T, o *fakeOrigin, f *follower) {
		for _, away := range []time.Duration{time.Millisecond, time.Second, time.Minute, 10 * time.Minute} {
			o.leave(true)
			time.Sleep(away)
			asked := o.attempts()
			time.Sleep(time.Minute)
			if n := o.attempts() - asked; n < 25 || n > 80 {
				t.Errorf("%d attempts in a minute", n)
			}
			o.join("m" + strings.ReplaceAll(away.String(), ".", ""))
			o.sign()
			o.leave(false)
			time.Sleep(2 * time.Second)
			f.agrees(o)
		}
	})
}

func TestANudgeReconnectsAtOnce(t *testing.T) {
	followed(t, func(t *testing.T, o *fakeOrigin, f *follower) {
		o.leave(true)
		time.Sleep(30 * time.Second)
		o.join("a")
		o.sign()
		o.leave(false)
		f.Nudge()
		synctest.Wait()
		f.agrees(o)
	})
}

// Reach returns when the position comes, gives up a dead connection, and does not wait
// for ever.
func TestReach(t *testing.T) {
	followed(t, func(t *testing.T, o *fakeOrigin, f *follower) {
		within := func(d time.Duration, seq uint64) (bool, time.Duration) {
			ctx, cancel := context.WithTimeout(context.Background(), d)
			defer cancel()
			began := time.Now()
			return f.Reach(ctx, seq), time.Since(began)
		}
		if ok, took := within(time.Second, 1); !ok || took != 0 {
			t.Errorf("what is there: %v after %s", ok, took)
		}
		if ok, took := within(2*time.Second, 2); ok || took != 2*time.Second {
			t.Errorf("what never comes: %v after %s", ok, took)
		}
		time.AfterFunc(100*time.Millisecond, func() { o.join("a"); o.sign() })
		if ok, took := within(2*time.Second, 2); !ok || took != 100*time.Millisecond {
			t.Errorf("what comes: %v after %s", ok, took)
		}
		// The stream is silent: what changes is not told.
		time.Sleep(2 * time.Second)
		o.mu.Lock()
		o.changed = make(chan struct{})
		o.mu.Unlock()
		o.join("b")
		o.sign()
		if ok, took := within(2*time.Second, 3); !ok || took > 500*time.Millisecond {
			t.Errorf("what is not told: %v after %s", ok, took)
		}
	})
}

// An origin that sends a byte now and then is given up. What it sends at full speed later
// is taken.
func TestAnUpstreamThatDripsIsGivenUp(t *testing.T) {
	for _, drips := range []string{entriesPath, textsPath, "/sync/snapshot/", "/sync/checkpoint"} {
		synctest.Test(t, func(t *testing.T) {
			o := newOrigin(t)
			o.join("a")
			o.snapshot()
			o.join("b")
			o.sign()
			o.streams = drips != "/sync/checkpoint"
			o.drips = drips
			f := o.newReplica()
			defer f.following(t)()
			time.Sleep(time.Minute)
			select {
			case <-f.Ready():
				t.Errorf("%s: something is shown", drips)
			default:
			}
			o.mu.Lock()
			o.drips = ""
			o.mu.Unlock()
			time.Sleep(slack + maxPause + time.Second)
			select {
			case <-f.Ready():
			default:
				t.Fatalf("%s: nothing is shown\n%s", drips, f.log)
			}
			f.agrees(o)
			if log := f.log.String(); !strings.Contains(log, "nothing came any more, or too little") {
				t.Errorf("%s: the log says %s", drips, log)
			}
		})
	}
}

// deaf is what stands before an origin and goes on sending its first followers
// nothing but signs of life.
type deaf struct {
	*fakeOrigin
	once sync.Once
}

func (d *deaf) RoundTrip(req *http.Request) (res *http.Response, err error) {
	if req.Header.Get("Accept") != "text/event-stream" {
		return d.fakeOrigin.RoundTrip(req)
	}
	first := false
	if d.once.Do(func() { first = true }); !first {
		return d.fakeOrigin.RoundTrip(req)
	}
	r, w := io.Pipe()
	context.AfterFunc(req.Context(), func() { w.CloseWithError(req.Context().Err()) })
	go func() {
		_, err := io.WriteString(w, "data: "+strings.ReplaceAll(strings.TrimSuffix(string(d.signed), "\n"), "\n", "\ndata: ")+"\n\n")
		for err == nil {
			if err = Rest(req.Context(), 10*time.Second); err == nil {
				_, err = io.WriteString(w, ":\n\n")
			}
		}
	}()
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: r, Request: req}, nil
}

// A stream on which nothing new comes for as long as makes answers stale is given up,
// however lively it is: another one may tell more.
func TestAStreamWithoutNewsIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOrigin(t)
		o.sign()
		f := o.newReplica(func(c *Config) { c.Client = &http.Client{Transport: &deaf{fakeOrigin: o}} })
		defer f.following(t)()
		synctest.Wait()
		f.agrees(o)
		o.join("a")
		o.sign()
		time.Sleep(StaleAfter + maxPause)
		synctest.Wait()
		f.agrees(o)
	})
}

// What is slow but steady arrives.
func TestALongDownloadMayTakeItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := bytes.Repeat([]byte("x"), 4<<20)
		o := newOrigin(t)
		f := o.newReplica(func(c *Config) {
			c.Client = &http.Client{Transport: steady{file}}
		})
		got, err := f.link.Get(t.Context(), "/sync/snapshot/x", 64<<20, false)
		if err != nil || len(got) != len(file) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	})
}

// steady sends a file at the slowest rate.
type steady struct{ file []byte }

func (s steady) RoundTrip(req *http.Request) (*http.Response, error) {
	r, w := io.Pipe()
	go func() {
		for rest := s.file; len(rest) > 0; {
			time.Sleep(5 * time.Second)
			n, err := w.Write(rest[:min(len(rest), 5*slowest)])
			if err != nil {
				return
			}
			rest = rest[n:]
		}
		w.Close()
	}()
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: r, ContentLength: -1, Request: req}, nil
}

// A refusal is told once a minute, however often it happens.
func TestARefusalDoesNotFloodTheLog(t *testing.T) {
	followed(t, func(t *testing.T, o *fakeOrigin, f *follower) {
		at := o.at
		o.join("a")
		o.mu.Lock()
		o.bend = func(path string, b []byte) []byte {
			if strings.HasPrefix(path, entriesPath) {
				b[len(b)-1] ^= 1
			}
			return b
		}
		o.mu.Unlock()
		o.sign()
		time.Sleep(5*time.Minute - time.Second)
		if n := strings.Count(f.log.String(), "level=ERROR"); n != 5 {
			t.Errorf("%d lines in 5 minutes", n)
		}
		if size := f.Position(); size != at.Size {
			t.Errorf("it is at %d", size)
		}
		o.mu.Lock()
		o.bend = nil
		o.mu.Unlock()
		time.Sleep(2 * time.Second)
		f.agrees(o)
	})
}

func TestReadEvent(t *testing.T) {
	for in, want := range map[string]string{
		"data: a\ndata: b\n\n": "a\nb\n", ": x\n\n:\n\nid: 1\ndata:a\n\n": "a\n", "data: a\r\ndata\r\nevent: e\r\n\r\n": "a\n",
		"data:\ndata: \ndata:  a\n\n": "\n\n a\n",
	} {
		if got, err := readEvent(bufio.NewReaderSize(strings.NewReader(in), maxNote)); err != nil || string(got.signed) != want {
			t.Errorf("%q: %q, %v", in, got.signed, err)
		}
	}
	for _, in := range []string{"", "data: a\n", "data: a", "data: " + strings.Repeat("a", maxNote), strings.Repeat("data: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n", 1000)} {
		if got, err := readEvent(bufio.NewReaderSize(strings.NewReader(in), maxNote)); err == nil {
			t.Errorf("%.20q: %q", in, got.signed)
		}
	}
}

func FuzzReadEvent(f *testing.F) {
	f.Add("data: a\n\n")
	f.Add(":\n\ndata:\r\n\r\n")
	f.Add("from: 7\nevents: AAAAAQEAAAAA\nid: 1\ndata: a\n\n")
	f.Fuzz(func(t *testing.T, in string) {
		e, err := readEvent(bufio.NewReaderSize(strings.NewReader(in), maxNote))
		got := e.signed
		if err == nil && (len(got) > maxNote || len(got) == 0 || got[len(got)-1] != '\n') {
			t.Errorf("%q", got)
		}
		// What comes with it is bounded, too.
		if len(e.carried.records) > snap.BlockEvents {
			t.Errorf("%d records", len(e.carried.records))
		}
	})
}

// FuzzAccept: no bytes that were not signed move a replica.
func FuzzAccept(f *testing.F) {
	o := newOrigin(f)
	o.join("a")
	f.Add(o.sign())
	o.join("b")
	f.Add(o.sign())
	r := o.booted()
	f.Fuzz(func(t *testing.T, signed []byte) {
		err := r.accept(context.Background(), signed)
		if size := r.Position(); size != 3 || err == nil && string(signed) != string(o.signed) || errors.Is(err, ErrEvents) {
			t.Errorf("at %d after %q: %v", size, signed, err)
		}
	})
}

func list(t *testing.T, urls ...string) *Origins {
	t.Helper()
	l, err := NewOrigins(urls...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// round gives the URLs of a round, as one word each.
func round(l *Origins) string {
	var all []string
	for _, o := range l.Round() {
		all = append(all, strings.TrimPrefix(o.URL, "http://"))
	}
	return strings.Join(all, " ")
}

func TestOriginsTakeTurns(t *testing.T) {
	l := list(t, "http://a", "http://b/", "http://a/", "http://c")
	if is := round(l); is != "a b c" {
		t.Errorf("it begins with %s", is)
	}
	a := l.Current()
	if next := l.Skip(a); next == nil || next.URL != "http://b" || round(l) != "b c a" {
		t.Errorf("after a, %v, then %s", next, round(l))
	}
	if next := l.Skip(a); next != nil || round(l) != "b c a" {
		t.Errorf("a second failure of a leads to %v", next)
	}
	for range 2 {
		l.Skip(l.Current())
	}
	if l.Current() != a {
		t.Errorf("after all, %s", round(l))
	}
	one := list(t, "https://a:1")
	if one.Skip(one.Current()) != nil || one.Several() || one.Current().URL != "https://a:1" {
		t.Error("one origin moves on")
	}
	if none := list(t); none.Current() != nil || len(none.Round()) != 0 || none.Several() {
		t.Error("no origin is one")
	}
}

func TestReplacedOriginsEnd(t *testing.T) {
	l := list(t, "http://a", "http://b", "http://c")
	a, b := l.Current(), l.Skip(l.Current())
	if err := l.Replace("http://x", "http://b", "http://c"); err != nil {
		t.Fatal(err)
	}
	if l.Current() != b || round(l) != "b c x" || a.Gone().Err() == nil || b.Gone().Err() != nil {
		t.Errorf("%s; a: %v, b: %v", round(l), a.Gone().Err(), b.Gone().Err())
	}
	before := l.Round()
	for _, wrong := range []string{"ring.example", "ftp://x", "http://x/y", "http://x?y", "http://u@x", "http://"} {
		if err := l.Replace("http://a", wrong); err == nil || !slices.Equal(l.Round(), before) {
			t.Errorf("%s: %v, and then %s", wrong, err, round(l))
		}
	}
	if l.Skip(a) != nil {
		t.Error("an origin that is gone is skipped")
	}
	if err := l.Replace(); err != nil || l.Current() != nil || b.Gone().Err() == nil {
		t.Errorf("emptied: %v, %v", err, l.Current())
	}
	if err := l.Replace("http://b"); err != nil || l.Current() == b || l.Current().Gone().Err() != nil {
		t.Errorf("put in again: %v", err)
	}
}
