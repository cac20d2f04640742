package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
)

// command is one word after webring.
type command struct {
	name, usage, summary string
	flags                func() *flag.FlagSet
	run                  func(args []string, out io.Writer) error
}

// action runs a command with the words among its arguments.
type action func(words []string, out io.Writer) error

// errUsage is the error of an action that was given other words than it takes.
var errUsage = errors.New("usage")

// worded is a command that takes words between its flags. After the word ahead, the next argument is a
// word even if it begins like a flag.
func worded(name, usage, summary, ahead string, define func(fs *flag.FlagSet) action) command {
	start := func() (*flag.FlagSet, action) {
		fs := flag.NewFlagSet("webring "+name, flag.ContinueOnError)
		return fs, define(fs)
	}
	return command{name, usage, summary,
		func() *flag.FlagSet { fs, _ := start(); return fs },
		func(args []string, out io.Writer) error {
			fs, act := start()
			words, err := parseWords(fs, args, ahead)
			if err == nil {
				err = act(words, out)
			}
			if errors.Is(err, errUsage) {
				err = fmt.Errorf("usage: webring %s", usage)
			}
			return err
		}}
}

func commands() []command {
	return []command{
		{"serve", "serve [flags]", "run the origin: ring, ledger, payments and reads", new(options).flags, serve},
		{"edge", "edge --origin URL --origin-key VERIFIER [flags]", "follow an origin: reads from here, payments passed on", new(edgeOptions).flags, runEdge},
		{"config", "config [serve | edge] [flags]", "print what is in force for an origin or an edge, and where each value is from; secrets are left out", configFlags, printConfig},
		worded("seed", "seed --members N --data DIR [--seed S]", "write a synthetic ledger, for development and measurement only", "", seed),
		worded("score", "score [--json] [--dev --fetch-map HOST=ADDR:PORT] URL", "scan a site and print its readiness report", "", scoreSite),
		worded("members", "members [--data DIR] list | show SLUG | hide SLUG | unhide SLUG | remove SLUG [--redact] [--block] --reason TEXT | --code CODE", "list, show, hide or remove members of the running origin", "", members),
		worded("blocklist", "blocklist [--data DIR] list | add host|payer|word ENTRY --reason TEXT | remove host|payer|word ENTRY", "keep sites, accounts and words out of the ring of the running origin", "", blocklist),
		worded("payments", "payments [--data DIR] list [--all] | show ID|TRANSACTION | gas | scan [--since 30d|INSTANT] | adjust TRANSACTION --credit SLUG | --register JSON | --void [--member SLUG] | --unclaimed --reason TEXT", "look at payments and at the gas they wasted, find money without an event, put one right", "show", payments),
		worded("backup", "backup [--data DIR] FILE", "write ledger and keys of the running origin into a file, while it serves", "", backupOrigin),
		worded("restore", "restore [--data DIR] FILE --from URL | --alone", "make a data folder of a backup, and of what edges have beyond it", "", restoreOrigin),
		worded("cluster", "cluster [--data DIR] init [--force] | status | add NODE | remove NODE | handover [NODE] | key | leave", "run several origins with one ring through etcd: start it, show its state, add or remove nodes, hand over, change the sealing key, return to a single origin", "", runCluster),
		worded("key", "key [--data DIR] next | switch [--now] | new | witness NAME", "change the key with which the running origin signs for edges: announce the next one, or switch to it; new prints a line for a file of secrets, witness the key of a new witness", "", changeKey),
		worded("clock", "clock [--data DIR] back [--reason TEXT] | trust", "after a wrong clock: set the clock of the running origin's ring back; vouch for this machine's", "", changeClock),
		worded("mcp-registry", "mcp-registry --base-url URL --name NAME [--out FILE] [--registry-key FILE]", "print the server.json for the MCP registry, and what proves the domain there", "", registryEntry),
		worded("verify", "verify URL [--save DIR] | --offline DIR | --receipt FILE | --evidence FILE | FILE | [--data DIR] [--chain]", "recompute a ring from its log, by its URL or a saved folder; check a receipt, or evidence of two histories; recompute the running origin, a data folder or a backup", "", verifyRing),
		worded("health", "health [--admin-listen ADDRESS]", "ask a running origin or edge whether it is well; fails if it is not", "", askHealth),
		worded("log-level", "log-level [--data DIR] [debug | info | warn | error]", "change the level of the log of the running origin or edge, or print it", "", changeLogLevel),
		worded("version", "version [--data DIR]", "print versions, and the state of the running origin", "", version),
	}
}

func main() {
	log.SetOutput(packagesLog{os.Stderr})
	collectOften()
	err := run(os.Args[1:], os.Stdout)
	switch {
	case err == nil:
	case errors.Is(err, flag.ErrHelp): // asked for, and printed
	default:
		fmt.Fprintln(os.Stderr, "webring:", err)
		if c, ok := errors.AsType[coded](err); ok {
			os.Exit(c.code)
		}
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	if len(args) == 0 {
		usage(os.Stderr)
		return errors.New("no command given")
	}
	for _, c := range commands() {
		if c.name == args[0] {
			return c.run(args[1:], out)
		}
	}
	switch args[0] {
	case "help", "-h", "-help", "--help":
		if len(args) == 2 && args[1] != "help" && !strings.HasPrefix(args[1], "-") {
			return run([]string{args[1], "--help"}, out)
		}
		usage(out)
		return nil
	}
	return fmt.Errorf("there is no command %q; webring help lists them", args[0])
}

func usage(w io.Writer) {
	fmt.Fprintln(w, "Usage: webring COMMAND")
	for _, c := range commands() {
		fmt.Fprintf(w, "  webring %s\n      %s\n", c.usage, c.summary)
	}
	fmt.Fprintln(w, "webring COMMAND --help lists a command's flags.")
}

// explain prints what a command does, and its flags.
func explain(w io.Writer, fs *flag.FlagSet) {
	name, _, _ := strings.Cut(strings.TrimPrefix(fs.Name(), "webring "), " ")
	for _, c := range commands() {
		if name == c.name {
			fmt.Fprintf(w, "Usage: webring %s\n  %s\n", c.usage, c.summary)
		}
	}
	fmt.Fprintln(w, "Flags, each with the environment variable that sets it too:")
	more := 0
	fs.VisitAll(func(f *flag.Flag) {
		if strings.HasPrefix(f.Usage, fileOnly) {
			more++
			return
		}
		if f.Name == confirmFlag {
			return
		}
		value, text := flag.UnquoteUsage(f)
		fmt.Fprintf(w, "  %s\n      %s [%s]", strings.TrimSpace("--"+f.Name+" "+value), text, variable(f.Name))
		switch f.DefValue {
		case "", "0", "false":
		default:
			fmt.Fprintf(w, " (default %s)", f.DefValue)
		}
		fmt.Fprintln(w)
	})
	if fs.Lookup(confirmFlag) != nil {
		fmt.Fprintln(w, "Once: --confirm WHAT, for what a start refuses unless you confirm it. The refusal says when.")
	}
	if more > 0 {
		fmt.Fprintf(w, "%d more settings are keys of the file that --config names, and variables: webring config prints them, and the handbook explains them.\n", more)
	}
}
