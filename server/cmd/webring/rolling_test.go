package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"webring/server/devchain"
)

// rolled is a ring behind a balancer with the configuration that is shipped.
type rolled struct {
	*origin                // at its balancer's address
	ring    *origin        // that the edges follow
	edges   []*origin      // behind the balancer
	trusted *x509.CertPool // the balancer's certificate
	client  *http.Client
}

// shipped starts a balancer with a file of the folder deploy in which the addresses and
// paths of this machine stand. Each replacement must be of something that the file holds.
func shipped(t *testing.T, file, wrap, address string, replace map[string]string, program string, args ...string) (said *logBuffer) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", file))
	if err != nil {
		t.Fatal(err)
	}
	config := string(text)
	for from, to := range replace {
		if !strings.Contains(config, from) {
			t.Fatalf("%s does not hold %q", file, from)
		}
		config = strings.ReplaceAll(config, from, to)
	}
	return background(t, address, fmt.Sprintf(wrap, config), program, args...)
}

// adminPort is where an edge of such a ring is watched.
func adminPort(e *origin) string {
	_, port, _ := net.SplitHostPort(e.args[len(e.args)-1])
	return port
}

// ringBehind starts an origin and two edges, and the balancer before these.
func ringBehind(t *testing.T, balance func(t *testing.T, address string, edges []*origin, cert, key string)) *rolled {
	t.Helper()
	c, _ := chain(t)
	secret := secretFile(t)
	cert, key, trusted := certificate(t)
	o := activated(t, "--tempo-rpc", c.RPC, "--core", "native", "--edge-secret-file", secret, "--drain", "6s")
	o.launch()
	t.Cleanup(func() { o.kill() })
	r := &rolled{trusted: trusted, ring: o}
	for range 2 {
		r.edges = append(r.edges, o.follow(t, o.verifier(), "--core", "native", "--edge-secret-file", secret,
			"--trusted-proxy", "127.0.0.1", "--drain", "6s", "--admin-listen", devchain.FreeAddress()))
	}
	address := devchain.FreeAddress()
	balance(t, address, r.edges, cert, key)
	r.origin = &origin{t: t, base: "https://" + address, log: o.log}
	r.client = &http.Client{Timeout: longEnough, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}, ForceAttemptHTTP2: true}}
	t.Cleanup(r.client.CloseIdleConnections)
	return r
}

// post sends a paid request through the balancer, and fails unless it is answered with
// this status.
func (r *rolled) post(path, body, credential string, want int) (reply, error) {
	req, err := http.NewRequest(http.MethodPost, r.base+path, strings.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	if credential != "" {
		req.Header.Set("Authorization", credential)
	}
	res, err := r.client.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != want {
		err = fmt.Errorf("POST %s: %d, not %d: %s", path, res.StatusCode, want, text)
	}
	return reply{res.StatusCode, res.Header, text}, err
}

// buy pays once through the balancer.
func (r *rolled) buy(w devchain.Account, path, body string, want int) error {
	asked, err := r.post(path, body, "", http.StatusPaymentRequired)
	if err != nil {
		return err
	}
	_, err = r.post(path, body, signedBy(w, r.challenge(asked)), want)
	return err
}

// shippedHAProxy starts HAProxy before one node or two. On one machine, each is watched at another port.
func shippedHAProxy(t *testing.T, address string, nodes []*origin, cert, key string) (said *logBuffer) {
	t.Helper()
	both := filepath.Join(t.TempDir(), "both.pem")
	var text []byte
	for _, path := range []string{cert, key} {
		part, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, part...)
	}
	if err := os.WriteFile(both, text, 0o600); err != nil {
		t.Fatal(err)
	}
	replace := map[string]string{"10.0.0.11:8402": nodes[0].address() + " port " + adminPort(nodes[0]), "    server edge2 10.0.0.12:8402\n": "",
		"bind :443 ": "bind " + address + " ", "bind :80\n": "bind " + devchain.FreeAddress() + "\n", "/etc/haproxy/ring.example.org.pem": both}
	if len(nodes) > 1 {
		replace["    server edge2 10.0.0.12:8402\n"] = "    server edge2 " + nodes[1].address() + " port " + adminPort(nodes[1]) + "\n"
	}
	return shipped(t, "haproxy/haproxy.cfg", "%s", address, replace, "haproxy", "-db", "-f")
}

