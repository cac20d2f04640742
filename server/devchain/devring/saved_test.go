package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptrace"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"webring/server/devchain"
)

// build makes the two binaries of a run, and gives the folder they are in.
func build(t *testing.T) string {
	t.Helper()
	if err := devchain.Install(t.Context()); errors.Is(err, devchain.ErrNoNode) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if said, err := exec.Command("go", "build", "-o", folder, "webring/server/cmd/webring", "webring/server/devchain/devring").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	return folder
}

// process is a run as make starts it, in a process of its own.
type process struct {
	t        *testing.T
	binaries string
	data     string
	cmd      *exec.Cmd
	said     *output
	ended    chan error
}

func startProcess(t *testing.T, binaries, data string) *process {
	t.Helper()
	p := &process{t: t, binaries: binaries, data: data, said: newOutput(), ended: make(chan error, 1)}
	p.cmd = exec.Command(filepath.Join(binaries, "devring"), "run", "--webring", filepath.Join(binaries, "webring"),
		"--listen", devchain.FreeAddress(), "--data", data)
	p.cmd.Stdout, p.cmd.Stderr = p.said, p.said
	p.cmd.WaitDelay = 30 * time.Second                                               // for processes that outlive it, which none should
	p.cmd.Env = append(os.Environ(), "WEBRING_CORE=native", "WEBRING_ADMIN_LISTEN=") // which is ready at once
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.cmd.Process.Kill() })
	go func() { p.ended <- p.cmd.Wait() }()
	return p
}

// ready waits until one can join, and gives what the demonstration finds.
func (p *process) ready() note {
	p.t.Helper()
	p.said.await(p.t, announcement, p.ended)
	n, err := findNote(p.data)
	if err != nil {
		p.t.Fatal(err)
	}
	return n
}

// stop ends the run by a signal, and returns when all of its processes have ended:
// they hold its output.
func (p *process) stop(by os.Signal) error {
	p.cmd.Process.Signal(by)
	return <-p.ended
}

// killChains kills the chains and leaves the run alone.
func (p *process) killChains() {
	p.t.Helper()
	children, err := exec.Command("pgrep", "-P", strconv.Itoa(p.cmd.Process.Pid), "anvil").Output()
	pids := strings.Fields(string(children))
	if err != nil || len(pids) != 2 {
		p.t.Fatalf("the run has these chains: %q, %v", pids, err)
	}
	for _, pid := range pids {
		n, _ := strconv.Atoi(pid)
		if err := syscall.Kill(n, syscall.SIGKILL); err != nil {
			p.t.Fatal(err)
		}
	}
}

// agrees checks that the chains know of every payment that the books know of.
func (p *process) agrees() {
	p.t.Helper()
	webring := func(args ...string) (string, error) {
		said, err := exec.Command(filepath.Join(p.binaries, "webring"), append(args, "--data", p.data)...).CombinedOutput()
		return string(said), err
	}
	said, err := webring("verify", "--chain")
	for deadline := time.Now().Add(time.Minute); err != nil && time.Now().Before(deadline); said, err = webring("verify", "--chain") {
		if !strings.Contains(said, "what was answered agrees") {
			break // a payment in a new block is not decided yet; this is something else
		}
	}
	if err != nil {
		p.t.Errorf("webring verify --chain: %v: %s", err, said)
	}
	if said, err := webring("payments", "list"); err != nil || strings.Contains(said, "vanished") {
		p.t.Errorf("webring payments list: %v: %s", err, said)
	}
	if said := p.said.String(); strings.Contains(said, "vanished") || strings.Contains(said, "not on its network") {
		p.t.Errorf("the run says: %s", said)
	}
}

// pays pays for a request by one method, with a wallet of its own.
func (p *process) pays(n note, method string, wallet, status int, path, body string) {
	p.t.Helper()
	client, err := devchain.StartClient(p.t.Context(), n.RPC)
	if err != nil {
		p.t.Fatal(err)
	}
	defer client.Close()
	paid, err := client.Pay(p.t.Context(), n.Keys[wallet], devchain.Request{By: []string{method}, Method: "POST", URL: n.Base + path,
		Header: map[string]string{"Content-Type": "application/json"}, Body: []byte(body)})
	if err != nil || paid.Status != status {
		p.t.Fatalf("by %s: %v, status %d: %s\n%s", method, err, paid.Status, paid.Body, p.said)
	}
}

// paysHalf sends a paid bid and returns when the ring has it, without waiting for the
// answer.
func (p *process) paysHalf(n note, body string) {
	p.t.Helper()
	client, err := devchain.StartClient(p.t.Context(), n.RPC)
	if err != nil {
		p.t.Fatal(err)
	}
	defer client.Close()
	sent := make(chan struct{})
	post := func(ctx context.Context, authorization string) (*http.Response, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.Base+"/api/bid", strings.NewReader(body))
		if err != nil {
			p.t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		if authorization != "" {
			req.Header.Set("Authorization", authorization)
		}
		return http.DefaultClient.Do(req)
	}
	res, err := post(p.t.Context(), "")
	if err != nil {
		p.t.Fatal(err)
	}
	res.Body.Close()
	var challenge string
	for _, offer := range res.Header.Values("WWW-Authenticate") {
		if strings.Contains(offer, `method="tempo"`) {
			challenge = offer
		}
	}
	authorization, err := client.Sign(p.t.Context(), n.Keys[5], challenge)
	if err != nil {
		p.t.Fatal(err)
	}
	ctx := httptrace.WithClientTrace(p.t.Context(), &httptrace.ClientTrace{
		WroteRequest: func(httptrace.WroteRequestInfo) { close(sent) },
	})
	go func() {
		if res, err := post(ctx, authorization); err == nil {
			res.Body.Close()
		}
	}()
	<-sent
}

