package main

import (
	"encoding/json"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"

	"webring/server/devchain"
	"webring/server/pay/evm"
)

// What a new operator gets wrong first.

// usdc is a token's address with its checksum.
const usdc = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"

// unlisted is an address that nothing can listen on: what else is right about a start
// ends there, with an error that says so.
const unlisted = "127.0.0.1:99999"

// refusal is the one line or two with which a start is refused.
func refusal(t *testing.T, env []string, args ...string) string {
	t.Helper()
	c := invoke(t, args...)
	c.Env = append(os.Environ(), env...)
	out, err := c.CombinedOutput()
	if err == nil || c.ProcessState.ExitCode() != 1 {
		t.Errorf("%v %v: %v\n%s", env, args, err, out)
	}
	at := strings.Index(string(out), "webring: ") // after lines of the log
	if at < 0 || strings.Count(string(out[at:]), "\n") > 2 {
		t.Fatalf("%v %v: %v\n%s", env, args, err, out)
	}
	return string(out[at:])
}

// serving is a start that only its flags can be wrong about.
func serving(t *testing.T, args ...string) []string {
	return append([]string{"serve", "--core", "native", "--base-url", "https://ring.example.org", "--data", t.TempDir(), "--listen", unlisted}, args...)
}

func TestAddressesOfBothCasesMustHoldEIP55(t *testing.T) {
	t.Parallel()
	key := secretFile(t)
	start := func(args ...string) error {
		return parse(new(options).flags(), inFile(t, append(serving(t, "--tempo-rpc", "http://127.0.0.1:1", "--tempo-recipient", usdc,
			"--evm-rpc", "http://127.0.0.1:1", "--evm-recipient", usdc, "--evm-gas-key-file", key)[1:], args...)))
	}
	wrongCase := strings.Replace(usdc, "fCD6", "FCD6", 1)
	for _, flag := range []string{"tempo-recipient", "tempo-currency", "evm-recipient", "evm-currency"} {
		for _, wrong := range []string{
			wrongCase,
			usdc[:41] + "4",                            // another digit
			strings.Replace(usdc, "D4", "4D", 1),       // two changed places
			strings.TrimPrefix(wrongCase, "0x"),        // without its beginning
			"0X" + strings.TrimPrefix(wrongCase, "0x"), // or another
			usdc[:41], usdc + "0", "usdc.example", "0x", // no address at all
		} {
			err := start("--"+flag, wrong)
			if err == nil {
				t.Errorf("--%s %s is taken", flag, wrong)
				continue
			}
			said := err.Error()
			if !strings.Contains(said, flag) || !strings.Contains(said, wrong) {
				t.Errorf("--%s %s: %s", flag, wrong, said)
			}
			// No other spelling is offered, since any character may be the wrong one.
			if len(wrong) == len(usdc) && (!strings.Contains(said, "give the address again") || strings.Count(strings.ToLower(said), "833589fcd") != 1) {
				t.Errorf("--%s %s: %s", flag, wrong, said)
			}
		}
		twin := "WEBRING_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
		if said := refusal(t, []string{twin + "=" + wrongCase}, serving(t)...); !strings.Contains(said, twin) {
			t.Errorf("%s: %s", twin, said)
		}
	}
	for _, right := range []string{usdc, usdc[2:], strings.ToLower(usdc), "0x" + strings.ToUpper(usdc[2:])} {
		if err := start("--tempo-recipient", right, "--tempo-currency", right, "--evm-recipient", right, "--evm-currency", right); err != nil {
			t.Errorf("%s: %v", right, err)
		}
	}
}

func TestAPaidRingRefusesABaseURLOnLoopbackUnlessDev(t *testing.T) {
	t.Parallel()
	tempo := []string{"--tempo-rpc", "http://127.0.0.1:1", "--tempo-recipient", usdc}
	evm := []string{"--evm-rpc", "http://127.0.0.1:1", "--evm-recipient", usdc, "--evm-gas-key-file", secretFile(t)}
	for i, base := range []string{"http://127.0.0.1:8402", "http://127.0.0.2", "http://[::1]:8402", "http://[::ffff:127.0.0.1]", "http://0.0.0.0:8402",
		"https://localhost", "https://LOCALHOST.", "https://ring.localhost"} {
		at := []string{"--base-url", base}
		paid := append(at, [][]string{tempo, evm}[i%2]...)
		if said := refusal(t, nil, serving(t, paid...)...); !strings.Contains(said, "--base-url") || !strings.Contains(said, "--dev") {
			t.Errorf("%s: %s", base, said)
		}
		// It is right for development, and for a ring without payments.
		for _, right := range [][]string{append(paid, "--dev"), at} {
			if said := refusal(t, nil, serving(t, right...)...); !strings.Contains(said, "99999") && !strings.Contains(said, "realm ") {
				t.Errorf("%v: %s", right, said)
			}
		}
	}
	if said := refusal(t, nil, serving(t, tempo...)...); !strings.Contains(said, "99999") {
		t.Errorf("a ring with a name: %s", said)
	}
}

