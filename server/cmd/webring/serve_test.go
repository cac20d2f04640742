package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
)

// TestASecondSignalEndsAStartAtOnce: the first one lets it come to its end, which
// takes long for a large ring, and here for ever.
func TestASecondSignalEndsAStartAtOnce(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := syscall.Mkfifo(secret, 0o600); err != nil {
		t.Fatal(err)
	}
	o := prepare(t, nil, "--core", "native", "--mpp-secret-file", secret)
	o.boot()
	t.Cleanup(o.kill)
	var held *os.File
	eventually(t, "a start that reads the secret", time.Minute, func() (begun bool) {
		// No other end, no file: this does not wait for one.
		f, err := os.OpenFile(secret, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		held = f
		return err == nil
	})
	defer held.Close()
	o.endsBySignal()
}

// endsBySignal holds that a further signal ends a process which was told to stop, or
// soon will be, and that nothing else does.
func (o *origin) endsBySignal() {
	o.t.Helper()
	eventually(o.t, "the end", time.Minute, func() (ended bool) {
		_ = o.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-o.gone:
			return true
		default:
			return false
		}
	})
	if status := o.cmd.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() {
		o.t.Errorf("it ended with %d:\n%s", status.ExitStatus(), o.log)
	}
}

// TestAStartThatRefusesLeavesNoRules: they would stay in the ledger, and the name of
// the key that signs with it, however right the next start is.
func TestAStartThatRefusesLeavesNoRules(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	missing, recipient := filepath.Join(t.TempDir(), "missing"), "0x"+strings.Repeat("11", 20)
	o := &origin{t: t, data: t.TempDir()}
	start := []string{"serve", "--core", "native", "--base-url", "https://wrong.example.net", "--data", o.data}
	for _, wrong := range [][]string{
		{"--scorer", "nope"},
		{"--scorer", "http"},
		{"--tls-cert", missing, "--tls-key", missing},
		{"--mpp-secret-file", missing},
		{"--edge-secret-file", missing},
		{"--listen", taken.Addr().String()},
		{"--trusted-proxy", "foo"},
		{"--client-ip-header", "X-Real-IP"},
		{"--trusted-proxy", "127.0.0.1", "--client-ip-header", "X Real IP"},
		{"--realm", "a|b", "--tempo-rpc", "http://127.0.0.1:1", "--tempo-recipient", recipient},
		{"--tempo-currency", "usd", "--tempo-rpc", "http://127.0.0.1:1", "--tempo-recipient", recipient},
	} {
		// A listener that is free comes first: the last one given counts.
		if out, err := o.operate(slices.Concat(start, []string{"--listen", "127.0.0.1:0"}, wrong)...); err == nil || !strings.HasPrefix(out, "webring: ") {
			t.Fatalf("%v: %v\n%s", wrong, err, out)
		}
		if left := o.left(); left != nil {
			t.Errorf("%v: %v", wrong, left)
		}
	}
}

// left says what events or keys a start has left.
func (o *origin) left() (left error) {
	if exists(storePath(o.data)) { // otherwise it was found before the ledger was made
		if out, err := o.operate("verify"); err != nil || !strings.HasPrefix(out, "0 events") {
			left = fmt.Errorf("verify: %v\n%s", err, out)
		}
	}
	for _, key := range []string{"sync-key", "mpp-secret"} {
		if _, err := os.Lstat(filepath.Join(o.data, key)); !os.IsNotExist(err) {
			left = errors.Join(left, fmt.Errorf("there is %s: %v", key, err))
		}
	}
	return left
}

// startsLeaveNothing holds that a start which asks its node leaves nothing. For a node
// nobody waits long, and one that answers later contradicts nothing: a machine that
// stands still is given other tries.
func startsLeaveNothing(t *testing.T, start func() *origin) {
	t.Helper()
	var o *origin
	var left error
	for range 5 {
		if o = start(); t.Failed() {
			return
		}
		if left = o.left(); left == nil {
			return
		}
	}
	t.Errorf("%v\n%s", left, o.log)
}

// TestTheGasBudgetCoversFourPayments at the highest fee, or has no limit.
func TestTheGasBudgetCoversFourPayments(t *testing.T) {
	for budget, right := range map[string]bool{"2000000000000000": true, "1999999999999999": false, "5000000": false, "-1": false, "0": true, "90000000000000000000": true} {
		var o options
		err := o.flags().Parse([]string{"--base-url", "https://ring.example.org", "--evm-rpc", "http://127.0.0.1:1", "--evm-recipient", usdc, "--evm-gas-key-file", "key", "--evm-gas-budget", budget})
		if err == nil {
			err = o.validate()
		}
		if right != (err == nil) || !right && !strings.Contains(err.Error(), "evm-gas-budget must be at least 2000000000000000") {
			t.Errorf("%s: %v", budget, err)
		}
	}
}

