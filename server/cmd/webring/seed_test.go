package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"webring/core"
	"webring/server/ledger"
)

// seeded makes a history that ends at a given time, and gives its tree's root.
func seeded(t *testing.T, number uint64, members int, look func(*ledger.View)) tlog.Hash {
	t.Helper()
	w, err := makeLedger(t.TempDir(), number, members, time.Unix(1_800_000_000, 0))
	if err != nil {
		t.Fatal(err)
	}
	var o options
	if err := o.flags().Parse(nil); err != nil {
		t.Fatal(err)
	}
	if err := w.write(&o, members); err != nil {
		t.Fatalf("seed %d: %v", number, err)
	}
	_, root := w.books.Root()
	w.books.View(look)
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	return root
}

func TestASeedDecidesTheWholeHistory(t *testing.T) {
	ignore := func(*ledger.View) {}
	one, again, two := seeded(t, 1, 300, ignore), seeded(t, 1, 300, ignore), seeded(t, 2, 300, ignore)
	if one != again {
		t.Error("the same seed gave two histories")
	}
	if one == two {
		t.Error("two seeds gave one history")
	}
}

func TestASyntheticRingIsVaried(t *testing.T) {
	seeded(t, 3, 3000, func(v *ledger.View) {
		st := v.State()
		rules := st.Rules()
		if st.Len() != 3000 || !rules.Synthetic || rules.Grace != 30*86400 || rules.Decay != 90*86400 {
			t.Errorf("%d members under %+v", st.Len(), rules)
		}
		kinds, bids, words := map[core.Kind]int{}, 0, 0
		first, last := int64(core.MaxStamp), int64(0)
		for o := range st.Rows() {
			m := st.Member(core.Ordinal(o))
			kinds[m.Kind]++
			if m.Bids > 0 {
				bids++
			}
			if m.Description != "" {
				words++
			}
			if !strings.Contains(m.URL, ".example/") {
				t.Fatalf("%s may be somebody's", m.URL)
			}
			first, last = min(first, m.Joined), max(last, m.Joined)
		}
		if kinds[core.Agent] < 600 || kinds[core.MCP] < 600 || kinds[core.Website] < 600 || bids < 1000 || bids > 2500 || words < 2000 || words == 3000 || len(st.Categories()) < 40 {
			t.Errorf("kinds %v, %d with bids, %d with descriptions, %d categories", kinds, bids, words, len(st.Categories()))
		}
		if days := (last - first) / 86_400_000; days < 500 || days > 731 {
			t.Errorf("joined within %d days", days)
		}
	})
}

func TestSeedLeavesALedgerAsItIs(t *testing.T) {
	for _, name := range []string{"ledger", "head"} {
		dir := t.TempDir()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
		err := seed([]string{"--members", "10", "--data", dir}, io.Discard)
		if err == nil || !strings.Contains(err.Error(), "holds a ledger already") {
			t.Errorf("with %s there: %v", name, err)
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != "mine" {
			t.Errorf("%s is now %q, %v", name, b, err)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
			t.Errorf("the folder has %v, %v", entries, err)
		}
	}
}

func TestSeedRefusesWhatIsNoNumberOfMembers(t *testing.T) {
	for _, n := range []string{"0", "-1", "x", "50000001"} {
		if err := seed([]string{"--members", n, "--data", t.TempDir()}, io.Discard); err == nil {
			t.Errorf("--members %s was taken", n)
		}
	}
}

func TestASyntheticRingSaysSoAndIsServed(t *testing.T) {
	o := &origin{t: t, data: t.TempDir()}
	listen := freeAddress(t)
	o.base = "http://" + listen
	o.args = []string{"serve", "--dev", "--scorer", "fixed:72", "--listen", listen, "--base-url", o.base, "--rate-limit", "0"}
	var out bytes.Buffer
	if err := seed([]string{"--members", "500", "--data", o.data}, &out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "500 members, 802 events") {
		t.Errorf("seed said %q", &out)
	}
	o.launch()
	t.Cleanup(o.kill)
	if doc := o.get("/api").document(t); doc["synthetic"] != true {
		t.Errorf("the directory says %v", doc["synthetic"])
	}
	if body := o.get("/").Body; !bytes.Contains(body, []byte("This ring is synthetic.")) {
		t.Errorf("the home page says %s", body)
	}
	// What the page shows is bounded, and this ring is beyond all of its bounds.
	if n := len(o.get("/", "Accept-Encoding", "br").Body); n == 0 || n > 30<<10 {
		t.Errorf("the home page has %d bytes", n)
	}
	if total := at(t, o.get("/api/leaderboard?limit=1").document(t), "total"); total != 500.0 {
		t.Errorf("%v members", total)
	}
	o.stop()
}
