package publish_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	xtlog "golang.org/x/mod/sumdb/tlog"

	"webring/core/snap"
	"webring/edge/follow"
	"webring/edge/tlog"
	"webring/edge/witness"
	"webring/server/ledger/ledgertest"
	"webring/server/publish"
)

// fakeWitness is a witness that can be bent.
type fakeWitness struct {
	t      testing.TB
	n      byte
	signer *tlog.Cosigner
	server *httptest.Server

	mu    sync.Mutex
	w     *witness.Witness
	bend  http.HandlerFunc // answers instead, nil for the witness itself
	asked []string
}

func newWitness(t testing.TB, n byte) *fakeWitness {
	t.Helper()
	signer, err := tlog.NewCosigner(tlog.FormatCosigner(fmt.Sprintf("witness.test/%d", n), bytes.Repeat([]byte{n}, 32)), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeWitness{t: t, n: n, signer: signer}
	f.server = httptest.NewServer(f)
	t.Cleanup(f.server.Close)
	return f
}

// begin opens the witness, with nothing cosigned, for the log of a ring.
func (f *fakeWitness) begin(r *ring) {
	f.t.Helper()
	keys, err := tlog.Keys(r.key.Verifier())
	if err != nil {
		f.t.Fatal(err)
	}
	w, err := witness.Open(witness.Config{Dir: f.t.TempDir(), Origin: r.key.Name(), Keys: keys, Signer: f.signer, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		f.t.Fatal(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.w, f.bend = w, nil
}

func (f *fakeWitness) bent(bend http.HandlerFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.bend, f.asked = bend, nil
}

func (f *fakeWitness) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	f.mu.Lock()
	inner, bend := f.w, f.bend
	old, _, _ := strings.Cut(string(body), "\n")
	f.asked = append(f.asked, strings.TrimSpace(req.Method+" "+old))
	f.mu.Unlock()
	switch {
	case bend != nil:
		req.Body = io.NopCloser(bytes.NewReader(body))
		bend(w, req)
	case inner == nil:
		http.Error(w, "not yet", http.StatusServiceUnavailable)
	case req.Method == http.MethodGet && inner.Latest() != nil:
		w.Write(inner.Latest())
	case req.URL.Path == "/w/add-checkpoint":
		a := inner.Add(body)
		w.Header().Set("Content-Type", a.Media)
		w.WriteHeader(a.Status)
		w.Write(a.Body)
	default:
		http.NotFound(w, req)
	}
}

// questions are the requests since the last bend.
func (f *fakeWitness) questions() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.asked, ", ")
}

// witnessed is a ring with two witnesses, of which the quorum asks for one.
func witnessed(t testing.TB, edit ...func(*publish.Config)) (r *ring, a, b *fakeWitness) {
	a, b = newWitness(t, 1), newWitness(t, 2)
	policy, err := tlog.ParsePolicy(fmt.Appendf(nil, "witness a %s %s/w/\nwitness b %s %s/w\ngroup one any a b\nquorum one\n",
		a.signer.Verifier(), a.server.URL, b.signer.Verifier(), b.server.URL))
	if err != nil {
		t.Fatal(err)
	}
	r = newRing(t, ledgertest.NewStore(), append(edit, func(c *publish.Config) { c.Witnesses, c.AskEvery = policy, -1 })...)
	r.ask() // until now both were not there; nothing but ask asks them
	a.begin(r)
	b.begin(r)
	return r, a, b
}

// ask asks the witnesses about all that there is.
func (r *ring) ask() {
	r.t.Helper()
	r.present()
	if err := r.Ask(context.Background(), 10*time.Second); err != nil {
		r.t.Fatal(err)
	}
}

// cosigned holds that so many events, without those about snapshots, are cosigned by these witnesses.
func (r *ring) cosigned(size uint64, by ...*fakeWitness) {
	r.t.Helper()
	keys, err := tlog.Keys(r.key.Verifier())
	if err != nil {
		r.t.Fatal(err)
	}
	at, err := follow.VerifyCosigned(r.Cosigned(), keys)
	if err != nil || r.own(at.Size) != size {
		r.t.Fatalf("%d events: %v\n%s\n%s", at.Size, err, r.Cosigned(), &r.log)
	}
	_, cosigned, _ := follow.CutCosigned(r.Cosigned())
	var verifiers []note.Verifier
	for _, w := range by {
		verifiers = append(verifiers, w.signer.Key())
	}
	n, err := note.Open(cosigned, note.VerifierList(verifiers...))
	if err != nil || len(n.Sigs) != len(by) || len(n.UnverifiedSigs) != 1 {
		r.t.Fatalf("%v: %s", err, cosigned)
	}
	if w := r.Witnessed(); w.Size != at.Size || time.Since(w.At) > longEnough || len(w.By) != 2 {
		r.t.Errorf("%+v", w)
	}
}

// serves holds that the checkpoint of the log has so many events and these cosignatures.
func (r *ring) serves(size uint64, by ...*fakeWitness) {
	r.t.Helper()
	keys, err := tlog.Keys(r.key.Verifier())
	if err != nil {
		r.t.Fatal(err)
	}
	c, err := tlog.OpenCheckpoint(r.LogCheckpoint(), keys)
	if err != nil || r.own(uint64(c.N)) != size || strings.Count(string(r.LogCheckpoint()), "— witness.test/") != len(by) {
		r.t.Errorf("%v: %s", err, r.LogCheckpoint())
	}
}

func TestWitnessesCosignTheLog(t *testing.T) {
	r, a, b := witnessed(t)
	if r.Cosigned() != nil || r.Witnessed().Size != 0 {
		t.Error("cosigned before the witnesses answered")
	}
	r.ask()
	r.cosigned(1, a, b)
	before := r.Cosigned()
	r.serves(1, a, b)
	a.bent(nil)
	r.ask()
	if a.questions() != "" || !bytes.Equal(r.Cosigned(), before) {
		t.Errorf("asked again about the same: %s", a.questions())
	}
	r.join("x", "y", "z")
	r.present()
	r.serves(1, a, b) // cosignatures are worth a minute
	r.ask()
	r.cosigned(4, a, b)
	r.serves(4, a, b)
	if a.questions() != "POST old 2" {
		t.Errorf("asked %s", a.questions())
	}
	// A later statement about the same events takes the place of the one before.
	early := r.checkpoint(r.Checkpoint())
	r.setTime(time.Now().Add(time.Minute))
	r.Published(nil)
	r.until("a later time", func(c snap.Checkpoint) bool { return c.Time > early.Time+1000 })
	if statement, _, _ := follow.CutCosigned(r.Cosigned()); !bytes.Equal(statement, r.Checkpoint()) {
		t.Errorf("the statement is %s", statement)
	}
	r.cosigned(4, a, b)
	// A restart has it before anybody is asked.
	r.close()
	a.bent(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "down", 500) })
	b.bent(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "down", 500) })
	r.open()
	r.cosigned(4, a, b)
	a.bent(nil)
	r.join("zz")
	at := r.withSnapshot(4) // made by the restart
	r.until("the event about it", func(c snap.Checkpoint) bool { return c.Size > at.Snapshot.Size+1 })
	r.setTime(time.Now().Add(10 * time.Minute))
	r.Published(nil)
	r.until("a later time", func(c snap.Checkpoint) bool { return c.Time > time.Now().Add(9*time.Minute).UnixMilli() })
	r.serves(5) // not for longer
	r.ask()
	r.cosigned(5, a)
	r.serves(5, a)
	if a.questions() != "POST old 0, POST old 5" {
		t.Errorf("after a restart it asked %s", a.questions())
	}
	// The other one adds its signature later, and the one that has signed is not asked again.
	b.bent(nil)
	r.ask()
	r.cosigned(5, a, b)
	if a.questions() != "POST old 0, POST old 5" {
		t.Errorf("it asked again: %s", a.questions())
	}
}

