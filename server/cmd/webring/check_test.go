package main

import (
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"webring/server/devchain"
)

// checked runs a command with --check, and gives its list. It holds that the list is
// well-formed, that its status says what it says, and that nothing below the folders is
// written, removed or made.
func checked(t *testing.T, folders []string, env []string, args ...string) string {
	t.Helper()
	before := contents(t, folders)
	c := invoke(t, append(args, "--check")...)
	c.Env = append(os.Environ(), env...)
	out, err := c.CombinedOutput()
	wrong, lines := 0, 0
	for line := range strings.Lines(string(out)) {
		switch {
		case strings.HasPrefix(line, "wrong  "):
			wrong++
		case strings.HasPrefix(line, "ok     "), strings.HasPrefix(line, "note   "):
		case line == fmt.Sprintf("webring: %d of %d checks are wrong\n", wrong, lines):
			lines--
		default:
			t.Errorf("a line of another form: %s", line)
		}
		lines++
	}
	if (wrong > 0) != (err != nil) || err != nil && c.ProcessState.ExitCode() != 1 {
		t.Errorf("%d are wrong, and the status is %v:\n%s", wrong, err, out)
	}
	if after := contents(t, folders); after != before {
		t.Errorf("a check changed\n%s\nto\n%s", before, after)
	}
	return string(out)
}

// contents says what lies below folders.
func contents(t *testing.T, folders []string) string {
	t.Helper()
	var all strings.Builder
	for _, dir := range folders {
		err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
			if err == nil && !info.IsDir() && info.Mode().IsRegular() && !strings.HasSuffix(path, ".vlog") && !strings.HasSuffix(path, ".mem") {
				fmt.Fprintf(&all, "%s %d %s %s\n", path, info.Size(), info.Mode(), info.ModTime())
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all.String()
}

func TestACheckOfAnOriginThatIsRight(t *testing.T) {
	t.Parallel()
	c, _ := chain(t)
	cert, key, _ := certificate(t)
	data := filepath.Join(t.TempDir(), "not", "yet")
	listen := devchain.FreeAddress()
	args := []string{"serve", "--base-url", "https://127.0.0.1:8402", "--dev", "--realm", "ring.example", "--listen", listen, "--data", data, "--tls-cert", cert, "--tls-key", key,
		"--edge-secret-file", secretFile(t), "--tempo-rpc", c.RPC, "--tempo-recipient", usdc, "--core", "wasm", "--trusted-proxy", "10.0.0.0/8",
		"--access-log", filepath.Join(t.TempDir(), "access.log")}
	said := checked(t, []string{filepath.Dir(filepath.Dir(data))}, nil, args...)
	for _, want := range []string{
		"ok     configuration    of flags, environment and /", `ok     flags            "Webring" at https://127.0.0.1:8402`, "ok     data             " + data + " is made at the start",
		"MiB free, of 256 that are needed", "ok     ledger           ", "ok     challenge key    ", "ok     signing key      ", "ok     edge secret      ", "holds secrets: 1",
		"ok     proxies          1 trusted", "ok     listen           --listen " + listen + " is free", "note   tls              the certificate expires on", "ok     core             wasm, sha256:", "ok     access log       ",
		"ok     scorer           this ring looks", "is on chain 42431, with the token 0x20C0000000000000000000000000000000000000", "ok     tempo            the newest block is of ",
		"ok     tempo            " + usdc + " is paid",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is missing:\n%s", want, said)
		}
	}
	if strings.Contains(said, "wrong") {
		t.Errorf("%s", said)
	}
	// Of a file, and next to the running origin.
	base := "http://" + listen
	o := &origin{t: t, data: folder(t), base: base}
	o.args = []string{"serve", "--dev", "--core", "native", "--scorer", "fixed:72", "--listen", listen, "--base-url", base}
	o.launch()
	t.Cleanup(o.kill)
	o.told()
	o.verifier()
	path := configured(t, fmt.Sprintf("dev = true\nscorer = 'fixed:72'\nlisten = '%s'\nbase-url = '%s'\ndata = '%s'\n", listen, base, o.data))
	said = checked(t, nil, []string{"WEBRING_CONFIG=" + path}, "serve")
	for _, want := range []string{"of flags, environment and " + path, "note   ledger           an origin runs on " + o.data + ", at 2 events: its ledger is locked",
		"note   listen           --listen " + listen + " is taken, as it must be", "note   payments         none are taken", "note   scorer           fixed:72"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is missing:\n%s", want, said)
		}
	}
	if r := o.get("/api"); strings.Contains(said, "wrong") || r.Status != http.StatusOK {
		t.Errorf("%d, %s", r.Status, said)
	}
	// When it has stopped, the folder is checked, and left as it is.
	o.stop()
	if said = checked(t, []string{o.data}, []string{"WEBRING_CONFIG=" + path}, "serve"); !strings.Contains(said, "nobody has it open") || strings.Contains(said, "wrong") {
		t.Errorf("%s", said)
	}
}

