package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"webring/server/logging"
	"webring/server/paid"
)

// logLines gives the lines of a log in JSON that hold a piece of text, decoded.
func logLines(t *testing.T, log, piece string) (found []map[string]any) {
	t.Helper()
	for line := range strings.Lines(log) {
		if !strings.HasPrefix(line, "{") || !strings.Contains(line, piece) {
			continue
		}
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		found = append(found, fields)
	}
	return found
}

// lines is logLines of what a process has written, once there is one: what it writes can
// come later than what it answers.
func (o *origin) lines(piece string) (found []map[string]any) {
	o.t.Helper()
	eventually(o.t, "a line with "+piece, time.Minute, func() bool {
		found = logLines(o.t, o.log.String(), piece)
		return len(found) > 0
	})
	return found
}

// fileLines is logLines of a file, once it has so many.
func fileLines(t *testing.T, path, piece string, many int) (found []map[string]any) {
	t.Helper()
	eventually(t, "the lines in "+path, time.Minute, func() bool {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		found = logLines(t, string(text), piece)
		return len(found) >= many
	})
	if len(found) != many {
		t.Errorf("%s has %d lines with %s, not %d", path, len(found), piece, many)
	}
	return found
}

// A payment through an edge is found under one id in the logs of both, and its outcome
// has one line that says all about it.
func TestAPaymentIsFoundInAllLogs(t *testing.T) {
	t.Parallel()
	if paid.Audit != logging.Audit {
		t.Errorf("lines marked with %q are collected: the mark is %q", paid.Audit, logging.Audit)
	}
	c, _ := chain(t)
	secret, dir := secretFile(t), t.TempDir()
	atOrigin, atEdge := filepath.Join(dir, "origin.log"), filepath.Join(dir, "edge.log")
	o := start(t, "--core", "native", "--tempo-rpc", c.RPC, "--edge-secret-file", secret, "--log-format", "json", "--access-log", atOrigin)
	e := o.follow(t, o.verifier(), "--core", "native", "--edge-secret-file", secret, "--log-format", "json", "--access-log", atEdge, "--trusted-proxy", "127.0.0.1")

	const mine = "my-payment.1"
	w := wallet(t)
	p := e.pay(w, "/api/register", `{"name":"Logged","url":"https://logged.dev/","kind":"agent","bid":"1.50"}`, "X-Request-Id", mine, "X-Forwarded-For", "203.0.113.77", "X-Forwarded-Proto", "https")
	if p.Status != http.StatusCreated || p.Header.Get("X-Request-Id") != mine {
		t.Fatalf("status %d, id %q: %s", p.Status, p.Header.Get("X-Request-Id"), p.Body)
	}
	lines := o.lines(`"audit":"payment"`)
	if len(lines) != 1 {
		t.Fatalf("the payment has %d lines:\n%s", len(lines), o.log)
	}
	for name, want := range map[string]any{"msg": "payment applied", "level": "INFO", "operation": "register", "member": "logged", "amount_usd": "2.50",
		"method": "tempo", "outcome": "applied", "request": mine} {
		if lines[0][name] != want {
			t.Errorf("%s is %v and not %v", name, lines[0][name], want)
		}
	}
	id, _ := lines[0]["payment"].(string)
	transaction, _ := lines[0]["transaction"].(string)
	network, _ := lines[0]["network"].(string)
	if payer, _ := lines[0]["payer"].(string); !strings.HasSuffix(payer, ":"+strings.ToLower(w.Address.Hex())) {
		t.Errorf("the payer is %s", payer)
	}
	shown, err := o.operate("payments", "show", id)
	if took, ok := lines[0]["took_ms"].(float64); err != nil || !ok || took <= 0 || transaction == "" || !strings.HasPrefix(network, "tempo:") || !strings.Contains(shown, transaction) {
		t.Errorf("%v: %s\n%v", err, shown, lines[0])
	}
	// The unpaid request and the paid one, at both nodes.
	for _, path := range []string{atEdge, atOrigin} {
		for i, line := range fileLines(t, path, mine, 2) {
			want := []float64{http.StatusPaymentRequired, http.StatusCreated}[i]
			if line["status"] != want || line["path"] != "/api/register" || line["method"] != "POST" || line["client"] != "203.0.113.0/24" {
				t.Errorf("%v", line)
			}
		}
	}
	// The same credential once more is refused, in one line.
	credential := p.Authorization
	r := o.post("/api/register", `{"name":"Logged","url":"https://logged.dev/","kind":"agent","bid":"1.50"}`, "Authorization", credential, "X-Request-Id", "again-and-again")
	if refused := o.lines("again-and-again"); r.Status != 409 || len(refused) != 1 || refused[0]["code"] != "credential_reused" || refused[0]["payment"] != id {
		t.Errorf("status %d: %v", r.Status, refused)
	}
	// Readers are named by their network.
	e.get("/next?from=logged", "X-Forwarded-For", "2001:db8:1:2::77", "X-Request-Id", "a-reader.1")
	if line := fileLines(t, atEdge, "a-reader.1", 1)[0]; line["client"] != "2001:db8:1::/48" || line["from"] != "logged" || line["status"] != 302.0 {
		t.Errorf("%v", line)
	}

	// A rotated file is finished, and lines go on in another.
	if err := os.Rename(atEdge, atEdge+".1"); err != nil {
		t.Fatal(err)
	}
	if err := e.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the new file", time.Minute, func() bool {
		_, err := os.Stat(atEdge)
		return err == nil
	})
	e.get("/next", "X-Request-Id", "after-rotation")
	fileLines(t, atEdge, "after-rotation", 1)
	e.stop()
	o.stop()
}

