package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/big"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/pelletier/go-toml/v2"

	"webring/server/backup"
	"webring/server/devchain"
	"webring/server/ledger"
	"webring/server/ledger/badgerstore"
)

// The tests of this package run the real binary as a process of its own,
// against a real Tempo chain and with the reference client, all on this machine.

// longEnough is for processes on machines that do much else.
const longEnough = 2 * time.Minute

// shared is what all tests use and TestMain cleans up.
var shared struct {
	once   sync.Once
	dir    string
	binary string
	err    error

	compileOnce sync.Once

	chainOnce sync.Once
	chain     *devchain.Chain
	client    *devchain.Client
	chainErr  error
	wallet    atomic.Int32
}

func TestMain(m *testing.M) {
	if address := os.Getenv(constantAddress); address != "" {
		fmt.Fprintln(os.Stderr, constant(address))
		os.Exit(1)
	}
	// Many processes run at a time. Each says where it is watched.
	os.Setenv("WEBRING_ADMIN_LISTEN", "127.0.0.1:0")
	code := m.Run()
	if !logsAreClean() || !noRaces() {
		code = max(code, 1)
	}
	if testing.Verbose() {
		fmt.Printf("held to the OpenAPI document: %d answers of operations, %d problems of others\n", described.operations.Load(), described.problems.Load())
	}
	if shared.client != nil {
		shared.client.Close()
	}
	if shared.chain != nil {
		shared.chain.Stop()
	}
	if base.chain != nil {
		base.chain.Stop()
	}
	if shared.dir != "" {
		os.RemoveAll(shared.dir)
	}
	os.Exit(code)
}

// binary builds webring once, and under the race detector with it.
func binary(t *testing.T) string {
	t.Helper()
	processes(t)
	shared.once.Do(func() {
		if shared.dir, shared.err = os.MkdirTemp("", "webring-test"); shared.err != nil {
			return
		}
		shared.binary = filepath.Join(shared.dir, "webring")
		build := []string{"build", "-o", shared.binary}
		if raceDetector {
			build = append(build, "-race")
		}
		if out, err := exec.Command("go", append(build, ".")...).CombinedOutput(); err != nil {
			shared.err = fmt.Errorf("build: %w: %s", err, out)
		}
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.binary
}

// folder gives a data folder with nothing in it but the compiled core, which takes a
// process longer to make than all else that most tests have it do.
func folder(t *testing.T) string {
	t.Helper()
	binary(t)
	const core = "core"
	compiled := filepath.Join(shared.dir, "compiled")
	shared.compileOnce.Do(func() {
		listen := devchain.FreeAddress()
		o := &origin{t: t, data: compiled, base: "http://" + listen}
		o.args = []string{"serve", "--dev", "--core", "wasm", "--scorer", "fixed:72", "--listen", listen, "--base-url", o.base}
		o.launch()
		o.stop()
	})
	data := t.TempDir()
	err := filepath.WalkDir(filepath.Join(compiled, core), func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(data, strings.TrimPrefix(path, compiled))
		if e.IsDir() {
			return os.Mkdir(to, 0o700)
		}
		return os.Link(path, to) // it is never written to, only replaced
	})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// accounts is how many both development chains have, the same ones, so that tests do not share any.
const accounts = 400

// chain starts the development chain and the reference client once. Without
// Node there is none, and the test says so and how to get it.
func chain(t *testing.T) (*devchain.Chain, *devchain.Client) {
	t.Helper()
	processes(t)
	shared.chainOnce.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		if shared.chain, shared.chainErr = devchain.Start(ctx, devchain.Options{Accounts: accounts}); shared.chainErr != nil {
			return
		}
		shared.client, shared.chainErr = devchain.StartClient(ctx, shared.chain.RPC)
	})
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("needs Node 20 or newer for the chain and the paying client: install it from your distribution or nodejs.org")
	}
	if shared.chainErr != nil {
		t.Fatal(shared.chainErr)
	}
	return shared.chain, shared.client
}

