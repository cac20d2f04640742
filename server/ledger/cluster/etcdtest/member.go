package etcdtest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"webring/server/devchain/faults"
)

// Member is one member of etcd, with its data.
type Member struct {
	Name string
	// Client and Peer are what clients and other members connect to.
	Client, Peer *faults.Link

	t           testing.TB
	binary, dir string
	flags       []string

	mu     sync.Mutex
	cmd    *exec.Cmd // nil while it does not run
	exited chan struct{}
	log    bytes.Buffer // of the last start
}

// socket is the path of a Unix socket. etcd wants a host and a port, of which it makes the
// name of a file in its working folder.
func (m *Member) socket(name string) string { return filepath.Join(m.dir, name) }

// Start starts a member that does not run, on its data.
func (m *Member) Start() {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cmd != nil {
		m.t.Fatalf("%s runs already", m.Name)
	}
	m.log.Reset()
	cmd := exec.Command(m.binary, append([]string{
		"--name", m.Name, "--data-dir", "data", "--log-level", "warn",
		"--listen-client-urls", "unix://client:1", "--advertise-client-urls", "http://" + m.Client.Address,
		"--listen-peer-urls", "unix://peer:1", "--initial-advertise-peer-urls", "http://" + m.Peer.Address,
	}, m.flags...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = m.dir, &m.log, &m.log
	if err := cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	exited := make(chan struct{})
	m.cmd, m.exited = cmd, exited
	go func() {
		cmd.Wait()
		close(exited)
	}()
}

// PID is the process of a member that runs, or 0.
func (m *Member) PID() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cmd == nil {
		return 0
	}
	return m.cmd.Process.Pid
}

// Kill ends a member at once.
func (m *Member) Kill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cmd == nil {
		return
	}
	m.cmd.Process.Kill()
	<-m.exited
	m.cmd = nil
}

// Pause stops the process of a member, and Resume lets it go on.
func (m *Member) Pause()  { m.signal(syscall.SIGSTOP) }
func (m *Member) Resume() { m.signal(syscall.SIGCONT) }

func (m *Member) signal(s syscall.Signal) {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cmd == nil {
		m.t.Fatalf("%s does not run", m.Name)
	}
	if err := m.cmd.Process.Signal(s); err != nil {
		m.t.Error(err)
	}
}

// ID is how a member names itself to others: the source of its connections to their links.
func (m *Member) ID() string {
	m.t.Helper()
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(20 * time.Millisecond) {
		if s, err := m.status(); err == nil {
			id, err := strconv.ParseUint(s.Header.MemberID, 10, 64)
			if err != nil {
				m.t.Fatal(err)
			}
			return fmt.Sprintf("%x", id)
		}
	}
	m.t.Fatalf("%s does not answer", m.Name)
	return ""
}

// DBSize is the size of its database, in bytes.
func (m *Member) DBSize() int64 {
	m.t.Helper()
	s, err := m.status()
	if err != nil {
		m.t.Fatal(err)
	}
	n, err := strconv.ParseInt(s.DBSize, 10, 64)
	if err != nil {
		m.t.Fatal(err)
	}
	return n
}

// Memory is the resident memory of its process, in bytes.
func (m *Member) Memory() int64 {
	m.t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", m.PID()))
	if err != nil {
		m.t.Fatal(err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(b))[1], 10, 64)
	if err != nil {
		m.t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

// CPU is the processor time that its process has taken.
func (m *Member) CPU() time.Duration {
	m.t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", m.PID()))
	if err != nil {
		m.t.Fatal(err)
	}
	_, fields, _ := strings.Cut(string(b), ") ") // the name before it may have spaces
	var ticks time.Duration
	for _, field := range strings.Fields(fields)[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			m.t.Fatal(err)
		}
		ticks += time.Duration(n)
	}
	return ticks * time.Second / 100 // the kernel's unit
}

// close ends a member and deletes its data. After a failure, it shows the end of its log.
func (m *Member) close() {
	m.Kill()
	if m.t.Failed() {
		log := m.log.Bytes()
		m.t.Logf("the log of %s ends with\n%s", m.Name, log[max(0, len(log)-4000):])
	}
	m.Peer.Close()
	m.Client.Close()
	os.RemoveAll(m.dir)
}
