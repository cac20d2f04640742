package front

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func line(client string) *AccessLine {
	return &AccessLine{At: time.Date(2026, 11, 24, 5, 0, 0, 123e6, time.UTC), Took: 85 * time.Microsecond, ID: []byte("abcd-123"), Client: ClientOf(netip.MustParseAddr(client)),
		Method: []byte("GET"), Target: []byte("/next?kind=mcp&from=ada"), UserAgent: []byte("curl/8"), Status: 302, Bytes: 12}
}

func TestLines(t *testing.T) {
	for _, c := range []struct {
		client, cut, whole string
	}{
		{"203.0.113.77", "203.0.113.0/24", "203.0.113.77"},
		{"2001:db8:12:34:56::1", "2001:db8:12::/48", "2001:db8:12:34::/64"},
		{"::1", "::/48", "::/64"},
	} {
		for _, whole := range []bool{false, true} {
			want := c.cut
			if whole {
				want = c.whole
			}
			got := string(appendLine(nil, line(c.client), false, whole))
			if got != `time=2026-11-24T05:00:00.123Z level=INFO msg=request request="abcd-123" client="`+want+
				`" method="GET" path="/next" from="ada" status=302 bytes=12 took_us=85 agent="curl/8"`+"\n" {
				t.Errorf("%s", got)
			}
			var doc map[string]any
			if err := json.Unmarshal(appendLine(nil, line(c.client), true, whole), &doc); err != nil || doc["client"] != want || doc["status"] != 302.0 || doc["from"] != "ada" || doc["level"] != "INFO" || len(doc) != 12 {
				t.Errorf("%v: %v", err, doc)
			}
		}
	}
}

// A target in absolute form can hold a password. It stands in the log as its path.
func TestTargetsAreLoggedAsPaths(t *testing.T) {
	for target, want := range map[string]string{
		"http://ada:secret@ring.example/ring?from=ada": "/ring", "foo://ada:secret@ring.example": "/", "HTTP://ada:secret@x?from=y": "/",
		"*": "*", "/a://b/c": "/a://b/c", "": "",
	} {
		l := line("203.0.113.77")
		l.Target = []byte(target)
		if got := string(appendLine(nil, l, false, false)); !strings.Contains(got, ` path="`+want+`" `) || strings.Contains(got, "secret") {
			t.Errorf("%q gives %s", target, got)
		}
	}
}

// Whatever a client sends, it stays in one line, between quotation marks, and is bounded.
func TestHostileLines(t *testing.T) {
	for _, hostile := range []string{"a\r\nlevel=ERROR msg=forged", `" status=500 x="`, `\`, "\x00\x7f\xff\xc3\xa4\u2028", strings.Repeat("x", 9999)} {
		l := line("203.0.113.77")
		l.Target, l.UserAgent, l.Method = []byte("/"+hostile+"?from="+hostile), []byte(hostile), []byte(hostile)
		for _, asJSON := range []bool{false, true} {
			got := appendLine(nil, l, asJSON, false)
			if bytes.Count(got, []byte("\n")) != 1 || bytes.ContainsFunc(got[:len(got)-1], func(r rune) bool { return r < ' ' || r >= 0x7f }) || len(got) > 6*4*maxText {
				t.Errorf("%q gives %q", hostile, got)
			}
			var doc map[string]any
			if asJSON {
				if err := json.Unmarshal(got, &doc); err != nil || doc["status"] != 302.0 {
					t.Errorf("%q gives %s: %v", hostile, got, err)
				}
			}
		}
	}
}

// slot is a disk that tests can make hang and fail.
type slot struct {
	mu      sync.Mutex
	written bytes.Buffer
	hang    chan struct{} // closed when it goes on; nil: it does
	err     error
}

func (s *slot) write(b []byte) error {
	if s.hang != nil {
		<-s.hang
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written.Write(b)
	return s.err
}

// A disk that hangs delays no answer; lines that it does not take are counted.
func TestADiskThatHangsHoldsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		disk := &slot{hang: make(chan struct{})}
		l := newAccessLog(AccessConfig{Log: slog.New(slog.NewTextHandler(&said, nil))})
		l.out = disk.write
		go l.write()
		const lines = 20000
		for range lines {
			l.Add(line("203.0.113.77"))
		}
		synctest.Wait()
		close(disk.hang)
		time.Sleep(2 * writeEvery)
		l.Add(line("203.0.113.77"))
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		written := bytes.Count(disk.written.Bytes(), []byte("\n"))
		dropped := 0
		for line := range strings.Lines(said.String()) {
			var n int
			if _, count, ok := strings.Cut(line, "lines="); ok && json.Unmarshal([]byte(count), &n) == nil {
				dropped += n
			}
		}
		if written+dropped != lines+1 || dropped == 0 || len(disk.written.Bytes()) > 3*maxPending {
			t.Errorf("%d lines were written and %d counted as dropped, of %d: %s", written, dropped, lines+1, &said)
		}
		l.Add(line("203.0.113.77")) // after the end: no line, and no harm
	})
}

func TestCloseDoesNotWaitForADiskThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &slot{hang: make(chan struct{})}
		l := newAccessLog(AccessConfig{Log: slog.New(slog.DiscardHandler)})
		l.out = disk.write
		go l.write()
		l.Add(line("203.0.113.77"))
		began := time.Now()
		if err := l.Close(); err == nil || time.Since(began) != closePatience {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		close(disk.hang)
	})
}

func TestADiskThatFailsIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		disk := &slot{err: errors.New("no room")}
		l := newAccessLog(AccessConfig{Log: slog.New(slog.NewTextHandler(&said, nil))})
		l.out = disk.write
		go l.write()
		l.Add(line("203.0.113.77"))
		l.Close()
		if !strings.Contains(said.String(), "no room") {
			t.Errorf("the log says %q", &said)
		}
	})
}

// A rotated file is finished, and lines go on in the new one; none is lost meanwhile.
func TestReopen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	l, err := OpenAccessLog(AccessConfig{Path: path, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	const rounds, each = 20, 200
	var adding sync.WaitGroup
	adding.Go(func() {
		for range rounds * each {
			l.Add(line("203.0.113.77"))
		}
	})
	var names []string
	for i := range rounds {
		name := path + "." + string(rune('a'+i))
		if err := os.Rename(path, name); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
		if err := l.Reopen(); err != nil {
			t.Fatal(err)
		}
	}
	adding.Wait()
	l.Add(line("203.0.113.77"))
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, name := range append(names, path) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		total += bytes.Count(text, []byte("\n"))
	}
	if total != rounds*each+1 {
		t.Errorf("%d lines of %d", total, rounds*each+1)
	}
	if _, err := OpenAccessLog(AccessConfig{Path: filepath.Join(path, "x"), Log: slog.New(slog.DiscardHandler)}); err == nil {
		t.Error("a file that cannot be opened was opened")
	}
	l.cfg.Path = filepath.Join(path, "x")
	if before := l.file.Load(); l.Reopen() == nil || l.file.Load() != before {
		t.Error("a file that cannot be opened took the place of the one before")
	}
}

func FuzzLine(f *testing.F) {
	f.Add([]byte("/next?from=a"), []byte("x\xff\""))
	f.Fuzz(func(t *testing.T, target, agent []byte) {
		l := line("203.0.113.77")
		l.Target, l.UserAgent = target, agent
		if got := appendLine(nil, l, true, false); !json.Valid(got) || bytes.IndexByte(got[:len(got)-1], '\n') >= 0 {
			t.Errorf("%q", got)
		}
	})
}