// TestAnOriginBehindABalancerServesWithoutOneNetwork has the shipped HAProxy before an origin that can
// take no payments on one of its networks: readers are answered, and payers get the offer of the other.
func TestAnOriginBehindABalancerServesWithoutOneNetwork(t *testing.T) {
	t.Parallel()
	tempo, _ := chain(t)
	o := evmShop(t, "--core", "native", "--evm-max-fee", "1", "--tempo-rpc", tempo.RPC, "--trusted-proxy", "127.0.0.1", "--admin-listen", devchain.FreeAddress())
	cert, key, trusted := certificate(t)
	address := devchain.FreeAddress()
	said := shippedHAProxy(t, address, []*origin{o.origin}, cert, key)
	eventually(t, "a balancer that finds the origin not ready", longEnough, func() bool { return strings.Contains(said.String(), "has no server available") })
	r := &rolled{origin: &origin{t: t, base: "https://" + address}, client: &http.Client{Timeout: longEnough, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}}}}
	defer r.client.CloseIdleConnections()
	if res, err := r.client.Get(r.base + "/api/leaderboard"); err != nil {
		t.Error(err)
	} else if res.Body.Close(); res.StatusCode != http.StatusOK {
		t.Errorf("a read: %d", res.StatusCode)
	}
	if err := r.buy(wallet(t), "/api/register", `{"name":"Behind","url":"https://behind.dev/","kind":"agent"}`, http.StatusCreated); err != nil {
		t.Error(err)
	}
}

// TestNodesAreRestartedOneAfterTheOther restarts the edges behind a real nginx and a real
// HAProxy, with the configuration that is shipped, and at last the origin, whose socket a
// supervisor holds, while clients read and pay: no read fails, and no payment.
func TestNodesAreRestartedOneAfterTheOther(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		balance func(t *testing.T, address string, edges []*origin, cert, key string)
	}{
		{"nginx", func(t *testing.T, address string, edges []*origin, cert, key string) {
			dir := t.TempDir()
			shipped(t, "nginx/ring.conf", `daemon off; master_process off; pid `+dir+`/pid; error_log stderr;
events {}
http {
access_log off;
client_body_temp_path `+dir+`/a; proxy_temp_path `+dir+`/b; fastcgi_temp_path `+dir+`/c; uwsgi_temp_path `+dir+`/d; scgi_temp_path `+dir+`/e;
%s
}
`, address, map[string]string{
				"10.0.0.11:8402": edges[0].address(), "10.0.0.12:8402": edges[1].address(), "listen 443 ": "listen " + address + " ",
				"listen 80;": "listen " + devchain.FreeAddress() + ";", "ring.example.org;": "127.0.0.1;",
				"/etc/nginx/ring.example.org.pem": cert, "/etc/nginx/ring.example.org.key": key,
			}, "nginx", "-e", "stderr", "-c")
		}},
		{"HAProxy", func(t *testing.T, address string, edges []*origin, cert, key string) {
			shippedHAProxy(t, address, edges, cert, key)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := ringBehind(t, c.balance)
			payer := wallet(t)
			eventually(t, "an edge behind the balancer", longEnough, func() bool {
				res, err := r.client.Get(r.base + "/api")
				if err == nil {
					res.Body.Close()
				}
				return err == nil && res.StatusCode == http.StatusOK
			})
			if err := r.buy(payer, "/api/register", `{"name":"Rolled","url":"https://rolled.dev/","kind":"agent"}`, http.StatusCreated); err != nil {
				t.Fatal(err)
			}
			readers := gather(strings.TrimPrefix(r.base, "https://"), r.trusted, 4)
			over := make(chan struct{})
			var paying sync.WaitGroup
			paid := 0
			paying.Go(func() {
				for ; ; paid++ {
					select {
					case <-over:
						return
					default:
					}
					if err := r.buy(payer, "/api/bid", `{"member":"rolled","amount":"1.00"}`, http.StatusOK); err != nil {
						t.Errorf("payment %d: %v", paid+1, err)
					}
				}
			})
			for _, node := range append(r.edges, r.ring) {
				node.stop()
				node.launch()
				readers.more(t, 200)
			}
			close(over)
			paying.Wait()
			readers.dismiss(t, "over the restarts of all")
			t.Logf("%d payments", paid)
			if paid < 3 {
				t.Errorf("only %d payments were made meanwhile", paid)
			}
			if got, want := r.ring.received(), int64(100*(paid+1)); got != want {
				t.Errorf("%d cents were received for %d bids, not %d", got, paid, want)
			}
		})
	}
}
