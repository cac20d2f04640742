package main

import (
	"bytes"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// steps are the places on the paid path at which the power may fail, in order.
// A step that is met twice is named by its turn: the first group commit of a
// payment is the reservation, the second the event.
var steps = []string{
	"simulated", // the chain said yes; nothing is stored
	"commit:1",  // about to store the reservation
	"head:1",    // stored, the head not yet written
	"publish:1", // head written, nobody told
	"reserved",  // about to send
	"broadcast", // sent
	"receipt",   // settled
	"commit:2",  // about to store event and answer
	"head:2",
	"publish:2",
	"applied", // stored, the answer not yet written
}

// TestPowerFailsOnThePaidPath ends the process at each step with SIGKILL. The
// next process must bring about exactly one effect and one transfer, and the
// same credential must get its answer.
func TestPowerFailsOnThePaidPath(t *testing.T) {
	t.Parallel()
	operations := map[string]struct {
		path, body string
		status     int
		cents      int64
		total      string
	}{
		"register":          {"/api/register", `{"name":"Phoenix","url":"https://phoenix.dev/","kind":"agent"}`, 201, 100, "1.00"},
		"register with bid": {"/api/register", `{"name":"Phoenix","url":"https://phoenix.dev/","kind":"agent","bid":"2.00"}`, 201, 300, "3.00"},
		"bid":               {"/api/bid", `{"member":"phoenix","amount":"1.50"}`, 200, 150, "2.50"},
	}
	for name, op := range operations {
		for _, step := range steps {
			t.Run(name+" at "+step, func(t *testing.T) {
				t.Parallel()
				o := ring(t)
				if op.path == "/api/bid" {
					o.join("Phoenix", "agent", "")
					o.confirmed() // or the next process would begin with that
				}
				before := o.received()
				// A fresh process, so that the turns of the steps are counted
				// from this payment on.
				o.stop()
				o.env = []string{"WEBRING_FAILPOINT=" + step}
				o.launch()
				credential := o.sign(wallet(t), op.path, op.body)
				if r, err := o.try(http.MethodPost, op.path, []byte(op.body), "Authorization", credential, "Content-Type", "application/json"); err == nil {
					t.Fatalf("the process answered %d instead of ending: %s", r.Status, r.Body)
				}
				o.waitGone()
				if !strings.Contains(o.log.String(), "failpoint reached") {
					t.Fatalf("it ended by itself:\n%s", o.log)
				}

				o.env = nil
				o.launch()
				var r reply
				eventually(t, "the stored answer", 60*time.Second, func() bool {
					r = o.post(op.path, op.body, "Authorization", credential)
					if r.Status == 503 && (r.code(t) != "payment_pending" || r.Header.Get("Retry-After") == "") {
						t.Fatalf("503 %s", r.Body)
					}
					return r.Status != 503
				})
				if r.Status != op.status || r.Header.Get("Payment-Receipt") == "" {
					t.Fatalf("the same credential: %d %s\n%s", r.Status, r.Body, o.log)
				}
				if paid := o.received() - before; paid != op.cents {
					t.Errorf("%d cents were paid, want %d", paid, op.cents)
				}
				board := o.get("/api/leaderboard").document(t)
				if at(t, board, "total") != 1.0 || at(t, board, "leaderboard", 0, "paid_total_usd") != op.total {
					t.Errorf("leaderboard: %v", board)
				}
				if r := o.post(op.path, op.body, "Authorization", credential); r.Status != 409 || r.code(t) != "credential_reused" {
					t.Errorf("once more: %d %s", r.Status, r.Body)
				}
			})
		}
	}
}

// TestDamagedLedgerIsRefused flips bits and cuts the tail of every file of the
// ledger. A start either refuses and says what to do, or has lost nothing.
func TestDamagedLedgerIsRefused(t *testing.T) {
	t.Parallel()
	o := ring(t)
	o.join("Keeper", "agent", "2.00")
	want := string(o.get("/api/ring").Body)
	o.kill() // the newest writes lie in the write-ahead file alone
	whole := o.data
	// A socket cannot be copied, and the next start makes its own.
	if err := os.Remove(socketPath(whole)); err != nil {
		t.Fatal(err)
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))

	refused := 0
	for _, file := range ledgerFiles(t, whole) {
		text, err := os.ReadFile(filepath.Join(whole, file))
		if err != nil {
			t.Fatal(err)
		}
		// Files are made larger than they are used for, and filled with zeros.
		used := len(bytes.TrimRight(text, "\x00"))
		if used == 0 {
			continue
		}
		broken := bytes.Clone(text)
		broken[random.IntN(used)] ^= 1 << random.IntN(8)
		for damage, text := range map[string][]byte{"a flipped bit": broken, "a truncation": text[:random.IntN(used)]} {
			// The copy is damaged: a start may write into its folder.
			o.data = t.TempDir()
			if err := os.CopyFS(o.data, os.DirFS(whole)); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(o.data, file), text, 0o600); err != nil {
				t.Fatal(err)
			}
			if got, served := o.serves("/api/ring"); !served {
				refused++
				if !strings.Contains(o.log.String(), "restore it whole") {
					t.Errorf("%s in %s: the refusal does not say what to do:\n%s", damage, file, o.log)
				}
			} else if got != want {
				t.Errorf("%s in %s: serves %s", damage, file, got)
			}
			o.kill()
		}
	}
	if refused == 0 {
		t.Error("no damage was noticed")
	}
	o.data = whole
	if got, served := o.serves("/api/ring"); !served || got != want {
		t.Errorf("the undamaged ledger serves %s\n%s", got, o.log)
	}
}

// ledgerFiles names the files of a stopped origin that hold the ledger.
func ledgerFiles(t *testing.T, data string) (files []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(data), ".", func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() && (path == "head" || strings.HasPrefix(path, "ledger/")) {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) < 4 {
		t.Fatalf("files of the ledger: %v %v", files, err)
	}
	return files
}

// serves starts the origin, which may refuse, and gives what it answers.
func (o *origin) serves(path string) (body string, served bool) {
	o.t.Helper()
	o.boot()
	eventually(o.t, "a start or a refusal", time.Minute, func() bool {
		select {
		case <-o.gone:
			return true
		default:
		}
		r, err := o.try(http.MethodGet, path, nil)
		body, served = string(r.Body), err == nil && r.Status == http.StatusOK
		return served
	})
	return body, served
}
