package logging

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// newLog gives a log and what it has written.
func newLog(t *testing.T, format string) (*Log, *output) {
	t.Helper()
	var out output
	l, err := New(&out, format, slog.LevelInfo)
	if err != nil {
		t.Fatal(err)
	}
	return l, &out
}

// output is what a log has written. Timers write, too.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

func (o *output) Reset() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.buf.Reset()
}

// remembered gives how many kinds a log remembers.
func remembered(l *Log) int {
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	return len(l.all.kinds)
}

func TestRepeatingLinesAreCollected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, out := newLog(t, Text)
		for i := range 229 {
			l.Warn("no block", "n", i)
			if i == 0 && strings.Count(out.String(), "\n") != 1 {
				t.Error("the first line is late")
			}
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
		}
		l.Error("no block")
		l.Warn("another")
		if got := strings.Count(out.String(), "\n"); got != burst+2 {
			t.Errorf("%d lines:\n%s", got, out)
		}
		out.Reset()
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, `level=WARN msg="no block" more=209 in=58s`) {
			t.Errorf("the sum is %s", got)
		}
		out.Reset()
		// While it goes on, a line and a sum for each window.
		for range 600 {
			l.Warn("no block")
			time.Sleep(time.Second)
			synctest.Wait()
		}
		if got := strings.Count(out.String(), "\n"); got < 20 || got > 22 {
			t.Errorf("ten minutes have %d lines:\n%s", got, out)
		}
		// After two quiet windows it is as new.
		time.Sleep(2*window + time.Second)
		synctest.Wait()
		out.Reset()
		for range burst {
			l.Warn("no block")
		}
		if got := strings.Count(out.String(), "\n"); got != burst {
			t.Errorf("%d lines of a kind that was quiet:\n%s", got, out)
		}
		l.Close()
	})
}

func TestAuditLinesAreNeverCollected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, out := newLog(t, JSON)
		with := l.With(Audit, "payment").WithGroup("g").With("a", 1)
		for range 100 {
			l.Info("payment", Audit, "payment")
			with.Info("payment")
		}
		if got := strings.Count(out.String(), "\n"); got != 200 {
			t.Errorf("%d of 200 lines", got)
		}
		l.Close()
	})
}

func TestCloseWritesWhatWasCollected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, out := newLog(t, JSON)
		for range burst + 3 {
			l.With("a", 1).Error("broken")
		}
		l.Close()
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		var last struct {
			Level, Msg, In string
			More           int
		}
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || last.More != 3 || last.Msg != "broken" || last.Level != "ERROR" || last.In != "0s" {
			t.Errorf("%v: %s", err, lines[len(lines)-1])
		}
		l.Close()
		l.Error("broken")
		if got := strings.Count(out.String(), "\n"); got != burst+2 {
			t.Errorf("%d lines, and one came after the end", got)
		}
	})
}

// However many kinds come, a bounded number is remembered, the first line of each is
// written and nothing that was counted is lost.
func TestKindsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, out := newLog(t, Text)
		for range burst + 7 {
			l.Info("first")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		for i := range 3 * maxKinds {
			l.Info(fmt.Sprint("kind ", i))
		}
		if n := remembered(l); n > maxKinds {
			t.Errorf("%d kinds are remembered", n)
		}
		if got := len(regexp.MustCompile(`msg="kind \d+"`).FindAllString(out.String(), -1)); got != 3*maxKinds {
			t.Errorf("%d first lines of %d", got, 3*maxKinds)
		}
		if !strings.Contains(out.String(), "msg=first more=7 in=1s") {
			t.Error("the sum of the kind that made room is missing")
		}
		time.Sleep(2*window + time.Second)
		synctest.Wait()
		if n := remembered(l); n != 0 {
			t.Errorf("%d kinds are remembered after a quiet time", n)
		}
		l.Close()
	})
}

// Every line is written or counted, even under concurrent writes.
func TestNoLineIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, out := newLog(t, Text)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 500 {
					l.Info("same")
					time.Sleep(time.Millisecond * 70)
				}
			})
		}
		all.Wait()
		l.Close()
		total := 0
		for line := range strings.Lines(out.String()) {
			n := 1
			if _, more, summed := strings.Cut(line, "more="); summed {
				if _, err := fmt.Sscan(more, &n); err != nil {
					t.Fatal(err)
				}
			}
			total += n
		}
		if total != 4000 {
			t.Errorf("%d lines of 4000", total)
		}
	})
}

func TestTheLevelChangesWhileItRuns(t *testing.T) {
	l, out := newLog(t, Text)
	l.Debug("one")
	level, err := ParseLevel("debug")
	if err != nil {
		t.Fatal(err)
	}
	l.Level.Set(level)
	l.With("a", 1).Debug("two")
	l.Level.Set(slog.LevelError)
	l.Warn("three", "err", errors.New("x"))
	if got := out.String(); strings.Contains(got, "one") || !strings.Contains(got, "two") || strings.Contains(got, "three") {
		t.Error(got)
	}
	l.Close()
	for _, name := range []string{"debug", "info", "warn", "error"} {
		if level, err := ParseLevel(name); err != nil || LevelName(level) != name {
			t.Errorf("%s: %v, %v", name, level, err)
		}
	}
	for _, name := range []string{"", "Debug", "trace", "1"} {
		if _, err := ParseLevel(name); err == nil {
			t.Errorf("%q is a level", name)
		}
	}
	if _, err := New(out, "xml", 0); err == nil {
		t.Error("xml is a format")
	}
}
