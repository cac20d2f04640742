package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"webring/edge/tlog"
	tlogwitness "webring/edge/witness"
	"webring/server"
)

// An edge is a witness of its ring, the origin asks it, and another edge shows only what it has
// cosigned.
func TestAWitnessedRing(t *testing.T) {
	t.Parallel()
	o := ring(t, "--core", "native")
	pinned := o.verifier()
	t.Run("asked by Tessera", o.asTesseraAsks)
	witness, verifier := o.witness(t)
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
	// The witness refuses what it does not know. Strangers who send a checkpoint of the log with a wrong proof
	// write nothing of theirs into its log.
	origin, _, _ := strings.Cut(string(o.get("/log/checkpoint").Body), "\n")
	eventually(t, "a wrong proof is refused", longEnough, func() bool { // unless the witness has cosigned more meanwhile
		at, err := tlog.OpenCheckpoint(witness.get("/"+tlogwitness.OriginHash(origin)+"/checkpoint").Body, keys)
		if err != nil {
			t.Fatal(err)
		}
		theirs := strings.Repeat("— strangers.text/"+strings.Repeat("x", 90)+" AAAAAAAAAAAA\n", 80)
		body := fmt.Sprintf("old %d\n%s=\n\n%s%s", at.N, strings.Repeat("A", 43), o.get("/log/checkpoint").Body, theirs)
		res, err := http.Post(witness.base+"/add-checkpoint", "text/plain", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res.StatusCode == http.StatusUnprocessableEntity
	})
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
	eventually(t, "the line about the wrong proof", longEnough, func() bool { return strings.Contains(witness.log.String(), "came with a wrong proof") })
	if said := witness.log.String(); strings.Contains(said, "strangers.text") || strings.Contains(said, "ERROR") {
		t.Errorf("%.4000s", said)
	}
}

// witness starts an edge that is a witness of the ring, and gives the witness's key, too.
func (o *origin) witness(t *testing.T) (e *origin, verifier string) {
	t.Helper()
	keyFile := filepath.Join(t.TempDir(), "witness-key")
	var key bytes.Buffer
	if err := run([]string{"key", "witness", "witness.test/ring"}, &key); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(keyFile, key.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	e = o.follow(t, o.verifier(), "--core", "native", "--witness-key", keyFile)
	eventually(t, "the key of the witness", longEnough, func() bool {
		m := regexp.MustCompile(`(?m)^witness key: (\S+)$`).FindStringSubmatch(e.log.String())
		if m != nil {
			verifier = m[1]
		}
		return m != nil
	})
	return e, verifier
}

// asTesseraAsks has a log of Tessera, which signs with the ring's key, ask a witness that has
// cosigned nothing yet. That log says what it was answered: see server/publish/logtest.
func (o *origin) asTesseraAsks(t *testing.T) {
	folder, program := filepath.Join("..", "..", "publish", "logtest"), filepath.Join(t.TempDir(), "logtest")
	for _, step := range [][]string{{"mod", "download"}, {"build", "-o", program, "."}} {
		cmd := exec.Command("go", step...)
		cmd.Dir = folder
		if out, err := cmd.CombinedOutput(); err != nil && step[0] == "mod" {
			t.Skipf("needs the modules of Tessera and Torchwood, which cannot be had: run go mod download in server/publish/logtest where a module proxy can be reached: %v: %s", err, out)
		} else if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	e, verifier := o.witness(t)
	cmd := exec.Command(program, "witness", server.SyncKeyPath(o.data), e.base, verifier, t.TempDir())
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	var checkpoints []string
	if err := json.Unmarshal(out, &checkpoints); err != nil || len(checkpoints) != 5 {
		t.Fatalf("%v: %s", err, out)
	}
	policy, err := tlog.ParsePolicy(fmt.Appendf(nil, "log %s\nwitness w %s\nquorum w\n", o.verifier(), verifier))
	if err != nil {
		t.Fatal(err)
	}
	keys, err := tlog.Keys(o.verifier())
	if err != nil {
		t.Fatal(err)
	}
	for i, size := range []int64{3, 303, 303, 303, 303} {
		at, err := tlog.OpenCheckpoint([]byte(checkpoints[i]), keys)
		if err != nil || at.N != size {
			t.Errorf("%v: %d entries, want %d", err, at.N, size)
		}
		if by, err := policy.Check([]byte(checkpoints[i])); err != nil || len(by) != 1 {
			t.Errorf("%v, %v: %s", by, err, checkpoints[i])
		}
	}
	e.logs("has signed two histories of the same size") // for the other root
}
