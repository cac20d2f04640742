package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"webring/server/admin"
	"webring/server/devchain"
	"webring/server/devchain/faults"
)

var watchedLine = regexp.MustCompile(`(?m)^webring is watched at (\S+)$`)

// watched asks the second listener, which the process has said that it has.
func (o *origin) watched(path string) (status int, body string, err error) {
	at := watchedLine.FindStringSubmatch(o.log.String())
	if at == nil {
		return 0, "", fmt.Errorf("nothing is watched:\n%s", o.log)
	}
	res, err := noRedirects.Get("http://" + at[1] + path)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res.StatusCode, string(b), err
}

// readiness is what /readyz says, and its rows by name.
func (o *origin) readiness() (ready bool, rows map[string]admin.Row) {
	o.t.Helper()
	status, body, err := o.watched("/readyz")
	var r admin.Readiness
	if err == nil {
		err = json.Unmarshal([]byte(body), &r)
	}
	if err != nil || r.Ready != (status == http.StatusOK) || !r.Ready && status != http.StatusServiceUnavailable {
		o.t.Fatalf("readiness: status %d, %v: %s", status, err, body)
	}
	rows = map[string]admin.Row{}
	for _, row := range r.Checks {
		rows[row.Name] = row
	}
	return r.Ready, rows
}

// scrape gives the samples by their names with labels, as they stand there.
func (o *origin) scrape() map[string]float64 {
	o.t.Helper()
	status, body, err := o.watched("/metrics")
	if err != nil || status != http.StatusOK {
		o.t.Fatalf("metrics: status %d, %v: %s", status, err, body)
	}
	samples := map[string]float64{}
	for line := range strings.Lines(body) {
		if at := strings.LastIndexByte(line, ' '); at > 0 && line[0] != '#' {
			v, err := strconv.ParseFloat(strings.TrimSpace(line[at:]), 64)
			if err != nil {
				o.t.Fatalf("%q: %v", line, err)
			}
			samples[line[:at]] = v
		}
	}
	return samples
}

// promtool has Prometheus look over the metrics.
func (o *origin) promtool() {
	o.t.Helper()
	tool, err := exec.LookPath("promtool")
	if err != nil {
		o.t.Log("the metrics are not held to Prometheus's rules: promtool is not there; apt-get install prometheus")
		return
	}
	_, body, err := o.watched("/metrics")
	if err != nil {
		o.t.Fatal(err)
	}
	check := exec.Command(tool, "check", "metrics")
	check.Stdin = strings.NewReader(body)
	if said, err := check.CombinedOutput(); err != nil || len(bytes.TrimSpace(said)) > 0 {
		o.t.Errorf("promtool check metrics: %v\n%s", err, said)
	}
}

