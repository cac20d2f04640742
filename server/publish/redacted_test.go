package publish_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"webring/core"
	"webring/edge/tlog"
	"webring/server/ledger/ledgertest"
	"webring/server/publish"
)

// A redaction deletes words, and changes nothing of the log: tiles and entry bundles keep their
// bytes, and earlier proofs stay valid. Caches keep words for an hour at most.
func TestTheLogOfARedactedMember(t *testing.T) {
	r := newRing(t, ledgertest.NewStore())
	r.join("ada", "bob")
	size := int(r.present().Size)
	n := serve(t, publish.Handlers(only(r), func() string { return "https://ring.test" }))
	read := func(path string) (body, cache string) {
		t.Helper()
		status, _, cache, body := n.get(path)
		if status != http.StatusOK {
			t.Fatalf("%s: status %d", path, status)
		}
		return body, cache
	}
	var kept []string
	for _, path := range []string{tlog.EntriesPath(0, size), fmt.Sprintf("/log/tile/0/000.p/%d", size)} {
		body, cache := read(path)
		if !strings.Contains(cache, "immutable") || strings.Contains(body, "Name of") {
			t.Errorf("%s may be kept for good: %q, %q", path, cache, body)
		}
		kept = append(kept, path, body)
	}
	texts, cache := read(tlog.TextsPath(0, size))
	if !strings.Contains(texts, "Name of bob") || cache != "public, max-age=3600" {
		t.Fatalf("%q, %q", texts, cache)
	}
	receipt, _ := read(fmt.Sprintf("/log/proof/%d", size-1))

	r.append(&core.Removed{Member: "bob", Why: core.Why{Code: core.Unlawful}, Redacted: true}, nil)
	r.present()
	for i := 0; i < len(kept); i += 2 {
		if body, _ := read(kept[i]); body != kept[i+1] {
			t.Errorf("%s has other bytes", kept[i])
		}
	}
	for words, is := range map[string]bool{"Name of bob": false, "https://bob.org": false, "Name of ada": true} {
		if texts, _ := read(tlog.TextsPath(0, size)); strings.Contains(texts, words) != is {
			t.Errorf("the texts are %q", texts)
		}
	}
	keys, err := tlog.Keys(r.key.Verifier())
	if err != nil {
		t.Fatal(err)
	}
	again, _ := read(fmt.Sprintf("/log/proof/%d", size-1))
	var entry []byte
	for _, text := range []string{receipt, again} {
		p, err := tlog.ParseProof([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Check(keys); err != nil || entry != nil && !bytes.Equal(entry, p.Entry) {
			t.Errorf("the proof: %v", err)
		}
		entry = p.Entry
	}
}
