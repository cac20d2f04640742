package main

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"webring/server/devchain"
)

// balancer is a real load balancer before an origin.
type balancer struct {
	address string
	// checks says how many looks after the origin's health have failed, and whether
	// the origin is in use. It is nil for a balancer that does not look.
	checks func() (failed int, up bool)
}

// haproxy starts HAProxy before an origin, with lines about the clients it forwards for.
func haproxy(t *testing.T, o *origin, lines string) balancer {
	b, stats := balancer{address: devchain.FreeAddress()}, devchain.FreeAddress()
	config := fmt.Sprintf(`defaults
	mode http
	timeout connect 10s
	timeout client 60s
	timeout server 60s
	timeout check 30s
listen ring
	bind %s
	http-request set-header X-Forwarded-Proto https
	%s
	option httpchk GET /api
	server origin %s check inter 500ms fall 1 rise 1
listen stats
	bind %s
	stats enable
	stats uri /
`, b.address, lines, strings.TrimPrefix(o.base, "http://"), stats)
	background(t, b.address, config, "haproxy", "-db", "-f")
	b.checks = func() (int, bool) {
		return health(t, exchange(t, nil, stats, "GET /;csv HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").Body)
	}
	return b
}

// health reads the line about the origin in HAProxy's statistics.
func health(t *testing.T, text []byte) (failed int, up bool) {
	t.Helper()
	rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		said := map[string]string{}
		for i, name := range rows[0] {
			said[name] = row[i]
		}
		if said["svname"] != "origin" {
			continue
		}
		if failed, err = strconv.Atoi(said["chkfail"]); err != nil {
			t.Fatal(err)
		}
		return failed, said["status"] == "UP"
	}
	t.Fatalf("HAProxy says nothing of the origin: %s", text)
	return 0, false
}

// nginx starts nginx before an origin, with lines about the clients it forwards for.
func nginx(t *testing.T, o *origin, lines string) balancer {
	b, dir := balancer{address: devchain.FreeAddress()}, t.TempDir()
	config := fmt.Sprintf(`daemon off; master_process off; pid %[1]s/pid; error_log stderr;
events {}
http {
	access_log off;
	client_body_temp_path %[1]s/a; proxy_temp_path %[1]s/b; fastcgi_temp_path %[1]s/c; uwsgi_temp_path %[1]s/d; scgi_temp_path %[1]s/e;
	server {
		listen %[2]s;
		location / {
			proxy_pass %[3]s;
			proxy_set_header X-Forwarded-Proto https;
			%[4]s
		}
	}
}
`, dir, b.address, o.base, lines)
	background(t, b.address, config, "nginx", "-e", "stderr", "-c")
	return b
}

// background runs a program with a configuration, given by its last argument, until the
// test ends, and waits until it listens at address. Where the program is missing, the
// test is skipped and says how to get it.
func background(t *testing.T, address, config, program string, args ...string) (said *logBuffer) {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		path, err = exec.LookPath("/usr/sbin/" + program) // where only administrators look
	}
	if err != nil {
		t.Skipf("needs %[1]s: apt install %[1]s", program)
	}
	file := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	said = &logBuffer{}
	cmd := exec.Command(path, append(args, file)...)
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		if t.Failed() {
			t.Logf("%s:\n%s", program, said)
		}
	})
	eventually(t, program, longEnough, func() bool {
		select {
		case <-ended:
			t.Fatalf("%s ended at once:\n%s", program, said)
		default:
		}
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return said
}

// TestAStrangersForwardingFieldsDoNotTakeARingBehindABalancerOffline: health checks come
// from the address from which the balancer forwards, and stay answered whatever the
// fields say that one client sends; nor do these give that client more than its
// requests, or somebody else less.
func TestAStrangersForwardingFieldsDoNotTakeARingBehindABalancerOffline(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rule, field string
		begin       func(*testing.T, *origin, string) balancer
		lines       string
		attack      []string
	}{
		{"HAProxy extends X-Forwarded-For", "X-Forwarded-For", haproxy, "option forwardfor",
			[]string{"Forwarded: for=unknown", "Forwarded: for=198.51.100.7", "X-Forwarded-For: unknown", "X-Forwarded-For: ,\"", "X: \x01"}},
		{"HAProxy leaves X-Forwarded-For to clients that send it", "X-Forwarded-For", haproxy, "option forwardfor if-none",
			[]string{"X-Forwarded-For: unknown", "X-Forwarded-For:", "X-Forwarded-For: 198.51.100.7, -", "X-Forwarded-For: 1.2.3.4.5\r\nForwarded: for=unknown"}},
		{"HAProxy writes Forwarded", "Forwarded", haproxy, "http-request set-header Forwarded for=%[src];proto=https",
			[]string{"Forwarded: for=unknown", "X-Forwarded-For: unknown", "X-Forwarded-For: 198.51.100.7", "X-Forwarded-Proto: http"}},
		{"nginx writes X-Real-IP", "X-Real-IP", nginx, "proxy_set_header X-Real-IP $remote_addr;",
			[]string{"X-Real-IP: 198.51.100.7", "X-Forwarded-For: unknown", "X-Forwarded-For: 198.51.100.7", "Forwarded: for=unknown"}},
	} {
		t.Run(c.rule, func(t *testing.T) {
			t.Parallel()
			o := ring(t, "--rate-limit", "120", "--trusted-proxy", "127.0.0.1", "--client-ip-header", c.field)
			b := c.begin(t, o, c.lines)
			// Loopback has an address for each of them.
			stranger, newcomer := net.IPv4(127, 0, 0, 2), net.IPv4(127, 0, 0, 3)
			body := registration(t, nil)
			join := func() {
				t.Helper()
				r := exchange(t, newcomer, b.address, fmt.Sprintf("POST /api/register HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
				if r.Status != http.StatusPaymentRequired {
					t.Errorf("an honest newcomer gets %d, want 402: %s", r.Status, r.Body)
				}
			}
			join()
			answered, begin := 0, time.Now()
			for i := range 300 {
				r := exchange(t, stranger, b.address, "GET /api HTTP/1.1\r\nHost: x\r\n"+c.attack[i%len(c.attack)]+"\r\n\r\n")
				if r.Status == http.StatusOK {
					answered++
				}
				if i%30 == 0 {
					join()
				}
			}
			if answered > 120 && time.Since(begin) < time.Minute {
				t.Errorf("one client had %d answers in a minute", answered)
			}
			// The balancer's own requests, as this one is: when it has sent others, they
			// are missing here.
			left := func() int {
				r := o.get("/api")
				if r.Status != http.StatusOK {
					t.Fatalf("a health check gets %d: %s", r.Status, r.Body)
				}
				n, err := strconv.Atoi(r.Header.Get("RateLimit-Remaining"))
				if err != nil {
					t.Fatal(err)
				}
				return n
			}
			if before, looks := left(), 0; b.checks != nil {
				eventually(t, "HAProxy's look after the origin", longEnough, func() bool {
					now := left()
					looks += max(before-now-1, 0)
					before = now
					return looks >= 3
				})
				if failed, up := b.checks(); failed > 0 || !up {
					t.Errorf("%d health checks failed; the origin is in use: %t", failed, up)
				}
			}
			join()
		})
	}
}