func TestLogLevelChanges(t *testing.T) {
	t.Parallel()
	o := start(t, "--core", "native", "--log-level", "error")
	e := o.follow(t, o.verifier(), "--core", "native")
	for _, c := range []struct {
		of         *origin
		args, says string
	}{
		{o, "", "error\n"}, {e, "", "info\n"}, {o, "debug", "debug\n"}, {e, "debug", "debug\n"}, {o, "", "debug\n"}, {e, "warn", "warn\n"}, {e, "", "warn\n"},
	} {
		if out, err := c.of.operate(append([]string{"log-level"}, strings.Fields(c.args)...)...); err != nil || out != c.says {
			t.Errorf("log-level %s: %v, %s", c.args, err, out)
		}
	}
	if strings.Contains(o.log.String(), "level=WARN") {
		t.Errorf("at the level error the log says\n%s", o.log)
	}
	o.post("/api/bid", `{"member":"nobody","amount":"1.00"}`, "X-Request-Id", "to-be-seen")
	eventually(t, "a line at the level debug", time.Minute, func() bool {
		log := o.log.String()
		return strings.Contains(log, `level=DEBUG msg="paid operation refused"`) && strings.Contains(log, "request=to-be-seen")
	})
	if out, err := o.operate("log-level", "loud"); err == nil || !strings.Contains(out, `"loud" is no level of logs`) {
		t.Errorf("%v, %s", err, out)
	}
	o.stop()
	if out, err := o.operate("log-level", "debug"); err == nil || !strings.Contains(out, "no origin and no edge is running on "+o.data) {
		t.Errorf("%v, %s", err, out)
	}
	e.stop()
}

func TestMistakesAboutLogs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for args, says := range map[string]string{
		"--log-format xml":                        `--log-format "xml" is neither text nor json`,
		"--log-level loud":                        `--log-level: "loud" is no level of logs`,
		"--access-log-addresses whole":            "give --access-log",
		"--access-log-addresses x --access-log -": `access-log-addresses "x" is neither cut nor whole`,
		"--access-log " + dir:                     "--access-log: open " + dir,
	} {
		if out, err := invoke(t, append([]string{"serve", "--data", filepath.Join(dir, "data")}, strings.Fields(args)...)...).CombinedOutput(); err == nil || !strings.Contains(string(out), says) {
			t.Errorf("%s: %v: %s", args, err, out)
		}
	}
}
