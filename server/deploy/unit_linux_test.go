package deploy

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"webring/server/devchain"
)

// confined is the variable by which the tests' own binary becomes the process of a unit:
// "mdwe" denies it memory that is written to and executed.
const confined = "WEBRING_TEST_CONFINED"

// TestMain is also what stands between a test and a unit's process, in place of systemd's
// last steps before it.
func TestMain(m *testing.M) {
	how, is := os.LookupEnv(confined)
	if !is {
		os.Exit(m.Run())
	}
	os.Unsetenv(confined)
	os.Setenv("LISTEN_PID", fmt.Sprint(os.Getpid()))
	if how == "mdwe" {
		if err := unix.Prctl(unix.PR_SET_MDWE, unix.PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0); err != nil {
			fmt.Fprintln(os.Stderr, "this kernel cannot deny executable memory:", err)
			os.Exit(1)
		}
	}
	fmt.Fprintln(os.Stderr, syscall.Exec(os.Args[1], os.Args[1:], os.Environ()))
	os.Exit(1)
}

// unit is a service as systemd starts it: its command line and environment, its socket,
// and whether its memory may be executed.
type unit struct {
	t       *testing.T
	said    output
	base    string
	admin   string
	process *exec.Cmd
	ended   chan error
	folders []string // that hold its secrets
}

// startUnit starts what a unit says, with the program and the folders of a test, and waits
// until it says that it is ready.
func startUnit(t *testing.T, name, program, config string, denied bool) *unit {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("systemd", name))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Contains(string(text), "\nMemoryDenyWriteExecute=yes\n"); got != denied {
		t.Errorf("%s denies executable memory: %t", name, got)
	}
	dir := t.TempDir()
	u := &unit{t: t, admin: devchain.FreeAddress(), ended: make(chan error, 1), folders: []string{dir, filepath.Dir(config)}}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	u.base = "http://" + listener.Addr().String()
	socket, err := listener.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	told := filepath.Join(t.TempDir(), "notify")
	notify, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: told, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer notify.Close()

	expand := strings.NewReplacer("%S", dir, "%i", "8411", "/usr/local/bin/webring", program, "/etc/webring", filepath.Dir(config))
	command := regexp.MustCompile(`(?m)^ExecStart=(.*)$`).FindStringSubmatch(string(text))
	if command == nil {
		t.Fatal("the unit starts nothing")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	u.process = exec.Command(self, strings.Fields(expand.Replace(command[1]))...)
	u.process.Env = []string{"NOTIFY_SOCKET=" + told, "LISTEN_FDS=1", "LISTEN_FDNAMES=http", confined + "="}
	if denied {
		u.process.Env[3] += "mdwe"
	}
	for _, m := range regexp.MustCompile(`(?m)^Environment=(.*)$`).FindAllStringSubmatch(string(text), -1) {
		u.process.Env = append(u.process.Env, expand.Replace(m[1]))
	}
	u.process.Env = append(u.process.Env, "WEBRING_ADMIN_LISTEN="+u.admin, "WEBRING_DRAIN=0s")
	u.process.ExtraFiles = []*os.File{socket}
	u.process.Stdout, u.process.Stderr = &u.said, &u.said
	if err := u.process.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { u.ended <- u.process.Wait() }()
	t.Cleanup(func() { _ = u.process.Process.Kill() })
	message := make([]byte, 4096)
	eventually(t, "word that it is ready", u.ended, &u.said, func() bool {
		_ = notify.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		n, err := notify.Read(message)
		return err == nil && strings.Contains(string(message[:n]), "READY=1")
	})
	return u
}

// stop ends it as systemd does.
func (u *unit) stop() {
	u.t.Helper()
	if err := u.process.Process.Signal(syscall.SIGTERM); err != nil {
		u.t.Fatal(err)
	}
	select {
	case err := <-u.ended:
		if err != nil {
			u.t.Errorf("it ended by %v\n%s", err, &u.said)
		}
	case <-time.After(2 * time.Minute):
		u.t.Errorf("it does not end:\n%s", &u.said)
	}
	logIsClean(u.t, &u.said, u.folders...)
}

// TestUnitsServe starts origin and edge as their units do, with the configuration that is
// shipped: on a socket that was there before, confined, and each says when it is ready. The
// origin's memory cannot be made executable; the edge's can, since it compiles the core.
func TestUnitsServe(t *testing.T) {
	t.Parallel()
	etc := t.TempDir()
	program := filepath.Join(etc, "webring")
	if out, err := exec.Command("go", "build", "-o", program, "../cmd/webring").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(etc, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	shipped := func(name string, replace ...string) string {
		t.Helper()
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(replace); i += 2 {
			if !strings.Contains(string(text), replace[i]) {
				t.Fatalf("%s does not hold %q", name, replace[i])
			}
		}
		return write(name, strings.NewReplacer(append(replace, "/etc/webring", etc)...).Replace(string(text)))
	}
	write("edge-secret", strings.Repeat("0123456789abcdef", 4)+"\n")
	// No node is there. Reads do without.
	config := shipped("origin.toml", "https://rpc.example.net", "http://127.0.0.1:1",
		"0x0000000000000000000000000000000000000000", "0x00000000000000000000000000000000000000aa")
	origin := startUnit(t, "webring-origin.service", program, config, true)
	var key []string
	eventually(t, "what edges pin", origin.ended, &origin.said, func() bool {
		key = regexp.MustCompile(`--origin-key (\S+)\n`).FindStringSubmatch(origin.said.String())
		return key != nil
	})
	config = shipped("edge.toml", "http://127.0.0.1:8402", origin.base, "ring.example.org+00000000+…", key[1])
	edge := startUnit(t, "webring-edge@.service", program, config, false)
	for _, u := range []*unit{origin, edge} {
		for _, url := range []string{u.base + "/api", "http://" + u.admin + "/healthz"} {
			res, err := http.Get(url)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(res.Body)
			res.Body.Close()
			if err != nil || res.StatusCode != http.StatusOK {
				t.Errorf("GET %s: %d %v %s", url, res.StatusCode, err, text)
			}
		}
	}
	edge.stop()
	origin.stop()
}