// When the key of the log changes, witnesses go on cosigning, and who knows the next key alone can tell.
func TestCosignaturesOutlastAKey(t *testing.T) {
	r, a, b := witnessed(t)
	r.ask()
	r.cosigned(1, a, b)
	_, next, err := r.Announce()
	if err != nil {
		t.Fatal(err)
	}
	keys, err := tlog.Keys(next)
	if err != nil {
		t.Fatal(err)
	}
	a.bent(nil)
	r.ask() // about the event that names the next key, which both keys sign
	if _, err := follow.VerifyCosigned(r.Cosigned(), keys); err != nil || strings.Count(string(r.Cosigned()), "— witness.test/") != 2 || a.questions() != "POST old 2" {
		t.Errorf("%v: %s; asked %s", err, r.Cosigned(), a.questions())
	}
}

// Whatever one witness does, the other one's cosignature counts, and signing goes on.
func TestAWitnessThatFailsDelaysNothing(t *testing.T) {
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	status := func(n int, media, body string) func(*ring, *fakeWitness) {
		return func(_ *ring, a *fakeWitness) {
			a.bent(func(w http.ResponseWriter, req *http.Request) {
				if req.Method == http.MethodGet {
					http.NotFound(w, req)
					return
				}
				w.Header().Set("Content-Type", media)
				w.WriteHeader(n)
				io.WriteString(w, body)
			})
		}
	}
	const size = "text/x.tlog.size"
	for _, c := range []struct {
		rule   string
		happen func(r *ring, a *fakeWitness)
		says   string // in the log
		then   string // asked: GET is for what it has cosigned
	}{
		{"dead", func(_ *ring, a *fakeWitness) { a.bent(nil); a.server.Close() }, "connect", ""},
		{"silent", func(_ *ring, a *fakeWitness) {
			a.bent(func(_ http.ResponseWriter, req *http.Request) {
				select {
				case <-hang:
				case <-req.Context().Done():
				}
			})
		}, "deadline", "POST old 2"},
		{"without this log", status(404, "text/plain", "unknown"), "status 404", "POST old 2"},
		{"without this key", status(403, "text/plain", "no"), "status 403", "POST old 2"},
		{"busy", status(429, "text/plain", "later"), "status 429", "POST old 2"},
		{"broken", status(500, "text/plain", "no"), "status 500", "POST old 2"},
		{"elsewhere", func(_ *ring, a *fakeWitness) {
			a.bent(func(w http.ResponseWriter, req *http.Request) {
				http.Redirect(w, req, "/elsewhere", http.StatusPermanentRedirect)
			})
		}, "status 308", "POST old 2"},
		{"without a signature", status(200, "text/plain", ""), "malformed", "POST old 2"},
		{"with a signature of a stranger", status(200, "text/plain", "— x AAAAAAA=\n"), "no verifiable signatures", "POST old 2"},
		{"endless", status(200, "text/plain", strings.Repeat("— x AAAAAAA=\n", 1<<16)), "an answer of more", "POST old 2"},
		{"with a size that is none", status(409, size, "x\n"), "409 without the size", "POST old 2"},
		{"with a size of no type", status(409, "text/plain", "0\n"), "409 without the size", "POST old 2"},
		{"with the same size again and again", status(409, size, "2\n"), "409 again", "POST old 2"},
		{"with a wrong size again and again", status(409, size, "3\n"), "409 again", "POST old 2, POST old 3"},
		{"with a size that it cannot show", status(409, size, "99\n"), "does not show that checkpoint: status 404", "POST old 2, GET"},
		{"refusing a proof, and showing nothing", status(422, "text/plain", "no"), "does not show that checkpoint", "POST old 2, GET"},
		{"with a size that this ring has not signed", func(r *ring, a *fakeWitness) {
			a.bent(func(w http.ResponseWriter, req *http.Request) {
				if req.Method == http.MethodGet {
					io.WriteString(w, tlog.Checkpoint{Origin: "ring.test", Tree: xtlog.Tree{N: 99}}.Text()+"\n— ring.test AAAAAAA=\n")
					return
				}
				w.Header().Set("Content-Type", size)
				w.WriteHeader(409)
				io.WriteString(w, "99\n")
			})
		}, "not signed with this ring's key", "POST old 2, GET"},
		{"that has lost everything", func(r *ring, a *fakeWitness) { a.begin(r); a.bent(nil) }, "", "POST old 2, POST old 0"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			r, a, b := witnessed(t)
			r.ask()
			r.cosigned(1, a, b)
			c.happen(r, a)
			r.join("x", "y")
			r.present()
			patience := 10 * time.Second
			if c.rule == "silent" {
				patience = 100 * time.Millisecond
				b.bent(nil)
			}
			if err := r.Ask(t.Context(), patience); err != nil {
				t.Fatal(err)
			}
			by := []*fakeWitness{b}
			if c.says == "" {
				by = append(by, a)
			}
			r.cosigned(3, by...)
			if a.questions() != c.then {
				t.Errorf("asked %q", a.questions())
			}
			for _, w := range r.Witnessed().By {
				if failed := w.Err != nil; failed != (w.Name == "a" && c.says != "") {
					t.Errorf("%+v", w)
				}
			}
			log := r.log.String()
			if !strings.Contains(log, c.says) || strings.Count(log, "witness=a") > 3 {
				t.Errorf("the log says %s", log)
			}
			r.join("z")
			r.present() // signing goes on
			if err := r.Contradicted(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A witness shows that this ring's key has signed what its ledger does not have: nothing is signed
// any more, not by the next process either.
func TestAContradictionStopsTheSigner(t *testing.T) {
	root := func(n byte) (h xtlog.Hash) { h[0] = n; return h }
	for _, c := range []struct {
		rule   string
		status int
		body   string
		at     xtlog.Tree
	}{
		{"more events than there are", 409, "9\n", xtlog.Tree{N: 9, Hash: root(1)}},
		{"another root", 422, "no", xtlog.Tree{N: 2, Hash: root(2)}},
	} {
		t.Run(c.rule, func(t *testing.T) {
			until := &sharedUntil{}
			r, a, b := witnessed(t, func(p *publish.Config) { p.Until = until })
			r.join("x", "y")
			r.ask()
			r.cosigned(3, a, b)
			secret, err := os.ReadFile(r.config.KeyPath)
			if err != nil {
				t.Fatal(err)
			}
			signer, err := note.NewSigner(strings.TrimSpace(string(secret)))
			if err != nil {
				t.Fatal(err)
			}
			theirs, err := note.Sign(&note.Note{Text: tlog.Checkpoint{Origin: "ring.test", Tree: c.at}.Text()}, signer)
			if err != nil {
				t.Fatal(err)
			}
			a.bent(func(w http.ResponseWriter, req *http.Request) {
				if req.Method == http.MethodGet {
					if req.URL.Path != "/w/"+witness.OriginHash("ring.test")+"/checkpoint" {
						t.Errorf("asked for %s", req.URL)
					}
					w.Write(theirs)
					return
				}
				w.Header().Set("Content-Type", "text/x.tlog.size")
				w.WriteHeader(c.status)
				io.WriteString(w, c.body)
			})
			// A node that no longer leads finds nothing out.
			r.join("z")
			r.present()
			until.failing(errors.New("no term"))
			if err := r.Ask(t.Context(), longEnough); err != nil || r.Contradicted() != nil {
				t.Fatalf("%v, %v", err, r.Contradicted())
			}
			until.failing(nil)
			if err := r.Ask(t.Context(), longEnough); err != nil || !errors.Is(r.Contradicted(), publish.ErrContradicted) {
				t.Fatalf("%v, %v\n%s", err, r.Contradicted(), &r.log)
			}
			before := r.Checkpoint()
			evidence, err := os.ReadFile(filepath.Join(r.config.Dir, "contradiction"))
			if err != nil || !bytes.Contains(evidence, theirs) || !bytes.Contains(evidence, before) {
				t.Errorf("the evidence is %s, %v", evidence, err)
			}
			r.join("zz")
			comes(t, "a refusal to sign", func() bool { return strings.Contains(r.log.String(), "could not be signed") })
			if !bytes.Equal(r.Checkpoint(), before) {
				t.Errorf("it signed %s", r.Checkpoint())
			}
			r.close()
			r.open()
			if r.Checkpoint() != nil || !errors.Is(r.Contradicted(), publish.ErrContradicted) {
				t.Errorf("after a restart it signs %s", r.Checkpoint())
			}
			// The operator has found out why.
			r.close()
			if err := os.Remove(filepath.Join(r.config.Dir, "contradiction")); err != nil {
				t.Fatal(err)
			}
			b.bent(nil)
			a.begin(r)
			r.open()
			r.ask()
			r.cosigned(5, a, b)
		})
	}
}

// A ledger that was rolled back does not continue what it has had cosigned.
func TestALedgerThatWasRolledBack(t *testing.T) {
	r, a, b := witnessed(t)
	r.join("x", "y")
	r.ask()
	r.cosigned(3, a, b)
	r.close()
	r.store = ledgertest.NewStore()
	if err := os.Remove(filepath.Join(r.dir, "head")); err != nil {
		t.Fatal(err)
	}
	r.open()
	if err := r.Contradicted(); !errors.Is(err, publish.ErrContradicted) {
		t.Errorf("it goes on: %v\n%s", err, &r.log)
	}
}

func TestARelayPassesOnWhatIsCosigned(t *testing.T) {
	r, a, b := witnessed(t)
	r.ask()
	r.cosigned(1, a, b)
	n := serve(t, publish.Handlers(only(r), func() string { return "https://ring.test" }))
	x := relay(t, r, r.books, n.base)
	comes(t, "what is cosigned", func() bool {
		return bytes.Equal(x.Cosigned(), r.Cosigned()) && bytes.Equal(x.LogCheckpoint(), r.LogCheckpoint())
	})
}

// failing has moves fail from now on.
func (u *sharedUntil) failing(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.fail = err
}
