package etcdtest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"webring/server/devchain/faults"
)

// Config says what members a test wants.
type Config struct {
	// Members is how many; 0 stands for 3.
	Members int
	// Delay is how long what a member sends to another takes.
	Delay time.Duration
	// Flags are more flags for each member.
	Flags []string
}

// Flags are those with which a ring asks etcd to be started.
var Flags = []string{"--max-request-bytes", "8388608", "--snapshot-count", "500"}

// Cluster is an etcd cluster that ends with its test.
type Cluster struct {
	Members []*Member
	t       testing.TB
}

// Start starts a cluster, and waits until it has a leader.
func Start(t testing.TB, c Config) *Cluster {
	t.Helper()
	if c.Members == 0 {
		c.Members = 3
	}
	e := &Cluster{t: t}
	var peers []string
	for i := range c.Members {
		m, err := newMember(t, fmt.Sprintf("etcd-%d", i))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(m.close)
		m.Peer.Delay(c.Delay)
		e.Members = append(e.Members, m)
		peers = append(peers, m.Name+"=http://"+m.Peer.Address)
	}
	for _, m := range e.Members {
		m.flags = append([]string{"--initial-cluster", strings.Join(peers, ","), "--initial-cluster-token", t.Name()}, Flags...)
		m.flags = append(m.flags, c.Flags...)
		m.Start()
	}
	e.Leader()
	return e
}

// Endpoints are the addresses for clients.
func (e *Cluster) Endpoints() []string {
	var all []string
	for _, m := range e.Members {
		all = append(all, m.Client.Address)
	}
	return all
}

// Leader gives the number of the member that leads, and waits until there is one.
func (e *Cluster) Leader() int {
	e.t.Helper()
	for began := time.Now(); time.Since(began) < 2*time.Minute; time.Sleep(20 * time.Millisecond) {
		for i, m := range e.Members {
			if s, err := m.status(); err == nil && s.Leader != "0" && s.Leader == s.Header.MemberID {
				return i
			}
		}
	}
	e.t.Fatal("etcd has no leader")
	return -1
}

// status is what a member answers about itself.
type status struct {
	Header struct {
		MemberID string `json:"member_id"`
	} `json:"header"`
	Leader string `json:"leader"`
	DBSize string `json:"dbSize"`
}

// status asks a member, past its link.
func (m *Member) status() (status, error) {
	var s status
	client := http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", m.socket("client:1"))
		}}}
	resp, err := client.Post("http://etcd.test/v3/maintenance/status", "application/json", strings.NewReader("{}"))
	if err != nil {
		return s, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return s, err
	}
	if resp.StatusCode != http.StatusOK {
		return s, fmt.Errorf("%s: %s", resp.Status, b)
	}
	return s, json.Unmarshal(b, &s)
}

// newMember makes a member that does not run yet.
func newMember(t testing.TB, name string) (*Member, error) {
	// The path of a socket must be short.
	dir, err := os.MkdirTemp("", "etcd")
	if err != nil {
		return nil, err
	}
	m := &Member{Name: name, t: t, binary: Binary(t), dir: dir}
	if m.Client, err = faults.NewLink(m.socket("client:1")); err != nil {
		return nil, err
	}
	m.Peer, err = faults.NewPeerLink(m.socket("peer:1"))
	return m, err
}
