package main

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"webring/server"
	"webring/server/backup"
	"webring/server/devchain/faults"
	"webring/server/pay/paytest"
	"webring/server/sites/score/local"
)

// disk is a file system in memory with a variable size.
type disk struct {
	t   *testing.T
	dir string
}

func newDisk(t *testing.T) *disk {
	t.Helper()
	d, err := tryDisk(t)
	if err != nil {
		t.Skipf("needs to mount a file system of its own (%v): run it as root, in a container with the capability SYS_ADMIN", err)
	}
	return d
}

// tryDisk is newDisk for tests that can do without.
func tryDisk(t *testing.T) (*disk, error) {
	t.Helper()
	d := &disk{t, t.TempDir()}
	if err := unix.Mount("tmpfs", d.dir, "tmpfs", 0, "size=8g"); err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		if err := unix.Unmount(d.dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return d, nil
}

// leave makes the disk so small that this many bytes are free.
func (d *disk) leave(free uint64) {
	d.t.Helper()
	var fs unix.Statfs_t
	err := unix.Statfs(d.dir, &fs)
	if err == nil {
		used := (fs.Blocks - fs.Bfree) * uint64(fs.Bsize)
		err = unix.Mount("", d.dir, "", unix.MS_REMOUNT, fmt.Sprintf("size=%d", used+free))
	}
	if err != nil {
		d.t.Fatal(err)
	}
}

// TestAFullDiskUnderAnEdge holds that readers of an edge see what is new while its disk is
// full, and that what was kept before is whole.
func TestAFullDiskUnderAnEdge(t *testing.T) {
	t.Parallel()
	d := newDisk(t)
	h := newHostile(t)
	h.join("a")
	h.sign()
	e := h.edge(h.base, true)
	e.stop()
	e.data = d.dir
	e.launch()
	h.reached(e)
	d.leave(0)
	kept, mark := fmt.Sprint(h.present().Size), len(e.log.String())
	h.join("b")
	h.sign()
	h.reached(e)
	e.says(mark, "the last good state cannot be kept on disk; serving goes on")
	e.stop()
	h.server.CloseClientConnections()
	h.server.Close()
	e.launch()
	if got := e.get("/api").Header.Get("Webring-Seq"); got != kept {
		t.Errorf("without the origin, the edge begins at position %s, not %s:\n%s", got, kept, e.log)
	}
}

// TestFullDisk fills the disk under a ring while a payment is on its way. Nobody
// else is bound or charged, reads go on, and what the payment brings is stored
// when there is room, whole.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	d := newDisk(t)
	c, _ := chain(t)
	p, err := faults.New(c.RPC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	o := start(t, "--tempo-rpc", p.URL, "--core", "native")
	o.stop()
	o.data = d.dir
	o.launch()
	o.join("Target", "agent", "")
	o.confirmed()
	before, ring, board := o.received(), o.get("/api/ring"), "/api/leaderboard"
	const body = `{"member":"target","amount":"1.00"}`
	w, ahead := wallet(t), func(d *paytest.TempoDraft) { d.ValidBefore = uint64(time.Now().Unix() + 25) }
	late := o.challenge(o.post("/api/bid", body))
	credential := signedBy(w, o.challenge(o.post("/api/bid", body)), ahead)

	p.Follow(silentOnceSent())
	under := make(chan reply, 1)
	go func() {
		r, err := o.try(http.MethodPost, "/api/bid", []byte(body), "Authorization", credential, "Content-Type", "application/json")
		if err != nil {
			t.Error(err)
		}
		under <- r
	}()
	open := func() bool {
		out, err := o.operate("version")
		return err == nil && strings.Contains(out, " 1 open reservations")
	}
	eventually(t, "a reservation", time.Minute, func() bool {
		select {
		case r := <-under:
			t.Fatalf("answered at once: %d %s\n%s", r.Status, r.Body, o.log)
		default:
		}
		return open()
	})
	eventually(t, "the transfer", time.Minute, func() bool { return o.received() == before+100 })
	d.leave(1 << 20)
	eventually(t, "a look at the disk", time.Minute, func() bool {
		o.post("/api/bid", body)
		return strings.Contains(o.log.String(), "needs 256 MiB")
	})
	p.Follow(faults.Pass)

	unavailable := func(r reply) bool {
		return r.Status == 503 && r.code(t) == "payments_unavailable" && r.Header.Get("WWW-Authenticate") == "" && r.Header.Get("Retry-After") != ""
	}
	if r := o.post("/api/bid", body); !unavailable(r) {
		t.Errorf("an offer: %d %s", r.Status, r.Body)
	}
	if r := o.post("/api/bid", body, "Authorization", signedBy(w, late, ahead)); !unavailable(r) {
		t.Errorf("a payment: %d %s", r.Status, r.Body)
	}
	o.says(0, "there is no room to write")
	if r := o.get("/api/ring"); string(r.Body) != string(ring.Body) {
		t.Errorf("the ring reads %s", r.Body)
	}
	if r := o.get("/"); r.Status != http.StatusOK {
		t.Errorf("the page reads %d", r.Status)
	}
	if total := at(t, o.get(board).document(t), "leaderboard", 0, "paid_total_usd"); total != "1.00" || !open() || o.received() != before+100 {
		t.Errorf("total %v, %d cents received", total, o.received()-before)
	}

	d.leave(1 << 30)
	takesEffect := func(r reply, credential string) {
		t.Helper()
		eventually(t, "the effect", 2*time.Minute, func() bool {
			if r.Status == 503 {
				r = o.post("/api/bid", body, "Authorization", credential)
			}
			return r.Status != 503
		})
		if r.Status != 200 || r.Header.Get("Payment-Receipt") == "" {
			t.Errorf("afterwards: %d %s\n%s", r.Status, r.Body, o.log)
		}
	}
	takesEffect(<-under, credential)
	eventually(t, "offers", time.Minute, func() bool { return o.post("/api/bid", body).Status == 402 })
	if r := o.post("/api/bid", body, "Authorization", signedBy(w, late, ahead)); r.Status != 200 {
		t.Errorf("the payment that was refused: %d %s\n%s", r.Status, r.Body, o.log)
	}
	// Somebody else takes all there is between two looks at the disk.
	credential = signedBy(w, o.challenge(o.post("/api/bid", body)), ahead)
	d.leave(0)
	go func() {
		r, err := o.try(http.MethodPost, "/api/bid", []byte(body), "Authorization", credential, "Content-Type", "application/json")
		if err != nil {
			t.Error(err)
		}
		under <- r
	}()
	mark := len(o.log.String())
	eventually(t, "a second look at the disk", time.Minute, func() bool {
		o.post("/api/bid", body)
		return strings.Contains(o.log.String()[mark:], "has 0 MiB free")
	})
	d.leave(1 << 30)
	takesEffect(<-under, credential)
	o.confirmed()

	// A start needs more room than that, and says so.
	o.kill()
	d.leave(1 << 20)
	o.boot()
	o.waitGone()
	if !strings.Contains(o.log.String(), "make room") {
		t.Errorf("the refusal does not say why:\n%s", o.log)
	}
	d.leave(1 << 30)
	o.launch()
	if total := at(t, o.get(board).document(t), "leaderboard", 0, "paid_total_usd"); total != "4.00" || o.received() != before+300 {
		t.Errorf("total %v, %d cents received", total, o.received()-before)
	}
	o.balanced()
}

// TestWhatMakesALedgerAsksForRoom before it begins and as it goes on: the store writes
// where a process that finds no room is ended by the system.
func TestWhatMakesALedgerAsksForRoom(t *testing.T) {
	file := keysAndReport(t, nil, &local.Report{URL: "https://a.dev/"})
	d := newDisk(t)
	t.Setenv("TMPDIR", d.dir)
	d.leave(server.StartFloor - 1<<20)
	for name, command := range map[string]func() error{
		"restore": func() error {
			return run([]string{"restore", file, "--data", filepath.Join(d.dir, "ring"), "--alone"}, io.Discard)
		},
		"unpack": func() error {
			_, err := backup.Unpack(file, filepath.Join(d.dir, "ring"), 1, func() error { return room(d.dir, server.StartFloor) }, slog.New(slog.DiscardHandler))
			return err
		},
		"verify": func() error { return run([]string{"verify", file}, io.Discard) },
		"seed": func() error {
			return run([]string{"seed", "--members", "10", "--data", filepath.Join(d.dir, "ring")}, io.Discard)
		},
	} {
		if err := command(); err == nil || !strings.Contains(err.Error(), "make room") {
			t.Errorf("%s: %v", name, err)
		}
		if err := os.RemoveAll(filepath.Join(d.dir, "ring")); err != nil {
			t.Fatal(err)
		}
	}
}
