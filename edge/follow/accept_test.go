package follow

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"webring/core"
	"webring/core/coretest"
	"webring/core/snap"
	log "webring/edge/tlog"
)

// Whatever is sent instead of the truth is refused by its name, what was shown
// goes on being shown, and the truth is taken afterwards.
func TestRefusals(t *testing.T) {
	replaceRecord := func(o *fakeOrigin, change func(*snap.Record)) {
		o.bend = func(path string, b []byte) []byte {
			t, texts, ok := log.ParsePath(path)
			if !ok || t.L >= 0 {
				return b
			}
			all, err := log.Entries(b)
			if err != nil || len(all) == 0 {
				o.t.Fatalf("%v %v", all, err)
			}
			last := o.records[len(o.records)-1]
			last = snap.Record{Event: bytes.Clone(last.Event), Texts: bytes.Clone(last.Texts)}
			change(&last)
			all[len(all)-1] = last.Event
			if texts {
				all[len(all)-1] = last.Texts
			}
			b = nil
			for _, one := range all {
				b = log.AppendEntry(b, one)
			}
			return b
		}
	}
	forged := coretest.NewStep(&core.Bid{Stamp: 1, Member: "a", Amount: 500}, nil)
	for _, c := range []struct {
		rule string
		// attack gives what is sent; the origin is one member ahead.
		attack func(t *testing.T, o *fakeOrigin, old []byte) []byte
		want   error
	}{
		{"wrong signature", func(t *testing.T, o *fakeOrigin, _ []byte) []byte {
			return bytes.Replace(o.sign(), []byte("\ntime 1"), []byte("\ntime 2"), 1)
		}, ErrSignature},
		{"no signature", func(t *testing.T, o *fakeOrigin, _ []byte) []byte { return []byte(o.present().Text()) }, ErrSignature},
		{"another key", func(t *testing.T, o *fakeOrigin, _ []byte) []byte {
			return o.signWith(newSigner(t, "other.test"), o.present())
		}, ErrSignature},
		{"another key of that name", func(t *testing.T, o *fakeOrigin, _ []byte) []byte {
			return o.signWith(newSigner(t, "ring.test"), o.present())
		}, ErrSignature},
		{"not a checkpoint", func(t *testing.T, o *fakeOrigin, _ []byte) []byte {
			signed, err := note.Sign(&note.Note{Text: "ring.test\n5\n"}, o.signer)
			if err != nil {
				t.Fatal(err)
			}
			return signed
		}, ErrSignature},
		{"another origin", func(t *testing.T, o *fakeOrigin, _ []byte) []byte {
			return o.sign(func(c *snap.Checkpoint) { c.Origin = "other.test" })
		}, ErrOrigin},
		{"a smaller size", func(t *testing.T, o *fakeOrigin, _ []byte) []byte {
			return o.sign(func(c *snap.Checkpoint) { c.Size = 2 })
		}, ErrShrunk},
		{"a replayed checkpoint of fewer events", func(t *testing.T, o *fakeOrigin, old []byte) []byte { return old }, ErrShrunk},
		{"a replayed checkpoint of as many events", func(t *testing.T, o *fakeOrigin, _ []byte) []byte {
			return o.signWith(o.signer, o.before(1))
		}, ErrOlder},
		{"a forked history of the same size", func(t *testing.T, o *fakeOrigin, _ []byte) []byte {
			c := o.before(-1)
			c.Root[3] ^= 1
			return o.signWith(o.signer, c)
		}, ErrForked},
		{"a forked history of more events", func(t *testing.T, o *fakeOrigin, _ []byte) []byte {
			return o.sign(func(c *snap.Checkpoint) { c.Root[31] ^= 1 })
		}, ErrEvents},
		{"another state of the same events", func(t *testing.T, o *fakeOrigin, _ []byte) []byte {
			c := o.before(-1)
			c.State[3] ^= 1
			return o.signWith(o.signer, c)
		}, ErrState},
		{"a state that the fold does not reach", func(t *testing.T, o *fakeOrigin, _ []byte) []byte {
			return o.sign(func(c *snap.Checkpoint) { c.State[15] ^= 1 })
		}, ErrState},
		{"an event that cannot apply", func(t *testing.T, o *fakeOrigin, _ []byte) []byte {
			s := coretest.NewStep(&core.Bid{Stamp: 1, Member: "nobody", Amount: 100}, nil)
			o.records = append(o.records[:len(o.records):len(o.records)], snap.Record{Event: s.EventBytes})
			tree := o.tree
			tree.Add(s.EventBytes)
			return o.sign(func(c *snap.Checkpoint) { c.Size, c.Root = tree.Size(), tree.Root() })
		}, ErrState},
		{"an altered event", func(t *testing.T, o *fakeOrigin, _ []byte) []byte {
			replaceRecord(o, func(r *snap.Record) { r.Event[len(r.Event)-1] ^= 1 })
			return o.sign()
		}, ErrEvents},
		{"another event", func(t *testing.T, o *fakeOrigin, _ []byte) []byte {
			replaceRecord(o, func(r *snap.Record) { *r = snap.Record{Event: forged.EventBytes} })
			return o.sign()
		}, ErrEvents},
		{"altered texts", func(t *testing.T, o *fakeOrigin, _ []byte) []byte {
			replaceRecord(o, func(r *snap.Record) { r.Texts = bytes.Replace(r.Texts, []byte("new"), []byte("old"), 1) })
			return o.sign()
		}, ErrEvents},
		{"texts where none belong", func(t *testing.T, o *fakeOrigin, _ []byte) []byte {
			texts := bytes.Clone(o.records[1].Texts)
			replaceRecord(o, func(r *snap.Record) { *r = snap.Record{Event: forged.EventBytes, Texts: texts} })
			return o.sign()
		}, ErrEvents},
		{"bytes that are no records", func(t *testing.T, o *fakeOrigin, _ []byte) []byte {
			o.bend = func(path string, b []byte) []byte { return append(b, 0) }
			return o.sign()
		}, ErrEvents},
	} {
		t.Run(c.rule, func(t *testing.T) {
			o := newOrigin(t)
			o.join("z")
			old := o.sign()
			o.join("a", "b")
			o.sign()
			f := o.booted(func(c *Config) { c.Dir = t.TempDir() })
			want, at := f.get("/api/ring"), f.Replica.signed
			o.join("new")
			records, tree := o.records, o.tree

			err := f.accept(t.Context(), c.attack(t, o, old))
			if !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			f.link.logFailure(f.link.origins.Current(), err)
			if log := f.log.String(); err == nil || strings.Count(log, "level=ERROR") != 1+strings.Count(log, "signed two histories") || !strings.Contains(log, "refused; readers see what they saw before") || !strings.Contains(log, c.want.Error()) {
				t.Errorf("the log says %s", log)
			}
			if got := f.get("/api/ring"); got != want || !bytes.Equal(f.Checkpoint(), at) {
				t.Errorf("it shows %s, not %s", got, want)
			}
			o.bend, o.records, o.tree = nil, records, tree
			f.takes(o.sign())
			f.agrees(o)
		})
	}
}

