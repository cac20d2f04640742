package publish_test

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"webring/edge/tlog"
	"webring/server/ledger/ledgertest"
	"webring/server/publish"
)

// Building torchwood's witness takes a while, so make soak does.
var foreign = flag.Bool("litewitness", false, "have torchwood's litewitness cosign")

// litewitness is a witness that others have written, in a process of its own.
type litewitness struct {
	*fakeWitness
	run  func() *exec.Cmd
	cmd  *exec.Cmd
	stop io.Closer
}

// begin starts the process.
func (w *litewitness) begin() {
	w.t.Helper()
	w.cmd = w.run()
	stdin, err := w.cmd.StdinPipe()
	if err == nil {
		err = w.cmd.Start()
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.stop = stdin
}

// end kills it.
func (w *litewitness) end() {
	w.stop.Close()
	_ = w.cmd.Wait()
}

// Two foreign witnesses cosign, while one is killed, lags, and has seen more than the ring knows.
func TestForeignWitnesses(t *testing.T) {
	if !*foreign {
		t.Skip("without -litewitness")
	}
	bin := t.TempDir()
	for name, of := range map[string]string{"lite": "filippo.io/torchwood/cmd/litewitness", "run": "."} {
		cmd := exec.Command("go", "build", "-o", filepath.Join(bin, name), of)
		cmd.Dir = "litewitness"
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	var policy []byte
	var witnesses []*litewitness
	var ready []string
	lines := map[string]string{}
	for i, name := range []string{"a", "b"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listen := l.Addr().String()
		l.Close()
		ready = append(ready, listen)
		f := newWitness(t, byte(i+1))
		policy = fmt.Appendf(policy, "witness %s %s http://%s\n", name, f.signer.Verifier(), listen)
		dir := t.TempDir()
		witnesses = append(witnesses, &litewitness{fakeWitness: f, run: func() *exec.Cmd {
			cmd := exec.Command(filepath.Join(bin, "run"), filepath.Join(bin, "lite"), dir, listen, fmt.Sprintf("witness.test/%d", i+1),
				hex.EncodeToString(bytes.Repeat([]byte{byte(i + 1)}, 32)), "ring.test", lines["key"])
			cmd.Stderr = os.Stderr
			return cmd
		}})
	}
	p, err := tlog.ParsePolicy(append(policy, "group one any a b\nquorum one\n"...))
	if err != nil {
		t.Fatal(err)
	}
	r := newRing(t, ledgertest.NewStore(), func(c *publish.Config) { c.Witnesses, c.AskEvery = p, time.Hour })
	lines["key"] = r.key.Verifier()
	listens := func(i int) {
		t.Helper()
		comes(t, "the witness", func() bool {
			res, err := http.Get("http://" + ready[i])
			if err == nil {
				res.Body.Close()
			}
			return err == nil
		})
	}
	a, b := witnesses[0], witnesses[1]
	for i, w := range witnesses {
		w.begin()
		defer func() { w.end() }()
		listens(i)
	}
	r.ask()
	r.cosigned(1, a.fakeWitness, b.fakeWitness)
	r.joinMany("x", 300)
	r.ask()
	r.cosigned(301, a.fakeWitness, b.fakeWitness)
	// One is killed: the other cosigns.
	b.end()
	r.join("y")
	r.ask()
	r.cosigned(302, a.fakeWitness)
	// It is back, and behind: it adds its signature from where it was.
	b.begin()
	listens(1)
	r.ask()
	r.cosigned(302, a.fakeWitness, b.fakeWitness)
	// A new process does not know what they have seen: both answer 409, and then cosign.
	r.join("z")
	r.close()
	r.open()
	r.ask()
	r.cosigned(303, a.fakeWitness, b.fakeWitness)
	if log := r.log.String(); strings.Count(log, "did not cosign") < 2 || strings.Contains(log, "another history") {
		t.Errorf("the log says %s", log)
	}
}
