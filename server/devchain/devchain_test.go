package devchain_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"webring/server/devchain"
	"webring/server/pay/mpp"
)

// seller is the smallest server that takes a payment: it believes every
// challenge that comes back and sends whatever transaction is in it.
type seller struct {
	chain     *devchain.Chain
	recipient common.Address
	keys      mpp.Keys
}

func (s *seller) challenge() mpp.Challenge {
	request, err := mpp.EncodeJSON(map[string]any{
		"amount": "1000000", "currency": devchain.PathUSD, "recipient": s.recipient,
		"methodDetails": map[string]any{"chainId": devchain.ChainID, "supportedModes": []string{"pull"}},
	})
	if err != nil {
		panic(err)
	}
	nonce, _ := mpp.EncodeJSON(map[string]string{"n": fmt.Sprint(time.Now().UnixNano())})
	c := mpp.Challenge{Realm: "ring.example", Method: "tempo", Intent: "charge", Request: request, Opaque: nonce,
		Expires: time.Now().Add(5 * time.Minute).UTC().Format(time.RFC3339)}
	s.keys.Sign(&c)
	return c
}

func (s *seller) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	cred, found, err := mpp.ParseAuthorization(r.Header["Authorization"])
	if !found || err != nil || !s.keys.Verify(cred.Challenge) {
		w.Header().Set("WWW-Authenticate", s.challenge().Header())
		w.WriteHeader(http.StatusPaymentRequired)
		return
	}
	var payload struct{ Type, Signature string }
	var receipt struct{ Status string }
	if err := json.Unmarshal(cred.Payload, &payload); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	err = s.chain.Call(r.Context(), &receipt, "eth_sendRawTransactionSync", payload.Signature)
	if err != nil || receipt.Status != "0x1" {
		http.Error(w, fmt.Sprint(err, receipt), http.StatusBadGateway)
		return
	}
	fmt.Fprintln(w, "thank you")
}

func start(t *testing.T) *devchain.Chain {
	t.Helper()
	chain, err := devchain.Start(t.Context(), devchain.Options{})
	if errors.Is(err, devchain.ErrNoNode) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(chain.Stop)
	return chain
}

