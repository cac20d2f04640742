package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// table is what was measured.
type table struct {
	Machine     map[string]string `json:"machine"`
	Rounds      int               `json:"rounds"`
	Connections int               `json:"connections"`
	Rows        []*row            `json:"rows"`
	Figures     []*figure         `json:"benchmarks,omitempty"`
}

// row is one question to one server about one size: medians over the rounds.
type row struct {
	Members  int      `json:"members"`
	Server   string   `json:"server"`
	Question string   `json:"question"`
	Like     string   `json:"compared_with,omitempty"` // another question to peers that it is compared with, too; or ""
	Depth    int      `json:"pipelined"`
	Targets  int      `json:"targets"` // how many different requests
	Rate     float64  `json:"requests_per_second"`
	P99      float64  `json:"p99_microseconds"`
	CPU      float64  `json:"cpu_microseconds_per_request"`
	Load     float64  `json:"load_busy"`
	Ratios   []ratio  `json:"ratios,omitempty"`
	taken    []result // of all rounds
}

// ratio relates a row to one of a peer that was asked the same, or the like, in the
// same rounds.
type ratio struct {
	Than string  `json:"than"`
	CPU  float64 `json:"cpu"`
	Rate float64 `json:"rate"`
}

func (t *table) add(members int, q *question, m result) {
	for _, r := range t.Rows {
		if r.Members == members && r.Server == q.server.name && r.Question == q.name && r.Depth == q.depth {
			r.taken = append(r.taken, m)
			return
		}
	}
	t.Rows = append(t.Rows, &row{Members: members, Server: q.server.name, Question: q.name, Like: q.like, Depth: q.depth, Targets: len(q.targets.names), taken: []result{m}})
}

// relate fills in the medians and the ratios.
func (t *table) relate() {
	for _, r := range t.Rows {
		median := func(of func(result) float64) float64 {
			all := make([]float64, len(r.taken))
			for i, m := range r.taken {
				all[i] = of(m)
			}
			slices.Sort(all)
			return all[len(all)/2]
		}
		r.Rate = median(func(m result) float64 { return m.rate })
		r.P99 = median(func(m result) float64 { return float64(m.p99.Microseconds()) })
		r.CPU = median(func(m result) float64 { return m.cpu })
		r.Load = median(func(m result) float64 { return m.load })
	}
	for _, r := range t.Rows {
		for _, than := range t.Rows {
			switch {
			case than.Depth != r.Depth:
			case (r.Server == edge && than.Server == uncounted || r.Server == hopping && than.Server == edge) && than.Members == r.Members && than.Question == r.Question:
				r.Ratios = append(r.Ratios, ratio{than.Server, r.CPU / than.CPU, r.Rate / than.Rate})
				t.Figures = append(t.Figures, counting(r, than))
			case !than.ours() && than.Members == r.Members && (than.Question == r.Like || r.ours() && than.Question == r.Question):
				r.Ratios = append(r.Ratios, ratio{than.Server, r.CPU / than.CPU, r.Rate / than.Rate})
			case r.ours() && than.Server == r.Server && than.Members == 1000 && r.Members > 1000 && than.Question == r.Question:
				r.Ratios = append(r.Ratios, ratio{"itself at 1000", r.CPU / than.CPU, r.Rate / than.Rate})
			}
		}
	}
}

// ours says whether the row is of what is measured, and not of a peer.
func (r *row) ours() bool {
	return r.Server == ring || r.Server == edge || r.Server == uncounted || r.Server == hopping
}

// mostForCounting is how much of a processor an edge that counts may take for an answer, of
// what one takes that counts nothing.
const mostForCounting = 1.03

// counting holds what counting costs against its goal: the median over the rounds, in each
// of which one is asked right after the other.
func counting(r, bare *row) *figure {
	of := make([]float64, min(len(r.taken), len(bare.taken)))
	for i := range of {
		of[i] = r.taken[i].cpu / bare.taken[i].cpu
	}
	slices.Sort(of)
	g := goal{bound: atMost(mostForCounting)}
	return g.figure(reading{fmt.Sprintf("Counting/members=%d", r.Members), "CPU-of-bare", math.Round(1000*of[len(of)/2]) / 1000}, nil)
}

func (t *table) print(out io.Writer) {
	fmt.Fprintf(out, "%s, %s, %s, %s; medians of %d rounds over %d connections, one processor for the server\n",
		t.Machine["processor"], t.Machine["processors"]+" processors", t.Machine["kernel"], t.Machine["go"], t.Rounds, t.Connections)
	fmt.Fprintf(out, "the same answers as constants from fasthttp, net/http and nginx, over as many connections; home against their /next\n"+
		"Redis has the leaderboard as a sorted set, over as many connections, not pipelined: ZREVRANK against detail, ZREVRANGE 0 99 WITHSCORES against top 100; constants of detail are compared with ZREVRANK, too\n"+
		"targets are asked in turn; the origin reads natively, edges through the module; a node keeps answers to some 16000, or 32 MiB of them: with 100000 or more, and for page of 100 with 80000 or more, each answer is made anew; with fewer it is a kept one\n")
	fmt.Fprintf(out, "%8s  %-12s %-9s %5s %8s %10s %10s %8s %5s  %s\n", "members", "question", "server", "pipe", "targets", "requests/s", "p99", "CPU µs", "load", "CPU and rate relative to")
	for _, r := range t.Rows {
		var ratios []string
		for _, x := range r.Ratios {
			ratios = append(ratios, fmt.Sprintf("%s %.2f %.2f", x.Than, x.CPU, x.Rate))
		}
		fmt.Fprintf(out, "%8d  %-12s %-9s %5d %8d %10.0f %10s %8.2f %4.0f%%  %s\n", r.Members, r.Question, r.Server, r.Depth, r.Targets, r.Rate,
			time.Duration(r.P99)*time.Microsecond, r.CPU, 100*r.Load, strings.Join(ratios, "; "))
	}
	if len(t.Figures) > 0 {
		fmt.Fprintln(out, "the project's own benchmarks, and tests that measure edges, each held against its goal")
	}
	for _, f := range t.Figures {
		f.print(out)
	}
}

// print prints the value as the benchmark told it.
func (f *figure) print(out io.Writer) {
	line := fmt.Sprintf("%-30s %12s %-26s %s", f.Benchmark, strconv.FormatFloat(f.Value, 'f', -1, 64), f.Metric, f.Goal)
	if f.OfGoal != 0 {
		line += fmt.Sprintf(": %.2f of it", f.OfGoal)
	}
	if f.Missed {
		line += ", MISSED"
	}
	fmt.Fprintln(out, strings.TrimRight(line, " "))
}

func (t *table) write(file string) error {
	b, err := json.MarshalIndent(t, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(b, '\n'), 0o644)
}

// machine says where this was measured, as far as the system tells.
func machine() map[string]string {
	facts := map[string]string{"go": runtime.Version(), "processor": runtime.GOARCH, "kernel": runtime.GOOS}
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		facts["kernel"] += " " + strings.TrimSpace(string(b))
	}
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil { // the process has one of them
		facts["processors"] = fmt.Sprint(strings.Count("\n"+string(b), "\nprocessor"))
	}
	for file, fields := range map[string]map[string]string{"/proc/cpuinfo": {"model name": "processor"}, "/proc/meminfo": {"MemTotal": "memory"}} {
		b, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(b)) {
			name, value, _ := strings.Cut(line, ":")
			if fact := fields[strings.TrimSpace(name)]; fact != "" {
				facts[fact] = strings.TrimSpace(value)
			}
		}
	}
	return facts
}
