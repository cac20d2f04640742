package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"webring/core"
	"webring/edge/monitor"
	tlog "webring/edge/tlog"
	"webring/server"
	"webring/server/backup"
	"webring/server/paid/form"
	"webring/server/pay/match"
	"webring/wasm/module"
)

// The exit codes of `webring verify`: 0 if all that was looked at is right.
const (
	exitUnknown     = 1 // something could not be looked at, and nothing was found to be wrong
	exitWrong       = 2 // something is not what was signed, or does not agree with itself
	exitContradicts = 3 // the ring has signed two histories, and the evidence is in a file
)

// coded is an error with the exit code that it ends the process with.
type coded struct {
	error
	code int
}

func (c coded) Unwrap() error { return c.error }

// verifying are the flags of `webring verify`.
type verifying struct {
	data     *operator
	chain    bool
	capacity int

	keys              list
	policy, memory    string
	save, offline     string
	receipt, evidence string
	within            time.Duration
	nodes             networks
}

// networks are the nodes that are asked about payments, by network.
type networks map[string][]match.Node

func (n networks) String() string { return "" }

// Set takes NETWORK=URL.
func (n networks) Set(word string) error {
	network, url, _ := strings.Cut(word, "=")
	says, err := match.Dial(network, url)
	if err == nil {
		n[network] = append(n[network], says)
	}
	return err
}

// verifyRing recomputes everything: of a ring anywhere by its URL, or of the operator's own origin,
// folder or backup. It also checks a receipt, or evidence, by itself.
func verifyRing(fs *flag.FlagSet) action {
	v := &verifying{data: defineData(fs, "`folder` of the origin, running or not"), within: time.Hour, nodes: networks{}}
	fs.BoolVar(&v.chain, "chain", false, "ask the payment networks about every transaction; needs the running origin")
	fs.IntVar(&v.capacity, "capacity", 1_000_000, "`members` that can ever join, as for serve")
	fs.Var(&v.keys, "origin-key", "`verifier` of the ring, as edges pin it; without it the key that was remembered counts, and at first the one that the ring names (repeatable)")
	fs.StringVar(&v.policy, "policy", "", "`file` with the ring's key and the witnesses that must have cosigned (C2SP tlog-policy)")
	fs.StringVar(&v.memory, "memory", "", "`folder` of what was verified last (default: webring/verified in $XDG_STATE_HOME or ~/.local/state)")
	fs.StringVar(&v.save, "save", "", "`folder` that keeps what is fetched, so that the next run fetches only what is new")
	fs.StringVar(&v.offline, "offline", "", "`folder` that --save wrote, to verify without a network")
	fs.StringVar(&v.receipt, "receipt", "", "`file` with the proof that a paid answer links to, to check without a network")
	fs.StringVar(&v.evidence, "evidence", "", "`file` with two checkpoints that contradict each other, to check without a network")
	fs.Var(v.nodes, "rpc", "`NETWORK=URL` of a node, such as tempo:42431=https://…: match payments with transfers there; of two nodes for one network, both must agree (repeatable)")
	fs.Var((*duration)(&v.within), "within", "`time` that the verification of a URL may take")
	return func(words []string, out io.Writer) error {
		outside := len(words) == 1 && (strings.HasPrefix(words[0], "https://") || strings.HasPrefix(words[0], "http://"))
		ways := slices.DeleteFunc([]string{strings.Join(words, ""), v.offline, v.receipt, v.evidence}, func(way string) bool { return way == "" })
		switch {
		case len(words) > 1 || len(ways) > 1:
			return errUsage
		case len(v.nodes) > 0 && !outside && v.offline == "":
			return errors.New("--rpc is for a URL or --offline; for your own origin use --chain")
		case !outside && v.save != "":
			return errors.New("--save keeps what is fetched from a URL: give one")
		case outside || v.offline != "":
			return v.outside(words, out)
		case v.receipt != "":
			return v.checkReceipt(out)
		case v.evidence != "":
			return v.checkEvidence(out)
		}
		return v.inside(words, out)
	}
}

