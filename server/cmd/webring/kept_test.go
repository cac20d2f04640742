package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"webring/core"
	"webring/server/backup"
	"webring/server/ledger"
)

var updateKept = flag.Bool("update-kept", false, "make the newest files in testdata/kept anew")

// Each of kept has a data folder, a backup of it and what its state is, as a version of this program
// has written them. They are promises: later versions open them. Only the last is ever made anew, and
// only until a version with it is out.
var kept = []string{
	"testdata/kept",
	"testdata/kept/matched", // with payees, bindings, reasons by code, and events about keys and snapshots
}

const keptKey = "of a test, too\n"

// everyEvent writes a history with events of every type.
func everyEvent(f *founding) {
	f.now = time.UnixMilli(1_769_846_400_000)
	payment := func(transaction string) core.Payment {
		return core.Payment{Method: "tempo", Network: "tempo:42431", Transaction: "0x" + strings.Repeat(transaction, 32), Payer: "0x" + strings.Repeat("cd", 20)}
	}
	f.append(nil, &core.Rules{Name: "Kept", BaseURL: "https://kept.dev", Fee: 100, MinBid: 100, Grace: 30 * 86400, Decay: 90 * 86400, RequiredScore: 40})
	f.join(
		founder{slug: "alpha", url: "https://alpha.dev/", category: "tools", kind: core.Agent, bid: 250, description: "The first.", report: "https://reports.dev/alpha"},
		founder{slug: "beta", url: "https://www.beta.dev/app/", category: "general", kind: core.MCP},
		founder{slug: "gamma", url: "https://gamma.dev/foo", category: "tools", kind: core.Website, unscored: true},
		founder{slug: "gone", url: "https://gone.dev/", category: "general", kind: core.Agent},
		founder{slug: "left", url: "https://left.dev/", category: "general", kind: core.Agent},
		founder{slug: "away", url: "https://away.dev/", category: "general", kind: core.Agent},
	)
	at := f.now.UnixMilli()
	for _, e := range []core.Event{
		&core.Bid{Stamp: at, Member: "beta", Amount: 300, Payment: payment("ab")},
		&core.Adjusted{Stamp: at, Adjustment: core.Credit, Member: "gamma", Amount: 100, Payment: payment("12"), Reason: "found later"},
		&core.Hidden{Stamp: at, Member: "beta", Reason: "reported"},
		&core.Shown{Stamp: at, Member: "beta", Reason: "answered"},
		&core.Removed{Stamp: at, Member: "gone", Reason: "asked to", Redacted: true},
		&core.Left{Stamp: at, Member: "left"},
		&core.Departed{Stamp: at, Member: "away"},
		&core.Returned{Stamp: at, Member: "away"},
		&core.Departed{Stamp: at, Member: "away"},
		&core.Lapsed{Stamp: at, Member: "away"},
		&core.Verified{Stamp: at, Member: "gamma", Proof: core.ByLink},
		&core.Unverified{Stamp: at, Member: "gamma"},
		&core.Asleep{Stamp: at, Member: "gamma"},
		&core.Awake{Stamp: at, Member: "gamma"},
		&core.SetBack{Stamp: at, Reason: "the clock was ahead"},
	} {
		f.own(nil, func(int64) core.Event { return e })
	}
	ownAll(f, "alpha", "beta", "alpha", "gamma")
	bound := payment("34")
	bound.Payee, bound.Binding = "0x"+strings.Repeat("20", 20)+"/0x"+strings.Repeat("ef", 20), "0x"+strings.Repeat("5a", 32)
	for _, e := range []core.Event{
		&core.Payees{Stamp: at, List: []core.Payee{{Network: bound.Network, Account: bound.Payee}}},
		&core.Bid{Stamp: at, Member: "beta", Amount: 300, Payment: bound},
		&core.Adjusted{Stamp: at, Adjustment: core.Void, Member: "beta", Amount: 300, Payment: bound, Reason: "reorganised"},
		&core.Shown{Stamp: at, Member: "gamma", Why: core.Why{Code: core.Resolved}},
		&core.Removed{Stamp: at, Member: "gamma", Redacted: true, Why: core.Why{Code: core.Requested}},
		&core.Removed{Stamp: at, Member: "alpha", Why: core.Why{Code: core.Spam}},
		&core.Keys{Stamp: at, Current: "kept.dev+01020304+AQID", Next: "kept.dev+05060708+AQIE"},
		&core.Snapshotted{Stamp: at, Size: 27, State: [16]byte{1}, Core: [32]byte{3}, Digest: [32]byte{2}, Bytes: 3},
	} {
		var words *core.Texts
		switch e := e.(type) {
		case *core.Shown: // hidden for a reason whose words its redaction deletes
			f.own(&core.Texts{Words: core.Text{Value: "words of a reason"}}, func(now int64) core.Event {
				return &core.Hidden{Stamp: now, Member: "gamma", Why: core.Why{Code: core.Reviewing}}
			})
		case *core.Removed:
			if !e.Redacted {
				words = &core.Texts{Words: core.Text{Value: "words of another reason"}}
			}
		}
		f.own(words, func(int64) core.Event { return e })
	}
}