func TestUnknownVariablesAreRefusedByName(t *testing.T) {
	t.Parallel()
	for _, command := range [][]string{serving(t), {"edge", "--origin", "http://127.0.0.1:1", "--origin-key", "x"}, {"members", "list"}, {"version"}, {"seed"}} {
		said := refusal(t, []string{"WEBRING_BASEURL=https://ring.example.org", "WEBRING_TEMPO_RECIPENT=" + usdc}, command...)
		if !strings.Contains(said, "WEBRING_BASEURL") || !strings.Contains(said, "WEBRING_TEMPO_RECIPENT") || strings.Contains(said, usdc) {
			t.Errorf("%v: %s", command, said)
		}
	}
	for _, name := range []string{"WEBRING_", "WEBRING_SERVE", "WEBRING_EDGE_PORT", "WEBRING_EDGE_SERVICE_PORT", "WEBRING_SCORE_HEADERS", "WEBRING_FAILPOINTS", "WEBRING_dev"} {
		if said := refusal(t, []string{name + "=1"}, serving(t)...); !strings.Contains(said, name) {
			t.Errorf("%s: %s", name, said)
		}
	}
	// The command that the error names is none of those refused.
	help := invoke(t, "serve", "--help")
	help.Env = append(os.Environ(), "WEBRING_BASEURL=x")
	if out, err := help.CombinedOutput(); err != nil || !strings.Contains(string(out), "WEBRING_BASE_URL") {
		t.Errorf("serve --help: %v: %s", err, out)
	}
	for _, known := range [][]string{
		{"WEBRING_SINCE=1h", "WEBRING_ORIGIN=x", "WEBRING_SEED=1"}, // other commands'
		{"WEBRING_SCORE_HEADER_AUTHORIZATION=Bearer x"},
		{"WEBRING_FAILPOINT=head", "WEBRING_TEST_TOLD=1", "WEBRING_SHOTS=shots", "WEBRING_BENCH_PINNED=1"},
		// What Kubernetes tells of a service called webring, and of another of the ring's.
		kubernetesService("WEBRING"), append(kubernetesService("WEBRING_EDGE"), kubernetesService("WEBRING_ORIGIN_2")...),
		{"WEB_RING=1", "WEBRINGS=1", "webring_dev=1"}, // not the ring's
	} {
		if said := refusal(t, known, serving(t)...); !strings.Contains(said, "99999") {
			t.Errorf("%v: %s", known, said)
		}
	}
}

// kubernetesService is what Kubernetes puts into the environment of every container for a service,
// with a port that has a name and one that has none.
func kubernetesService(service string) []string {
	env := []string{"_SERVICE_HOST=10.96.7.1", "_SERVICE_PORT=443", "_SERVICE_PORT_HTTPS=443", "_SERVICE_PORT_8402=8402", "_PORT=tcp://10.96.7.1:443"}
	for _, port := range []string{"443", "8402"} {
		at := "_PORT_" + port + "_TCP"
		env = append(env, at+"=tcp://10.96.7.1:"+port, at+"_PROTO=tcp", at+"_PORT="+port, at+"_ADDR=10.96.7.1")
	}
	for i := range env {
		env[i] = service + env[i]
	}
	return env
}