// before gives a checkpoint like the last one, signed so many milliseconds
// earlier.
func (o *fakeOrigin) before(ms int64) snap.Checkpoint {
	c := o.at
	c.Time -= ms
	return c
}

// Records beyond the checkpoint, which a later one will sign, are not shown.
func TestEventsBeyondTheCheckpointWait(t *testing.T) {
	o := newOrigin(t)
	o.join("a")
	o.sign()
	f := o.booted()
	signed := func() []byte { o.join("b"); return o.sign() }()
	o.join("c") // not signed yet
	f.takes(signed)
	if size := f.Position(); size != 3 || !strings.HasPrefix(f.get("/api/ring"), "200 3 ") {
		t.Errorf("at %d: %s", size, f.get("/api/ring"))
	}
	f.takes(o.sign())
	f.agrees(o)
}

// A new checkpoint of the same events is news; the same one again is not.
func TestTheSameCheckpointAgainIsNoNews(t *testing.T) {
	o := newOrigin(t)
	o.sign()
	f := o.booted()
	changed := f.Changed()
	f.takes(o.signed)
	select {
	case <-changed:
		t.Error("the same checkpoint counts as new")
	default:
	}
	f.takes(o.sign())
	<-changed
	if !bytes.Equal(f.Checkpoint(), o.signed) {
		t.Error("not the newest")
	}
}

// A redacted registration comes without texts, and is folded without them.
func TestRedactedTextsAreDoneWithout(t *testing.T) {
	o := newOrigin(t)
	o.join("a", "b")
	o.records[1].Texts = nil
	o.state = core.NewState(capacity, 1)
	for _, r := range o.records {
		if err := o.state.Apply(r.Event, r.Texts); err != nil {
			t.Fatal(err)
		}
	}
	o.add(&core.Removed{Stamp: time.Now().UnixMilli(), Member: "a", Reason: "asked", Redacted: true}, nil)
	o.sign()
	f := o.booted()
	f.agrees(o)
}

func TestNewRefusesWhatCannotBeFollowed(t *testing.T) {
	o := newOrigin(t)
	good := Config{LinkConfig: LinkConfig{Origins: []string{"http://x"}}, Keys: []string{o.key}, Open: openCore, Show: func(Core) {}}
	for name, change := range map[string]func(*Config){
		"an empty origin": func(c *Config) { c.Origins = []string{"http://x", ""} }, "a path": func(c *Config) { c.Origins = []string{"http://x/y"} },
		"no key": func(c *Config) { c.Keys = nil }, "half a key": func(c *Config) { c.Keys = []string{"ring.test+00000000"} },
		"no host": func(c *Config) { c.Open = nil }, "nothing to show to": func(c *Config) { c.Show = nil },
	} {
		cfg := good
		change(&cfg)
		if _, err := New(context.Background(), cfg); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
