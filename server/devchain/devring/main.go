// Command devring runs a ring for development: the binary with two chains of its
// own on this machine, one for each way to pay, and a demonstration that fills the ring with real
// payments. It is what `make run` and `make demo` call.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"webring/server/devchain"
)

// note is what a running ring leaves for the demonstration to find.
type note struct {
	Base string   `json:"base"`
	RPC  string   `json:"rpc"`
	Keys []string `json:"keys"` // of the chain's well-known development accounts
}

// noteFile lies in the data folder, beside the ledger.
const noteFile = "devring.json"

// The recipient of all payments is the last of the chain's accounts; payers
// take theirs from the front.
const accounts = 100

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "devring:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("usage: devring run | demo")
	}
	fs := flag.NewFlagSet("devring "+args[0], flag.ContinueOnError)
	data := fs.String("data", "data", "`folder` of the ledger")
	switch args[0] {
	case "run":
		webring := fs.String("webring", "bin/webring", "the binary")
		listen := fs.String("listen", "127.0.0.1:8402", "`address` to listen on")
		if err := fs.Parse(args[1:]); err != nil {
			return err
		}
		return serve(ctx, *webring, *listen, *data)
	case "demo":
		if err := fs.Parse(args[1:]); err != nil {
			return err
		}
		return demo(ctx, *data)
	}
	return fmt.Errorf("there is no %q; usage: devring run | demo", args[0])
}

// serve runs the ring until it is told to stop. Without Node there is no chain,
// and the ring serves reads.
func serve(ctx context.Context, webring, listen, data string) error {
	base := "http://" + listen
	sites, env, stopSites, err := serveSites(data)
	if err != nil {
		return err
	}
	defer stopSites()
	args := append([]string{"serve", "--dev", "--listen", listen, "--base-url", base, "--data", data}, sites...)
	chain, err := devchain.Start(ctx, devchain.Options{Accounts: accounts})
	switch {
	case errors.Is(err, devchain.ErrNoNode):
		fmt.Fprintf(os.Stderr, "No payments: %v. The ring serves reads; run this again when Node is there.\n", err)
	case err != nil:
		fmt.Fprintf(os.Stderr, "No payments: %v. The ring serves reads.\n", err)
	default:
		defer chain.Stop()
		args = append(args, "--tempo-rpc", chain.RPC, "--tempo-recipient", chain.Accounts[accounts-1].Address.Hex())
		second, stop, err := offerOnBase(ctx, data)
		if err != nil {
			return err
		}
		defer stop()
		args = append(args, second...)
	}
	cmd := exec.Command(webring, args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), env...)
	// A group of its own: the terminal's interrupt comes here, and the chain
	// must outlive the last payment.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	if chain != nil {
		defer os.Remove(filepath.Join(data, noteFile))
		go announce(ctx, chain, base, data)
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
	err = cmd.Wait()
	close(stopped)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// announce says how to pay, once the ring answers.
func announce(ctx context.Context, chain *devchain.Chain, base, data string) {
	for !answers(ctx, base) {
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return
		}
	}
	n := note{Base: base, RPC: chain.RPC}
	for _, a := range chain.Accounts {
		n.Keys = append(n.Keys, a.HexKey())
	}
	if err := leaveNote(data, n); err != nil {
		fmt.Fprintln(os.Stderr, "devring:", err)
	}
	fmt.Printf("\nThe ring is at %s, its chain at %s. To join with the reference client:\n\n  %s\n\nTo see it full: make demo\nOther sites to join with: https://ANYTHING.webring.test/\n\n",
		base, chain.RPC, joinCommand(chain, base))
}

// answers says whether the ring is up.
func answers(ctx context.Context, base string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, base+"/api", nil)
	if err != nil {
		return false
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	res.Body.Close()
	return res.StatusCode == http.StatusOK
}

// joinCommand is the one line that joins the ring.
func joinCommand(chain *devchain.Chain, base string) string {
	return devchain.CLI("server/devchain", chain.Accounts[0].HexKey(), chain.RPC, base+"/api/register",
		`{"name":"`+myAgent.Name+`","url":"`+myAgent.URL+`","kind":"agent","category":"demo","bid":"2.00"}`).String()
}

func leaveNote(data string, n note) error {
	raw, err := json.Marshal(n)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(data, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(data, noteFile), raw, 0o600)
}

func findNote(data string) (n note, err error) {
	raw, err := os.ReadFile(filepath.Join(data, noteFile))
	if err != nil {
		return n, errors.New("no ring with payments is running here: start one with make run")
	}
	return n, json.Unmarshal(raw, &n)
}