func TestDurationsTakeDays(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]time.Duration{
		"30d": 720 * time.Hour, "1d12h": 36 * time.Hour, "0d": 0, "1d0.5s": 24*time.Hour + time.Second/2, "720h": 720 * time.Hour, "90s": 90 * time.Second,
	} {
		if d, err := parseDuration(given); d != want || err != nil {
			t.Errorf("%s is %s, %v", given, d, err)
		}
	}
	for _, wrong := range []string{"", "d", "1", "30", "-1d", "+1d", "1.5d", "1d-1h", "1dd", "1h1d", "1d ", "1w", "106752d", "99999999999999999999d"} {
		if d, err := parseDuration(wrong); err == nil {
			t.Errorf("%q is %s", wrong, d)
		}
	}
	for flag, command := range map[string][]string{"grace": serving(t, "--grace=1w"), "decay": serving(t, "--decay=1w"), "--since": {"payments", "scan", "--since=1w"}} {
		if said := refusal(t, nil, command...); !strings.Contains(said, flag) || !strings.Contains(said, "30d") {
			t.Errorf("%v: %s", command, said)
		}
	}
	if said := refusal(t, nil, "payments", "scan", "--since", "3d12h", "--data", t.TempDir()); !strings.Contains(said, "no origin is running") {
		t.Errorf("--since 3d12h: %s", said)
	}
	o := startWith(t, []string{"WEBRING_DECAY=45d"}, "--core", "native", "--grace", "7d")
	rules := at(t, o.get("/api/leaderboard").document(t), "rules")
	if at(t, rules, "grace_period") != "P7D" || at(t, rules, "decay_span") != "P45D" {
		t.Errorf("the rules are %v", rules)
	}
}

// says answers as a node does, by method, and for calls by the function that is called.
type says map[string]any

func (s says) serve(t *testing.T) (url string) {
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var questions []struct {
			ID     json.RawMessage
			Method string
			Params []json.RawMessage
		}
		_ = json.NewDecoder(r.Body).Decode(&questions)
		var answers []any
		for _, q := range questions {
			if q.Method == "eth_call" {
				for _, function := range []string{"decimals()", "DOMAIN_SEPARATOR()"} {
					if strings.Contains(string(q.Params[0]), hexutil.Encode(crypto.Keccak256([]byte(function))[:4])) {
						q.Method = function
					}
				}
			}
			answer := map[string]any{"jsonrpc": "2.0", "id": q.ID, "result": s[q.Method]}
			if code, fails := s[q.Method].(int); fails {
				delete(answer, "result")
				answer["error"] = map[string]any{"code": code, "message": "no"}
			}
			answers = append(answers, answer)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answers)
	}))
	t.Cleanup(node.Close)
	return node.URL
}

// with is what the node says, but for one answer.
func (s says) with(method string, answer any) says {
	other := says{}
	for k, v := range s {
		other[k] = v
	}
	other[method] = answer
	return other
}

func TestTheDifferenceBetweenFlagsAndNodeIsNamed(t *testing.T) {
	t.Parallel()
	key := secretFile(t)
	word := func(n uint64) hexutil.Bytes { return common.BigToHash(new(big.Int).SetUint64(n)).Bytes() }
	right := says{"eth_chainId": "0x2105", "eth_getCode": "0xef", "decimals()": word(6),
		"DOMAIN_SEPARATOR()": evm.Domain("USD Coin", "2", 8453, common.HexToAddress(usdc))}
	const goesOn = "99999"
	for _, c := range []struct {
		what       string
		node       says
		tempo, evm string // what is said for each
	}{
		{"right", right, goesOn, goesOn},
		{"another chain", right.with("eth_chainId", "0x1079"), "-chain-id is 8453, and the node of --tempo-rpc is on chain 4217", "-chain-id is 8453, and the node of --evm-rpc is on chain 4217"},
		{"no contract", right.with("eth_getCode", "0x"), "has no contract there", "has no contract there"},
		{"18 decimals", right.with("decimals()", word(18)), "a token with 18 decimals", "a token with 18 decimals"},
		{"no answer to decimals", right.with("decimals()", "0x"), "names no decimals", "names no decimals"},
		{"reverts", right.with("decimals()", 3), "names no decimals", "names no decimals"},
		{"another domain", right.with("DOMAIN_SEPARATOR()", common.Hash{1}), goesOn, "evm-currency-version are not those"},
		{"a domain that cannot be asked for", right.with("DOMAIN_SEPARATOR()", 3), goesOn, goesOn},
		// A node that does not answer contradicts nothing.
		{"chain not told", right.with("eth_chainId", -32005), goesOn, goesOn},
		{"code not told", right.with("eth_getCode", -32601), goesOn, goesOn},
		{"decimals not told", right.with("decimals()", -32603), goesOn, goesOn},
	} {
		url := c.node.serve(t)
		for flags, want := range map[string]string{"--tempo": c.tempo, "--evm": c.evm} {
			args := []string{flags + "-rpc", url, flags + "-recipient", usdc, flags + "-currency", usdc, flags + "-chain-id", "8453", "--evm-gas-key-file", key}
			said := refusal(t, nil, serving(t, args...)...)
			if !strings.Contains(said, want) || want != goesOn && !strings.Contains(said, flags[2:]+"-c") {
				t.Errorf("%s, %s: %s", flags, c.what, said)
			}
		}
	}
}