// outside verifies a ring by what it publishes.
func (v *verifying) outside(words []string, out io.Writer) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, v.within, fmt.Errorf("it took longer than the %s of --within", v.within))
	defer cancel()
	policy, err := readPolicy("--policy", v.policy)
	if err != nil {
		return err
	}
	c := monitor.Config{Save: v.offline, Keys: v.keys, Policy: policy, Capacity: v.capacity, Say: progress(os.Stderr)}
	if c.Core, err = module.Digest(); err != nil && !errors.Is(err, module.ErrMissing) {
		return err
	}
	if c.Memory, err = v.remembers(); len(words) == 1 {
		c.Site, c.Save = words[0], v.save
	}
	payments := match.Logs{}
	if len(v.nodes) > 0 {
		c.Each = payments.Add
	}
	check := &checks{out: out}
	if err != nil {
		check.note("memory", "%v", err)
	}
	r, err := monitor.Verify(ctx, c)
	if err == nil {
		tell(check, r)
		return v.compare(ctx, check, payments, time.UnixMilli(r.Signed.Time))
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if r != nil && r.Trust == monitor.Claimed {
		check.note("key", "the ring itself named the key: compare it with the operator's, and give it with --origin-key")
	}
	if fork, ok := errors.AsType[*tlog.Contradiction](err); ok {
		path, written := c.Memory.Evidence(fork)
		if written != nil {
			fmt.Fprintf(out, "%s", fork.Text())
			return coded{errors.Join(err, written), exitContradicts}
		}
		return coded{fmt.Errorf("%w; the evidence stands alone in %s: keep it, and show it to others, who check it with webring verify --evidence", err, path), exitContradicts}
	}
	return classed(err)
}

// classed gives an error its exit code.
func classed(err error) error {
	if errors.Is(err, monitor.ErrWrong) || errors.Is(err, tlog.ErrEvidence) {
		return coded{err, exitWrong}
	}
	return err
}

// tell prints what was verified, and what that cannot show.
func tell(c *checks, r *monitor.Report) {
	c.ok("key", "%s", strings.Join(r.Keys, " "))
	switch r.Trust {
	case monitor.Remembered:
		c.ok("key", "it is the one of your last verification, or one that this one named")
	case monitor.Claimed:
		c.note("key", "the ring itself named it: compare it with the operator's, and give it with --origin-key")
	}
	c.ok("log", "%d events lead to the signed root %s; %.1f MB were fetched", r.At.N, r.At.Hash, float64(r.Bytes)/1e6)
	if r.Before != nil {
		c.ok("memory", "it continues the %d events that you verified before", r.Before.N)
	} else {
		c.note("memory", "this is your first verification; the next one checks that the log continues this one")
	}
	for _, name := range r.Others {
		c.note("memory", "this URL showed another log before, %q: nothing shows that %q continues it", name, r.At.Origin)
	}
	c.ok("state", "the events lead to the state that is signed at %d events, %x", r.Signed.Size, r.Signed.State)
	c.ok("leaderboard", "the same to the byte, with %d members at %d events and %s", r.Members, r.Shown, r.As.Format(time.RFC3339))
	if r.Untold > 0 {
		c.note("snapshots", "%d of earlier states cannot be compared: words that were in them are redacted", r.Untold)
	}
	tellWitnesses(c, r.Cosigned)
	payers := r.Payers.Concentration()
	if payers.Accounts > 0 && payers.Total > 0 {
		c.note("payers", "%d accounts paid %s USD; the largest %s, the ten largest %s; %d of them paid half of it", payers.Accounts, form.FormatUSD(payers.Total),
			percent(payers.Largest, payers.Total), percent(payers.Ten, payers.Total), payers.Half)
	}
	c.note("unknown", "whether others are shown another log, unless witnesses cosign it; who the payers are: an operator can pay itself")
}

// compare compares payments with the transfers on their networks.
func (v *verifying) compare(ctx context.Context, c *checks, payments match.Logs, signed time.Time) error {
	const most = 20 // lines of each kind
	unknown := false
	for network := range v.nodes {
		if payments[network] == nil {
			unknown = true
			c.note("payments", "unknown: the log names no payment and no payee on %s", network)
		}
	}
	for _, network := range slices.Sorted(maps.Keys(payments)) {
		log, nodes := payments[network], v.nodes[network]
		if len(nodes) == 0 {
			c.note("payments", "%d events on %s are not compared: no --rpc names a node of it", log.Events(), network)
			continue
		}
		r := log.Compare(ctx, nodes, signed)
		say := c.ok
		if len(r.Wrong)+len(r.Unknown)+len(r.Stray)+r.Unnamed > 0 {
			say = c.note
		}
		say("payments", "%d of %d events on %s have their transfers, by %d nodes", r.Matched, log.Events(), network, len(nodes))
		if r.Moved > 0 {
			c.note("payments", "%d events on %s name another transaction than the one with their memo or nonce", r.Moved, network)
		}
		if r.Young > 0 {
			c.note("payments", "%d events or transfers on %s are too new to compare", r.Young, network)
		}
		if r.Unnamed > 0 {
			unknown = true
			c.note("payments", "unknown: %d events on %s name no payee, as a ring of an earlier version wrote them", r.Unnamed, network)
		}
		if len(r.Stray) > 0 {
			c.note("payments", "%s USD came in %d transactions on %s that no event names, without a memo or nonce as for this ring: anyone can send money", form.FormatUSD(r.StrayCents), len(r.Stray), network)
		}
		for _, what := range r.Stray[:min(most, len(r.Stray))] {
			c.note("payments", "no event names it: %s: %s", network, what)
		}
		for _, what := range r.Unknown[:min(most, len(r.Unknown))] {
			unknown = true
			c.note("payments", "unknown: %s: %s", network, what)
		}
		for _, what := range r.Wrong[:min(most, len(r.Wrong))] {
			c.fail("payments", errors.New(what))
		}
	}
	switch {
	case c.wrong > 0:
		return coded{c.end(), exitWrong}
	case unknown:
		return errors.New("what is unknown above about payments could not be compared, and nothing was found to be wrong")
	}
	return nil
}

