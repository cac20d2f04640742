package deploy

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Prometheus takes the rules, and each alert is raised by what it is for.
func TestAlerts(t *testing.T) {
	t.Parallel()
	promtool := tool(t, "promtool", "prometheus")
	for _, args := range [][]string{{"check", "rules", "alerts.yml"}, {"test", "rules", "alerts_test.yml"}, {"check", "config", "prometheus.yml"}} {
		cmd := exec.Command(promtool, args...)
		cmd.Dir = "prometheus"
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "SUCCESS") {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// Each alert has a test, says how urgent it is, and leads to its own part of the handbook,
// which explains no others.
func TestEveryAlertIsInTheHandbook(t *testing.T) {
	t.Parallel()
	read := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	rules, tests, handbook := read("prometheus/alerts.yml"), read("prometheus/alerts_test.yml"), read("../HANDBOOK.md")
	_, part, found := strings.Cut(handbook, "\n## Every alert\n")
	if !found {
		t.Fatal("the handbook has no part about alerts")
	}
	part, _, _ = strings.Cut(part, "\n## ")
	var explained []string
	for _, m := range regexp.MustCompile(`(?m)^### (\S+)$`).FindAllStringSubmatch(part, -1) {
		explained = append(explained, m[1])
	}
	var alerts []string
	for _, rule := range strings.Split(rules, "- alert: ")[1:] {
		name, _, _ := strings.Cut(rule, "\n")
		alerts = append(alerts, name)
		if !regexp.MustCompile(`severity: (page|ticket)\n`).MatchString(rule) {
			t.Errorf("%s does not say how urgent it is", name)
		}
		if !strings.Contains(rule, "runbook: server/HANDBOOK.md#"+strings.ToLower(name)+"\n") {
			t.Errorf("%s does not lead to its part of the handbook", name)
		}
		if !regexp.MustCompile(`alertname: ` + name + `\n +eval_time: \S+\n +exp_alerts:`).MatchString(tests) {
			t.Errorf("no test raises %s", name)
		}
	}
	if len(alerts) < 15 || !slices.Equal(alerts, explained) {
		t.Errorf("alerts: %v\nin the handbook: %v", alerts, explained)
	}
}