// The same of real nodes.
func TestTheDifferenceBetweenFlagsAndARealNodeIsNamed(t *testing.T) {
	t.Parallel()
	c, _ := chain(t)
	base := baseChain(t)
	key := secretFile(t)
	tempo := []string{"--tempo-rpc", c.RPC, "--tempo-recipient", usdc}
	evm := []string{"--evm-rpc", base.RPC, "--evm-recipient", usdc, "--evm-gas-key-file", key}
	for says, args := range map[string][]string{
		"--tempo-chain-id is 4217, and the node of --tempo-rpc is on chain 42431": append(tempo, "--tempo-chain-id", "4217"),
		"--tempo-currency is " + usdc + ", and chain 42431 has no contract":       append(tempo, "--tempo-currency", usdc),
		"--evm-chain-id is 1, and the node of --evm-rpc is on chain 8453":         append(evm, "--evm-chain-id", "1"),
		"evm-currency-name and": append(evm, "--evm-currency-name", "USDC"),
	} {
		if said := refusal(t, nil, serving(t, args...)...); !strings.Contains(said, says) {
			t.Errorf("%v: %s", args, said)
		}
	}
	if said := refusal(t, nil, serving(t, append(tempo, evm...)...)...); !strings.Contains(said, "99999") {
		t.Errorf("flags that agree with the nodes: %s", said)
	}
}

func TestFlagsForDevelopmentNeedDev(t *testing.T) {
	t.Parallel()
	for _, flags := range [][]string{{"--fetch-map", "a.test=127.0.0.1:9"}, {"--scorer", "fixed:72"}} {
		if said := refusal(t, nil, serving(t, flags...)...); !strings.Contains(said, flags[0]) || !strings.Contains(said, "needs --dev") {
			t.Errorf("%v: %s", flags, said)
		}
	}
}

// Reads work while a node is away at the start.
func TestARingStartsWithoutItsNodes(t *testing.T) {
	t.Parallel()
	o := start(t, "--core", "native", "--tempo-rpc", "http://127.0.0.1:1",
		"--evm-rpc", "http://127.0.0.1:1", "--evm-recipient", usdc, "--evm-gas-key-file", secretFile(t))
	if r := o.get("/api/ring"); r.Status != http.StatusOK {
		t.Errorf("%d %s", r.Status, r.Body)
	}
	if r := o.post("/api/register", `{"name":"Ada","url":"https://ada.dev/","kind":"agent"}`); r.Status != http.StatusServiceUnavailable || r.code(t) != "payments_unavailable" {
		t.Errorf("%d %s", r.Status, r.Body)
	}
}

func TestThePublicTestNetworkIsAnnouncedInOneLine(t *testing.T) {
	t.Parallel()
	away := []string{"--core", "native", "--tempo-rpc", "http://127.0.0.1:1"}
	evm := []string{"--evm-rpc", "http://127.0.0.1:1", "--evm-recipient", usdc, "--evm-gas-key-file", secretFile(t), "--evm-chain-id", "84532"}
	for _, c := range []struct {
		args  []string
		lines int
	}{
		{away, 1},
		{append(away, evm...), 1},
		{append(away, "--tempo-chain-id", "4217"), 0},
		{nil, 0},
	} {
		o := start(t, c.args...)
		// The line follows the ones that the harness waits for.
		o.stop()
		if n := strings.Count(o.log.String(), "public test network"); n != c.lines {
			t.Errorf("%v: said %d times:\n%s", c.args, n, o.log)
		}
	}
}

