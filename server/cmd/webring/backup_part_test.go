package main

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"webring/server"
	"webring/server/backup"
	"webring/server/devchain"
	"webring/server/ledger"
	"webring/server/ledger/ledgertest"
)

// stream is a backup that is being handed out, up to its half. It goes on, or breaks
// off, as it is told to.
type stream struct {
	whole []byte
	on    chan bool
}

// streams has an origin's socket in a data folder, where each backup is another one.
func streams(t *testing.T) (data string, begun <-chan *stream) {
	t.Helper()
	books, err := ledger.Open(ledger.Config{Store: ledgertest.NewStore(), HeadPath: filepath.Join(t.TempDir(), "head"), Capacity: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { books.Close() })
	data = t.TempDir()
	l, err := net.Listen("unix", socketPath(data))
	if err != nil {
		t.Skipf("the folder for temporary files is too long a path for sockets: %v", err)
	}
	out, number := make(chan *stream), atomic.Int32{}
	origin := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var text bytes.Buffer
		key := backup.File{Name: "key", Data: fmt.Append(nil, number.Add(1))}
		if err := backup.Write(&text, books, []backup.File{key}); err != nil {
			t.Error(err)
		}
		s := &stream{whole: text.Bytes(), on: make(chan bool)}
		half := len(s.whole) / 2
		w.Write(s.whole[:half])
		w.(http.Flusher).Flush()
		select {
		case out <- s:
		case <-r.Context().Done():
			return
		}
		select {
		case on := <-s.on:
			if !on {
				panic(http.ErrAbortHandler)
			}
			w.Write(s.whole[half:])
		case <-r.Context().Done():
		}
	})}
	go origin.Serve(l)
	t.Cleanup(func() { origin.Close() })
	return data, out
}