func percent(part, of int64) string {
	return fmt.Sprintf("%d.%d %%", part*100/of, part*1000/of%10)
}

func tellWitnesses(c *checks, by monitor.Cosigned) {
	if len(by.Witnesses) == 0 {
		c.note("witnesses", "none that is known here has cosigned: only the ring's own signature says that this is its one log")
		return
	}
	for _, w := range by.Witnesses {
		c.ok("witnesses", "%s has cosigned %d events, at %s", w.Name, by.Events, w.Time.UTC().Format(time.RFC3339))
	}
}

// read reads a file that is checked without a network, of at most so many bytes, and the policy.
func (v *verifying) read(path string, most int64) (text []byte, policy *tlog.Policy, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	if text, err = io.ReadAll(io.LimitReader(f, most+1)); err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%s has more than the %d bytes that it may have", path, most)
	}
	if err == nil {
		policy, err = readPolicy("--policy", v.policy)
	}
	return text, policy, err
}

// verifiers gives the keys of the log that has signed a checkpoint: those that are given, those of
// the policy, or those that were remembered. It gives none if there are none of these.
func (v *verifying) verifiers(checkpoint []byte, policy *tlog.Policy) (origin string, words []string, err error) {
	origin, _, _ = strings.Cut(string(checkpoint), "\n")
	if words = v.keys; len(words) == 0 && policy != nil {
		words = policy.Logs()
	}
	if len(words) == 0 {
		at, err := v.remembers()
		if err != nil {
			return origin, nil, err
		}
		words, err = at.Keys(origin)
		return origin, words, err
	}
	return origin, words, nil
}

// checkReceipt checks a proof without a network.
func (v *verifying) checkReceipt(out io.Writer) error {
	text, policy, err := v.read(v.receipt, tlog.MaxProof)
	if err != nil {
		return err
	}
	p, err := tlog.ParseProof(text)
	if err != nil {
		return coded{err, exitWrong}
	}
	origin, words, err := v.verifiers(p.Checkpoint, policy)
	if err == nil && len(words) == 0 {
		err = fmt.Errorf("the key of %s is not known here: give it with --origin-key, or verify the ring's URL once", origin)
	}
	if err != nil {
		return err
	}
	keys, err := tlog.Keys(words...)
	if err != nil {
		return err
	}
	r, err := monitor.CheckReceipt(p, keys, policy)
	if err != nil {
		return classed(err)
	}
	c := &checks{out: out}
	c.ok("key", "%s", strings.Join(words, " "))
	c.ok("receipt", "event %d is in the log of %s, of %d events", r.Index, r.At.Origin, r.At.N)
	c.ok("event", "%s", describeEvent(r.Event))
	tellWitnesses(c, r.Cosigned)
	return nil
}

// describeEvent says what an event is about.
func describeEvent(e core.Event) string {
	at := time.UnixMilli(e.When()).UTC().Format(time.RFC3339)
	paid := func(what string, cents int64, by core.Payment) string {
		return fmt.Sprintf("%s, %s USD, paid by %s on %s in transaction %s, at %s", what, form.FormatUSD(cents), by.Payer, by.Network, by.Transaction, at)
	}
	switch e := e.(type) {
	case *core.Joined:
		return paid("member "+e.Slug+" joined", e.Fee+e.Bid, e.Payment)
	case *core.Bid:
		return paid("bid on member "+e.Member, e.Amount, e.Payment)
	case *core.Adjusted:
		return paid("correction for member "+e.Member, e.Amount, e.Payment)
	}
	if slug := core.MemberOf(e); slug != "" {
		return fmt.Sprintf("%T of member %s, at %s", e, slug, at)
	}
	return fmt.Sprintf("%T, at %s", e, at)
}

