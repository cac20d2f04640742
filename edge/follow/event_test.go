package follow

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"webring/core"
	"webring/core/snap"
	log "webring/edge/tlog"
)

// fields gives records as a stream carries them, a line for each 100 bytes.
func fields(from uint64, records []snap.Record) string {
	var b []byte
	for _, r := range records {
		b = snap.AppendRecord(b, r)
	}
	out := fmt.Sprintf("from: %d\n", from)
	for len(b) > 0 {
		n := min(100, len(b))
		out += "events: " + base64.StdEncoding.EncodeToString(b[:n]) + "\n"
		b = b[n:]
	}
	return out
}

// What comes with a checkpoint is not asked for, unless it is not what was signed.
func TestRecordsThatComeAlongAreNotAskedFor(t *testing.T) {
	for name, c := range map[string]struct {
		carry func(from uint64, records []snap.Record) string
		asks  bool
	}{
		"nothing":          {nil, true},
		"all":              {fields, false},
		"more than is new": {nil, false}, // see below
		"too little":       {func(from uint64, r []snap.Record) string { return fields(from, r[:len(r)-1]) }, true},
		"later ones":       {func(from uint64, r []snap.Record) string { return fields(from+1, r[1:]) }, true},
		"of another place": {func(from uint64, r []snap.Record) string { return fields(from-1, r) }, true},
		"another order":    {func(from uint64, r []snap.Record) string { return fields(from, []snap.Record{r[1], r[0]}) }, true},
		"none":             {func(from uint64, _ []snap.Record) string { return fields(from, nil) }, true},
		"no number":        {func(_ uint64, r []snap.Record) string { return "from: x\n" + fields(0, r)[8:] }, true},
		"no base64":        {func(from uint64, r []snap.Record) string { return fields(from, r) + "events: *\n" }, true},
		"no records":       {func(from uint64, r []snap.Record) string { return fields(from, r) + "events: AAAA\n" }, true},
		"words of nobody's": {func(from uint64, r []snap.Record) string {
			return fields(from, []snap.Record{{Event: r[0].Event, Texts: r[1].Texts}, r[1]})
		}, true},
		"events of nobody's": {func(from uint64, r []snap.Record) string {
			return fields(from, []snap.Record{{Event: []byte("x")}, r[1]})
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newOrigin(t)
				o.join("a")
				o.sign()
				o.carry = c.carry
				if name == "more than is new" {
					o.carry = func(from uint64, r []snap.Record) string {
						return fields(from-1, append(o.records[from-1:from:from], r...))
					}
				}
				f := o.newReplica()
				defer f.following(t)()
				synctest.Wait()
				before := o.questions(entriesPath)
				for _, slugs := range [][]string{{"b", "c"}, {"d", "e"}} {
					o.join(slugs...)
					o.sign()
					synctest.Wait()
					f.agrees(o)
				}
				if asked := o.questions(entriesPath) > before; asked != c.asks {
					t.Errorf("asked for events: %v\n%s", asked, f.log)
				}
			})
		})
	}
}

// What came with checkpoints that were overtaken goes on in what came with the last.
func TestRecordsOfOvertakenCheckpoints(t *testing.T) {
	some := func(from uint64, n int) carried { return carried{from, make([]snap.Record, n)} }
	for _, c := range []struct{ first, second, want carried }{
		{carried{}, some(3, 2), some(3, 2)},
		{some(3, 2), carried{}, some(3, 2)},
		{some(3, 2), some(5, 1), some(3, 3)},
		{some(3, 2), some(6, 1), some(6, 1)},
		{some(3, 2), some(4, 1), some(4, 1)},
		{some(0, snap.BlockEvents+1), some(snap.BlockEvents+1, 1), some(snap.BlockEvents+1, 1)},
	} {
		if got := c.first.then(c.second); got.from != c.want.from || len(got.records) != len(c.want.records) {
			t.Errorf("%d from %d, then %d from %d: %d from %d", len(c.first.records), c.first.from, len(c.second.records), c.second.from, len(got.records), got.from)
		}
	}
}

// What came with records and is none of theirs is not held for as long as they are.
func TestWhatIsLeftOutOfWhatCameIsNotHeld(t *testing.T) {
	const times, most = 100, 32 << 20
	var padding []byte
	for range 62 {
		padding = snap.AppendRecord(padding, snap.Record{Event: make([]byte, core.MaxEvent), Texts: make([]byte, core.MaxTexts)})
	}
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for _, carries := range []bool{true, false} {
		o := newOrigin(t)
		for i := range 70 {
			o.join(fmt.Sprint("early", i))
		}
		o.sign()
		f := o.booted()
		// The events of the bundle that are here already are not looked at.
		o.bend = func(path string, body []byte) []byte {
			if !strings.HasPrefix(path, entriesPath) {
				return body
			}
			all, err := log.Entries(body)
			if err != nil {
				t.Error(err)
			}
			body = nil
			for i, event := range all {
				if i < 70 {
					event = make([]byte, core.MaxEvent)
				}
				body = log.AppendEntry(body, event)
			}
			return body
		}
		before, asked := heap(), o.questions(entriesPath)
		for i := range times {
			o.join(fmt.Sprint("m", i))
			signed, with := o.sign(), carried{}
			if last := len(o.records) - 1; carries {
				with = decodeCarried(fmt.Append(nil, last-62), snap.AppendRecord(bytes.Clone(padding), o.records[last]))
			}
			if err := f.link.take(t.Context(), f.link.origins.Current(), event{signed, with}); err != nil {
				t.Fatal(err)
			}
		}
		f.agrees(o)
		if after := heap(); after > before+most {
			t.Errorf("carried: %v: %d MiB are held after %d events", carries, (after-before)>>20, times)
		}
		if asked := o.questions(entriesPath) - asked; carries == (asked > 0) {
			t.Errorf("carried: %v: asked %d times", carries, asked)
		}
	}
}