// TestABackupThatDoesNotComeToItsEndHarmsNoOther: what has the name is whole, whoever
// else writes to that name, and however that ends.
func TestABackupThatDoesNotComeToItsEndHarmsNoOther(t *testing.T) {
	t.Parallel()
	data, begun := streams(t)
	folder := t.TempDir()
	file := filepath.Join(folder, "backup.tar")
	type process struct {
		*stream
		*exec.Cmd
		said *bytes.Buffer
	}
	begin := func() process {
		t.Helper()
		p := process{Cmd: invoke(t, "backup", file, "--data", data), said: &bytes.Buffer{}}
		p.Stderr = p.said
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		p.stream = await(t, "a backup that is being handed out", begun)
		return p
	}
	var want []byte // has the name
	look := func(when string, others int) {
		t.Helper()
		if text, err := os.ReadFile(file); err != nil || !bytes.Equal(text, want) {
			t.Errorf("%s: the file has %d bytes, and not those of the last that was made; %v", when, len(text), err)
		}
		entries, err := os.ReadDir(folder)
		if err != nil || len(entries) != 1+others {
			t.Errorf("%s: the folder has %v, %v", when, entries, err)
		}
	}
	finish := func(when string, p process, others int) {
		t.Helper()
		p.on <- true
		if err := p.Wait(); err != nil {
			t.Fatalf("%s: %v: %s", when, err, p.said)
		}
		want = p.whole
		look(when, others)
	}

	first, second := begin(), begin()
	finish("two at once, the second", second, 1)
	finish("two at once, the first", first, 0)

	broken := begin()
	broken.on <- false
	if err := broken.Wait(); err == nil {
		t.Error("half a backup is taken for one")
	}
	look("broken off", 0)

	interrupted := begin()
	if err := interrupted.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := interrupted.Wait(); err == nil || !strings.Contains(interrupted.said.String(), "interrupted") {
		t.Errorf("interrupted: %v: %s", err, interrupted.said)
	}
	look("interrupted", 0)

	killed := begin()
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	killed.Wait()
	look("killed", 1)
	left, err := filepath.Glob(file + ".*.part")
	if err != nil || len(left) != 1 {
		t.Fatalf("killed: it left %v, %v", left, err)
	}
	dated := filepath.Join(folder, "ring-2001-02-03.tar.1234.part")
	if err := os.Rename(left[0], dated); err != nil { // its command gave another name
		t.Fatal(err)
	}
	left[0] = dated
	foreign := filepath.Join(t.TempDir(), "film.001.part")
	if err := os.WriteFile(foreign, bytes.Repeat([]byte("film"), 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	if working, err := removeLeft(filepath.Dir(foreign), parts); working || err != nil || !exists(foreign) {
		t.Errorf("a part of another program: %v, %v", working, err)
	}
	next, another := begin(), begin()
	finish("the next", next, 1)
	finish("the one after it", another, 0)
	if !strings.Contains(next.said.String(), "removed "+left[0]) {
		t.Errorf("of what was left the next says %q", next.said)
	}
}

// TestARestoreThatDoesNotComeToItsEndLeavesNoKeys holds that what it made goes with it,
// and that of a killed one nothing is taken for a ring: no origin begins there, and the next restore
// removes what it left, and starts over.
func TestARestoreThatDoesNotComeToItsEndLeavesNoKeys(t *testing.T) {
	t.Parallel()
	o := start(t, "--core", "native")
	file := filepath.Join(t.TempDir(), "backup.tar")
	if out, err := o.operate("backup", file); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	asked, data := make(chan struct{}), t.TempDir()
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case asked <- struct{}{}:
			<-r.Context().Done()
		case <-r.Context().Done():
		}
	}))
	defer silent.Close()
	keys := filepath.Join(data, ".restoring-*", filepath.Base(server.SyncKeyPath(data)))
	for _, end := range []os.Signal{os.Interrupt, os.Kill} {
		restore := invoke(t, "restore", file, "--data", data, "--from", silent.URL)
		if err := restore.Start(); err != nil {
			t.Fatal(err)
		}
		await(t, "a question", asked)
		if made, err := filepath.Glob(keys); err != nil || len(made) != 1 {
			t.Fatalf("it works in %v: %v", made, err)
		}
		if err := restore.Process.Signal(end); err != nil {
			t.Fatal(err)
		}
		if err := restore.Wait(); err == nil {
			t.Fatal("it came to its end")
		}
		if left, err := os.ReadDir(data); err != nil || end == os.Interrupt && len(left) > 0 {
			t.Errorf("it left %v: %v", left, err)
		}
	}
	left, err := filepath.Glob(filepath.Dir(keys))
	if err != nil || len(left) != 1 {
		t.Fatalf("the killed one left %v: %v", left, err)
	}
	refused := func(when string) {
		t.Helper()
		before, _ := os.ReadDir(data)
		for _, args := range [][]string{{}, {"--check"}} {
			out, err := invoke(t, append([]string{"serve", "--dev", "--scorer", "fixed:72", "--data", data, "--listen", devchain.FreeAddress()}, args...)...).CombinedOutput()
			if err == nil || !strings.Contains(string(out), "webring restore again") {
				t.Errorf("%s: serve %q: %v\n%s", when, args, err, out)
			}
		}
		if after, err := os.ReadDir(data); err != nil || len(after) != len(before) {
			t.Errorf("%s: an origin has begun in %v: %v", when, after, err)
		}
	}
	refused("killed while it asked an edge")
	if err := os.Rename(filepath.Join(left[0], "ledger"), filepath.Join(data, "ledger")); err != nil {
		t.Fatal(err)
	}
	refused("killed while it moved what it made")
	working := invoke(t, "restore", file, "--data", data, "--from", silent.URL)
	if err := working.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, "a question", asked)
	refused("at work")
	if out, err := o.operate("restore", file, "--data", data, "--alone"); err == nil || !strings.Contains(out, "another process makes a ring in "+data) {
		t.Errorf("two at once: %v\n%s", err, out)
	}
	if err := working.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	working.Wait()
	if out, err := o.operate("restore", file, "--data", data, "--alone"); err != nil || !strings.Contains(out, "webring: removed "+data) {
		t.Errorf("the next: %v\n%s", err, out)
	}
	if left, err := filepath.Glob(filepath.Dir(keys)); err != nil || len(left) > 0 {
		t.Errorf("it left %v: %v", left, err)
	}
	o.kill()
	key := o.verifier()
	o.data = data
	o.launch()
	if got := o.verifier(); got != key {
		t.Errorf("it signs with %s, not %s", got, key)
	}
	if out, err := o.operate("restore", file, "--data", data, "--alone"); err == nil || !strings.Contains(out, "already holds") {
		t.Errorf("over a ring: %v\n%s", err, out)
	}
}

// TestWhatIsWholeGetsItsPlaceWhoeverInterrupts: half of a ledger in its place would be
// taken for one. The process that is told to end is another one than that of the tests.
func TestWhatIsWholeGetsItsPlaceWhoeverInterrupts(t *testing.T) {
	t.Parallel()
	const told = "WEBRING_TEST_TOLD"
	if dir := os.Getenv(told); dir != "" {
		work, keep, _, err := workFolder(dir, ".made-")
		if err != nil {
			t.Fatal(err)
		}
		keep() // and no end: a signal may take its time
		for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGTERM} {
			if err := syscall.Kill(os.Getpid(), s); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Rename(work, filepath.Join(dir, "made")); err != nil {
			t.Fatal(err)
		}
		return
	}
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestWhatIsWholeGetsItsPlaceWhoeverInterrupts$", "-test.timeout=1m")
	cmd.Env = append(cmd.Environ(), told+"="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(dir, "made")); err != nil {
		t.Error(err)
	}
}
