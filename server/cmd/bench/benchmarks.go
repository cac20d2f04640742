package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// program is benchmarks of the project itself, or a test that prints figures as
// they do, and which of them go into the table.
type program struct {
	alone bool // on one processor: what is measured is then all that it takes
	args  []string
	goals []goal
}

// goal is what a figure is held against.
type goal struct {
	benchmark string // without "Benchmark"; of one that ends in a slash all below it
	metric    string
	bound     bound
}

type bound struct {
	word  string // "" when the figure is only told
	value float64
	than  string // a benchmark that the figure is only related to
}

func atMost(v float64) bound      { return bound{word: "at most", value: v} }
func atLeast(v float64) bound     { return bound{word: "at least", value: v} }
func than(benchmark string) bound { return bound{than: benchmark} }

var told bound

// programs are run after the servers were measured. Rings is the folder that those
// had theirs from.
func programs(rings string) []program {
	edges := func(test string, args ...string) []string {
		return append([]string{"-count", "1", "-v", "-run", test, "./server/cmd/webring", "-edge-rings", rings}, args...)
	}
	benchmarks := func(which, where string) []string {
		return []string{"-run", "^$", "-bench", which, "-benchtime", "1x", where}
	}
	return []program{
		{alone: true, args: benchmarks("^Benchmark(Call|Scale)$", "./wasm/host"), goals: []goal{
			{"Call/", "native-ns/call", told}, {"Call/", "wasm-ns/call", told}, {"Call/", "host-allocs/call", atMost(0)},
			{"Call/1000000/next/anew", "wasm-ns/call", than("Call/1000/next/anew")},
			{"Call/1000000/api-next/anew", "wasm-ns/call", than("Call/1000/api-next/anew")},
			{"Call/1000000/widget/anew", "wasm-ns/call", than("Call/1000/widget/anew")},
			{"Call/1000000/detail/anew", "wasm-ns/call", than("Call/1000/detail/anew")},
			{"Call/1000000/leaderboard/anew", "wasm-ns/call", than("Call/1000/leaderboard/anew")},
			{"Scale", "shared-B/member", atMost(300)}, {"Scale", "fresh-B/member", atMost(64)}, {"Scale", "worn-B/member", atMost(64)},
			{"Scale", "second-p99-µs", atMost(500)}, {"Scale", "second-p99-µs-cpu", atMost(500)},
			{"Scale", "sort/native-second", atLeast(50)}, {"Scale", "hour-ms", atMost(500)},
			{"Scale", "bid-p99-µs", atMost(20)}, {"Scale", "bid-p99-µs-cpu", atMost(20)},
			{"Scale", "join-p99-µs", atMost(20)}, {"Scale", "join-p99-µs-cpu", atMost(20)},
			{"Scale", "join-longest-µs-cpu", told},
			{"Scale", "bid-p50-µs", told}, {"Scale", "join-p50-µs", told},
		}},
		// The module's code cannot be interrupted: on one processor no request would come
		// while it runs.
		{args: benchmarks("^BenchmarkScaleWaits$", "./wasm/host"), goals: []goal{
			// What an answer took, which the machine has a part in, and what of that was
			// due to work.
			{"ScaleWaits", "still-longest-µs", told}, {"ScaleWaits", "still-over-1ms", told},
			{"ScaleWaits", "wait-longest-µs", told}, {"ScaleWaits", "wait-over-1ms", told},
			{"ScaleWaits", "still-due-longest-µs", atMost(1000)}, {"ScaleWaits", "still-due-over-1ms", atMost(0)},
			{"ScaleWaits", "wait-due-longest-µs", atMost(1000)}, {"ScaleWaits", "wait-due-over-1ms", atMost(0)}, {"ScaleWaits", "wait-answers", told},
		}},
		{args: benchmarks("^BenchmarkWorst$", "./core"), goals: []goal{
			{"Worst", "in-one-second", atMost(3)}, {"Worst", "whale", atMost(3)}, {"Worst", "one-host", atMost(3)},
			{"Worst", "alike", atMost(3)}, {"Worst", "colliding", atMost(3)},
		}},
		{alone: true, args: benchmarks("^BenchmarkCount$", "./edge/hops"), goals: []goal{
			{"Count/", "ns/hop", atMost(100)}, // a hop takes 5 µs or more
		}},
		{args: benchmarks("^BenchmarkSlowCommits$", "./server/ledger/badgerstore"), goals: []goal{
			{"SlowCommits", "bids/s-settlement-stubbed", atLeast(2000)},
		}},
		// Nodes, members of etcd and payers share this machine, so what a bid takes of its
		// processors bounds bids/s, too.
		{args: benchmarks("^BenchmarkBids$", "./server/ledger/cluster"), goals: []goal{
			{"Bids", "bids/s", atLeast(2000)}, {"Bids", "bid-ms", told}, {"Bids", "bid-p99-ms", told}, {"Bids", "commit-ms", atMost(12)},
			{"Bids", "etcd-MiB", atMost(400)}, {"Bids", "database-MiB", told},
			{"Bids", "node-µs-cpu", told}, {"Bids", "etcd-µs-cpu", told}, {"Bids", "groups/s", told}, {"Bids", "committing-%", told},
		}},
		{args: edges("^TestARingOutlivesItsMachines$", "-failover.rounds", "50"), goals: []goal{
			{"Failover/kill/members=3", "median-ms", told}, {"Failover/kill/members=3", "worst-ms", atMost(5000)},
			{"Failover/paid-after-kill/members=3", "median-ms", told}, {"Failover/paid-after-kill/members=3", "worst-ms", told},
			{"Failover/handover/members=3", "median-ms", told}, {"Failover/handover/members=3", "worst-ms", atMost(1000)},
		}},
		{args: edges("^TestAnEdgeStartsSoon$", "-edge-members", "100000"), goals: []goal{
			{"EdgeStart/members=100000", "empty-ms", atMost(3000)}, {"EdgeStart/members=100000", "network-ms", atMost(3000)},
			{"EdgeStart/members=100000", "disk-ms", atMost(1000)}, {"EdgeStart/members=100000", "disk-MiB", told},
			{"EdgeStart/members=100000", "snapshot-B", told},
		}},
		{args: edges("^TestAnEdgeStartsSoon$", "-edge-members", "1000000"), goals: []goal{
			{"EdgeStart/members=1000000", "empty-ms", told}, {"EdgeStart/members=1000000", "network-ms", told},
			{"EdgeStart/members=1000000", "disk-ms", atMost(1500)}, {"EdgeStart/members=1000000", "disk-MiB", told},
			{"EdgeStart/members=1000000", "snapshot-B", told},
		}},
		{args: edges("^TestPayersReadTheirOwnWritesAtEveryEdge$", "-edge-ring", "1000000", "-edge-payers", "2", "-edge-payments", "50"), goals: []goal{
			{"Visible/members=1000000", "median-ms", told}, {"Visible/members=1000000", "p99-ms", atMost(50)}, {"Visible/members=1000000", "payments", told},
		}},
	}
}