// checkEvidence checks a contradiction without a network.
func (v *verifying) checkEvidence(out io.Writer) error {
	text, policy, err := v.read(v.evidence, tlog.MaxContradiction)
	if err != nil {
		return err
	}
	e, err := tlog.ParseContradiction(text)
	if err != nil {
		return classed(err)
	}
	origin, words, err := v.verifiers(e.Earlier, policy)
	if err != nil {
		return err
	}
	c := &checks{out: out}
	if len(words) > 0 {
		c.ok("key", "%s", strings.Join(words, " "))
	} else {
		words = e.Keys
		c.note("key", "%s: only the file names it, so compare it with the key of %s", strings.Join(words, " "), origin)
	}
	keys, err := tlog.Keys(words...)
	if err != nil {
		return err
	}
	earlier, later, err := e.Check(keys)
	if err != nil {
		return classed(err)
	}
	c.ok("evidence", "this key signed %d events with the root %s", earlier.N, earlier.Hash)
	if later.N == earlier.N {
		c.ok("evidence", "and %d events with the root %s", later.N, later.Hash)
	} else {
		c.ok("evidence", "and %d events with the root %s, of which the first %d have the root %s", later.N, later.Hash, earlier.N, e.Root)
	}
	c.ok("contradiction", "%s has signed two histories", origin)
	return nil
}

// remembers is where verifications are remembered.
func (v *verifying) remembers() (monitor.Memory, error) {
	if v.memory != "" {
		return monitor.Memory(v.memory), nil
	}
	state := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("nothing is remembered: %w; give --memory", err)
		}
		state = filepath.Join(home, ".local", "state")
	}
	return monitor.Memory(filepath.Join(state, "webring", "verified")), nil
}

// progress prints how far a verification has come, at most once a second.
func progress(w io.Writer) func(events, of uint64) {
	last := time.Now()
	return func(events, of uint64) {
		if time.Since(last) >= time.Second {
			last = time.Now()
			fmt.Fprintf(w, "webring: %d of %d events verified\n", events, of)
		}
	}
}

// inside recomputes everything from the operator's side: of the running origin through its socket,
// of a stopped one or a backup on a copy, so that nothing is changed.
func (v *verifying) inside(words []string, out io.Writer) error {
	switch {
	case len(words) == 1 && v.chain:
		return errors.New("--chain needs the running origin, which knows the payment networks; a backup is verified without it")
	case len(words) == 0:
		path := "/verify"
		if v.chain {
			path += "?chain=yes"
		}
		var found server.Verified
		if err := v.data.ask(http.MethodGet, path, nil, &found); err == nil {
			return report(&found, out)
		} else if !errors.Is(err, errNotRunning) || v.chain {
			return err
		}
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	return onCopy(func(work string, room func() error) (*backup.Books, error) {
		if len(words) == 1 {
			return backup.Unpack(words[0], work, v.capacity, room, log)
		}
		// An origin that starts or stops has no socket, but the lock of the ledger.
		return backup.OpenCopy(string(*v.data), work, v.capacity, log)
	}, func(books *backup.Books) error { return audit(books, out) })
}

// onCopy opens a copy of a ledger in a folder that is removed afterwards, and reads it.
func onCopy(open func(work string, room func() error) (*backup.Books, error), read func(*backup.Books) error) error {
	work, err := os.MkdirTemp("", "webring-verify-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	_, end := removeOnSignal(work)
	defer end()
	room := (&server.Volume{Dir: work}).AtLeast(server.StartFloor)
	if err := room(); err != nil {
		return fmt.Errorf("%w, or have TMPDIR name another folder", err)
	}
	books, err := open(work, room)
	if err != nil {
		return err
	}
	return errors.Join(read(books), books.Close())
}

func audit(books *backup.Books, out io.Writer) error {
	a, err := books.Audit(context.Background())
	if err != nil {
		return err
	}
	return report(&server.Verified{Audit: *a}, out)
}

// errFindings is the error of a verification that found something.
var errFindings = errors.New("what is stored does not agree with itself, or with the chain")

// errUnanswered is the error of one that could not look at everything.
var errUnanswered = errors.New("a payment network that is needed gave no answer, has not decided, or is not configured; verify again when that is put right")

func report(v *server.Verified, out io.Writer) error {
	fmt.Fprintf(out, "%d events, tree %s, %d members joined, paid %s USD, voided %s USD; payments: %d applied, %d open, %d failed; %d events without a stored payment\n",
		v.Events, v.Root, v.Members, form.FormatUSD(v.Paid), form.FormatUSD(v.Voided), v.Applied, v.Open, v.Failed, v.Alone)
	findings := v.Findings
	if v.Chain != nil {
		fmt.Fprintf(out, "%d transactions asked for, %d without an answer\n", v.Chain.Asked, v.Chain.Unknown)
		findings = append(findings, v.Chain.Findings...)
	}
	for _, f := range findings {
		fmt.Fprintln(out, f)
	}
	switch {
	case len(findings) > 0:
		return coded{errFindings, exitWrong}
	case v.Chain != nil && v.Chain.Unknown > 0:
		fmt.Fprintln(out, "what was answered agrees")
		return errUnanswered
	}
	_, err := fmt.Fprintln(out, "everything agrees")
	return err
}
