package host

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"webring/core/abi"
)

// nodeScripts is how many of the scripts Node and a browser answer.
const nodeScripts = 30

// workerImports are the imports that the Worker gives the module.
const workerImports = "../../edge/worker/wasi.js"

// The module stands for itself: a host that is not ours gets the same bytes
// from it, and so does the Worker's.
func TestNodeAnswersTheSame(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("needs Node 20 or newer, whose WASI is the other host: install it from your distribution or nodejs.org")
	}
	script, want := inAll(t)
	dir := t.TempDir()
	for name, content := range map[string][]byte{"core.wasm": guest(t), "script": script} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// The go command forgets a result when a file that the test read changes.
	if _, err := os.ReadFile(workerImports); err != nil {
		t.Fatal(err)
	}
	for _, imports := range []string{"", workerImports} {
		cmd := exec.Command(node, "--no-warnings", filepath.Join("testdata", "answer.mjs"),
			filepath.Join(dir, "core.wasm"), filepath.Join(dir, "script"), filepath.Join(dir, "replies"), imports)
		if complaint, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, complaint)
		}
		out, err := os.ReadFile(filepath.Join(dir, "replies"))
		if err != nil {
			t.Fatal(err)
		}
		sameReplies(t, fmt.Sprintf("Node with the imports of %q", imports), out, want)
	}
}

// A browser answers the same, too, with the imports of the page /verify and under a policy
// that admits WebAssembly and no more.
func TestABrowserAnswersTheSame(t *testing.T) {
	if scripts < allScripts {
		t.Skip("the browser is a program of its own, in which the race detector sees nothing: the run without it has this test")
	}
	var path string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome-stable", "google-chrome"} {
		if path, _ = exec.LookPath(name); path != "" {
			break
		}
	}
	if path == "" {
		t.Skip("needs Chromium: apt install chromium")
	}
	script, want := inAll(t)
	imports, err := os.ReadFile(workerImports)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{"/": []byte("<!DOCTYPE html><title>Replies</title><script type=module src=/browser.mjs></script>"),
		"/wasi.js": imports, "/core.wasm": guest(t), "/script": script}
	for _, name := range []string{"browser.mjs", "replies.mjs"} {
		if files["/"+name], err = os.ReadFile(filepath.Join("testdata", name)); err != nil {
			t.Fatal(err)
		}
	}
	types := map[string]string{".js": "text/javascript", ".mjs": "text/javascript", ".wasm": "application/wasm", "": "text/html"}
	sent := make(chan []byte, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			body, err := io.ReadAll(r.Body)
			if r.URL.Path != "/replies" || err != nil {
				t.Errorf("%s: %v %s", r.URL.Path, err, body)
				body = nil
			}
			select {
			case sent <- body:
			default:
			}
			return
		}
		w.Header().Set("Content-Security-Policy", "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; connect-src 'self'")
		w.Header().Set("Content-Type", types[filepath.Ext(r.URL.Path)])
		w.Write(files[r.URL.Path])
	}))
	defer s.Close()
	ctx, end := context.WithCancel(t.Context())
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, path, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--user-data-dir="+t.TempDir(), s.URL)
	cmd.Stdout, cmd.Stderr = &said, &said
	// Its processes end together, and then nothing writes to its folder any more.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	select {
	case got := <-sent:
		end()
		<-ended
		sameReplies(t, "the browser", got, want)
	case <-ended:
		t.Errorf("the browser ended: %s", &said)
	case <-time.After(2 * time.Minute):
		end()
		<-ended
		t.Errorf("the browser sends nothing: %s", &said)
	}
	end()
}

// inAll gives what fuzzing has found and the first scripts as one list of calls, as
// testdata/replies.mjs reads it, and the native replies.
func inAll(t *testing.T) (script []byte, want [][]byte) {
	t.Helper()
	native := abi.New(0, 1)
	ask := func(calls []call) (last []byte) {
		for _, c := range calls {
			script = binary.LittleEndian.AppendUint32(script, c.op)
			script = binary.LittleEndian.AppendUint64(script, c.arg)
			script = binary.LittleEndian.AppendUint32(script, uint32(len(c.in)))
			script = append(script, c.in...)
			want = append(want, bytes.Clone(native.Call(c.op, c.arg, c.in)))
		}
		return want[len(want)-1]
	}
	ask(foundCalls(found(t)))
	for seed := range uint64(nodeScripts) {
		s := newScript(seed)
		snapshot := ask(s.calls)
		ask(s.after(snapshot[25:]))
	}
	return script, want
}

// sameReplies compares what a program answers to inAll.
func sameReplies(t *testing.T, program string, out []byte, want [][]byte) {
	t.Helper()
	for i, w := range want {
		if len(out) < 4 || uint64(binary.LittleEndian.Uint32(out)) > uint64(len(out)-4) {
			t.Fatalf("%s stopped after %d of %d replies", program, i, len(want))
		}
		n := binary.LittleEndian.Uint32(out)
		if got := out[4 : 4+n]; !bytes.Equal(got, w) {
			t.Fatalf("reply %d: %s %q, native %q", i, program, got, w)
		}
		out = out[4+n:]
	}
	if len(out) > 0 {
		t.Errorf("%s says %d bytes more", program, len(out))
	}
	t.Logf("%s: %d replies", program, len(want))
}