// One list has all that is wrong, each with what to change.
func TestACheckFindsEachMistake(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	cert, key, _ := certificate(t)
	_, otherKey, _ := certificate(t)
	open := secretFile(t)
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	short := filepath.Join(t.TempDir(), "short")
	if err := os.WriteFile(short, []byte("00ff\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	word := func(n uint64) hexutil.Bytes { return common.BigToHash(new(big.Int).SetUint64(n)).Bytes() }
	node := says{"eth_chainId": "0x1079", "eth_getCode": "0xef", "decimals()": word(6), "DOMAIN_SEPARATOR()": word(1)}.serve(t)
	tempo := []string{"--tempo-recipient", usdc}
	for _, c := range []struct {
		what string
		args []string
		says string // a pattern, of a line that is wrong
	}{
		{"flags", []string{"--fee", "0.00"}, `flags +--fee and --min-bid must be`},
		{"the name", []string{"--name", "Ring\u200b"}, `flags +--name`},
		{"the base URL", append(tempo, "--base-url", "http://localhost", "--tempo-rpc", node), `flags +--base-url`},
		{"the listener", []string{"--listen", taken.Addr().String()}, `listen +--listen: .*in use: choose another`},
		{"an access log that is a folder", []string{"--access-log", filepath.Dir(short)}, `access log +--access-log: .* is a folder`},
		{"an access log without a folder", []string{"--access-log", short + "x/access.log"}, `access log +--access-log: .*shortx: no such file`},
		{"a secret that is short", []string{"--edge-secret-file", short}, `edge secret +.*line 1 of .* 64 hex`},
		{"a secret for all", []string{"--mpp-secret-file", open}, `challenge key +.*chmod 600`},
		{"a secret that is not there", []string{"--mpp-secret-file", short + "x"}, `challenge key +.*no such file`},
		{"a key of another certificate", []string{"--tls-cert", cert, "--tls-key", otherKey}, `tls +--tls-cert and --tls-key: `},
		{"a certificate alone", []string{"--tls-cert", cert}, `flags +--tls-cert and --tls-key go together`},
		{"files and ACME", []string{"--tls-cert", cert, "--tls-key", key, "--acme-host", "ring.test"}, `flags +--tls-cert and --acme-host`},
		{"ACME for an address", []string{"--acme-host", "192.0.2.1"}, `flags +--acme-host "192.0.2.1"`},
		{"ACME for a name that no client gives", []string{"--acme-host", "ring.test."}, `flags +--acme-host "ring.test."`},
		{"ACME without a host", []string{"--acme-email", "a@b.example"}, `flags +acme-email is for --acme-host`},
		{"an authority that is away", []string{"--acme-host", "ring.test", "--acme-directory", "https://127.0.0.1:1/dir"}, `acme +acme-directory https://127.0.0.1:1/dir: .*refused`},
		{"a proxy", []string{"--trusted-proxy", "proxy.example"}, `proxies +--trusted-proxy`},
		{"a scorer", []string{"--scorer", "nope"}, `scorer +.*unknown scorer`},
		{"a scorer that is away", []string{"--scorer", "http", "--score-pointer", "/s", "--score-url", "http://127.0.0.1:1/{host}"}, `scorer +--scorer http: .*refused`},
		{"a node that is away", append(tempo, "--tempo-rpc", "http://127.0.0.1:1/hunter2"), `tempo +the node of --tempo-rpc does not say`},
		{"another chain", append(tempo, "--tempo-rpc", node), `tempo +--tempo-chain-id is 42431, and the node of --tempo-rpc is on chain 4217`},
		{"a node without blocks", append(tempo, "--tempo-rpc", node, "--tempo-chain-id", "4217"), `tempo +the node of --tempo-rpc: `},
		{"no recipient", []string{"--tempo-rpc", node}, `flags +--tempo-rpc needs --tempo-recipient`},
		{"the token paid", []string{"--tempo-rpc", node, "--tempo-recipient", "0x20c0000000000000000000000000000000000000"}, `tempo +--tempo-recipient is the token itself`},
		{"no TLS", append(tempo, "--tempo-rpc", node), `tls +payments are taken over TLS alone`},
		{"a gas key", []string{"--evm-rpc", node, "--evm-recipient", usdc, "--evm-gas-key-file", short}, `payments +--evm-gas-key-file`},
		{"the folder", []string{"--data", short}, `data +--data .* is no folder`},
		{"an unknown name", []string{"--config", configured(t, "fees = '1'")}, `configuration +.*:1: "fees" is no setting`},
		{"an unknown flag", []string{"--fees", "1"}, ``}, // there is no list without flags
	} {
		data := t.TempDir()
		args := append([]string{"serve", "--base-url", "https://ring.example.org", "--listen", devchain.FreeAddress(), "--data", data}, c.args...)
		if c.says == "" {
			if said := refusal(t, nil, append(args, "--check")...); !strings.Contains(said, "fees") {
				t.Errorf("%s: %s", c.what, said)
			}
			continue
		}
		said := checked(t, []string{data}, nil, args...)
		if !regexp.MustCompile(`(?m)^wrong  `+c.says).MatchString(said) || strings.Contains(said, "hunter2") {
			t.Errorf("%s: want %s in\n%s", c.what, c.says, said)
		}
	}
	// All at once.
	said := checked(t, nil, nil, "serve", "--base-url", "https://ring.example.org", "--listen", taken.Addr().String(), "--data", t.TempDir(), "--fee", "0.00", "--capacity", "0",
		"--edge-secret-file", short, "--scorer", "nope", "--tls-cert", cert)
	if n := strings.Count(said, "wrong  "); n != 6 {
		t.Errorf("%d are wrong:\n%s", n, said)
	}
}

func TestACheckOfAnEdge(t *testing.T) {
	t.Parallel()
	secret, other := secretFile(t), secretFile(t)
	o := start(t, "--core", "native", "--edge-secret-file", secret, "--rate-limit", "500")
	silent := start(t, "--core", "native", "--edge-secret-file", secret)
	trusting := start(t, "--core", "native", "--edge-secret-file", secret, "--rate-limit", "500", "--trusted-proxy", "127.0.0.1")
	key := o.verifier()
	another := httptest.NewServer(http.NotFoundHandler())
	defer another.Close()
	data, listen := t.TempDir(), devchain.FreeAddress()
	at := func(origin, key string, args ...string) []string {
		return append([]string{"edge", "--core", "native", "--data", data, "--listen", listen, "--origin", origin, "--origin-key", key}, args...)
	}
	edge := func(args ...string) []string { return at(o.base, key, args...) }
	const away = "http://127.0.0.1:1"
	for _, c := range []struct {
		what string
		args []string
		says string
	}{
		{"right", edge("--edge-secret-file", secret), `ok     edge secret +the origin knows it\n`},
		{"its clock", edge(), `ok     clock +within 1s of`},
		{"its checkpoint", edge(), `ok     origin +` + regexp.QuoteMeta(o.base) + ` signs with the pinned key, at 2 events`},
		{"without a secret", edge(), `note   edge secret +without --edge-secret-file`},
		{"another secret", edge("--edge-secret-file", other), `wrong  edge secret +the origin does not know the first line`},
		{"a proxy that is trusted", at(trusting.base, trusting.verifier(), "--edge-secret-file", secret), `ok     edge secret +the origin knows it\n`},
		{"a proxy with another secret", at(trusting.base, trusting.verifier(), "--edge-secret-file", other), `wrong  edge secret +the origin does not know the first line`},
		{"an origin without limits", at(silent.base, silent.verifier(), "--edge-secret-file", secret), `ok     edge secret +the origin knows it\n`},
		{"another key", at(o.base, silent.verifier()), `wrong  origin +.*not signed with the origin's key`},
		{"a key that is none", at(o.base, "x"), `wrong  origin +.*the origin's key`},
		{"no origin", at(away, key), `wrong  origin +.*refused`},
		{"one origin of two", edge("--origin", away), `note   origin +--origin ` + away + `, .*refused`},
		{"another server", edge("--origin", another.URL), `wrong  origin +.*404`},
		{"nothing", []string{"edge", "--data", data, "--listen", listen}, `wrong  flags +--origin is needed`},
		{"no key", []string{"edge", "--data", data, "--listen", listen}, `wrong  flags +--origin-key is needed`},
	} {
		said := checked(t, []string{data}, nil, c.args...)
		if !regexp.MustCompile(`(?m)^` + c.says).MatchString(said) {
			t.Errorf("%s: want %s in\n%s", c.what, c.says, said)
		}
		if strings.HasPrefix(c.says, "ok") != !strings.Contains(said, "wrong  ") && !strings.HasPrefix(c.says, "note") {
			t.Errorf("%s:\n%s", c.what, said)
		}
	}
	if said := o.log.String(); strings.Count(said, "wrong MAC") != 1 {
		t.Errorf("%s", said)
	}
	// Beside the edge that it is about.
	e := &origin{t: t, data: data, base: "http://" + listen}
	e.args = edge("--edge-secret-file", secret)
	e.launch()
	t.Cleanup(e.kill)
	said := checked(t, nil, nil, edge("--edge-secret-file", secret)...)
	if !strings.Contains(said, "note   data             an edge runs on "+data) || !strings.Contains(said, "is taken, as it must be") || strings.Contains(said, "wrong") {
		t.Errorf("%s", said)
	}
	e.stop()
}

// A certificate that has expired, or is not yet valid, is wrong; one for another name is
// worth a note.
func TestACheckReadsTheCertificate(t *testing.T) {
	t.Parallel()
	hour := time.Hour
	for _, c := range []struct {
		from, until time.Duration
		says        string
	}{
		{-2 * hour, -hour, `wrong  tls +.*expired on`},
		{hour, 2 * hour, `wrong  tls +.*check this machine's clock`},
		{-hour, 30 * 24 * hour, `ok     tls +the certificate holds until`},
		{-hour, 5 * 24 * hour, `note   tls +the certificate expires on .* already`},
	} {
		cert, key := writeCertificate(t, t.TempDir(), "other.example", time.Now().Add(c.from), time.Now().Add(c.until))
		said := checked(t, nil, nil, "serve", "--base-url", "https://ring.example.org", "--listen", devchain.FreeAddress(), "--data", t.TempDir(), "--tls-cert", cert, "--tls-key", key)
		if !regexp.MustCompile(`(?m)^` + c.says).MatchString(said) {
			t.Errorf("want %s in\n%s", c.says, said)
		}
		if strings.Contains(said, "not for ring.example.org") == strings.HasPrefix(c.says, "wrong") {
			t.Errorf("its name:\n%s", said)
		}
	}
}
