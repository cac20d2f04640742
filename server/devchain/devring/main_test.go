package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"webring/server/devchain"
)

// output is what a run prints; it may be read while it grows.
type output struct {
	mu   sync.Mutex
	text strings.Builder
	told chan struct{} // closed once it has said how to join
}

func newOutput() *output { return &output{told: make(chan struct{})} }

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.announced()
	o.text.Write(b)
	if o.announced() && !before {
		close(o.told)
	}
	return len(b), nil
}

func (o *output) announced() bool { return strings.Contains(o.text.String(), "To join with") }

func TestASecondRunLeavesTheFirstAlone(t *testing.T) {
	if err := devchain.Install(t.Context()); errors.Is(err, devchain.ErrNoNode) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	webring := filepath.Join(t.TempDir(), "webring")
	if said, err := exec.Command("go", "build", "-o", webring, "webring/server/cmd/webring").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	t.Setenv("WEBRING_CORE", "native") // which is ready at once
	data, listen := t.TempDir(), devchain.FreeAddress()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	first, ended := newOutput(), make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"run", "--webring", webring, "--listen", listen, "--data", data}, first)
	}()
	select {
	case <-first.told:
	case err := <-ended:
		t.Fatalf("%v: %s", err, first.text.String())
	case <-time.After(2 * time.Minute):
		t.Fatal("the ring does not say how to join it")
	}
	left, err := findNote(data)
	if err != nil || left.Base != "http://"+listen || len(left.Keys) != accounts {
		t.Fatalf("%+v, %v", left, err)
	}

	for what, args := range map[string][]string{
		"its folder": {"--webring", webring, "--listen", devchain.FreeAddress(), "--data", data},
		"its port":   {"--webring", webring, "--listen", listen, "--data", t.TempDir()},
	} {
		second := newOutput()
		if err := run(t.Context(), append([]string{"run"}, args...), second); err == nil || second.announced() {
			t.Errorf("a second run with %s: %v: %s", what, err, second.text.String())
		}
		if now, err := findNote(data); err != nil || !reflect.DeepEqual(now, left) {
			t.Errorf("after a second run with %s: %+v, %v", what, now, err)
		}
	}

	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := findNote(data); err == nil {
		t.Error("a ring that has ended is still to be found")
	}
}

// What devring writes before it knows whether the folder is another's lies elsewhere.
func TestTheFolderOfARingThatDoesNotStartStaysAsItWas(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	if err := run(t.Context(), []string{"run", "--webring", "false", "--listen", "127.0.0.1:0", "--data", data}, newOutput()); err == nil {
		t.Error("the ring started")
	}
	if _, err := os.Stat(data); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder: %v", err)
	}
}

func TestHelpIsNoMistake(t *testing.T) {
	for _, args := range []string{"help", "-h", "--help", "run --help", "run --data x -h", "demo --help"} {
		out := newOutput()
		if err := run(t.Context(), strings.Fields(args), out); err != nil || !strings.Contains(strings.ToLower(out.text.String()), "usage") {
			t.Errorf("%s: %v: %s", args, err, out.text.String())
		}
	}
	// Arguments that are no flags are not passed over, and so nothing is started.
	for args, said := range map[string]string{"": "usage", "ran": `"ran"`, "run extra --data X": `"extra"`, "demo extra": `"extra"`, "run --nothing": "nothing", "demo --listen x": "listen"} {
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if err := run(ctx, strings.Fields(args), newOutput()); err == nil || !strings.Contains(err.Error(), said) {
			t.Errorf("%q: %v", args, err)
		}
	}
}
