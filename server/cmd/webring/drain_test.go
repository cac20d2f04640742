package main

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// signal sends the process a signal.
func (o *origin) signal(s syscall.Signal) {
	o.t.Helper()
	if err := o.cmd.Process.Signal(s); err != nil {
		o.t.Fatal(err)
	}
}

// logs waits until the log holds a line with these words.
func (o *origin) logs(words string) {
	o.t.Helper()
	eventually(o.t, words, longEnough, func() bool { return strings.Contains(o.log.String(), words) })
}

// address is where the process listens.
func (o *origin) address() string { return strings.TrimPrefix(o.base, "http://") }

// A node that is told to stop answers everything until the drain is over, ends each
// connection with an answer that says so, and ends well.
func TestAStopLosesNoRead(t *testing.T) {
	t.Parallel()
	const drain = 3 * time.Second
	o := start(t, "--core", "native", "--drain", drain.String())
	e := o.follow(t, o.verifier(), "--core", "native", "--drain", drain.String())
	for _, node := range []*origin{e, o} {
		c := gather(node.address(), nil, 6)
		c.more(t, 100)
		if ready, rows := node.readiness(); !ready {
			t.Errorf("not ready before the stop: %+v", rows)
		}
		if _, last := c.counts(); last > 0 {
			t.Errorf("%d answers ended their connections before the stop", last)
		}
		began := time.Now()
		node.signal(syscall.SIGTERM)
		node.logs("not ready any more")
		if ready, rows := node.readiness(); ready || rows["stop"].OK {
			t.Errorf("in the drain it says that it is ready: %+v", rows)
		}
		before, _ := c.counts()
		eventually(t, "answers in the drain", longEnough, func() bool {
			now, _ := c.counts()
			return now >= before+300 || time.Since(began) > drain
		})
		if took := time.Since(began); took > drain {
			close(c.stop)
			c.readers.Wait()
			t.Skipf("this machine was too slow: 300 answers within %s were to be seen", drain)
		}
		if _, last := c.counts(); last < 100 {
			t.Errorf("%d answers ended their connections in the drain", last)
		}
		if r := node.post("/api/bid", `{"member":"nobody","amount":"1.00"}`); r.Status != http.StatusNotFound {
			t.Errorf("a paid request in the drain: %d %s", r.Status, r.Body)
		}
		took := time.Since(began)
		c.dismiss(t, "in the drain")
		if took > drain {
			t.Skipf("this machine was too slow: what was to be seen within %s took %s", drain, took)
		}
		node.waitGone()
		if took := time.Since(began); took < drain {
			t.Errorf("it ended after %s", took)
		}
		if code := node.cmd.ProcessState.ExitCode(); code != 0 {
			t.Errorf("status %d:\n%s", code, node.log)
		}
		if c, err := net.Dial("tcp", node.address()); err == nil {
			c.Close()
			t.Error("something listens there still")
		}
	}
}

// SIGINT, and whatever comes after the first SIGTERM, ends the process at once, and the
// log says what that means for payments.
func TestSignalsThatEndAtOnce(t *testing.T) {
	t.Parallel()
	for name, signals := range map[string][]syscall.Signal{
		"SIGINT":              {syscall.SIGINT},
		"SIGTERM twice":       {syscall.SIGTERM, syscall.SIGTERM},
		"SIGINT in the drain": {syscall.SIGTERM, syscall.SIGINT},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := start(t, "--core", "native", "--drain", "1h")
			e := o.follow(t, o.verifier(), "--core", "native", "--drain", "1h")
			for _, node := range []*origin{e, o} {
				for i, s := range signals {
					if i > 0 {
						node.logs("not ready any more")
					}
					node.signal(s)
				}
				node.waitGone()
				status := node.cmd.ProcessState.Sys().(syscall.WaitStatus)
				if last := signals[len(signals)-1]; !status.Signaled() || status.Signal() != last {
					t.Errorf("it ended with %v, not by %v", node.cmd.ProcessState, last)
				}
				if log := node.log.String(); strings.Count(log, "this process ends at once; payments in flight stay reserved") != 1 {
					t.Errorf("the log: %s", log)
				}
			}
			// What was stored is there.
			o.launch()
			o.signal(syscall.SIGINT)
			o.waitGone()
		})
	}
}

// A shell has what it starts in the background ignore SIGINT. One that comes all the same
// ends the process: one that had said so, and went on, would take no other signal.
func TestSIGINTEndsAProcessThatWasToIgnoreIt(t *testing.T) {
	t.Parallel()
	o := start(t, "--core", "native")
	o.stop()
	script := filepath.Join(t.TempDir(), "background")
	words := "#!/bin/sh\ntrap '' INT\nexec " + binary(t) + ` "$@"` + "\n"
	syscall.ForkLock.RLock() // a process of another test that is being started would have the file open for writing, and so it could not run
	err := os.WriteFile(script, []byte(words), 0o700)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	o.program = script
	o.launch()
	o.signal(syscall.SIGINT)
	o.waitGone()
	if code := o.cmd.ProcessState.ExitCode(); code != 128+int(syscall.SIGINT) {
		t.Errorf("it ended with %v", o.cmd.ProcessState)
	}
}

// With --dev there is no drain, unless --drain is given.
func TestADevelopersOriginEndsWithoutADrain(t *testing.T) {
	t.Parallel()
	o := start(t, "--core", "native")
	o.stop()
	if strings.Contains(o.log.String(), "drain=") {
		t.Errorf("it drained: %s", o.log)
	}
	for _, c := range []struct {
		args []string
		want time.Duration
	}{
		{nil, usualDrain}, {[]string{"--dev"}, 0}, {[]string{"--dev", "--drain", "3s"}, 3 * time.Second}, {[]string{"--drain", "1m"}, time.Minute},
	} {
		var o options
		if err := parseFlags(o.flags(), append(c.args, "--base-url", "https://ring.example")); err != nil {
			t.Fatal(err)
		}
		if err := o.validate(); err != nil || o.shell.drain != c.want {
			t.Errorf("%q: %s, %v", c.args, o.shell.drain, err)
		}
	}
	if out, err := o.operate("serve", "--drain", "-1s"); err == nil || !strings.Contains(out, "--drain must not be negative") {
		t.Errorf("%v: %s", err, out)
	}
}