// ownAll has one member verified, the next one claimed and renamed, the next one moved, and
// the last one asleep.
func ownAll(f *founding, verified, claimed, moved, asleep string) {
	f.t.Helper()
	f.own(nil, func(now int64) core.Event { return &core.Verified{Stamp: now, Member: verified, Proof: core.ByLink} })
	f.own(nil, func(now int64) core.Event {
		return &core.Claimed{Stamp: now, Member: claimed, Owner: core.AccountOf("0x00000000000000000000000000000000000000aa"), Proof: core.ByFile}
	})
	f.own(&core.Texts{Name: core.Text{Value: "Another Name"}}, func(now int64) core.Event { return &core.Changed{Stamp: now, Member: claimed} })
	f.own(&core.Texts{URL: core.Text{Value: "https://moved.dev/"}}, func(now int64) core.Event {
		return &core.Moved{Stamp: now, Member: moved, Score: core.Score{Given: true, Value: 72, Provider: "fixed"}}
	})
	f.own(nil, func(now int64) core.Event { return &core.Asleep{Stamp: now, Member: asleep} })
}

// inLedger opens the ledger in a data folder.
func inLedger(t *testing.T, data string, f func(books *ledger.Ledger) error) {
	t.Helper()
	books, closeBooks, err := openLedger(data, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f(books), closeBooks()); err != nil {
		t.Fatal(err)
	}
}

// stateIn says what the state of the ledger in a data folder is.
func stateIn(t *testing.T, data string) (state string) {
	t.Helper()
	inLedger(t, data, func(books *ledger.Ledger) (err error) {
		books.View(func(v *ledger.View) {
			var paid bool
			paid, err = v.HasPaid("0x" + strings.Repeat("CD", 20))
			state = fmt.Sprintf("%x of %d events, paid %t\n", v.State().Digest(), v.State().Seq(), paid)
		})
		return err
	})
	return state
}

// makeKept makes the last of the files that are kept.
func makeKept(t *testing.T) {
	t.Helper()
	kept := kept[len(kept)-1]
	o := &origin{t: t, data: filepath.Join(t.TempDir(), "data")}
	keys := []backup.File{{Name: "mpp-secret", Data: []byte("of a test, and signs nothing\n")}, {Name: "sync-key", Data: []byte(keptKey)}}
	err := errors.Join(os.RemoveAll(kept), os.Mkdir(kept, 0o755), os.Mkdir(o.data, 0o700))
	for _, key := range keys {
		err = errors.Join(err, os.WriteFile(filepath.Join(o.data, key.Name), key.Data, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	o.write(everyEvent)
	var file bytes.Buffer
	inLedger(t, o.data, func(books *ledger.Ledger) error { return backup.Write(&file, books, keys) })
	data, err := exec.Command("tar", "--owner=0", "--group=0", "-cz", "-C", filepath.Dir(o.data), "data").Output()
	err = errors.Join(err, os.WriteFile(filepath.Join(kept, "data.tar.gz"), data, 0o644),
		os.WriteFile(filepath.Join(kept, "backup.tar"), file.Bytes(), 0o644),
		os.WriteFile(filepath.Join(kept, "state"), []byte(stateIn(t, o.data)), 0o644))
	if err != nil {
		t.Fatal(err)
	}
}

// TestLedgersAndBackupsOpenForEver opens what an earlier version of the program left.
func TestLedgersAndBackupsOpenForEver(t *testing.T) {
	if *updateKept {
		makeKept(t)
	}
	for _, kept := range kept {
		t.Run(filepath.Base(kept), func(t *testing.T) { opensForEver(t, kept) })
	}
}

func opensForEver(t *testing.T, kept string) {
	want, err := os.ReadFile(filepath.Join(kept, "state"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if out, err := exec.Command("tar", "--no-same-owner", "-xzf", filepath.Join(kept, "data.tar.gz"), "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	data, restored := filepath.Join(dir, "data"), filepath.Join(dir, "restored")
	if err := run([]string{"restore", filepath.Join(kept, "backup.tar"), "--data", restored, "--alone"}, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, data := range []string{data, restored} {
		if got := stateIn(t, data); got != string(want) {
			t.Errorf("%s has the state %s, want %s", data, got, want)
		}
		var out bytes.Buffer
		if err := run([]string{"verify", "--data", data}, &out); err != nil || !strings.Contains(out.String(), "everything agrees") {
			t.Errorf("%s: %v\n%s", data, err, &out)
		}
		if key, err := os.ReadFile(filepath.Join(data, "sync-key")); err != nil || string(key) != keptKey {
			t.Errorf("%s has the key %q, %v", data, key, err)
		}
	}
	// It goes on with events of this version.
	inLedger(t, data, func(books *ledger.Ledger) error {
		return books.Do(t.Context(), func(tx *ledger.Tx) error {
			_, err := tx.Append(&core.Bid{Stamp: tx.Stamp(), Member: "beta", Amount: 100, Payment: core.Payment{Method: "tempo", Network: "tempo:42431",
				Transaction: "0x" + strings.Repeat("99", 32), Payee: "0xusd/0xring", Binding: "0x" + strings.Repeat("77", 32)}}, nil)
			return errors.Join(err, tx.AnnouncePayees(core.Payee{Network: "tempo:42431", Account: "0xusd/0xring"}))
		})
	})
	if err := run([]string{"verify", "--data", data}, io.Discard); err != nil {
		t.Error(err)
	}
}
