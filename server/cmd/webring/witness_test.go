package main

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"webring/edge/tlog"
)

// An edge is a witness of its ring, the origin asks it, and another edge shows only what it has
// cosigned.
func TestAWitnessedRing(t *testing.T) {
	t.Parallel()
	keyFile := filepath.Join(t.TempDir(), "witness-key")
	var key bytes.Buffer
	if err := run([]string{"key", "witness", "witness.test/ring"}, &key); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(keyFile, key.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	o := ring(t, "--core", "native")
	pinned := o.verifier()
	witness := o.follow(t, pinned, "--core", "native", "--witness-key", keyFile)
	verifier := ""
	eventually(t, "the key of the witness", longEnough, func() bool {
		m := regexp.MustCompile(`(?m)^witness key: (\S+)$`).FindStringSubmatch(witness.log.String())
		if m != nil {
			verifier = m[1]
		}
		return m != nil
	})
	file := filepath.Join(t.TempDir(), "policy")
	if err := os.WriteFile(file, fmt.Appendf(nil, "witness w %s %s\nquorum w\n", verifier, witness.base), 0o600); err != nil {
		t.Fatal(err)
	}
	slug := o.join("First", "agent", "")
	o.stop()
	o.args = append(o.args, "--witness-policy", file)
	o.launch() // it asks at once
	policed := o.follow(t, pinned, "--core", "native", "--policy", file)
	if r := policed.get("/api/ring/" + slug); r.Status != http.StatusOK {
		t.Errorf("the member at the edge with a policy: %d %s", r.Status, r.Body)
	}
	policy, err := readPolicy("", file)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := tlog.Keys(pinned)
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range []*origin{o, witness, policed} {
		signed := node.get("/log/checkpoint").Body
		if _, err := tlog.OpenCheckpoint(signed, keys); err != nil {
			t.Errorf("%v: %s", err, signed)
		}
		if by, err := policy.Check(signed); err != nil || len(by) != 1 || time.Since(by[0].Time) > longEnough {
			t.Errorf("%v, %v: %s", by, err, signed)
		}
	}
	// The next event is not cosigned before a minute has passed.
	second := o.join("Second", "agent", "")
	eventually(t, "the member at the witness", longEnough, func() bool { return witness.get("/api/ring/"+second).Status == http.StatusOK })
	if r := policed.get("/api/ring/" + second); r.Status != http.StatusNotFound {
		t.Errorf("what is not cosigned is shown: %d %s", r.Status, r.Body)
	}
	// The witness refuses what it does not know.
	for body, want := range map[string]int{"x": http.StatusBadRequest,
		"old 0\n\nanother.test\n1\n" + strings.Repeat("A", 43) + "=\n\n— another.test AAAAAAA=\n": http.StatusNotFound} {
		res, err := http.Post(witness.base+"/add-checkpoint", "text/plain", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%q: %d", body, res.StatusCode)
		}
	}
}