// wallet gives the key of a funded account that no other test uses at the
// moment.
func wallet(t *testing.T) devchain.Account {
	t.Helper()
	c, _ := chain(t)
	return c.Accounts[int(shared.wallet.Add(1)-1)%len(c.Accounts)]
}

// origin is one running `webring serve`.
type origin struct {
	t         *testing.T
	base      string
	data      string
	recipient common.Address
	args      []string
	env       []string
	socket    *os.File       // passed to the process as its listener, nil for none
	program   string         // the binary; that of all tests unless it is set
	trusts    *x509.CertPool // by which its certificate is known, if it speaks TLS

	cmd  *exec.Cmd
	log  *logBuffer
	gone chan struct{} // closed when the process has ended
}

// ring starts an origin in a folder of its own, paid into an account of its
// own, without a rate limit unless args say otherwise.
func ring(t *testing.T, args ...string) *origin {
	t.Helper()
	c, _ := chain(t)
	return start(t, append([]string{"--tempo-rpc", c.RPC}, args...)...)
}

// start starts an origin without payments unless args configure them.
func start(t *testing.T, args ...string) *origin {
	t.Helper()
	return startWith(t, nil, args...)
}

// startWith is start with more in the environment.
func startWith(t *testing.T, env []string, args ...string) *origin {
	t.Helper()
	o := prepare(t, env, args...)
	o.launch()
	t.Cleanup(o.kill)
	return o
}

// prepare makes an origin that has yet to be launched.
func prepare(t *testing.T, env []string, args ...string) *origin {
	t.Helper()
	o := &origin{t: t, data: folder(t), args: args, env: env}
	rand.Read(o.recipient[:])
	listen := devchain.FreeAddress()
	o.base = "http://" + listen
	o.args = append([]string{"serve", "--dev", "--scorer", "fixed:72", "--listen", listen, "--base-url", o.base,
		"--rate-limit", "0", "--tempo-recipient", o.recipient.Hex()}, args...)
	return o
}

// inFile moves what is no flag from the arguments of a command to a file for --config.
func inFile(t testing.TB, args []string) (line []string) {
	t.Helper()
	fs, file := new(options).flags(), map[string]any{}
	for i := 0; i < len(args); i++ {
		name, value, joined := strings.Cut(strings.TrimPrefix(args[i], "--"), "=")
		f := fs.Lookup(name)
		if f == nil || name == args[i] || !strings.HasPrefix(f.Usage, fileOnly) {
			line = append(line, args[i])
			continue
		}
		if _, is := f.Value.(interface{ IsBoolFlag() bool }); is && !joined {
			value = "true"
		} else if i++; joined {
			i--
		} else if i < len(args) {
			value = args[i]
		}
		if _, repeatable := f.Value.(*list); repeatable {
			all, _ := file[name].([]string)
			file[name] = append(all, value)
		} else {
			file[name] = value
		}
	}
	if len(file) == 0 {
		return args
	}
	text, err := toml.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "settings.toml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return append(line, "--config", path)
}

// launch starts the process and waits until it answers. It has to have said that it
// listens: what answers there could be another one that a test left behind.
func (o *origin) launch() {
	o.t.Helper()
	o.boot()
	listens := " at " + strings.TrimPrefix(o.base, "http://") + "\n"
	deadline := time.Now().Add(longEnough)
	for {
		if strings.Contains(o.log.String(), listens) {
			if res, err := noRedirects.Get(o.base + "/api"); err == nil {
				res.Body.Close()
				return
			}
		}
		select {
		case <-o.gone:
			o.t.Fatalf("webring ended at once:\n%s", o.log)
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			o.t.Fatalf("webring does not answer:\n%s", o.log)
		}
	}
}