func dollars(t *testing.T, chain *devchain.Chain, who common.Address) *big.Int {
	t.Helper()
	b, err := chain.Balance(t.Context(), devchain.PathUSD, who)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The reference client pays on the chain: several payments of one wallet at
// once, each once, and the command line as well.
func TestReferenceClientPaysOnTheChain(t *testing.T) {
	chain := start(t)
	if n := len(chain.Accounts); n != 100 {
		t.Fatalf("%d accounts, want 100", n)
	}
	shop := &seller{chain: chain, recipient: chain.Accounts[99].Address, keys: mpp.Keys{Current: make([]byte, 32)}}
	server := httptest.NewServer(shop)
	defer server.Close()
	client, err := devchain.StartClient(t.Context(), chain.RPC)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	before := dollars(t, chain, shop.recipient)

	const payments = 6
	var wg sync.WaitGroup
	for range payments {
		wg.Go(func() {
			p, err := client.Pay(t.Context(), chain.Accounts[1].HexKey(), devchain.Request{Method: "POST", URL: server.URL, Body: []byte("{}")})
			if err != nil || p.Status != 200 || string(p.Body) != "thank you\n" {
				t.Errorf("paid request: %v, status %d, body %q", err, p.Status, p.Body)
				return
			}
			if len(p.Earlier) != 1 || p.Earlier[0].Status != 402 || p.Earlier[0].Authorization != "" || !strings.HasPrefix(p.Authorization, "Payment ") {
				t.Errorf("exchanges before: %d, want one unpaid 402", len(p.Earlier))
			}
		})
	}
	wg.Wait()

	cli := exec.Command(filepath.Join(mustDir(t), "node_modules/.bin/mppx"), server.URL, "-J", `{"name":"it's"}`, "-r", chain.RPC)
	cli.Env = append(os.Environ(), "MPPX_PRIVATE_KEY="+chain.Accounts[2].HexKey())
	if out, err := cli.CombinedOutput(); err != nil || !strings.Contains(string(out), "thank you") {
		t.Errorf("command line: %v\n%s", err, out)
	}
	grown := new(big.Int).Sub(dollars(t, chain, shop.recipient), before)
	if want := big.NewInt((payments + 1) * 1_000_000); grown.Cmp(want) != 0 {
		t.Errorf("the recipient has %v more, want %v", grown, want)
	}

	// Signing alone moves nothing, and the signature can be used later.
	c := shop.challenge()
	header, err := client.Sign(t.Context(), chain.Accounts[3].HexKey(), c.Header())
	if err != nil {
		t.Fatal(err)
	}
	cred, found, err := mpp.ParseAuthorization([]string{header})
	if !found || err != nil || cred.Challenge != c {
		t.Errorf("signed credential: found %v, %v; echoes the challenge: %v", found, err, cred.Challenge == c)
	}
	if _, err := client.Sign(t.Context(), chain.Accounts[3].HexKey(), `Payment id="x"`); err == nil {
		t.Error("a challenge without a request was signed")
	}
}

func TestStopLeavesNoProcess(t *testing.T) {
	chain := start(t)
	chain.Stop()
	chain.Stop()
	if err := chain.Call(t.Context(), new(string), "eth_blockNumber"); err == nil {
		t.Error("a stopped chain answers")
	}
}

// A test process that is killed outright takes its chain with it.
func TestKilledParentLeavesNoChain(t *testing.T) {
	const child = "DEVCHAIN_TEST_CHILD"
	if os.Getenv(child) != "" {
		chain, err := devchain.Start(t.Context(), devchain.Options{Accounts: 1})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("RPC=" + chain.RPC)
		self, _ := os.FindProcess(os.Getpid())
		self.Kill()
		select {}
	}
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ends children with their parent")
	}
	if err := devchain.Install(t.Context()); errors.Is(err, devchain.ErrNoNode) {
		t.Skip(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledParentLeavesNoChain$")
	cmd.Env = append(os.Environ(), child+"=1")
	out, _ := cmd.Output()
	_, rpc, found := strings.Cut(string(out), "RPC=")
	rpc, _, _ = strings.Cut(rpc, "\n")
	if !found {
		t.Fatalf("the child did not start a chain: %s", out)
	}
	// The kernel delivers the signal; there is nothing to wait on but the port.
	deadline := time.Now().Add(time.Minute)
	for {
		resp, err := http.Get(rpc)
		if err != nil {
			return
		}
		resp.Body.Close()
		if time.Now().After(deadline) {
			t.Fatal("the chain outlives its parent")
		}
	}
}

func TestChainThatCannotListenIsAnError(t *testing.T) {
	chain := start(t)
	var port int
	fmt.Sscanf(chain.RPC, "http://127.0.0.1:%d", &port)
	if second, err := devchain.Start(t.Context(), devchain.Options{Port: port}); err == nil {
		second.Stop()
		t.Error("two chains listen on one port")
	}
}

func TestWithoutNodeTheErrorSaysHowToGetIt(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if err := devchain.Install(t.Context()); !errors.Is(err, devchain.ErrNoNode) {
		t.Errorf("Install without node: %v", err)
	}
}

func TestClientEndsWithItsCaller(t *testing.T) {
	chain := start(t)
	client, err := devchain.StartClient(t.Context(), chain.RPC)
	if err != nil {
		t.Fatal(err)
	}
	client.Close()
	if _, err := client.Sign(t.Context(), chain.Accounts[0].HexKey(), "x"); err == nil {
		t.Error("a closed client signs")
	}
}

func mustDir(t *testing.T) string {
	t.Helper()
	dir, err := devchain.Dir()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// Lock files hold digests and no addresses, so that any registry will do.
func TestLockFilesNameNoRegistry(t *testing.T) {
	for _, folder := range []string{".", "../../edge/mcp/clients", "../../edge/browser"} {
		raw, err := os.ReadFile(filepath.Join(folder, "package-lock.json"))
		if err != nil {
			t.Fatal(err)
		}
		var lock struct {
			Packages map[string]struct {
				Resolved  string
				Integrity string
			}
		}
		if err := json.Unmarshal(raw, &lock); err != nil || len(lock.Packages) < 2 {
			t.Fatalf("%s: %d packages, %v", folder, len(lock.Packages), err)
		}
		for name, p := range lock.Packages {
			if p.Resolved != "" || name != "" && p.Integrity == "" {
				t.Errorf("%s: %s is resolved to %q, with the digest %q", folder, name, p.Resolved, p.Integrity)
			}
		}
	}
}
