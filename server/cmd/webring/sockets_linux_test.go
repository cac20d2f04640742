package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// networkOfItsOwn has the test binary run one test in a network of its own, where addresses of
// any network are this machine's. It has the path of the binary to test.
const networkOfItsOwn = "WEBRING_TEST_NETWORK"

// Sockets from 64 addresses of one /58 take every place that a node has. Clients of other
// networks, of the same /48 and of the crowd's own /58 are answered all the same.
func TestACrowdOfOneNetworkLeavesRoomForOthers(t *testing.T) {
	program := os.Getenv(networkOfItsOwn)
	if program == "" {
		inNetworkOfItsOwn(t)
		return
	}
	const host, clients, each = "[2001:db8:ffff::1]:8080", 64, 260
	for _, line := range []string{"link set lo up", "-6 route add local 2001:db8::/31 dev lo", "-6 address add 2001:db8:ffff::1/128 dev lo nodad"} {
		if out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput(); err != nil {
			t.Skipf("needs addresses of other networks: ip %s: %v %s", line, err, out)
		}
	}
	var err error
	if shared.dir, err = os.MkdirTemp("", "webring-network"); err != nil { // for the log; TestMain removes it
		t.Fatal(err)
	}
	o := &origin{t: t, data: t.TempDir(), base: "http://" + host, program: program}
	o.args = []string{"serve", "--dev", "--core", "native", "--scorer", "fixed:72", "--listen", host, "--base-url", "https://ring.example", "--rate-limit", "0"}
	o.launch()
	t.Cleanup(o.kill)
	by := func(address string) *net.Dialer {
		return &net.Dialer{Timeout: longEnough, LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}, Control: func(_, _ string, c syscall.RawConn) error {
			var failed error
			return errors.Join(c.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_FREEBIND, 1) }), failed)
		}}
	}
	var refused atomic.Int64
	var dialers sync.WaitGroup
	for d := range 4 {
		dialers.Go(func() {
			for i := d; i < clients*each; i += 4 {
				c, err := by(fmt.Sprintf("2001:db8:0:%x::1", i%clients)).Dial("tcp", host)
				if err != nil {
					refused.Add(1)
					continue
				}
				t.Cleanup(func() { c.Close() })
			}
		})
	}
	dialers.Wait()
	began, asked := time.Now(), 0
	for range 5 {
		for _, client := range []string{"2001:db9::1", "2001:db8:1::1", "2001:db8:0:4000::1", "2001:db8:0:3f::2"} {
			honest := &http.Client{Timeout: longEnough, CheckRedirect: noRedirects.CheckRedirect, Transport: &http.Transport{DisableKeepAlives: true, DialContext: by(client).DialContext}}
			for path, want := range map[string]int{"/ring": 200, "/next": 404, "/api/ring": 200} {
				res, err := honest.Get(o.base + path)
				if err != nil {
					t.Fatalf("%s by %s beside %d sockets: %v", path, client, clients*each, err)
				}
				io.Copy(io.Discard, res.Body)
				res.Body.Close()
				if res.StatusCode != want {
					t.Errorf("%s by %s: %d", path, client, res.StatusCode)
				}
				asked++
			}
		}
	}
	t.Logf("%d sockets of one /58 (%d not connected): %d honest requests within %s", clients*each, refused.Load(), asked, time.Since(began).Round(time.Millisecond))
}

// inNetworkOfItsOwn runs the test that calls it in a network of its own.
func inNetworkOfItsOwn(t *testing.T) {
	t.Parallel()
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil || files.Cur < 17_000 {
		t.Skipf("needs 17000 open files, and may have %d: raise the limit, as with ulimit -n (%v)", files.Cur, err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), networkOfItsOwn+"="+binary(t))
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if id := os.Geteuid(); id != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: id, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	switch exit := (*exec.ExitError)(nil); {
	case errors.As(err, &exit):
		t.Fatalf("%v\n%s", err, out)
	case err != nil:
		t.Skipf("needs a network of its own: run it as root, in a container with the capability SYS_ADMIN (%v)", err)
	case strings.Contains(string(out), "--- SKIP"):
		t.Skipf("%s", out)
	}
	t.Logf("%s", out)
}
