// Command bench measures what an answer costs: the ring's /next, with all that
// stands around it, against servers that answer a constant redirect with the
// same header fields and body. `make bench` runs it.
//
// Servers have one processor and the load another, so it needs two and the
// program taskset. In each round every server is asked for a few seconds, first
// one request at a time on each connection, then many; what is printed are
// medians over the rounds. Everything stays on the loopback interface.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
	webring, nginx, data string
	members, rounds      int
	conns, depth         int
	each                 time.Duration
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
	var o options
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.StringVar(&o.webring, "webring", "bin/webring", "`binary` that is measured")
	fs.StringVar(&o.nginx, "nginx", "nginx", "`binary` of nginx; left out when it is not there")
	fs.StringVar(&o.data, "data", "bin/rings", "`folder` for the synthetic ledger, kept for the next time")
	fs.IntVar(&o.members, "members", 100_000, "`number` of members")
	fs.IntVar(&o.rounds, "rounds", 5, "`number` of rounds")
	fs.IntVar(&o.conns, "conns", 32, "`number` of connections")
	fs.IntVar(&o.depth, "depth", 16, "`number` of requests under way on each when pipelined")
	fs.DurationVar(&o.each, "time", 3*time.Second, "`time` for which a server is asked at a time")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if os.Getenv(pinned) == "" {
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
	dir, err := os.MkdirTemp("", "webring-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := seed(o); err != nil {
		return err
	}
	servers, err := start(o, dir)
	defer func() {
		for _, s := range servers {
			s.stop()
		}
	}()
	if err != nil {
		return err
	}
	var rows []row
	for range o.rounds {
		for _, s := range servers {
			for _, depth := range []int{1, o.depth} {
				m, err := s.ask(o, depth)
				if err != nil {
					return fmt.Errorf("%s: %w", s.name, err)
				}
				rows = append(rows, row{server: s.name, depth: depth, measured: m})
			}
		}
	}
	report(servers, rows, o.depth)
	return nil
}

// seed makes the synthetic ledger unless it was made before.
func seed(o *options) error {
	if _, err := os.Stat(filepath.Join(o.data, "head")); err == nil {
		return nil
	}
	cmd := exec.Command(o.webring, "seed", "--members", fmt.Sprint(o.members), "--data", o.data)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}

// row is what one server did in one round.
type row struct {
	server string
	depth  int
	measured
}

// report prints medians, and the ratios that the ring is to reach.
func report(servers []*server, rows []row, depth int) {
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	median := func(server string, depth int, of func(measured) float64) float64 {
		var all []float64
		for _, r := range rows {
			if r.server == server && r.depth == depth {
				all = append(all, of(r.measured))
			}
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	rate := func(m measured) float64 { return m.rate }
	cpu := func(m measured) float64 { return m.cpu }
	fmt.Fprintf(out, "%-10s %9s %12s %12s %16s %11s\n", "server", "pipelined", "requests/s", "p99", "CPU µs/request", "load busy")
	for _, d := range []int{1, depth} {
		for _, s := range servers {
			fmt.Fprintf(out, "%-10s %9d %12.0f %12s %16.2f %10.0f%%\n", s.name, d, median(s.name, d, rate),
				time.Duration(median(s.name, d, func(m measured) float64 { return float64(m.p99) })).Round(time.Microsecond),
				median(s.name, d, cpu), 100*median(s.name, d, func(m measured) float64 { return m.load }))
		}
	}
	for _, goal := range []struct {
		than      string
		cpu, rate float64
	}{{"fasthttp", 1.15, 0.65}, {"nginx", 1.3, 1.3}} {
		if !slices.ContainsFunc(servers, func(s *server) bool { return s.name == goal.than }) {
			fmt.Fprintf(out, "%s was not measured\n", goal.than)
			continue
		}
		fmt.Fprintf(out, "against %s: CPU per request %.2f (goal: at most %.2f), pipelined throughput %.2f (goal: at least %.2f)\n", goal.than,
			median("webring", 1, cpu)/median(goal.than, 1, cpu), goal.cpu,
			median("webring", depth, rate)/median(goal.than, depth, rate), goal.rate)
	}
}
