package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"webring/server/devchain"
	"webring/server/devchain/faults"
)

// TestAnEdgeWithSeveralOrigins runs an edge whose origins are one that takes connections and
// says nothing, and one at two addresses. They come and go; payers are told the truth, and
// what is shown goes forward only.
func TestAnEdgeWithSeveralOrigins(t *testing.T) {
	t.Parallel()
	mute, err := net.Listen("tcp", "127.0.0.1:0") // nobody accepts
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	secret := secretFile(t)
	o := ring(t, "--core", "native", "--edge-secret-file", secret)
	o.join("Kept", "agent", "")
	link, err := faults.NewLink(strings.TrimPrefix(o.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer link.Close()
	near := "http://" + link.Address
	listen, file := devchain.FreeAddress(), filepath.Join(t.TempDir(), "edge.toml")
	name := func(origins ...string) {
		t.Helper()
		if err := os.WriteFile(file, fmt.Appendf(nil, "origin = [\"%s\"]\n", strings.Join(origins, "\", \"")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	silent := "http://" + mute.Addr().String()
	name(silent, near, o.base)
	e := &origin{t: t, data: folder(t), base: "http://" + listen, recipient: o.recipient}
	e.args = []string{"edge", "--config", file, "--core", "native", "--listen", listen, "--origin-key", o.verifier(), "--edge-secret-file", secret, "--rate-limit", "0", "--drain", "0"}
	e.launch()
	t.Cleanup(e.kill)

	body := `{"member":"kept","amount":"1.00"}`
	paid := 0
	pay := func(what string) {
		t.Helper()
		var r reply
		eventually(t, "a challenge "+what, longEnough, func() bool { r = e.post("/api/bid", body); return r.Status == 402 })
		credential := signedBy(wallet(t), e.challenge(r))
		eventually(t, "a bid "+what, longEnough, func() bool {
			r := e.post("/api/bid", body, "Authorization", credential)
			if r.Status != 200 && r.Status != 503 {
				t.Fatalf("%s: %d %s", what, r.Status, r.Body)
			}
			return r.Status == 200
		})
		paid++
		if !strings.Contains(string(e.get("/api/ring/kept").Body), fmt.Sprintf(`"paid_total_usd":"%d.00"`, 1+paid)) {
			t.Errorf("%s: %s", what, e.get("/api/ring/kept").Body)
		}
	}
	// asks holds which origin is followed and which one gets payments.
	asks := func(replica, forward string) {
		t.Helper()
		eventually(t, "following "+replica+", and passing on to "+forward, longEnough, func() bool {
			all := e.scrape()
			return all[fmt.Sprintf("webring_replica_origin{origin=%q}", replica)] == 1 && all[fmt.Sprintf("webring_forward_origin{origin=%q}", forward)] == 1
		})
	}
	pay("beside a mute origin")
	asks(near, near)
	link.Cut()
	pay("after one origin is lost")
	asks(o.base, o.base)
	shown := e.position()
	o.kill()
	if r := e.post("/api/bid", body, "Authorization", "Payment x"); r.Status != 503 || e.position() != shown {
		t.Errorf("without any: %d %s, at %s", r.Status, r.Body, e.position())
	}
	if ready, rows := e.readiness(); !ready || rows["payments"].OK || rows["payments"].Required {
		t.Errorf("without any: %v, %+v", ready, rows)
	}
	o.launch()
	link.Open()
	pay("after all were lost")
	name(near)
	if err := e.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	asks(near, near)
	pay("through the one that is left")
	if _, rows := e.readiness(); !rows["payments"].OK || !strings.Contains(rows["payments"].Detail, near) || !strings.Contains(rows["origin"].Detail, near) {
		t.Errorf("%+v", rows)
	}
	if all := e.scrape(); len(all) == 0 || all[fmt.Sprintf("webring_replica_origin{origin=%q}", o.base)] != 0 {
		t.Error("an origin that was taken out is followed")
	}
	alike(t, o, e)
	o.confirmed()
	o.balanced()
	if got := o.received(); got != int64(100+100*paid) {
		t.Errorf("%d cents were received for %d bids", got, paid)
	}
}