// boot starts the process.
func (o *origin) boot() {
	o.t.Helper()
	program := o.program
	if program == "" {
		program = binary(o.t)
	}
	o.cmd = exec.Command(program, inFile(o.t, append(o.args, "--data", o.data))...)
	o.cmd.Env = append(os.Environ(), o.env...)
	if o.socket != nil {
		o.pass()
	}
	o.log = &logBuffer{}
	said := keepLog(o)
	out := io.MultiWriter(o.log, said)
	o.cmd.Stdout, o.cmd.Stderr = out, out
	if err := o.cmd.Start(); err != nil {
		o.t.Fatal(err)
	}
	gone := make(chan struct{})
	o.gone = gone
	cmd := o.cmd
	go func() {
		_ = cmd.Wait()
		said.Close()
		close(gone)
	}()
}

// kill ends the process as a power cut would.
func (o *origin) kill() {
	_ = o.cmd.Process.Signal(syscall.SIGKILL)
	<-o.gone
}

// stop ends the process as its operator would, and fails the test unless it
// ends well.
func (o *origin) stop() {
	o.t.Helper()
	if err := o.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		o.t.Fatal(err)
	}
	select {
	case <-o.gone:
	case <-time.After(longEnough):
		o.t.Fatalf("webring does not stop:\n%s", o.log)
	}
	if code := o.cmd.ProcessState.ExitCode(); code != 0 {
		o.t.Fatalf("webring stopped with status %d:\n%s", code, o.log)
	}
}

// waitGone waits until the process has ended by itself.
func (o *origin) waitGone() {
	o.t.Helper()
	select {
	case <-o.gone:
	case <-time.After(longEnough):
		o.t.Fatalf("webring was expected to end:\n%s", o.log)
	}
}

// operate runs a command that comes to its end, mostly an operator's, against the
// origin.
func (o *origin) operate(args ...string) (string, error) {
	o.t.Helper()
	cmd := invoke(o.t, args...)
	cmd.Env = append(os.Environ(), "WEBRING_DATA="+o.data)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// invoke gives a command that comes to its end. It is killed when it does not, which fails the
// test, and with the test.
func invoke(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), longEnough)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, binary(t), inFile(t, args)...)
	cmd.Cancel = func() error {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Errorf("webring %v did not end within %s", args, longEnough)
		}
		return cmd.Process.Kill()
	}
	return cmd
}

// await gives what comes from elsewhere in a test.
func await[T any](t *testing.T, what string, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(longEnough):
		t.Fatalf("%s did not come within %s", what, longEnough)
	}
	return v
}

// reply is an answer with its body read.
type reply struct {
	Status int
	Header http.Header
	Body   []byte
}

// document decodes the body as a JSON object.
func (r reply) document(t *testing.T) map[string]any {
	t.Helper()
	var doc map[string]any
	d := json.NewDecoder(bytes.NewReader(r.Body))
	if err := d.Decode(&doc); err != nil {
		t.Fatalf("status %d: not a JSON object: %v: %s", r.Status, err, r.Body)
	}
	return doc
}

// at walks a decoded document: names of members, and indexes of arrays.
func at(t *testing.T, doc any, path ...any) any {
	t.Helper()
	for i, step := range path {
		switch step := step.(type) {
		case string:
			object, ok := doc.(map[string]any)
			if _, has := object[step]; !ok || !has {
				t.Fatalf("no member %v in %v", path[:i+1], doc)
			}
			doc = object[step]
		case int:
			array, ok := doc.([]any)
			if !ok || step >= len(array) {
				t.Fatalf("no item %v in %v", path[:i+1], doc)
			}
			doc = array[step]
		}
	}
	return doc
}

// code is the code of a problem document, checked to be one.
func (r reply) code(t *testing.T) string {
	t.Helper()
	doc := r.document(t)
	if media := r.Header.Get("Content-Type"); media != "application/problem+json" {
		t.Errorf("a problem has the type %q", media)
	}
	if s, _ := at(t, doc, "status").(float64); int(s) != r.Status {
		t.Errorf("a problem says status %v and has %d", s, r.Status)
	}
	for _, name := range []string{"title", "detail"} {
		if s, _ := at(t, doc, name).(string); s == "" {
			t.Errorf("a problem without %s: %s", name, r.Body)
		}
	}
	code, _ := at(t, doc, "code").(string)
	return code
}

