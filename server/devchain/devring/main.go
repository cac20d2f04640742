// Command devring runs a ring for development: the binary with two chains of its
// own on this machine, one for each way to pay, and a demonstration that fills the ring with real
// payments. It is what `make run` and `make demo` call.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"webring/server/devchain"
	"webring/server/sites/score/exemplar"
	"webring/templates"
)

// note is what a running ring leaves for the demonstration to find.
type note struct {
	Base string   `json:"base"`
	RPC  string   `json:"rpc"`
	Keys []string `json:"keys"` // of the chain's well-known development accounts
}

// noteFile lies in the data folder, next to the ledger.
const noteFile = "devring.json"

// The recipient of all payments is the last of the chain's accounts; payers
// take theirs from the front.
const accounts = 100

const usage = "usage: devring run | demo; devring run --help lists its flags"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "devring:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	fs := flag.NewFlagSet("devring "+args[0], flag.ContinueOnError)
	data := fs.String("data", "data", "`folder` of the ledger")
	var webring, listen string
	switch args[0] {
	case "run":
		fs.StringVar(&webring, "webring", "bin/webring", "the binary")
		fs.StringVar(&listen, "listen", "127.0.0.1:8402", "`address` to listen on")
	case "demo":
	case "help", "-h", "-help", "--help":
		_, err := fmt.Fprintln(out, usage)
		return err
	default:
		return fmt.Errorf("there is no %q; %s", args[0], usage)
	}
	fs.SetOutput(io.Discard) // errors are told once, by main
	switch err := fs.Parse(args[1:]); {
	case errors.Is(err, flag.ErrHelp):
		fs.SetOutput(out)
		fs.Usage()
		return nil
	case err != nil:
		return fmt.Errorf("%w; %s --help lists the flags", err, fs.Name())
	case fs.NArg() > 0:
		return fmt.Errorf("%s takes flags only, and no %q", fs.Name(), fs.Arg(0))
	}
	if args[0] == "demo" {
		return demo(ctx, *data)
	}
	return serve(ctx, webring, listen, *data, out)
}

// The files in the data folder that the chains are saved in. A ring and the chains that
// it was paid on belong together: removing the folder begins again with both.
const (
	tempoSaved = "chains/tempo.json.gz"
	baseSaved  = "chains/base.json.gz"
)

// patience is how long a run waits for the one before it, which may just have been
// killed, to give the folder back.
const patience = 3 * time.Second

// claim takes the data folder for this run: two of them would keep their chains in the
// same files. What an earlier run, which was killed, left for the demonstration goes.
func claim(data string) (release func(), err error) {
	if err := os.MkdirAll(data, 0o700); err != nil {
		return nil, err
	}
	d, err := os.Open(data)
	if err != nil {
		return nil, err
	}
	for until := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		err := syscall.Flock(int(d.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			break
		}
		if time.Now().After(until) {
			d.Close()
			return nil, fmt.Errorf("another run has the folder %s: %w", data, err)
		}
	}
	os.Remove(filepath.Join(data, noteFile))
	return func() {
		os.Remove(data) // which fails when anything is in it
		d.Close()
	}, nil
}

