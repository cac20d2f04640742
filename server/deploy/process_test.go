package deploy

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"webring/server/logging/logscan"
)

// logIsClean holds that a process has printed no credential, and nothing that the files of
// secrets and keys in its folders hold.
func logIsClean(t *testing.T, said *output, folders ...string) {
	t.Helper()
	scanner, files := new(logscan.Scanner), 0
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() || !strings.Contains(d.Name(), "secret") && !strings.Contains(d.Name(), "key") {
				return err
			}
			text, err := os.ReadFile(path)
			for line := range strings.FieldsSeq(string(text)) {
				scanner.Secret("what "+d.Name()+" holds", line)
			}
			files++
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	if files == 0 {
		t.Errorf("no secret is in %q", folders)
	}
	for _, what := range scanner.Scan([]byte(said.String())) {
		t.Errorf("a log holds what no log may hold: %s", what)
	}
}

// eventually waits for what a process brings about, unless that ends before.
func eventually(t *testing.T, what string, ended <-chan error, said *output, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for !holds() {
		select {
		case err := <-ended:
			t.Fatalf("the process ended: %v\n%s", err, said)
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s did not come:\n%s", what, said)
		}
	}
}

// output collects what a process prints.
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
