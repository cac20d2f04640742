package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"webring/server"
	"webring/server/backup"
	"webring/server/ledger/badgerstore"
	"webring/server/paid"
)

// TestBackupAndAnEdgeBringEverythingBack holds that a lost origin comes back
// from a backup made while it served, with what an edge has beyond that, and
// that edges and payers notice nothing.
func TestBackupAndAnEdgeBringEverythingBack(t *testing.T) {
	t.Parallel()
	o := ring(t)
	edge := o.follow(t, o.verifier())
	early := o.join("Early", "agent", "")
	file := filepath.Join(t.TempDir(), "backup.tar")
	if out, err := o.operate("backup", file); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	o.join("Later", "agent", "2.00")
	body := `{"member":"` + early + `","amount":"1.25"}`
	credential := o.sign(wallet(t), "/api/bid", body)
	if r := o.post("/api/bid", body, "Authorization", credential); r.Status != http.StatusOK {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	alike(t, o, edge)
	o.confirmed()
	if out, err := o.operate("verify", "--chain"); err != nil || !strings.Contains(out, "everything agrees") || !strings.Contains(out, "3 transactions asked for, 0 without an answer") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := o.operate("verify", file); err != nil || !strings.Contains(out, "1 members joined") {
		t.Errorf("the backup: %v\n%s", err, out)
	}
	want, paid := o.get("/api/leaderboard").Body, o.received()
	o.kill()
	if out, err := o.operate("verify"); err != nil || !strings.Contains(out, "everything agrees") {
		t.Errorf("the stopped origin: %v\n%s", err, out)
	}
	// One that starts or stops has the store, and no socket.
	lock, err := badgerstore.Lock(filepath.Join(o.data, "ledger"))
	if err != nil {
		t.Fatal(err)
	}
	if out, err := o.operate("verify"); err == nil || !strings.Contains(out, "another process has the store open") {
		t.Errorf("an origin that starts: %v\n%s", err, out)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}

	restored := filepath.Join(t.TempDir(), "data")
	if out, err := o.operate("restore", file, "--data", restored); err == nil {
		t.Errorf("restored although edges may have seen more: %s", out)
	}
	if out, err := o.operate("restore", file, "--data", o.data, "--alone"); err == nil {
		t.Errorf("restored over a ledger: %s", out)
	}
	if out, err := o.operate("restore", file, "--data", restored, "--from", edge.base); err != nil || !strings.Contains(out, "2 events that the backup lacked") {
		t.Fatalf("%v\n%s", err, out)
	}
	lost := o.data
	o.data = restored
	o.launch()
	if got := o.get("/api/leaderboard").Body; string(got) != string(want) {
		t.Errorf("the ring came back as %s\nwant %s", got, want)
	}
	// What was paid after the backup is not taken again.
	if r := o.post("/api/bid", body, "Authorization", credential); r.Status != http.StatusConflict || r.code(t) != "credential_reused" {
		t.Errorf("a credential of before: %d %s", r.Status, r.Body)
	}
	o.bid(early, "1.00")
	if got := o.received(); got != paid+100 {
		t.Errorf("%d cents were received, want %d", got, paid+100)
	}
	// The edge goes on with the restored origin: to it, nothing has changed.
	eventually(t, "the edge behind the restored origin", time.Minute, func() bool { return edge.position() == o.position() })
	alike(t, o, edge)

	// An origin that went on alone is another one, and is told so.
	o.kill()
	other := filepath.Join(t.TempDir(), "other")
	if out, err := o.operate("restore", file, "--data", other, "--alone"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	o.data = other
	o.launch()
	o.join("Elsewhere", "agent", "")
	second := filepath.Join(t.TempDir(), "second.tar")
	if out, err := o.operate("backup", second); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	o.kill()
	if out, err := o.operate("restore", second, "--data", filepath.Join(t.TempDir(), "third"), "--from", edge.base); err == nil {
		t.Errorf("two histories were joined: %v\n%s", err, out)
	}
	if text, err := os.ReadFile(second); err != nil {
		t.Error(err)
	} else {
		text[len(text)/2] ^= 1
		if err := os.WriteFile(second, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := o.operate("restore", second, "--data", filepath.Join(t.TempDir(), "fourth"), "--alone"); err == nil {
		t.Errorf("an altered backup was restored: %s", out)
	}
	o.data = lost
}

// TestARestoreTakesTheLongestHistory restores from edges that have seen different amounts. An edge that is
// ahead of its origin says so, with what to do, until the origin has all.
func TestARestoreTakesTheLongestHistory(t *testing.T) {
	t.Parallel()
	o := start(t, "--core", "native")
	behind := o.follow(t, o.verifier())
	file := filepath.Join(t.TempDir(), "backup.tar")
	if out, err := o.operate("backup", file); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	again := func(fee string) {
		o.stop()
		o.args = append(o.args, "--fee", fee) // an event
		o.launch()
		o.told()
	}
	again("1.23")
	alike(t, o, behind)
	behind.stop()
	again("1.45")
	ahead := o.follow(t, o.verifier())
	alike(t, o, ahead)
	o.kill()
	want := ahead.position()
	behind.launch()

	restore := func(from ...string) (data, out string, err error) {
		data = filepath.Join(t.TempDir(), "data")
		args := []string{"restore", file, "--data", data}
		for _, url := range from {
			args = append(args, "--from", url)
		}
		out, err = o.operate(args...)
		return data, out, err
	}
	reach := func(fine bool, says string) {
		t.Helper()
		eventually(t, "what the edge says of its origin", longEnough, func() bool {
			_, rows := ahead.readiness()
			return rows["reach"].OK == fine && strings.Contains(rows["reach"].Detail, says)
		})
	}
	if _, out, err := restore(ahead.base, "http://127.0.0.1:1"); err == nil || !strings.Contains(out, "http://127.0.0.1:1: ") || !strings.Contains(out, "leave it out, and you may lose what only it has") {
		t.Errorf("an edge that does not answer: %v\n%s", err, out)
	}
	var right string
	for _, order := range [][]string{{ahead.base}, {behind.base, ahead.base}, {ahead.base, behind.base}} {
		data, out, err := restore(order...)
		if err != nil || !strings.Contains(out, want+" events, tree ") {
			t.Fatalf("from %q: %v\n%s", order, err, out)
		}
		right = data
	}
	data, out, err := restore(behind.base)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	o.data = data
	o.launch()
	reach(false, "webring restore with --from this edge")
	if said, err := ahead.operate("version"); err != nil || !strings.Contains(said, "webring restore with --from this edge") || ahead.get("/api").Header.Get("Webring-Stale") != "true" {
		t.Errorf("%v: %s", err, said)
	}
	// The one that was restored from too little has gone on.
	for _, order := range [][]string{{o.base, ahead.base}, {ahead.base, o.base}} {
		if _, out, err := restore(order...); err == nil || !strings.Contains(out, "different histories") {
			t.Errorf("two histories were joined: %v\n%s", err, out)
		}
	}
	o.kill()
	o.data = right
	o.launch()
	reach(true, "it comes to what the origin signs")
	alike(t, o, ahead)
}

// TestChallengeKeyIsRotatedWithoutLosingAPayment holds that challenges of the
// previous key are taken after a restart, and those of an older one are not.
func TestChallengeKeyIsRotatedWithoutLosingAPayment(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "secret")
	keys := []string{strings.Repeat("a1", 32), strings.Repeat("b2", 32), strings.Repeat("c3", 32)}
	rotate := func(lines ...string) {
		t.Helper()
		if err := os.WriteFile(secret, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rotate(keys[0])
	o := ring(t, "--mpp-secret-file", secret)
	body := `{"name":"Rotor","url":"https://rotor.dev/","kind":"agent"}`
	other := `{"name":"Stator","url":"https://stator.dev/","kind":"agent"}`
	late := o.challenge(o.post("/api/register", other))
	ch := o.post("/api/register", body).Header.Get("WWW-Authenticate")
	o.stop()
	rotate(keys[1], keys[0])
	o.launch()
	_, client := chain(t)
	w := wallet(t)
	credential, err := client.Sign(t.Context(), w.HexKey(), ch)
	if err != nil {
		t.Fatal(err)
	}
	if r := o.post("/api/register", body, "Authorization", credential); r.Status != http.StatusCreated {
		t.Fatalf("a challenge of the previous key: %d %s", r.Status, r.Body)
	}
	o.stop()
	rotate(keys[2], keys[1])
	o.launch()
	if r := o.post("/api/register", other, "Authorization", signedBy(w, late)); r.Status != http.StatusPaymentRequired || r.code(t) != "invalid_challenge" {
		t.Errorf("a challenge of a key that was dropped: %d %s", r.Status, r.Body)
	}
	if r := o.post("/api/register", body, "Authorization", credential); r.Status != http.StatusConflict {
		t.Errorf("a used credential of a dropped key: %d %s", r.Status, r.Body)
	}
	if o.received() != 100 {
		t.Errorf("%d cents were received", o.received())
	}
}

// TestABackupTakesThePlaceOfAFileAlone: whatever else is named, it stays.
func TestABackupTakesThePlaceOfAFileAlone(t *testing.T) {
	o := start(t, "--core", "native")
	folder := t.TempDir()
	mine, link, pipe := filepath.Join(folder, "mine"), filepath.Join(folder, "link"), filepath.Join(folder, "pipe")
	if err := errors.Join(os.WriteFile(mine, []byte("mine"), 0o600), os.Symlink(mine, link), unix.Mkfifo(pipe, 0o600)); err != nil {
		t.Fatal(err)
	}
	look := func() (found []string) {
		entries, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			found = append(found, e.Type().String()+" "+e.Name())
		}
		return found
	}
	before := look()
	for path, says := range map[string]string{
		link: "not a regular file", pipe: "not a regular file", folder: "not a regular file",
		"-": "not to standard output", filepath.Join(mine, "below"): "not a directory",
	} {
		if out, err := o.operate("backup", path); err == nil || !strings.Contains(out, says) {
			t.Errorf("%s: %v\n%s", path, err, out)
		}
	}
	// It would say that everything agrees, without a chain to ask.
	if out, err := o.operate("verify", "--chain", link); err == nil || !strings.Contains(out, "--chain needs the running origin") {
		t.Errorf("a file against the chain: %v\n%s", err, out)
	}
	if text, err := os.ReadFile(mine); err != nil || string(text) != "mine" || !slices.Equal(look(), before) {
		t.Errorf("the folder has %v, and the file %q, %v", look(), text, err)
	}
	if out, err := o.operate("backup", mine); err != nil {
		t.Errorf("over a file: %v\n%s", err, out)
	}
	o.logs("backup handed out")
	if out, err := o.operate("verify", mine); err != nil || !strings.Contains(out, "0 members joined") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestOnlyAnOriginThatIsNotThereIsCalledSo: told that none is running, its operator
// copies the folder, or starts another one.
func TestOnlyAnOriginThatIsNotThereIsCalledSo(t *testing.T) {
	empty, dead, closed, long := t.TempDir(), t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), strings.Repeat("a", 120))
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: socketPath(dead)})
	if err != nil {
		t.Skipf("the folder for temporary files is too long a path for sockets: %v", err)
	}
	left.SetUnlinkOnClose(false)
	left.Close()
	// No account, root neither, gets anywhere by a link to itself.
	if err := os.Symlink(socketPath(closed), socketPath(closed)); err != nil {
		t.Fatal(err)
	}
	for data, absent := range map[string]bool{empty: true, filepath.Join(empty, "missing"): true, dead: true, long: true, closed: false} {
		for _, command := range [][]string{{"members", "list"}, {"backup", filepath.Join(empty, "backup")}, {"version"}} {
			var out bytes.Buffer
			err := run(append(command, "--data", data), &out)
			said := strings.Contains(fmt.Sprint(err, &out), "no origin is running")
			if said != absent || !absent && !strings.Contains(err.Error(), "too many levels") {
				t.Errorf("%s of %s: %v\n%s", command, data, err, &out)
			}
		}
	}
}

// TestAVerificationThatIsInterruptedLeavesNothing holds that the copy that it works
// on, which is as large as the ledger, goes with it.
func TestAVerificationThatIsInterruptedLeavesNothing(t *testing.T) {
	t.Parallel()
	work, pipe := t.TempDir(), filepath.Join(t.TempDir(), "backup.tar")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	verify := invoke(t, "verify", pipe)
	verify.Env = append(os.Environ(), "TMPDIR="+work)
	if err := verify.Start(); err != nil {
		t.Fatal(err)
	}
	var w *os.File
	eventually(t, "a verification that reads", longEnough, func() bool {
		// No other end, no file: this does not wait for one.
		var err error
		w, err = os.OpenFile(pipe, os.O_WRONLY|unix.O_NONBLOCK, 0)
		return err == nil
	})
	defer w.Close()
	if made, err := os.ReadDir(work); err != nil || len(made) != 1 {
		t.Fatalf("it works in %v: %v", made, err)
	}
	if err := verify.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := verify.Wait(); verify.ProcessState.ExitCode() != 1 {
		t.Errorf("it ended with %v", err)
	}
	if left, err := os.ReadDir(work); err != nil || len(left) > 0 {
		t.Errorf("it left %v: %v", left, err)
	}
}

// TestAnOriginMayStartWhileItsCopyIsVerified holds that what is verified is a copy:
// the origin's own store is held no longer than it takes to make it.
func TestAnOriginMayStartWhileItsCopyIsVerified(t *testing.T) {
	data, work := t.TempDir(), t.TempDir()
	if err := run([]string{"seed", "--members", "10", "--data", data}, io.Discard); err != nil {
		t.Fatal(err)
	}
	copied, err := backup.OpenCopy(data, work, 100, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer copied.Close()
	lock, err := badgerstore.Lock(filepath.Join(data, "ledger"))
	if err != nil {
		t.Fatal(err)
	}
	lock.Close()
}

// TestWhatNoNetworkAnsweredIsNotVerified: verify --chain does not say that the chain agrees
// when its node was silent.
func TestWhatNoNetworkAnsweredIsNotVerified(t *testing.T) {
	for _, c := range []struct {
		chain *paid.ChainAudit
		says  string
		err   error
	}{
		{nil, "everything agrees", nil},
		{&paid.ChainAudit{Asked: 3}, "everything agrees", nil},
		{&paid.ChainAudit{Unknown: 3}, "0 transactions asked for, 3 without an answer\nwhat was answered agrees", errUnanswered},
		{&paid.ChainAudit{Asked: 3, Unknown: 1}, "3 transactions asked for, 1 without an answer\nwhat was answered agrees", errUnanswered},
		{&paid.ChainAudit{Asked: 3, Unknown: 1, Findings: []string{"wrong"}}, "wrong", errFindings},
	} {
		var out bytes.Buffer
		if err := report(&server.Verified{Chain: c.chain}, &out); !errors.Is(err, c.err) || !strings.HasSuffix(out.String(), c.says+"\n") {
			t.Errorf("%+v: %v\n%s", c.chain, err, &out)
		}
	}
}