// serve runs the ring until it is told to stop. Without Node there is no chain,
// and the ring serves reads. What the ring is given lies in a folder of this run:
// until the ring has opened its own, data may be another's.
func serve(ctx context.Context, webring, listen, data string, out io.Writer) error {
	release, err := claim(data)
	if err != nil {
		return err
	}
	defer release()
	own, err := os.MkdirTemp("", "devring")
	if err != nil {
		return err
	}
	defer os.RemoveAll(own)
	base := "http://" + listen
	sites, env, stopSites, err := serveSites(own)
	if err != nil {
		return err
	}
	defer stopSites()
	args := append([]string{"serve", "--dev", "--listen", listen, "--base-url", base, "--confirm", "base-url", "--data", data}, sites...)
	chain, err := devchain.Start(ctx, devchain.Options{Accounts: accounts, Saved: filepath.Join(data, tempoSaved)})
	switch {
	case errors.Is(err, devchain.ErrSaved):
		return beginAgain(err, data)
	case errors.Is(err, devchain.ErrNoNode):
		fmt.Fprintf(os.Stderr, "No payments: %v. The ring serves reads; run this again when Node is there.\n", err)
	case err != nil:
		fmt.Fprintf(os.Stderr, "No payments: %v. The ring serves reads.\n", err)
	default:
		defer chain.Stop()
		args = append(args, "--tempo-rpc", chain.RPC, "--tempo-recipient", chain.Accounts[accounts-1].Address.Hex())
		second, stop, err := offerOnBase(ctx, own, data, out)
		if err != nil {
			return err
		}
		defer stop()
		args = append(args, second...)
	}
	cmd := exec.Command(webring, args...)
	cmd.Stderr = os.Stderr
	cmd.Env = append(os.Environ(), env...)
	// When this process is killed, the ring ends as its chains do: the next run wants
	// the folder. The kernel watches the thread that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = devchain.DieWithParent()
	// A group of its own: the terminal's interrupt comes here, and the chain
	// must outlive the last payment.
	cmd.SysProcAttr.Setpgid = true
	said, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	stopped := make(chan struct{})
	go func() {
		select {
		case <-ctx.Done():
			// It may have ended already.
			_ = cmd.Process.Signal(syscall.SIGTERM)
		case <-stopped:
		}
	}()
	for lines := bufio.NewReader(said); err == nil; {
		var line string
		line, err = lines.ReadString('\n')
		fmt.Fprint(out, line)
		// It has data and port now, which no other ring had.
		if chain != nil && strings.HasPrefix(line, "webring serves ") {
			announce(chain, base, data, out)
			defer os.Remove(filepath.Join(data, noteFile))
		}
	}
	err = cmd.Wait()
	close(stopped)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// beginAgain says what to do about a chain that does not load.
func beginAgain(err error, data string) error {
	return fmt.Errorf("%w\nTo begin again, remove the folder %s: the ring in it was paid on that chain", err, data)
}

// announce says how to pay.
func announce(chain *devchain.Chain, base, data string, out io.Writer) {
	n := note{Base: base, RPC: chain.RPC}
	for _, a := range chain.Accounts {
		n.Keys = append(n.Keys, a.HexKey())
	}
	raw, err := json.Marshal(n)
	if err == nil {
		err = os.WriteFile(filepath.Join(data, noteFile), raw, 0o600)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "devring:", err)
	}
	fmt.Fprintf(out, "\nThe ring is at %s, its chain at %s. To join with the reference client:\n\n  env MPPX_PRIVATE_KEY=%s %s\n\nTo see it full: make demo\nOther sites to join with: https://ANYTHING.webring.test/\n\n",
		base, chain.RPC, chain.Accounts[0].HexKey(), templates.RegisterCommand(base, "-r "+chain.RPC+" -i",
			[]byte(`{"name":"`+myAgent.Name+`","url":"`+myAgent.URL+`","kind":"agent","category":"demo","bid":"2.00"}`)))
}

func findNote(data string) (n note, err error) {
	raw, err := os.ReadFile(filepath.Join(data, noteFile))
	if err != nil {
		return n, errors.New("no ring with payments is running here: start one with make run")
	}
	return n, json.Unmarshal(raw, &n)
}

