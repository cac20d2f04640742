package main

import (
	"bufio"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"webring/core"
	"webring/core/snap"
	"webring/edge/tlog"
)

// printedKey is what `webring version` says that edges pin.
func (o *origin) printedKey() string {
	o.t.Helper()
	out, err := o.operate("version")
	if err != nil {
		o.t.Fatalf("%v: %s", err, out)
	}
	for line := range strings.Lines(out) {
		if v, ok := strings.CutPrefix(line, "edges follow with --origin-key "); ok {
			return strings.TrimSpace(v)
		}
	}
	o.t.Fatalf("version names no key: %s", out)
	return ""
}

// signed verifies a checkpoint of the origin.
func (o *origin) signed(verifier string, text []byte) snap.Checkpoint {
	o.t.Helper()
	v, err := note.NewVerifier(verifier)
	if err != nil {
		o.t.Fatal(err)
	}
	n, err := note.Open(text, note.VerifierList(v))
	if err != nil {
		o.t.Fatalf("%v: %s", err, text)
	}
	c, err := snap.ParseCheckpoint(n.Text)
	if err != nil {
		o.t.Fatal(err)
	}
	return c
}

func TestWhatTheOriginSignsIsWhatItHandsOut(t *testing.T) {
	o := start(t)
	key := o.printedKey()
	o.logs("edges follow with --origin-key " + key + "\n")
	if about, err := os.Stat(filepath.Join(o.data, "sync-key")); err != nil || about.Mode().Perm() != 0o600 {
		t.Errorf("the key's file: %v, %v", about, err)
	}
	c := o.signed(key, o.get("/sync/checkpoint").Body)
	if c.Origin != strings.TrimPrefix(o.base, "http://") {
		t.Errorf("the origin is %q", c.Origin)
	}
	st, tree := core.NewState(10, 1), snap.Tree{}
	get := func(_ context.Context, path string, _ int64) ([]byte, error) { return o.get(path).Body, nil }
	err := tlog.Records(t.Context(), get, 0, c.Size, func(records []snap.Record) error {
		for _, r := range records {
			if err := st.Apply(r.Event, r.Texts); err != nil {
				return err
			}
			tree.Add(r.Event)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if tree.Size() != c.Size || tree.Root() != c.Root || st.Digest() != c.State {
		t.Errorf("%d events lead to %x %x, but %+v is signed", tree.Size(), tree.Root(), st.Digest(), c)
	}

	// The same key after a restart, and also shown while no process runs.
	o.stop()
	if again := o.printedKey(); again != key {
		t.Errorf("with the origin stopped, the key is %s", again)
	}
	o.launch()
	if later := o.signed(key, o.get("/sync/checkpoint").Body); later.Size != c.Size || later.Root != c.Root || later.Time <= c.Time {
		t.Errorf("%+v after %+v", later, c)
	}
}

// A follower is told of events as they come, is not counted among the public,
// and does not keep the origin from stopping.
func TestFollowersOfTheOrigin(t *testing.T) {
	o := start(t, "--rate-limit", "3")
	req, err := http.NewRequest(http.MethodGet, o.base+"/sync/checkpoint", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	res, err := noRedirects.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "id: ") {
	}
	for range 8 {
		if r := o.get("/log/tile/entries/000.p/1"); r.Status != http.StatusOK || r.Header.Get("RateLimit-Limit") != "" {
			t.Fatalf("a follower's question: %d %v", r.Status, r.Header)
		}
	}
	o.stop()
	for lines.Scan() {
	}
	if err := lines.Err(); err != nil {
		t.Errorf("the stream was cut: %v", err)
	}
}
