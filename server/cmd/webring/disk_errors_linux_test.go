package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"webring/server/devchain/faults"
)

// onFailing gives an origin of a few members on a failing disk, stopped, with tables.
func onFailing(t *testing.T, args ...string) (*origin, *faults.Disk) {
	t.Helper()
	f, err := faults.NewDisk(t.TempDir(), t.TempDir())
	if err != nil {
		t.Skipf("needs to mount a file system of its own (%v): run it as root, in a container with the capability SYS_ADMIN and the device /dev/fuse", err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	o := prepare(t, nil, append(args, "--core", "native")...)
	o.data = filepath.Join(f.Dir, "data")
	if err := os.Mkdir(o.data, 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := o.operate("seed", "--members", "10", "--data", o.data); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	o.launch()
	t.Cleanup(func() {
		f.Heal() // what waits for the disk cannot be killed
		o.kill()
	})
	return o, f
}

// namesTheDisk fails the test unless a message blames the disk alone, in words.
func namesTheDisk(t *testing.T, what, said string) {
	t.Helper()
	if !strings.Contains(said, "the disk gives errors") || !strings.Contains(said, "do not restore") || strings.Contains(said, "restore a backup whole") || strings.Contains(said, "goroutine ") {
		t.Errorf("%s:\n%s", what, said)
	}
}

// TestADiskThatGivesErrorsIsNoDamage: an operator who moved the folder aside and restored a backup
// would lose every payment since.
func TestADiskThatGivesErrorsIsNoDamage(t *testing.T) {
	t.Parallel()
	o, f := onFailing(t)
	want := string(o.get("/api/leaderboard").Body)
	o.kill()
	for _, name := range []string{"*.sst", "*.mem", "MANIFEST", "head"} {
		f.BreakReads(name)
		o.boot()
		o.waitGone()
		namesTheDisk(t, "a start without "+name, o.log.String())
		said := checked(t, nil, nil, append(o.args, "--data", o.data)...)
		namesTheDisk(t, "--check without "+name, said)
		if !strings.Contains(said, "wrong  ledger ") {
			t.Errorf("--check without %s:\n%s", name, said)
		}
		out, err := o.operate("verify")
		if err == nil {
			t.Errorf("verify without %s: %s", name, out)
		}
		namesTheDisk(t, "verify without "+name, out)
		f.Heal()
	}
	o.launch()
	if got := string(o.get("/api/leaderboard").Body); got != want {
		t.Errorf("afterwards the ring shows %s\nwant %s", got, want)
	}
}

// TestADiskThatBeginsToGiveErrors takes pages of mapped files away from a process that runs: the
// system sends it a signal for each, which must not end it with a stack.
func TestADiskThatBeginsToGiveErrors(t *testing.T) {
	t.Parallel()
	o, f := onFailing(t)
	if out, err := o.operate("verify"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	o.stop()
	o.launch()
	f.BreakReads("*.sst")
	out, err := o.operate("verify")
	if err == nil {
		t.Errorf("verify: %s", out)
	}
	namesTheDisk(t, "verify", out)
	eventually(t, "a line in the log that names the disk", longEnough, func() bool { return strings.Contains(o.log.String(), "the disk gives errors") })
	namesTheDisk(t, "the log", o.log.String())
	if ready, rows := o.readiness(); ready || !strings.Contains(rows["disk"].Detail, "the disk gives errors") {
		t.Errorf("/readyz: %v %+v", ready, rows)
	}
	if r := o.get("/api/ring"); r.Status != http.StatusOK {
		t.Errorf("reads: %d %s", r.Status, r.Body)
	}
	f.Heal()
	o.kill()
	o.launch()
	if out, err := o.operate("verify"); err != nil || !strings.Contains(out, "everything agrees") {
		t.Errorf("afterwards: %v\n%s", err, out)
	}
}

// TestADiskThatDoesNotConfirmTakesNoPayments: nobody is asked to pay while a commit hangs, and the log says how long
// it does. Who is asked afterwards pays.
func TestADiskThatDoesNotConfirmTakesNoPayments(t *testing.T) {
	t.Parallel()
	c, _ := chain(t)
	o, f := onFailing(t, "--tempo-rpc", c.RPC)
	slug := o.first()
	body := `{"member":"` + slug + `","amount":"1.00"}`
	credential := o.sign(wallet(t), "/api/bid", body)
	f.Hang()
	blocked := make(chan error, 1)
	go func() {
		_, err := o.operate("blocklist", "add", "word", "unwanted", "--reason", "test")
		blocked <- err
	}()
	unavailable := func(r reply) bool {
		return r.Status == http.StatusServiceUnavailable && r.code(t) == "payments_unavailable" && r.Header.Get("WWW-Authenticate") == ""
	}
	eventually(t, "the end of offers", longEnough, func() bool { return unavailable(o.post("/api/bid", body)) })
	if r := o.post("/api/bid", body, "Authorization", credential); r.Status != http.StatusServiceUnavailable || r.code(t) != "payment_pending" {
		t.Errorf("a payment: %d %s", r.Status, r.Body)
	}
	if ready, rows := o.readiness(); ready || rows["ledger"].OK {
		t.Errorf("/readyz: %v %+v", ready, rows)
	}
	o.says(0, "a commit is slow")
	f.Heal()
	if err := await(t, "the commit", blocked); err != nil {
		t.Error(err)
	}
	o.says(0, "a slow commit has come to its end")
	eventually(t, "an offer", longEnough, func() bool { return o.post("/api/bid", body).Status == http.StatusPaymentRequired })
	if r := o.post("/api/bid", body, "Authorization", credential); r.Status != http.StatusOK || o.received() != 100 {
		t.Errorf("the payment that was refused: %d %s, %d cents", r.Status, r.Body, o.received())
	}
}