// TestRulesNameTokensInOneSpelling, whichever the flags have: the rules are what clients
// read, and another spelling would be an event.
func TestRulesNameTokensInOneSpelling(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte(strings.Repeat("1", 64)), 0o600); err != nil {
		t.Fatal(err)
	}
	const token = "833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
	for _, spelt := range []string{token, "0x" + token, "0X" + strings.ToUpper(token), strings.ToLower(token)} {
		var o options
		err := o.flags().Parse([]string{"--tempo-rpc", "http://127.0.0.1:1", "--tempo-recipient", token, "--tempo-currency", spelt,
			"--evm-rpc", "http://127.0.0.1:1", "--evm-recipient", token, "--evm-gas-key-file", key, "--evm-currency", spelt})
		if err != nil {
			t.Fatal(err)
		}
		_, networks, err := paymentMethods(&o)
		if err != nil || len(networks) != 2 {
			t.Fatalf("%s: %+v, %v", spelt, networks, err)
		}
		for _, n := range networks {
			if n.Currency != "0x"+strings.ToLower(token) {
				t.Errorf("%s of %s is %s in the rules", spelt, n.Name, n.Currency)
			}
		}
	}
}

// TestAStartByAWrongClockLeavesNoRules: they would keep payments out until then.
func TestAStartByAWrongClockLeavesNoRules(t *testing.T) {
	t.Parallel()
	node := chainAt(t, time.Now().Add(-24*time.Hour))
	startsLeaveNothing(t, func() *origin {
		o := prepare(t, nil, "--core", "native", "--tempo-rpc", node)
		if _, served := o.serves("/api"); !served && !strings.Contains(o.log.String(), "set the clock") {
			t.Errorf("the refusal does not say why:\n%s", o.log)
		}
		o.kill()
		return o
	})
}

// chainAt returns the URL of a node with a newest block of a given time.
func chainAt(t *testing.T, newest time.Time) string {
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var questions []struct {
			ID     json.RawMessage
			Method string
		}
		_ = json.NewDecoder(r.Body).Decode(&questions)
		var answers []any
		for _, q := range questions {
			var result any = map[string]any{"number": "0x1", "hash": common.Hash{1}, "timestamp": hexutil.Uint64(newest.Unix())}
			if q.Method == "eth_chainId" {
				result = hexutil.Uint64(42431) // what --tempo-chain-id is unless given
			}
			answers = append(answers, map[string]any{"jsonrpc": "2.0", "id": q.ID, "result": result})
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answers)
	}))
	t.Cleanup(node.Close)
	return node.URL
}

// TestAStartThatIsToldToStopLeavesNoRules: who sees that a flag is wrong stops it, and
// a network that takes its time is not taken for one that is away.
func TestAStartThatIsToldToStopLeavesNoRules(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 1)
	node := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // so that the client's leaving is noticed
		select {
		case asked <- struct{}{}:
		default: // it goes on without an answer, and asks again
		}
		<-r.Context().Done()
	}))
	defer node.Close()
	var log string
	startsLeaveNothing(t, func() *origin {
		o := prepare(t, nil, "--core", "native", "--tempo-rpc", node.URL)
		o.boot()
		defer o.kill()
		await(t, "a question", asked)
		if err := o.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		o.waitGone()
		select {
		case <-asked: // again
		default:
		}
		log = o.log.String()
		return o
	})
	if !strings.Contains(log, "webring: interrupted: ") {
		t.Errorf("it says\n%s", log)
	}
}

