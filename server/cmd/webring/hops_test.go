package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestHopsAreRightToTheLastMinute has three edges send visitors on. One is killed after it has reported, loses what came since, and counts again from its
// next start; one is stopped and loses nothing. The origin and all edges tell the sums, after a
// restart of the origin and from a backup.
func TestHopsAreRightToTheLastMinute(t *testing.T) {
	t.Parallel()
	secret := secretFile(t)
	o := prepare(t, nil, "--edge-secret-file", secret, "--trusted-proxy", "127.0.0.1")
	o.populate(5)
	o.launch()
	t.Cleanup(o.kill)
	key := o.verifier()
	near := o.follow(t, key, "--edge-secret-file", secret, "--trusted-proxy", "127.0.0.1")
	killed := o.follow(t, key, "--edge-secret-file", secret, "--trusted-proxy", "127.0.0.1")
	far := o.follow(t, key, "--edge-secret-file", secret, "--trusted-proxy", "127.0.0.1")
	var list struct{ Members []struct{ Slug string } }
	if err := json.Unmarshal(o.get("/api/ring?limit=5").Body, &list); err != nil {
		t.Fatal(err)
	}
	from, to := list.Members[0].Slug, list.Members[1].Slug
	visitors := 0
	hop := func(n *origin, times int) {
		t.Helper()
		for range times {
			visitors++
			client := fmt.Sprintf("100.64.%d.%d", visitors/256, visitors%256)
			if r := n.get("/next?from="+from, "X-Forwarded-For", client, "X-Forwarded-Proto", "https"); r.Status != 302 {
				t.Fatalf("%d %s", r.Status, r.Body)
			}
		}
		// However often one client asks, it is one visitor.
		client := fmt.Sprintf("100.64.%d.%d", visitors/256, visitors%256)
		for range 300 {
			n.get("/next?from="+from, "X-Forwarded-For", client, "X-Forwarded-Proto", "https")
		}
	}
	asked := 30
	told := func(n *origin) string {
		if asked++; asked > 400 {
			asked = 30
		}
		var sent, came, all struct{ Total struct{ From, To, Hops int } }
		for path, doc := range map[string]any{"/api/ring/" + from + "/hops": &sent, "/api/ring/" + to + "/hops": &came, "/api/hops": &all} {
			// Another number of days is another document, which no edge has cached.
			if r := n.get(fmt.Sprintf("%s?days=%d", path, asked)); r.Status != 200 || json.Unmarshal(r.Body, doc) != nil {
				return fmt.Sprintf("%s: %d %s", path, r.Status, r.Body)
			}
		}
		return fmt.Sprint(sent.Total.From, sent.Total.To, came.Total.From, came.Total.To, all.Total.Hops)
	}
	want := func(n *origin, hops int) {
		t.Helper()
		last := ""
		eventually(t, fmt.Sprint(hops, " hops"), 3*time.Minute, func() bool {
			last = told(n)
			return last == fmt.Sprint(hops, 0, 0, hops, hops)
		})
	}
	hop(o, 1)
	hop(near, 10)
	hop(killed, 100)
	hop(far, 1000)
	want(far, 1111)
	hop(killed, 7) // lost: less than a minute after its report
	killed.kill()
	killed.launch()
	hop(killed, 100)
	hop(near, 20)
	hop(o, 2)
	killed.stop()
	far.stop()
	near.stop()
	o.stop()
	o.launch()
	want(o, 1111+100+20+2)
	if page := string(o.get("/members/" + to).Body); !strings.Contains(page, "Visitors from the ring") || !strings.Contains(page, "1\u202f233") {
		t.Errorf("the page does not tell: %s", page)
	}
	file, restored := filepath.Join(t.TempDir(), "backup"), filepath.Join(folder(t), "restored")
	if out, err := o.operate("backup", file); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	o.stop()
	if out, err := o.operate("restore", file, "--data", restored, "--alone"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	o.data = restored
	o.launch()
	want(o, 1233)
}
