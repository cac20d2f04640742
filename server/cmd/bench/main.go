// Command bench measures what answers cost: those of the ring, of sizes from ten
// members to a million, and of an edge that follows it, against servers that answer
// constants with the same header fields and bodies, and against Redis, which is
// asked the same questions about the same leaderboard. `make bench` runs it.
//
// Requests are about each member in turn, up to 262144 of them. So in a large ring the
// cache has no answer that is asked for, and what is measured is how answers are made. A
// small ring is asked the same again, and answers from the cache.
//
// Servers have one processor and the load another, so it needs two and the
// program taskset; nginx and redis-server are measured where they are installed.
// Every server of a size is asked in turn, in several rounds; the table has
// medians over the rounds, each with its ratio to a peer of the same rounds.
//
// Then the project's own benchmarks are run, and tests that measure edges, and
// their figures are further lines of the table, each with its goal. The table is
// also written as JSON. Everything stays on the loopback interface.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// The processors that servers and load are held to.
const (
	serverCPU = "0"
	loadCPU   = "1"
)

// pinned marks the process that runs on the processor of the load.
const pinned = "WEBRING_BENCH_PINNED"

type options struct {
	webring, nginx, redis, gocmd, data, json string
	sizes                                    []int // numbers of members
	rounds                                   int
	conns, depth                             int
	each                                     time.Duration
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 4 && args[0] == "constant" {
		return constant(args[1], args[2], args[3])
	}
	o := options{sizes: []int{10, 1000, 100_000, 1_000_000}}
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.StringVar(&o.webring, "webring", "bin/webring", "`binary` that is measured")
	fs.StringVar(&o.nginx, "nginx", "nginx", "`binary` of nginx; left out when it is not there")
	fs.StringVar(&o.redis, "redis", "redis-server", "`binary` of Redis; left out when it is not there")
	fs.StringVar(&o.gocmd, "go", "go", "`binary` that runs the project's own benchmarks, in its folder; empty to leave these out")
	fs.StringVar(&o.data, "data", "bin/rings", "`folder` for synthetic ledgers, kept for the next time")
	fs.StringVar(&o.json, "json", "bin/bench.json", "`file` for the table as JSON")
	fs.Func("members", "`numbers` of members, separated by commas (default 10,1000,100000,1000000)", func(v string) error {
		o.sizes = nil
		for word := range strings.SplitSeq(v, ",") {
			n, err := strconv.Atoi(word)
			if err != nil || n < 1 {
				return fmt.Errorf("%q is no number of members", word)
			}
			o.sizes = append(o.sizes, n)
		}
		return nil
	})
	fs.IntVar(&o.rounds, "rounds", 5, "`number` of rounds")
	fs.IntVar(&o.conns, "conns", 32, "`number` of connections")
	fs.IntVar(&o.depth, "depth", 16, "`number` of requests under way on each when pipelined")
	fs.DurationVar(&o.each, "time", time.Second, "`time` for which a question is asked at a time")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if os.Getenv(pinned) == "" {
		for _, members := range o.sizes {
			if err := seed(&o, members); err != nil {
				return err
			}
		}
		return pin(args)
	}
	return measure(&o)
}

// pin runs this command again on the processor of the load.
func pin(args []string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command("taskset", append([]string{"-c", loadCPU, self}, args...)...)
	cmd.Env = append(os.Environ(), pinned+"=1", "GOMAXPROCS=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}

func measure(o *options) error {
	t := table{Machine: machine(), Rounds: o.rounds, Connections: o.conns}
	for _, members := range o.sizes {
		if err := measureSize(o, members, &t); err != nil {
			return fmt.Errorf("%d members: %w", members, err)
		}
	}
	t.relate()
	var failed error
	if o.gocmd != "" {
		failed = t.benchmarks(o)
	}
	t.print(os.Stdout)
	return errors.Join(failed, t.write(o.json))
}

// measureSize asks everything about a ring of one size.
func measureSize(o *options, members int, t *table) error {
	dir, err := os.MkdirTemp("", "webring-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := &bench{o: o, dir: dir, members: members, data: o.ring(members)}
	defer b.stop()
	if err := b.start(); err != nil {
		return err
	}
	for range o.rounds {
		for _, q := range b.questions {
			m, err := q.ask(o)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", q.server.name, q.name, err)
			}
			t.add(members, q, m)
		}
	}
	return nil
}

// ring is the folder of the ring of this size.
func (o *options) ring(members int) string { return filepath.Join(o.data, strconv.Itoa(members)) }

// seed makes the synthetic ledger unless it was made before.
func seed(o *options, members int) error {
	if _, err := os.Stat(filepath.Join(o.ring(members), "head")); err == nil {
		return nil
	}
	cmd := exec.Command(o.webring, "seed", "--members", fmt.Sprint(members), "--data", o.ring(members))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}
