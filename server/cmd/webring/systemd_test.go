package main

import (
	"crypto/x509"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// pass has the process find its socket where a supervisor passes it: as descriptor 3, with
// variables that name the process itself.
func (o *origin) pass() {
	words := append([]string{"sh", "-c", `export LISTEN_PID=$$ LISTEN_FDS=1; exec "$0" "$@"`}, o.cmd.Args...)
	o.cmd.Path, o.cmd.Args, o.cmd.ExtraFiles = "/bin/sh", words, []*os.File{o.socket}
}

// activated returns an origin that is not launched yet, with an open socket.
func activated(t *testing.T, args ...string) *origin {
	t.Helper()
	o := prepare(t, nil, args...)
	o.passSocket()
	return o
}

// passSocket opens the socket of a process that is not launched yet.
func (o *origin) passSocket() {
	t := o.t
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o.base = "http://" + l.Addr().String()
	o.args = append(o.args, "--base-url", o.base)
	if o.socket, err = l.(*net.TCPListener).File(); err != nil {
		t.Fatal(err)
	}
	l.Close() // its copy stays open
	t.Cleanup(func() { o.socket.Close() })
}

// While a supervisor holds the socket, an origin's restart refuses no connection, and no
// connection ends before its answer. Reads take as long as the restart.
func TestARestartBehindAPassedSocketLosesNoRead(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		name, args := "plain", []string{"--core", "native", "--drain", "500ms"}
		var trusted *x509.CertPool
		if secure {
			var cert, key string
			cert, key, trusted = certificate(t)
			name, args = "TLS", append(args, "--tls-cert", cert, "--tls-key", key)
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := activated(t, args...)
			address := o.address()
			c := gather(address, trusted, 6) // before there is anybody to answer
			o.boot()
			t.Cleanup(func() { o.kill() })
			c.more(t, 100)
			for range 2 {
				o.stop()
				o.boot()
				c.more(t, 100)
			}
			c.dismiss(t, "over two restarts")
			o.logs("passed to this process")
			o.stop()
		})
	}
}

// Several sockets are told apart by their names. One under another name than the two is
// refused, and the error says the names.
func TestPassedSocketsHaveNames(t *testing.T) {
	t.Parallel()
	o, second := activated(t, "--core", "native"), &origin{t: t}
	second.passSocket()
	run := func(names string) (c *exec.Cmd, said *logBuffer) {
		said = &logBuffer{}
		c = invoke(t, "serve")
		script := "export LISTEN_PID=$$ LISTEN_FDS=2 LISTEN_FDNAMES=" + names + `; exec "$0" "$@"`
		c.Path, c.Args = "/bin/sh", append([]string{"sh", "-c", script, binary(t)}, append(o.args, "--data", o.data)...)
		c.ExtraFiles, c.Stdout, c.Stderr = []*os.File{second.socket, o.socket}, said, said
		return c, said
	}
	c, said := run("other:http")
	if err := c.Run(); err == nil || !strings.Contains(said.String(), `under the name "other"; the names are http and admin`) {
		t.Errorf("%v: %s", err, said)
	}
	// Nobody would answer there.
	o.args = append(o.args, "--admin-listen", "")
	c, said = run("admin:http")
	if err := c.Run(); err == nil || !strings.Contains(said.String(), "--admin-listen is empty") {
		t.Errorf("%v: %s", err, said)
	}
	o.args = o.args[:len(o.args)-2]
	c, said = run("admin:http")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if r := o.get("/api"); r.Status != http.StatusOK { // it waits until somebody answers
		t.Errorf("the socket for clients: %d", r.Status)
	}
	res, err := noRedirects.Get(second.base + "/healthz")
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Errorf("the socket for probes and metrics: %d", res.StatusCode)
	}
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("%v: %s", err, said)
	}
}

// A supervisor is told when the process serves, that it is alive, that it reloads, and that
// it stops.
func TestTheSupervisorIsTold(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	next := func() string {
		t.Helper()
		b := make([]byte, 1024)
		l.SetReadDeadline(time.Now().Add(longEnough))
		n, err := l.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
	env := []string{"NOTIFY_SOCKET=" + path, "WATCHDOG_USEC=600000"}
	told := func(node *origin) {
		t.Helper()
		if first := next(); first != "READY=1" {
			t.Errorf("first it is told %q", first)
		}
		if r := node.get("/api"); r.Status != 200 {
			t.Errorf("ready, and it answers %d", r.Status)
		}
		for range 3 {
			if alive := next(); alive != "WATCHDOG=1" {
				t.Errorf("while it serves, it is told %q", alive)
			}
		}
		until := func(want string) {
			t.Helper()
			for next() != want { // its end comes with the test's
			}
		}
		node.signal(syscall.SIGHUP)
		until("RELOADING=1")
		until("READY=1")
		node.signal(syscall.SIGTERM)
		until("STOPPING=1")
		node.waitGone()
	}
	o := startWith(t, env, "--core", "native")
	told(o)
	o.env = nil
	o.launch()
	e := o.follow(t, o.verifier(), "--core", "native")
	e.stop()
	for { // what the origin has said at last
		l.SetReadDeadline(time.Now().Add(time.Millisecond))
		if _, err := l.Read(make([]byte, 1024)); err != nil {
			break
		}
	}
	e.env = env
	e.launch()
	told(e)
}
