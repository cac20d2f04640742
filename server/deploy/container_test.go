package deploy

import (
	"encoding/json"
	"encoding/pem"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"webring/server/devchain"
)

// image is what a Containerfile makes, without an engine: a root, and how its processes
// are run.
type image struct {
	t                   *testing.T
	root                string
	env                 []string
	user, group         int
	entry, cmd, healthy []string
}

// build follows the steps of a Containerfile that is from scratch, with files of a folder.
func build(t *testing.T, file, from string, args map[string]string) *image {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	i := &image{t: t, root: t.TempDir()}
	if err := os.Chmod(i.root, 0o755); err != nil {
		t.Fatal(err)
	}
	list := func(words string) (l []string) {
		if err := json.Unmarshal([]byte(words), &l); err != nil {
			t.Fatalf("%s: %v", words, err)
		}
		return l
	}
	for line := range strings.Lines(string(text)) {
		step, words, _ := strings.Cut(strings.TrimSpace(line), " ")
		words = os.Expand(words, func(name string) string { return args[name] })
		switch step {
		case "", "#", "VOLUME", "EXPOSE", "STOPSIGNAL": // an engine's business
		case "FROM":
			if words != "scratch" {
				t.Fatalf("from %s", words)
			}
		case "ARG":
			if args[words] == "" {
				t.Fatalf("nobody sets %s", words)
			}
		case "COPY":
			i.copy(from, strings.Fields(words))
		case "USER":
			user, group, _ := strings.Cut(words, ":")
			i.user, i.group = i.number(user), i.number(group)
		case "ENV":
			i.env = append(i.env, strings.Fields(words)...)
		case "HEALTHCHECK":
			_, command, _ := strings.Cut(words, "CMD ")
			i.healthy = list(command)
		case "ENTRYPOINT":
			i.entry = list(words)
		case "CMD":
			i.cmd = list(words)
		default:
			if !strings.HasPrefix(step, "#") {
				t.Fatalf("there is no step %q", line)
			}
		}
	}
	return i
}

func (i *image) number(s string) int {
	i.t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		i.t.Fatal(err)
	}
	return n
}

func (i *image) copy(from string, words []string) {
	i.t.Helper()
	user, group := 0, 0
	if owner, has := strings.CutPrefix(words[0], "--chown="); has {
		u, g, _ := strings.Cut(owner, ":")
		user, group, words = i.number(u), i.number(g), words[1:]
	}
	source, to := filepath.Join(from, words[0]), filepath.Join(i.root, words[1])
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		i.t.Fatal(err)
	}
	// A folder is copied with what is in it, which is nothing.
	if out, err := exec.Command("cp", "-r", source, to).CombinedOutput(); err != nil {
		i.t.Fatalf("%v\n%s", err, out)
	}
	if err := os.Chown(to, user, group); err != nil {
		i.t.Fatal(err)
	}
}

// process gives one of the image, which sees nothing of this machine's files, with more
// in its environment.
func (i *image) process(command []string, env ...string) *exec.Cmd {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir = "/"
	cmd.Env = append(slices.Clone(i.env), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: i.root, Credential: &syscall.Credential{Uid: uint32(i.user), Gid: uint32(i.group)}}
	return cmd
}

// TestContainer builds the image's root, and has its process serve in there, as its user:
// the binary needs nothing else, reaches nodes by the authorities that it was given, keeps
// its data where the volume is, and is well by the image's own check.
func TestContainer(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to change into the image's root and to its user")
	}
	asked := make(chan struct{}, 100)
	node := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		select {
		case asked <- struct{}{}:
		default:
		}
		http.Error(w, "no node is here", http.StatusServiceUnavailable)
	}))
	defer node.Close()
	from := t.TempDir()
	compile := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(from, "webring_"+runtime.GOARCH), "../cmd/webring")
	compile.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	authorities := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: node.Certificate().Raw})
	if err := os.WriteFile(filepath.Join(from, "ca-certificates.crt"), authorities, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(from, "data"), 0o755); err != nil {
		t.Fatal(err)
	}
	i := build(t, "Containerfile", from, map[string]string{"TARGETARCH": runtime.GOARCH})
	if i.user == 0 || i.group == 0 {
		t.Error("the process is root")
	}
	if len(i.entry) == 0 || len(i.cmd) == 0 || len(i.healthy) == 0 {
		t.Fatalf("entry %q, command %q, health %q", i.entry, i.cmd, i.healthy)
	}

	listen, admin := devchain.FreeAddress(), devchain.FreeAddress()
	env := []string{"WEBRING_LISTEN=" + listen, "WEBRING_ADMIN_LISTEN=" + admin, "WEBRING_DRAIN=0s", "WEBRING_BASE_URL=https://ring.example.org",
		"WEBRING_TEMPO_RPC=" + node.URL, "WEBRING_TEMPO_RECIPIENT=0x00000000000000000000000000000000000000aa"}
	process := i.process(append(i.entry, i.cmd...), env...)
	said := &output{}
	process.Stdout, process.Stderr = said, said
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- process.Wait() }()
	defer func() { _ = process.Process.Kill() }()
	eventually(t, "an answer", ended, said, func() bool {
		res, err := http.Get("http://" + listen + "/api")
		if err != nil {
			return false
		}
		res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
	select {
	case <-asked:
	case <-time.After(time.Minute):
		t.Errorf("the node was not reached by TLS:\n%s", said)
	}
	if out, err := i.process(i.healthy, env...).CombinedOutput(); err != nil {
		t.Errorf("its own check: %v\n%s", err, out)
	}
	info, err := os.Stat(filepath.Join(i.root, "data", "ledger"))
	if err != nil {
		t.Fatal(err)
	}
	if owner := info.Sys().(*syscall.Stat_t); int(owner.Uid) != i.user {
		t.Errorf("the ledger belongs to %d", owner.Uid)
	}
	// The root is for reading: nothing is written but data.
	err = filepath.WalkDir(i.root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path == filepath.Join(i.root, "data") {
			return fs.SkipDir
		}
		info, err := d.Info()
		if err == nil && int(info.Sys().(*syscall.Stat_t).Uid) == i.user {
			t.Errorf("%s belongs to the image's user", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if err := process.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("it ended by %v\n%s", err, said)
		}
	case <-time.After(2 * time.Minute):
		t.Errorf("it does not end:\n%s", said)
	}
	logIsClean(t, said, filepath.Join(i.root, "data"))
	if out, err := i.process(i.healthy, env...).CombinedOutput(); err == nil {
		t.Errorf("it is well although it has ended: %s", out)
	}
}
