package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"webring/server/devchain"
	"webring/wasm/module"
)

// workerFolder has the Worker and the programs that build and run it.
const workerFolder = "../../../edge/worker"

var bundle struct {
	once sync.Once
	dir  string
	err  error
}

// bundled builds the Worker once, and gives the folder. The test is skipped where the
// programs for that are missing.
func bundled(t *testing.T) string {
	t.Helper()
	if raceDetector {
		t.Skip("the Worker and the binary are programs of their own, in which the race detector sees nothing: the run without it has this test")
	}
	if _, err := module.Digest(); err != nil {
		t.Fatal(err)
	}
	if err := devchain.FindNode(); err != nil {
		t.Skip(err)
	}
	binary(t) // makes the folder of all tests
	bundle.once.Do(func() {
		bundle.dir = filepath.Join(shared.dir, "worker")
		if bundle.err = devchain.InstallIn(context.Background(), workerFolder); bundle.err != nil {
			return
		}
		// The go command forgets a result when a file that the test read changes.
		files, err := filepath.Glob(filepath.Join(workerFolder, "*.*"))
		for _, name := range files {
			if _, failed := os.ReadFile(name); failed != nil {
				err = failed
			}
		}
		if err != nil {
			bundle.err = err
			return
		}
		cmd := exec.Command("node", "build.mjs", "../../wasm/module/built/core.wasm", bundle.dir)
		cmd.Dir = workerFolder
		if out, err := cmd.CombinedOutput(); err != nil {
			bundle.err = fmt.Errorf("building the Worker: %w: %s", err, out)
		}
	})
	if bundle.err != nil {
		t.Fatal(bundle.err)
	}
	return bundle.dir
}

// fromNPM gives a program that npm has brought for this system, workerd or deno.
func fromNPM(t *testing.T, name string) string {
	t.Helper()
	path, err := devchain.Program(workerFolder, name)
	if err != nil {
		t.Skip(err)
	}
	return path
}

// worker is a Worker under workerd, or under Deno.
type worker struct {
	*origin
	program string
	args    []string
	env     []string
	floor   string // the folder of what it keeps
}

// startWorker starts a Worker that follows at a URL. env is more of its configuration.
func startWorker(t *testing.T, at, key string, env ...string) *worker {
	t.Helper()
	dir, listen := bundled(t), devchain.FreeAddress()
	w := &worker{origin: &origin{t: t, base: "http://" + listen}, program: fromNPM(t, "workerd"), floor: t.TempDir()}
	w.args = []string{"serve", filepath.Join(dir, "workerd.capnp"), "--socket-addr", "http=" + listen, "--directory-path", "floor=" + w.floor}
	w.env = append([]string{"ORIGIN=" + at, "ORIGIN_KEY=" + key, "RATE_LIMIT=0", "EDGE_SECRET="}, env...)
	w.launch()
	t.Cleanup(w.kill)
	return w
}

// secretOf gives the Worker's configuration for the secret in a file.
func secretOf(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return "EDGE_SECRET=" + strings.TrimSpace(string(text))
}

// launch starts the process and waits until it listens.
func (w *worker) launch() {
	w.t.Helper()
	w.cmd = exec.Command(w.program, w.args...)
	w.cmd.Env = append(os.Environ(), w.env...)
	w.log = &logBuffer{}
	w.cmd.Stdout, w.cmd.Stderr = w.log, w.log
	if err := w.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	gone, cmd := make(chan struct{}), w.cmd
	w.gone = gone
	go func() {
		_ = cmd.Wait()
		close(gone)
	}()
	eventually(w.t, "an answer of the Worker", longEnough, func() bool {
		select {
		case <-gone:
			w.t.Fatalf("workerd ended at once:\n%s", w.log)
		default:
		}
		// What it answers does not count: it may follow nothing yet.
		r, err := noRedirects.Get(w.base + "/nothing")
		if err == nil {
			r.Body.Close()
		}
		return err == nil
	})
}

// comesTo waits until a Worker shows what an origin does.
func (w *worker) comesTo(o *origin) {
	w.t.Helper()
	eventually(w.t, "the origin's position at the Worker", time.Minute, func() bool { return w.position() == o.position() })
}

// deno starts the same files under Deno, to follow h.
func (h *hostile) deno() *worker {
	h.t.Helper()
	bundled(h.t)
	listen := devchain.FreeAddress()
	w := &worker{origin: &origin{t: h.t, base: "http://" + listen}}
	w.program = fromNPM(h.t, "deno")
	w.args = []string{"run", "--no-config", "--allow-net", "--allow-env", "--allow-read", filepath.Join(workerFolder, "deno.js")}
	w.env = []string{"LISTEN=" + listen, "ORIGIN=" + h.base, "ORIGIN_KEY=" + h.key, "RATE_LIMIT=0", "DENO_NO_UPDATE_CHECK=1", "DENO_DIR=" + h.t.TempDir()}
	w.launch()
	h.t.Cleanup(w.kill)
	return w
}

// worker starts a Worker that follows h.
func (h *hostile) worker(env ...string) *worker {
	h.t.Helper()
	return startWorker(h.t, h.base, h.key, env...)
}

// reachedBy waits until a Worker shows what there is by itself.
func (h *hostile) reachedBy(w *worker) {
	h.t.Helper()
	want := fmt.Sprint(h.present().Size)
	for late := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if r, err := w.try("GET", "/api", nil); err == nil && r.Status == 200 && r.Header.Get("Webring-Seq") == want {
			return
		}
		if time.Now().After(late) {
			h.t.Fatalf("the Worker does not come to position %s:\n%s", want, w.log)
		}
	}
}
