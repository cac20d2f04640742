package deploy

import (
	"bytes"
	"sync"
	"testing"
	"time"
)

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