func TestKeyFilesThatOthersCanReadAreRefusedWithTheCommandThatMendsThem(t *testing.T) {
	t.Parallel()
	mpp, edge, gas := secretFile(t), secretFile(t), secretFile(t)
	certificate, tls, _ := certificate(t)
	data := t.TempDir()
	start := []string{"serve", "--core", "native", "--base-url", "https://ring.example.org", "--data", data, "--listen", unlisted, "--mpp-secret-file", mpp,
		"--edge-secret-file", edge, "--evm-rpc", "http://127.0.0.1:1", "--evm-recipient", usdc, "--evm-gas-key-file", gas, "--tls-cert", certificate, "--tls-key", tls}
	follow := []string{"edge", "--origin", "http://127.0.0.1:1", "--origin-key", "x", "--data", t.TempDir(), "--listen", unlisted,
		"--edge-secret-file", edge, "--tls-cert", certificate, "--tls-key", tls}
	mend := regexp.MustCompile(`chmod 600 '[^']+'`)
	mended := func(path, said string) {
		t.Helper()
		command := mend.FindString(said)
		secret, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if command != "chmod 600 '"+path+"'" || strings.Contains(said, strings.TrimSpace(string(secret))) {
			t.Fatalf("%s: %s", path, said)
		}
		if out, err := exec.Command("sh", "-c", command).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	for _, c := range []struct {
		flag, path string
		mode       os.FileMode
		args       []string
	}{
		{"--mpp-secret-file", mpp, 0o640, start}, {"--mpp-secret-file", mpp, 0o604, start}, {"--mpp-secret-file", mpp, 0o644, start}, {"--mpp-secret-file", mpp, 0o660, start},
		{"--edge-secret-file", edge, 0o640, start}, {"--evm-gas-key-file", gas, 0o640, start}, {"--tls-key", tls, 0o640, start},
		{"--edge-secret-file", edge, 0o604, follow}, {"--tls-key", tls, 0o604, follow},
	} {
		if err := os.Chmod(c.path, c.mode); err != nil {
			t.Fatal(err)
		}
		said := refusal(t, nil, c.args...)
		if !strings.Contains(said, c.flag) {
			t.Errorf("%s of mode %o: %s", c.flag, c.mode, said)
		}
		mended(c.path, said)
	}
	for _, mode := range []os.FileMode{0o600, 0o400, 0o700} {
		if err := os.Chmod(mpp, mode); err != nil {
			t.Fatal(err)
		}
		if said := refusal(t, nil, start...); !strings.Contains(said, "99999") {
			t.Errorf("mode %o: %s", mode, said)
		}
	}

	// So are those that a ring has made, which then go on as they were.
	listen := devchain.FreeAddress()
	o := &origin{t: t, data: t.TempDir(), base: "http://" + listen}
	o.args = []string{"serve", "--core", "native", "--listen", listen, "--base-url", o.base}
	o.launch()
	t.Cleanup(o.kill)
	key := o.verifier()
	o.stop()
	for _, name := range []string{"mpp-secret", "sync-key"} {
		path := filepath.Join(o.data, name)
		if err := os.Chmod(path, 0o644); err != nil {
			t.Fatal(err)
		}
		o.boot()
		o.waitGone()
		mended(path, o.log.String())
	}
	o.launch()
	if now := o.verifier(); now != key {
		t.Errorf("the ring signs as %s, and did as %s", now, key)
	}
	o.stop()
}

// Flags are seen by all users of a machine. Of what serve takes, the URL of a node may
// hold a key.
func TestExampleCommandsPutNoSecretIntoFlags(t *testing.T) {
	example := regexp.MustCompile("(?s)```sh\n(.*?)```")
	var blocks [][]string
	for _, text := range papers(t) {
		blocks = append(blocks, example.FindAllStringSubmatch(text, -1)...)
	}
	if len(blocks) < 5 {
		t.Fatalf("the papers have %d examples", len(blocks))
	}
	secret := regexp.MustCompile(`--[a-z-]*(rpc|header|password|token|secret)[ =]|0x[0-9a-fA-F]{64}|://[^/\s]*@|Bearer`)
	for _, b := range blocks {
		if found := secret.FindString(b[1]); found != "" {
			t.Errorf("%q in\n%s", found, b[1])
		}
	}
	for _, flags := range []string{"--tempo-rpc", "--evm-rpc"} {
		out, err := invoke(t, "serve", "--help").CombinedOutput()
		_, usage, _ := strings.Cut(string(out), flags)
		usage, _, _ = strings.Cut(usage, "  --")
		if err != nil || !strings.Contains(usage, "holds a key, use the variable") {
			t.Errorf("%s: %s", flags, usage)
		}
	}
}