// patient bounds how long a request, or a wish of a buyer, may take: far longer than any should.
const patient = 5 * time.Minute

// noRedirects leaves redirects to the tests. No request is held as long as it waits.
var noRedirects = &http.Client{Timeout: patient, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// send sends one request; header fields are given as name, value, ….
func (o *origin) send(method, path string, body []byte, header ...string) reply {
	o.t.Helper()
	r, err := o.try(method, path, body, header...)
	if err != nil {
		o.t.Fatalf("%s %s: %v\n%s", method, path, err, o.log)
	}
	return r
}

// draft sends the form of the join page, and gives the page that it leads to.
func (o *origin) draft(form string) reply {
	o.t.Helper()
	r := o.send(http.MethodPost, "/join", []byte(form), "Content-Type", "application/x-www-form-urlencoded")
	if r.Status == http.StatusSeeOther {
		r = o.get("/"+r.Header.Get("Location"), "Accept", "text/html")
	}
	return r
}

// try is send for requests that may find the process gone.
func (o *origin) try(method, path string, body []byte, header ...string) (reply, error) {
	req, err := http.NewRequest(method, o.base+path, bytes.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
		sentField(header[i], header[i+1])
	}
	res, err := noRedirects.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	r := reply{res.StatusCode, res.Header, text}
	sentField(receiptField, res.Header.Get(receiptField))
	if err == nil && !pageOfAnError(path, req.Header.Get("Accept"), r) {
		held(o.t, method, path, r)
	}
	return r, err
}

func (o *origin) get(path string, header ...string) reply {
	o.t.Helper()
	return o.send(http.MethodGet, path, nil, header...)
}

// post sends a JSON body without paying.
func (o *origin) post(path, body string, header ...string) reply {
	o.t.Helper()
	return o.send(http.MethodPost, path, []byte(body), append([]string{"Content-Type", "application/json"}, header...)...)
}

// pay has the reference client send a request and pay for it.
func (o *origin) pay(w devchain.Account, path, body string, header ...string) devchain.Payment {
	o.t.Helper()
	p, err := o.tryPay(w, path, body, header...)
	if err != nil {
		o.t.Fatalf("POST %s %s: %v\n%s", path, body, err, o.log)
	}
	return p
}

func (o *origin) tryPay(w devchain.Account, path, body string, header ...string) (devchain.Payment, error) {
	return o.tryAs(w, http.MethodPost, path, body, header...)
}

// prove has the reference client send a request of an owner, and prove itself.
func (o *origin) prove(w devchain.Account, method, path, body string, header ...string) reply {
	o.t.Helper()
	p, err := o.tryAs(w, method, path, body, header...)
	if err != nil {
		o.t.Fatalf("%s %s %s: %v\n%s", method, path, body, err, o.log)
	}
	return reply{p.Status, p.Header, p.Body}
}

// tryAs has the reference client send a request, and pay or prove itself when asked to.
func (o *origin) tryAs(w devchain.Account, method, path, body string, header ...string) (devchain.Payment, error) {
	return o.tryBy(nil, w, method, path, body, header...)
}

// tryBy is tryAs for a client that pays in these ways.
func (o *origin) tryBy(ways []string, w devchain.Account, method, path, body string, header ...string) (devchain.Payment, error) {
	_, client := chain(o.t)
	fields := map[string]string{"Content-Type": "application/json"}
	for i := 0; i+1 < len(header); i += 2 {
		fields[header[i]] = header[i+1]
		sentField(header[i], header[i+1])
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	unloggable.Secret("the key of a wallet", w.HexKey())
	p, err := client.Pay(ctx, w.HexKey(), devchain.Request{By: ways, Method: method, URL: o.base + path, Header: fields, Body: []byte(body)})
	for _, x := range append(p.Earlier, p.Exchange) {
		sentField("Authorization", x.Authorization)
		sentField(receiptField, x.Header.Get(receiptField))
	}
	if err == nil {
		held(o.t, method, path, reply{p.Status, p.Header, p.Body})
	}
	return p, err
}

// sign asks for a challenge and has the reference client make the credential
// that answers it, without sending it.
func (o *origin) sign(w devchain.Account, path, body string) string {
	o.t.Helper()
	return o.signAs(w, http.MethodPost, path, body)
}

func (o *origin) signAs(w devchain.Account, method, path, body string) string {
	o.t.Helper()
	_, client := chain(o.t)
	r := o.send(method, path, []byte(body), "Content-Type", "application/json")
	// A node that cannot take it now says so, and is asked again, as clients do.
	for began := time.Now(); r.Status == http.StatusServiceUnavailable && r.Header.Get("Retry-After") != "" && time.Since(began) < longEnough; {
		time.Sleep(50 * time.Millisecond)
		r = o.send(method, path, []byte(body), "Content-Type", "application/json")
	}
	if r.Status != http.StatusPaymentRequired {
		o.t.Fatalf("%s %s %s: status %d, no challenge: %s", method, path, body, r.Status, r.Body)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	credential, err := client.Sign(ctx, w.HexKey(), r.Header.Get("WWW-Authenticate"))
	if err != nil {
		o.t.Fatal(err)
	}
	sentField("Authorization", credential)
	return credential
}

// join registers a member by a payment and gives its slug.
func (o *origin) join(name, kind, bid string) string {
	o.t.Helper()
	body := map[string]string{"name": name, "url": "https://" + strings.ToLower(strings.ReplaceAll(name, " ", "-")) + ".dev/", "kind": kind}
	if bid != "" {
		body["bid"] = bid
	}
	text, err := json.Marshal(body)
	if err != nil {
		o.t.Fatal(err)
	}
	p := o.pay(wallet(o.t), "/api/register", string(text))
	if p.Status != http.StatusCreated {
		o.t.Fatalf("joining: status %d: %s", p.Status, p.Body)
	}
	return at(o.t, paidDocument(o.t, p), "member", "slug").(string)
}

func paidDocument(t *testing.T, p devchain.Payment) map[string]any {
	t.Helper()
	return reply{p.Status, p.Header, p.Body}.document(t)
}

// received is what the ring's account holds on the chain, in cents.
func (o *origin) received() int64 {
	o.t.Helper()
	return o.receivedIn(devchain.PathUSD)
}

// receivedIn is received of another token.
func (o *origin) receivedIn(token common.Address) int64 {
	o.t.Helper()
	units := units(o.t, token, o.recipient)
	cents, rest := new(big.Int).QuoRem(units, big.NewInt(10_000), new(big.Int))
	if rest.Sign() != 0 {
		o.t.Fatalf("a balance of %s units is not whole cents", units)
	}
	return cents.Int64()
}

// units is what an account holds of a token on the chain.
func units(t *testing.T, token, account common.Address) *big.Int {
	t.Helper()
	c, _ := chain(t)
	ctx, cancel := context.WithTimeout(context.Background(), longEnough)
	defer cancel()
	units, err := c.Balance(ctx, token, account)
	if err != nil {
		t.Fatal(err)
	}
	return units
}

// eventually waits for a condition that another process brings about.
func eventually(t *testing.T, what string, within time.Duration, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(within)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not come within %s", what, within)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// logBuffer collects what a process prints.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// openLedger opens the ledger in a data folder. end closes it with its store.
func openLedger(data string, failpoint func(string)) (books *ledger.Ledger, end func() error, err error) {
	store, err := badgerstore.Open(storePath(data), slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, nil, err
	}
	o := options{data: data, capacity: 1000}
	config := o.ledgerConfig()
	config.Failpoint = failpoint
	b, err := backup.Open(store, config)
	if err != nil {
		return nil, nil, err
	}
	return b.Ledger, b.Close, nil
}