// TestAKeyThatIsThereIsNeverReplaced: one that cannot be read is refused, before
// another is made beside it, and so is a link to one that is not there.
func TestAKeyThatIsThereIsNeverReplaced(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"mpp-secret", "sync-key"} {
		o := &origin{t: t, data: t.TempDir()}
		path, away := filepath.Join(o.data, name), filepath.Join(t.TempDir(), "away")
		if err := os.Symlink(away, path); err != nil {
			t.Fatal(err)
		}
		if out, err := o.operate("serve", "--core", "native", "--listen", "127.0.0.1:0"); err == nil || !strings.Contains(out, path) {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
		if err := errors.Join(os.Remove(path), os.WriteFile(path, []byte("mine"), 0o600)); err != nil {
			t.Fatal(err)
		}
		if out, err := o.operate("serve", "--core", "native", "--listen", "127.0.0.1:0"); err == nil || !strings.Contains(out, path) || strings.Contains(out, "mine") {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
		if text, err := os.ReadFile(path); err != nil || string(text) != "mine" {
			t.Errorf("%s is now %q, %v", name, text, err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if left := o.left(); left != nil {
			t.Errorf("%s: %v", name, left)
		}
	}
}

// TestAnAlteredKeyIsRefused has one digit of each key file that the ring has made be another. The
// start says which file it is, and nothing of what it holds. With the digit as it was, a payer's
// credential of before is taken. A line that the operator has made otherwise counts as it is.
func TestAnAlteredKeyIsRefused(t *testing.T) {
	t.Parallel()
	line, err := invoke(t, "key", "new").Output()
	secret := filepath.Join(t.TempDir(), "edge-secret")
	if err := errors.Join(err, os.WriteFile(secret, line, 0o600)); err != nil {
		t.Fatal(err)
	}
	o := ring(t, "--core", "native", "--edge-secret-file", secret)
	const body = `{"name":"Honest","url":"https://honest.dev/","kind":"agent"}`
	credential := o.sign(wallet(t), "/api/register", body)
	o.stop()
	for _, path := range []string{filepath.Join(o.data, "mpp-secret"), filepath.Join(o.data, "sync-key"), secret} {
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		altered := slices.Clone(whole)
		i := len(altered) - 10
		if altered[i] = '1'; whole[i] == '1' {
			altered[i] = '2'
		}
		if err := os.WriteFile(path, altered, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, served := o.serves("/api"); served || !strings.Contains(o.log.String(), path) || strings.Contains(o.log.String(), string(altered[:20])) {
			t.Errorf("%s is altered, and the origin serves: %v\n%s", path, served, o.log)
		}
		o.kill()
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(secret, []byte(strings.Repeat("5", 80)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o.launch()
	if r := o.post("/api/register", body, "Authorization", credential); r.Status != http.StatusCreated {
		t.Errorf("%d %s", r.Status, r.Body)
	}
}

// TestAStartRefusesWhatARingCannotBeCalled holds that name and URL of the ring, which
// are written into the ledger, are held to what members' are, and in what words.
func TestAStartRefusesWhatARingCannotBeCalled(t *testing.T) {
	for _, c := range []struct{ flag, value, says string }{
		{"--base-url", "ring.example.org", "the url is not absolute"},
		{"--base-url", "ftp://ring.example.org", "neither http nor https"},
		{"--base-url", "https://ring.example.org:99999", "from 1 to 65535"},
		{"--base-url", "https://ring.example.org/a b", "contains a space"},
		{"--base-url", "https://ring.example.org/?", "before the query"},
		{"--base-url", "https://ring.example.org/#top", "before the query"},
		{"--base-url", "https://me@ring.example.org", "user name"},
		{"--base-url", "https://BÜCHER.example.org", "xn--"},
		{"--base-url", "https://ring.example.org/a+b", "without a plus sign"},
		{"--base-url", "https://ring.example.org/" + strings.Repeat("a", 250), "up to 256 characters"},
		{"--name", "", "must not be empty"},
		{"--name", "\u200b", "must not be empty"},
		{"--name", "\u2800", "can be seen"},
		{"--name", strings.Repeat("a", 81), "at most 80 characters"},
		{"--name", "A\u202eB\a", `write it as "AB"`},
		{"--name", " Ring", `write it as "Ring"`},
		{"--name", "a\xff", "not valid UTF-8"},
	} {
		var o options
		if err := parse(o.flags(), []string{c.flag, c.value}); err != nil {
			t.Fatal(err)
		}
		if err := o.validate(); err == nil || !strings.HasPrefix(err.Error(), c.flag) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s %q: %v; want %s", c.flag, c.value, err, c.says)
		}
	}
	for given, kept := range map[string]string{
		"HTTPS://Ring.Example.org:443/":    "https://ring.example.org",
		"http://127.0.0.1:8402":            "http://127.0.0.1:8402",
		"http://[::1]:8402/":               "http://[::1]:8402",
		"https://localhost/rings/%7eours/": "https://localhost/rings/~ours",
		"https://ring.example.org/ü":       "https://ring.example.org/%C3%BC",
	} {
		var o options
		if err := parse(o.flags(), []string{"--base-url", given, "--name", strings.Repeat("ü", 80)}); err != nil {
			t.Fatal(err)
		}
		if err := o.validate(); err != nil || o.baseURL != kept {
			t.Errorf("%s became %s, %v; want %s", given, o.baseURL, err, kept)
		}
	}
}
