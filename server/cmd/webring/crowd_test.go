package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// readPaths are what a crowd reads: answers of the fast path, pages, and documents.
var readPaths = []string{"/next", "/api/ring", "/", "/join", "/api/categories", "/openapi.json"}

// crowd are clients that read without a pause and keep their connections until an answer
// says that it is the last. They forgive nothing: neither a refused connection nor one
// that ends without saying so.
type crowd struct {
	stop    chan struct{}
	readers sync.WaitGroup

	mu             sync.Mutex
	answered, last int
	failed         []string
}

// gather has n clients read at an address until they are dismissed; with trusted, over TLS.
func gather(address string, trusted *x509.CertPool, n int) *crowd {
	c := &crowd{stop: make(chan struct{})}
	for i := range n {
		c.readers.Go(func() {
			for at := i; !c.over(); at++ {
				if err := c.read(address, trusted, at); err != nil {
					c.mu.Lock()
					c.failed = append(c.failed, err.Error())
					c.mu.Unlock()
				}
			}
		})
	}
	return c
}

func (c *crowd) over() bool {
	select {
	case <-c.stop:
		return true
	default:
		return false
	}
}

// read reads over one connection until that ends as it should.
func (c *crowd) read(address string, trusted *x509.CertPool, at int) error {
	conn, err := net.DialTimeout("tcp", address, longEnough)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(longEnough)); err != nil {
		return err
	}
	if trusted != nil {
		conn = tls.Client(conn, &tls.Config{RootCAs: trusted, ServerName: "127.0.0.1"})
	}
	in := bufio.NewReader(conn)
	for ; !c.over(); at++ {
		path := readPaths[at%len(readPaths)]
		if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, address); err != nil {
			return fmt.Errorf("GET %s: %w", path, err)
		}
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			return fmt.Errorf("GET %s: %w", path, err)
		}
		body, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode >= 500 {
			return fmt.Errorf("GET %s: %d, %d bytes, %v", path, res.StatusCode, len(body), err)
		}
		c.mu.Lock()
		c.answered++
		if res.Close {
			c.last++
		}
		c.mu.Unlock()
		if res.Close {
			return nil
		}
	}
	return nil
}

// counts gives how many answers there were, and how many of them were the last of their
// connection.
func (c *crowd) counts() (answered, last int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.answered, c.last
}

// dismiss ends the clients and holds that none of them failed.
func (c *crowd) dismiss(t *testing.T, when string) {
	t.Helper()
	close(c.stop)
	c.readers.Wait()
	if len(c.failed) > 0 {
		t.Errorf("%s, %d reads failed and %d did not: %s", when, len(c.failed), c.answered, strings.Join(c.failed[:min(len(c.failed), 5)], "; "))
	}
	t.Logf("%s: %d reads, %d failed", when, c.answered, len(c.failed))
}

// more waits until a crowd has had so many more answers.
func (c *crowd) more(t *testing.T, n int) {
	t.Helper()
	before, _ := c.counts()
	eventually(t, "more answers", longEnough, func() bool {
		now, _ := c.counts()
		return now >= before+n
	})
}