// offerOnBase starts a second chain, which passes for Base, and gives the flags
// with which the ring is paid there too. The gas account is the last but one of
// the development accounts; its key, which everybody knows, is written below folder.
// The chain is saved in data.
func offerOnBase(ctx context.Context, folder, data string, out io.Writer) (args []string, stop func(), err error) {
	chain, err := devchain.StartBase(ctx, devchain.Options{Accounts: accounts, Saved: filepath.Join(data, baseSaved)})
	if errors.Is(err, devchain.ErrSaved) {
		return nil, nil, beginAgain(err, data)
	}
	if err != nil {
		return nil, nil, err
	}
	file := filepath.Join(folder, "evm-gas-key")
	if err := os.WriteFile(file, []byte(chain.Accounts[accounts-2].HexKey()+"\n"), 0o600); err != nil {
		chain.Stop()
		return nil, nil, err
	}
	fmt.Fprintf(out, "A second chain, for payments by authorisation, is at %s.\n", chain.RPC)
	return []string{"--evm-rpc", chain.RPC, "--evm-recipient", chain.Accounts[accounts-1].Address.Hex(), "--evm-gas-key-file", file}, chain.Stop, nil
}

// unready says what some sites of the demonstration lack, as most sites do, by
// checks of the rubric.
var unready = map[string][]string{
	"Small Hours":          {"markdown", "vary", "mcp-card", "mcp", "openapi", "agent-card", "skills", "payments", "api-catalog"},
	"The Index of Indexes": {"json-ld", "open-graph", "description", "sitemap", "privacy", "mcp-card", "mcp", "ai-catalog", "agent-card", "skills", "payments"},
	"Seedbank":             {"llms-txt", "links", "content-signal", "not-found-help", "openapi", "api-catalog", "payments", "mcp-card", "mcp", "ai-catalog", "skill"},
	"Kiln":                 {"gptbot", "markdown", "vary", "headings", "json-ld", "mcp-card", "mcp", "openapi", "payments", "llms-txt"},
	"Lantern":              {"sitemap", "privacy", "contact", "skills"},
	"Quill":                {"payments", "open-graph", "json-ld"},
	"Ledgerbird":           {"mcp-card", "mcp", "skills"},
}

// anyHosts are host names for trying out: each is a site of its own.
const anyHosts = "*.webring.test"

// myAgent is the site in the printed command.
var myAgent = joining{Name: "My Agent", URL: "https://my-agent.dev/", Description: "An agent to try the ring with."}

// serveSites serves the sites that join the ring here: those of the
// demonstration, the one in the printed command, and any below webring.test. The
// names all lead to this machine, so sites elsewhere with these names are never
// asked. The certificates to trust about them are written below folder.
func serveSites(folder string) (args, env []string, stop func(), err error) {
	sites := map[string]*exemplar.Site{}
	hosts := []string{anyHosts}
	for _, m := range append(slices.Clone(demoMembers), myAgent) {
		u, err := url.Parse(m.URL)
		if err != nil {
			return nil, nil, nil, err
		}
		site := exemplar.Site{Name: m.Name, About: m.Description, Path: u.Path, Without: unready[m.Name]}
		if site.About == "" {
			site.About = m.Name + " is a site for trying the ring out."
		}
		sites[u.Host] = &site
		hosts = append(hosts, u.Host)
	}
	server, err := exemplar.Serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		site := sites[strings.ToLower(host)]
		if site == nil {
			site = &exemplar.Site{Name: host, About: "A site for trying the ring out."}
		}
		site.ServeHTTP(w, r)
	}), hosts...)
	if err != nil {
		return nil, nil, nil, err
	}
	for _, host := range hosts {
		args = append(args, "--fetch-map", host+"="+server.Addr.String())
	}
	// A folder of certificates in addition to the system's own.
	roots := filepath.Join(folder, "roots")
	if err = os.Mkdir(roots, 0o700); err == nil {
		err = os.WriteFile(filepath.Join(roots, "authority.pem"), server.Roots, 0o600)
	}
	if err != nil {
		server.Close()
		return nil, nil, nil, err
	}
	return args, []string{"SSL_CERT_DIR=" + roots + ":/etc/ssl/certs:/etc/pki/tls/certs"}, server.Close, nil
}
