package host

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// sentByChromium gives the replies of a page that Chromium opens, under a policy that admits
// WebAssembly and no more, as that of the page /verify does.
func sentByChromium(t *testing.T, dir string) []byte {
	var path string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome-stable", "google-chrome"} {
		if path, _ = exec.LookPath(name); path != "" {
			break
		}
	}
	if path == "" {
		t.Skip("needs Chromium: apt install chromium")
	}
	sent := make(chan []byte, 1)
	files := http.FileServerFS(os.DirFS(dir))
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
		files.ServeHTTP(w, r)
	}))
	defer s.Close()
	ctx, end := context.WithCancel(t.Context())
	defer end()
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
	var got []byte
	select {
	case got = <-sent:
	case <-ended:
		t.Fatalf("Chromium ended: %s", &said)
	case <-time.After(2 * time.Minute):
		t.Errorf("Chromium sends nothing: %s", &said)
	}
	end()
	<-ended
	return got
}
