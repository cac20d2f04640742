package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// mostAtEdge is the most members that an edge is measured with: both the edge and its origin
// hold all members in memory.
const mostAtEdge = 1_000_000

var verifierLine = regexp.MustCompile(`--origin-key (\S+)`)

// mostUncounted is of how many members an edge is measured at most that counts nothing:
// what counting costs does not depend on them.
const mostUncounted = 100_000

// startEdge runs an edge that follows the ring, and asks it what readers ask edges
// most; another one that counts nothing, just before; one that counts hops, just after; and
// one that keeps no answers. The
// ring has nothing to do meanwhile.
func (b *bench) startEdge(origin *server) error {
	if b.members > mostAtEdge {
		fmt.Printf("no edge is measured with %d members: memory is for up to %d\n", b.members, mostAtEdge)
		return nil
	}
	out, err := exec.Command(b.o.webring, "version", "--data", b.data).Output()
	if err != nil {
		return fmt.Errorf("the origin's key: %w", err)
	}
	key := verifierLine.FindSubmatch(out)
	if key == nil {
		return fmt.Errorf("no origin's key in %q", out)
	}
	run := func(name, watched string, more ...string) (*server, error) {
		address := free()
		// It listens once it has something to show.
		s, err := b.run(name, address, append([]string{fmt.Sprintf("WEBRING_KEEP_ANSWERS=%t", name != forgetful), b.o.webring, "edge", "--origin", "http://" + origin.address, "--origin-key", string(key[1]),
			"--listen", address, "--admin-listen", watched, "--data", filepath.Join(b.dir, name), "--rate-limit", "2000000000"}, more...)...)
		if err != nil {
			return nil, err
		}
		return s, s.reach(origin)
	}
	s, err := run(edge, someAddress)
	if err != nil {
		return err
	}
	if b.members <= mostUncounted {
		bare, err := run(uncounted, "")
		if err != nil {
			return err
		}
		b.askAbout(bare, 1, "/next")
	}
	b.askReads(s)
	if b.members <= mostUncounted {
		secret := filepath.Join(b.dir, "edge-secret")
		if err := os.WriteFile(secret, []byte(strings.Repeat("5e", 32)+"\n"), 0o600); err != nil {
			return err
		}
		counting, err := run(hopping, someAddress, "--edge-secret-file", secret)
		if err != nil {
			return err
		}
		b.askAbout(counting, 1, "/next")
	}
	// What small rings keep, this one makes anew like large ones.
	if s, err = run(forgetful, someAddress); err != nil {
		return err
	}
	b.askAbout(s, 1, "/next", "api next", "widget", "detail")
	return nil
}

// reach waits until the server is where the origin is.
func (s *server) reach(origin *server) error {
	for range 600 {
		there, err := origin.position()
		if err != nil {
			return err
		}
		here, err := s.position()
		if err != nil {
			return err
		}
		if here == there {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return fmt.Errorf("%s does not come to where its origin is", s.name)
}

// position is what the server says it shows.
func (s *server) position() (string, error) {
	res, err := http.Get("http://" + s.address + "/api")
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	seq := res.Header.Get("Webring-Seq")
	if seq == "" {
		return "", fmt.Errorf("%s answers with status %d and no position", s.name, res.StatusCode)
	}
	return seq, nil
}