// Payments by both methods are on the chains of the next run, whatever ended this one:
// its own kill, that of its chains, or the terminal; and one can pay again.
func TestASecondRunKnowsThePaymentsOfTheFirst(t *testing.T) {
	t.Parallel()
	binaries, data := build(t), filepath.Join(t.TempDir(), "data")
	run := startProcess(t, binaries, data)
	n := run.ready()
	run.pays(n, "tempo", 1, http.StatusCreated, "/api/register", `{"name":"Kept","url":"https://kept.webring.test/","kind":"agent"}`)
	run.stop(syscall.SIGKILL)

	run = startProcess(t, binaries, data)
	n = run.ready()
	run.agrees()
	run.pays(n, "evm", 2, http.StatusOK, "/api/bid", `{"member":"kept","amount":"2.00"}`)
	run.killChains()
	if err := run.stop(syscall.SIGTERM); err != nil {
		t.Errorf("a run whose chains were killed: %v: %s", err, run.said)
	}

	run = startProcess(t, binaries, data)
	n = run.ready()
	run.agrees()
	run.pays(n, "tempo", 3, http.StatusOK, "/api/bid", `{"member":"kept","amount":"3.00"}`)
	run.paysHalf(n, `{"member":"kept","amount":"4.00"}`)
	run.stop(syscall.SIGKILL)

	run = startProcess(t, binaries, data)
	n = run.ready()
	run.agrees()
	run.pays(n, "evm", 4, http.StatusOK, "/api/bid", `{"member":"kept","amount":"5.00"}`)
	if err := run.stop(os.Interrupt); err != nil {
		t.Errorf("an interrupted run: %v: %s", err, run.said)
	}

	// Ring and chains begin again together.
	if err := os.RemoveAll(data); err != nil {
		t.Fatal(err)
	}
	run = startProcess(t, binaries, data)
	n = run.ready()
	run.agrees()
	run.pays(n, "tempo", 1, http.StatusCreated, "/api/register", `{"name":"Kept","url":"https://kept.webring.test/","kind":"agent"}`)
	run.agrees()
}

// A run that is killed while it starts leaves nothing that the next one trips over.
func TestAnInterruptedStartComesUpAgain(t *testing.T) {
	t.Parallel()
	binaries, data := build(t), filepath.Join(t.TempDir(), "data")
	for _, moment := range []string{"", "A second chain", "webring serves", announcement} {
		run := startProcess(t, binaries, data)
		run.said.await(t, moment, run.ended)
		run.stop(syscall.SIGKILL)
	}
	run := startProcess(t, binaries, data)
	run.pays(run.ready(), "tempo", 1, http.StatusCreated, "/api/register", `{"name":"Kept","url":"https://kept.webring.test/","kind":"agent"}`)
	run.agrees()
}

func TestAChainThatDoesNotLoadSaysWhatToRemove(t *testing.T) {
	if err := devchain.Install(t.Context()); errors.Is(err, devchain.ErrNoNode) {
		t.Skip(err)
	}
	for _, kept := range []string{tempoSaved, baseSaved} {
		data := filepath.Join(t.TempDir(), "data")
		if err := os.MkdirAll(filepath.Join(data, filepath.Dir(kept)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(data, kept), []byte("cut sh"), 0o600); err != nil {
			t.Fatal(err)
		}
		err := run(t.Context(), []string{"run", "--webring", "false", "--listen", devchain.FreeAddress(), "--data", data}, newOutput())
		if err == nil || !strings.Contains(err.Error(), filepath.Join(data, kept)) || !strings.Contains(err.Error(), "remove the folder "+data+":") {
			t.Errorf("%s: %v", kept, err)
		}
	}
}

// bids are the totals of all bids, by member.
func bids(t *testing.T, n note) string {
	t.Helper()
	var board struct {
		Leaderboard []struct {
			Slug string `json:"slug"`
			Bids string `json:"bid_total_usd"`
		} `json:"leaderboard"`
	}
	if err := read(t.Context(), n.Base+"/api/leaderboard?limit=100", &board); err != nil {
		t.Fatal(err)
	}
	said, err := json.Marshal(board)
	if err != nil {
		t.Fatal(err)
	}
	return string(said)
}

func TestASecondDemonstrationDoublesNoBids(t *testing.T) {
	t.Parallel()
	run := startProcess(t, build(t), filepath.Join(t.TempDir(), "data"))
	n := run.ready()
	if err := demo(t.Context(), run.data); err != nil {
		t.Fatal(err)
	}
	before := bids(t, n)
	if !strings.Contains(before, `{"slug":"patchwork","bid_total_usd":"7.25"}`) {
		t.Errorf("the demonstration did not bid: %s", before)
	}
	if err := demo(t.Context(), run.data); err != nil {
		t.Fatal(err)
	}
	if now := bids(t, n); now != before {
		t.Errorf("bids after a second demonstration\n%s, before\n%s", now, before)
	}
}

func TestTheDemonstrationSaysThatNodeIsMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if err := demo(t.Context(), t.TempDir()); !errors.Is(err, devchain.ErrNoNode) {
		t.Errorf("without Node: %v", err)
	}
}
