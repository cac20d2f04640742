package main

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"webring/edge"
	"webring/server"
	"webring/server/admin"
)

// exportedMetrics gives the project's metrics by name, with their labels in order, of an
// origin and of an edge.
func exportedMetrics(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	take := func(text string, form *regexp.Regexp) {
		for _, m := range form.FindAllStringSubmatch(text, -1) {
			var labels []string
			for label := range strings.SplitSeq(m[2], ",") {
				name, _, _ := strings.Cut(label, "=")
				labels = append(labels, name)
			}
			slices.Sort(labels)
			all[m[1]] = strings.Join(labels, ",")
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := admin.Serve([]net.Listener{l}, admin.Build{Version: "v", Revision: "r"}, slog.New(slog.DiscardHandler))
	defer s.Close()
	res, err := http.Get("http://" + s.Addr() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	take(string(text), regexp.MustCompile(`(?m)^(webring_\w+)(?:\{(.*)\})? `))
	shell, err := edge.New(edge.Config{Core: struct{ edge.Core }{}, Count: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range append(admin.NewCounters().All(), &admin.Origin{}, shell.Metrics(), new(admin.Traps).Metric(), new(admin.Edge), admin.Certificates{}, new(server.Node), server.WitnessMetrics{}) {
		descs := make(chan *prometheus.Desc, 100)
		c.Describe(descs)
		close(descs)
		for d := range descs {
			take(d.String(), regexp.MustCompile(`fqName: "(\w+)".*variableLabels: \{(.*)\}\}`))
		}
	}
	return all
}

// TestMetricsAreInTheHandbook holds what processes export against the handbook, which has
// each with its labels and no other, and against the alerts, which ask for no other.
func TestMetricsAreInTheHandbook(t *testing.T) {
	t.Parallel()
	exported := exportedMetrics(t)
	read := func(path string) string {
		t.Helper()
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	_, part, _ := strings.Cut(read("../../HANDBOOK.md"), "\n### Metrics\n")
	part, _, _ = strings.Cut(part, "\n## ")
	described := map[string]bool{}
	for _, m := range regexp.MustCompile("`(webring_\\w+)(?:\\{([a-z,]+)\\})?`").FindAllStringSubmatch(part, -1) {
		labels := strings.Split(m[2], ",")
		slices.Sort(labels)
		described[m[1]] = true
		if has, is := exported[m[1]]; !is || has != strings.Join(labels, ",") {
			t.Errorf("the handbook has %s, and exported is {%s} (%t)", m[0], has, is)
		}
	}
	for name := range exported {
		if !described[name] {
			t.Errorf("the handbook does not have %s", name)
		}
	}
	asked := regexp.MustCompile(`webring_\w+`).FindAllString(read("../../deploy/prometheus/alerts.yml"), -1)
	for _, name := range asked {
		for _, of := range []string{"_bucket", "_count", "_sum"} {
			name = strings.TrimSuffix(name, of)
		}
		if _, is := exported[name]; !is {
			t.Errorf("an alert asks for %s, which nothing exports", name)
		}
	}
	if len(exported) < 25 || len(asked) < 20 {
		t.Errorf("%d are exported, alerts ask for %d", len(exported), len(asked))
	}
}
