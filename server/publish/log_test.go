package publish_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"testing"

	xtlog "golang.org/x/mod/sumdb/tlog"

	"webring/core/snap"
	"webring/edge/tlog"
	"webring/server/ledger/ledgertest"
	"webring/server/publish"
)

// The log is served as tiles, bundles and proofs, from which its checkpoint follows.
func TestTheLogIsServed(t *testing.T) {
	r := newRing(t, ledgertest.NewStore())
	r.joinMany("m", 600)
	r.until("all events", func(c snap.Checkpoint) bool { return c.Size == 602 })
	n := serve(t, publish.Handlers(only(r), func() string { return "https://ring.test" }))
	read := func(path, media, cache string) []byte {
		t.Helper()
		status, gotMedia, gotCache, body := n.get(path)
		if status != http.StatusOK || gotMedia != media || gotCache != cache {
			t.Fatalf("%s: %d %s %s", path, status, gotMedia, gotCache)
		}
		return []byte(body)
	}
	const text, octets, forGood = "text/plain; charset=utf-8", "application/octet-stream", "public, max-age=31536000, immutable"
	keys, err := tlog.Keys(r.key.Verifier())
	if err != nil {
		t.Fatal(err)
	}
	signed := read(tlog.CheckpointPath, text, "public, max-age=1")
	at, err := tlog.OpenCheckpoint(signed, keys)
	if err != nil || at.N != 602 || at.Origin != "ring.test" || bytes.Count(bytes.Split(signed, []byte("\n\n"))[0], []byte("\n")) != 2 {
		t.Fatalf("%v: %s", err, signed)
	}
	tiles := tlog.Get(func(_ context.Context, path string, _ int64) ([]byte, error) { return read(path, octets, forGood), nil }).Hashes(t.Context())(at.Tree)
	index := 0
	for i, width := range []int{256, 256, 90} {
		events, err := tlog.Entries(read(tlog.EntriesPath(int64(i), width), octets, forGood))
		if err != nil || len(events) != width {
			t.Fatalf("%v: %d events", err, len(events))
		}
		texts, err := tlog.Entries(read(tlog.TextsPath(int64(i), width), octets, "public, max-age=3600"))
		if err != nil || len(texts) != width {
			t.Fatalf("%v: %d texts", err, len(texts))
		}
		for k, event := range events {
			hashes, err := tiles.ReadHashes([]int64{xtlog.StoredHashIndex(0, int64(index))})
			if err != nil || hashes[0] != xtlog.RecordHash(event) || snap.Verify(event, texts[k]) != nil {
				t.Fatalf("event %d: %v", index, err)
			}
			index++
		}
	}
	for _, i := range []int{0, 255, 256, 601} {
		p, err := tlog.ParseProof(read(fmt.Sprintf("/log/proof/%d", i), text, "no-store"))
		if err != nil {
			t.Fatal(err)
		}
		if of, err := p.Check(keys); err != nil || of != at || p.Index != int64(i) || !bytes.Equal(p.Entry, r.all(uint64(i), uint64(i+1))[0].Event) {
			t.Errorf("the proof of %d: %v", i, err)
		}
	}
	for _, path := range []string{"/log/", "/log/proof/602", "/log/proof/01", "/log/proof/-1", "/log/tile/0/003", "/log/tile/0/002", "/log/tile/0/002.p/91", "/log/tile/1/000.p/3", "/log/tile/entries/002.p/91",
		"/log/texts/x36/028/797/018/963/968", "/log/tile/0/x036/x028/x797/x018/x963/968", "/log/tile/7/000.p/1", "/log/other"} {
		if status, media, _, _ := n.get(path); status != http.StatusNotFound || media != "application/problem+json" {
			t.Errorf("%s: %d %s", path, status, media)
		}
	}
}