// TestAnOriginIsWatched reads what the second listener tells of payments and reads, of
// strangers, of a chain that stands still, and of a stop.
func TestAnOriginIsWatched(t *testing.T) {
	t.Parallel()
	c, _ := chain(t)
	proxy, err := faults.New(c.RPC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	o := start(t, "--core", "native", "--tempo-rpc", proxy.URL)
	if status, body, err := o.watched("/healthz"); err != nil || status != http.StatusOK || body != "ok\n" {
		t.Errorf("health: status %d, %v: %s", status, err, body)
	}
	network := "tempo:" + strconv.Itoa(devchain.ChainID)
	eventually(t, "readiness", time.Minute, func() bool { ready, _ := o.readiness(); return ready })
	_, rows := o.readiness()
	for _, name := range []string{"ledger", "disk", "clock", "chain:" + network} {
		if !rows[name].OK || rows[name].Detail == "" {
			t.Errorf("%s: %+v", name, rows[name])
		}
	}

	ada := o.join("Ada", "agent", "1.00")
	o.confirmed()
	if p := o.pay(wallet(t), "/api/bid", `{"member":"ada","amount":"2.00"}`); p.Status != http.StatusOK {
		t.Fatalf("%d %s", p.Status, p.Body)
	}
	o.post("/api/bid", `{"member":"ada","amount":"2.00"}`, "Authorization", o.sign(wallet(t), "/api/bid", `{"member":"ada","amount":"3.00"}`))
	for range 3 {
		o.get("/next?from=" + ada)
		o.get("/api/ring/" + ada)
		o.get("/api/ring/nobody")
	}
	all := o.scrape()
	for name, want := range map[string]float64{
		`webring_payments_total{method="tempo",operation="register",outcome="applied"}`: 1,
		`webring_payments_total{method="tempo",operation="bid",outcome="applied"}`:      1,
		`webring_payments_total{method="tempo",operation="bid",outcome="refused"}`:      1,
		`webring_payments_total{method="tempo",operation="bid",outcome="failed"}`:       0,
		`webring_payment_duration_seconds_count{operation="bid"}`:                       1,
		`webring_requests_total{route="/api/ring/{slug}",status="404"}`:                 3,
		`webring_requests_total{route="/api/register",status="201"}`:                    1,
		`webring_requests_total{route="/next",status="302"}`:                            3,
		`webring_request_duration_seconds_count{route="/next"}`:                         3,
		`webring_members`: 1, `webring_reservations_open`: 0, `webring_reservation_oldest_age_seconds`: 0,
		`webring_payments_need_attention`: 0, `webring_gas_wasted_last_hour`: 0, `webring_core_traps_total`: 0,
		`webring_chain_up{network="` + network + `"}`:        1,
		`webring_ready_check{check="chain:` + network + `"}`: 1, `webring_ready`: 1,
		// The rules, payees, a snapshot, the member, its bid.
		`webring_ledger_sequence`: 5, `webring_ledger_commits_total{outcome="failed"}`: 0,
		`webring_limiter_refusals_total{reason="client"}`: 0,
	} {
		if got, there := all[name]; !there || got != want {
			t.Errorf("%s is %v (%t), want %v", name, got, there, want)
		}
	}
	for _, name := range []string{"webring_ledger_commit_duration_seconds_count", `webring_ledger_commits_total{outcome="stored"}`,
		`webring_scorer_asks_total{outcome="scored"}`, "webring_cache_hits_total", "webring_cache_misses_total", "webring_disk_free_bytes", "go_goroutines",
		"process_cpu_seconds_total"} {
		if all[name] <= 0 {
			t.Errorf("%s is %v", name, all[name])
		}
	}
	if age := all[`webring_chain_head_age_seconds{network="`+network+`"}`]; age < -5 || age > 30 {
		t.Errorf("the newest block is %v s old", age)
	}
	// What alerts look at is there, but for what others have: edges, clusters, witnesses, listeners with TLS.
	alerts, err := os.ReadFile("../../deploy/prometheus/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range regexp.MustCompile(`\b(?:webring|process)_\w+`).FindAllString(string(alerts), -1) {
		if !regexp.MustCompile(`^webring_(replica|cluster|witnessed|certificate|ready_check)`).MatchString(name) &&
			!slices.ContainsFunc(keys(all), func(s string) bool { return s == name || strings.HasPrefix(s, name+"{") }) {
			t.Errorf("an alert looks at %s, which no origin has", name)
		}
	}
	if !slices.ContainsFunc(keys(all), func(s string) bool { return strings.HasPrefix(s, "webring_build_info{") }) {
		t.Error("nothing says what is running")
	}

	// Strangers make no names.
	before := len(all)
	for i := range 60 {
		path := []string{"/made-up-%d", "/api/ring/a/%d", "/members/x/%d", "/%%2e/%d", "/static/%d.js", "/api/ring/x%d"}[i%6]
		o.send([]string{"GET", "BREW", "PUT", "OPTIONS"}[i%4], fmt.Sprintf(path, i), nil)
	}
	all = o.scrape()
	for name := range all {
		if route := regexp.MustCompile(`route="([^"]*)"`).FindStringSubmatch(name); route != nil && strings.ContainsAny(route[1], "0123456789") {
			t.Errorf("a stranger has made %s", name)
		}
	}
	if more := len(all) - before; more > 40 {
		t.Errorf("sixty odd requests have made %d samples", more)
	}
	o.promtool()

	// The chain is frozen, and no payment comes.
	const stands, again = "payment network stands still", "payment network makes blocks again"
	proxy.Follow(faults.On("eth_getBlockByNumber", faults.Frozen))
	frozen := time.Now()
	eventually(t, "a frozen chain", 15*time.Second, func() bool { ready, _ := o.readiness(); return !ready })
	t.Logf("a chain that stands still is noticed after %s", time.Since(frozen).Round(100*time.Millisecond))
	if _, rows := o.readiness(); rows["chain:"+network].OK || !strings.Contains(rows["chain:"+network].Detail, "stands still") || !rows["ledger"].OK {
		t.Errorf("%+v", rows)
	}
	if all := o.scrape(); all[`webring_chain_up{network="`+network+`"}`] != 0 || all[`webring_chain_head_age_seconds{network="`+network+`"}`] < 7 {
		t.Errorf("up %v, head %v s", all[`webring_chain_up{network="`+network+`"}`], all[`webring_chain_head_age_seconds{network="`+network+`"}`])
	}
	proxy.Follow(faults.Pass)
	eventually(t, "a chain that goes on", 30*time.Second, func() bool { ready, _ := o.readiness(); return ready })
	eventually(t, "a line about its return", longEnough, func() bool { return strings.Contains(o.log.String(), again) })
	for _, line := range []string{stands, again} {
		if n := strings.Count(o.log.String(), line); n != 1 {
			t.Errorf("the log says %d times %s", n, line)
		}
	}

	// One wrong block time is not believed, and forgotten.
	proxy.Follow(faults.On("eth_getBlockByNumber", faults.Ahead))
	eventually(t, "a block time that is not believed", longEnough, func() bool { ready, _ := o.readiness(); return !ready })
	proxy.Follow(faults.Pass)
	eventually(t, "readiness after a wrong block time", longEnough, func() bool { ready, _ := o.readiness(); return ready })
	if age := o.scrape()[`webring_chain_head_age_seconds{network="`+network+`"}`]; age < -5 || age > 30 {
		t.Errorf("after a wrong block time, the newest block is %v s old", age)
	}

	// A payment that is open keeps the process when it is to stop.
	credential := o.sign(wallet(t), "/api/bid", `{"member":"ada","amount":"1.00"}`)
	proxy.Follow(faults.On(faults.Sends, faults.Swallow))
	go o.try(http.MethodPost, "/api/bid", []byte(`{"member":"ada","amount":"1.00"}`), "Content-Type", "application/json", "Authorization", credential)
	eventually(t, "an open payment", time.Minute, func() bool { return o.scrape()["webring_reservations_open"] == 1 })
	eventually(t, "its age", time.Minute, func() bool { return o.scrape()["webring_reservation_oldest_age_seconds"] > 0 })
	if err := o.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the stop in readiness", 10*time.Second, func() bool { ready, rows := o.readiness(); return !ready && rows["stop"].Detail != "" })
	if r := o.get("/api"); r.Status != http.StatusOK {
		t.Errorf("while it stops, a read is answered with %d", r.Status)
	}
	if status, _, err := o.watched("/healthz"); status != http.StatusOK {
		t.Errorf("while it stops, its health is %d, %v", status, err)
	}
}

func keys(m map[string]float64) (all []string) {
	for k := range m {
		all = append(all, k)
	}
	return all
}

// TestAnEdgeIsWatched reads what an edge tells of its replica while it follows, and after
// its origin has died: it goes on answering, and says that it is not ready once what it
// shows is older than it may be.
func TestAnEdgeIsWatched(t *testing.T) {
	t.Parallel()
	o := start(t, "--core", "native")
	o.told()
	e := o.follow(t, o.verifier(), "--ready-age", "20s")
	eventually(t, "readiness", time.Minute, func() bool { ready, _ := e.readiness(); return ready })
	_, rows := e.readiness()
	for _, name := range []string{"replica", "age", "reach", "origin"} {
		if !rows[name].OK || rows[name].Detail == "" {
			t.Errorf("%s: %+v", name, rows[name])
		}
	}
	for range 3 {
		e.get("/api/categories")
	}
	all := e.scrape()
	for name, want := range map[string]float64{"webring_replica_sequence": 2, "webring_replica_stale": 0, "webring_replica_unreachable": 0, "webring_core_traps_total": 0, "webring_ready": 1,
		`webring_requests_total{route="/api/categories",status="200"}`: 3} {
		if got, there := all[name]; !there || got != want {
			t.Errorf("%s is %v (%t), want %v", name, got, there, want)
		}
	}
	if age := all["webring_replica_age_seconds"]; age < 0 || age > 20 {
		t.Errorf("the replica's age is %v s", age)
	}
	for name := range all {
		if strings.HasPrefix(name, "webring_ledger") || strings.HasPrefix(name, "webring_payment") {
			t.Errorf("an edge has no %s", name)
		}
	}
	e.promtool()

	o.kill()
	eventually(t, "a replica that is too old", time.Minute, func() bool { ready, _ := e.readiness(); return !ready })
	_, rows = e.readiness()
	if rows["age"].OK || !strings.Contains(rows["age"].Detail, "--ready-age") || !rows["reach"].OK || !rows["origin"].OK {
		t.Errorf("%+v", rows)
	}
	if age := e.scrape()["webring_replica_age_seconds"]; age < 20 {
		t.Errorf("the replica's age is %v s", age)
	}
	if r := e.get("/api/categories"); r.Status != http.StatusOK {
		t.Errorf("a read is answered with %d", r.Status)
	}
	o.launch()
	eventually(t, "readiness again", time.Minute, func() bool { ready, _ := e.readiness(); return ready })
	if out, err := e.operate("edge", "--data", t.TempDir(), "--origin", o.base, "--origin-key", o.verifier(), "--ready-age", "-5s"); err == nil || !strings.Contains(out, "--ready-age") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestNothingIsWatchedUnasked has neither a listener nor a line about one.
func TestNothingIsWatchedUnasked(t *testing.T) {
	t.Parallel()
	o := startWith(t, []string{"WEBRING_ADMIN_LISTEN="}, "--core", "native")
	if _, _, err := o.watched("/healthz"); err == nil {
		t.Error("it is watched")
	}
}

// The usual address for metrics may be taken: then the next free port is, and an operator reads
// which. An address that was given and is taken is an error.
func TestSeveralProcessesOfOneMachineAreWatched(t *testing.T) {
	t.Parallel()
	if taken, err := net.Listen("tcp", usualAdmin); err == nil { // if not, another process has it
		defer taken.Close()
	}
	unset := func(o *origin) *origin {
		o.args, o.program = append([]string{"-u", "WEBRING_ADMIN_LISTEN", binary(t)}, o.args...), "env"
		o.launch()
		t.Cleanup(o.kill)
		return o
	}
	o := unset(prepare(t, nil, "--core", "native"))
	e := &origin{t: t, data: folder(t), base: "http://" + devchain.FreeAddress()}
	e.args = []string{"edge", "--core", "native", "--origin", o.base, "--origin-key", o.verifier(), "--listen", strings.TrimPrefix(e.base, "http://")}
	unset(e)
	seen := map[string]bool{usualAdmin: true}
	for _, o := range []*origin{o, e} {
		if status, _, err := o.watched("/healthz"); err != nil || status != http.StatusOK {
			t.Errorf("%d, %v", status, err)
		}
		at := watchedLine.FindStringSubmatch(o.log.String())[1]
		o.logs("give --admin-listen to keep one address\" address=" + at)
		if seen[at] {
			t.Errorf("it is watched at %s, and says\n%s", at, o.log)
		}
		seen[at] = true
		if out, err := o.operate("serve", "--core", "native", "--listen", "127.0.0.1:0", "--admin-listen", at, "--data", t.TempDir()); err == nil || !strings.Contains(out, "--admin-listen") {
			t.Errorf("%v: %s", err, out)
		}
	}
}