// figure is one of a benchmark.
type figure struct {
	Benchmark string  `json:"benchmark"`
	Metric    string  `json:"metric"`
	Value     float64 `json:"value"`
	Goal      string  `json:"goal,omitempty"` // or what it is related to
	// OfGoal is the value divided by that of the goal, unless this is 0.
	OfGoal float64 `json:"of_goal,omitempty"`
	Missed bool    `json:"missed,omitempty"`
}

// benchmarks runs the programs and adds their figures to the table. It runs them
// all, and then fails if any did. One that lacks something here says what it is.
func (t *table) benchmarks(o *options) error {
	rings, err := filepath.Abs(o.data)
	if err != nil {
		return err
	}
	var failed []string
	for _, p := range programs(rings) {
		fmt.Fprintf(os.Stderr, "go test %s\n", strings.Join(p.args, " "))
		// This process is held to one processor, which is too little for what has
		// two sides.
		cmd := exec.Command("taskset", append([]string{"-c", serverCPU + "," + loadCPU, o.gocmd, "test"}, p.args...)...)
		cmd.Env = append(os.Environ(), "GOMAXPROCS=") // as many as there are
		if p.alone {
			cmd.Env = append(cmd.Env, "GOMAXPROCS=1")
		}
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		figures, missing := p.figures(out)
		t.Figures = append(t.Figures, figures...)
		if err == nil && len(missing) > 0 && !bytes.Contains(out, []byte("--- SKIP: ")) {
			err = fmt.Errorf("it does not tell %s", strings.Join(missing, ", "))
		}
		if err != nil {
			failed = append(failed, fmt.Sprintf("go test %s: %v", strings.Join(p.args, " "), err))
		}
		if err != nil || len(missing) > 0 {
			fmt.Fprintf(os.Stderr, "%s", out)
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("of the project's own benchmarks:\n%s", strings.Join(failed, "\n"))
	}
	return nil
}

// figures gives those of a program's output that it has goals for, in their order,
// and names the goals that there is none for.
func (p *program) figures(out []byte) (all []*figure, missing []string) {
	results := readings(string(out))
	for _, g := range p.goals {
		var of []reading
		for _, r := range results {
			below := strings.HasSuffix(g.benchmark, "/") && strings.HasPrefix(r.benchmark, g.benchmark)
			if r.metric == g.metric && (r.benchmark == g.benchmark || below) {
				of = append(of, r)
			}
		}
		if len(of) == 0 {
			missing = append(missing, g.benchmark+" "+g.metric)
		}
		if len(of) > 1 && g.bound == atMost(0) { // the worst tells of all
			worst := slices.MaxFunc(of, func(a, b reading) int { return cmp.Compare(a.value, b.value) })
			of = []reading{{g.benchmark, g.metric, worst.value}}
		}
		for _, r := range of {
			all = append(all, g.figure(r, results))
		}
	}
	return all, missing
}

// reading is one value of one benchmark.
type reading struct {
	benchmark, metric string
	value             float64
}

// processors is what the name of a benchmark ends in when it ran on several.
var processors = regexp.MustCompile(`-\d+$`)

// readings reads the lines of go.dev/design/14313-benchmark-format: a name, how
// often it ran, and values with their units. golang.org/x/perf/benchfmt reads them,
// too, but tells as seconds what is told in ns, and brings modules that raise
// versions of what the ring itself is built of.
func readings(out string) (all []reading) {
	for line := range strings.Lines(out) {
		words := strings.Fields(line)
		if len(words) < 4 || len(words)%2 != 0 {
			continue
		}
		name, ok := strings.CutPrefix(words[0], "Benchmark")
		for i := 2; ok && i < len(words); i += 2 {
			value, err := strconv.ParseFloat(words[i], 64)
			if ok = err == nil; ok {
				all = append(all, reading{processors.ReplaceAllString(name, ""), words[i+1], value})
			}
		}
	}
	return all
}

// figure holds a reading against the goal; others are those it may be related to.
func (g *goal) figure(r reading, others []reading) *figure {
	f := &figure{Benchmark: r.benchmark, Metric: r.metric, Value: r.value}
	against := g.bound.value
	switch {
	case g.bound.than != "":
		for _, o := range others {
			if o.benchmark == g.bound.than && o.metric == r.metric {
				f.Goal, against = fmt.Sprintf("%v in %s", o.value, o.benchmark), o.value
			}
		}
	case g.bound.word != "":
		f.Goal = fmt.Sprintf("%s %v", g.bound.word, against)
		f.Missed = r.value > against
		if g.bound.word == atLeast(0).word {
			f.Missed = r.value < against
		}
	}
	if against != 0 {
		f.OfGoal = r.value / against
	}
	return f
}
