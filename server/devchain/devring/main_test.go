package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"webring/edge/describe"
	"webring/server/devchain"
)

// output is what a run prints; it may be read while it grows.
type output struct {
	mu    sync.Mutex
	text  strings.Builder
	grown chan struct{} // closed when there is more, and made anew
}

func newOutput() *output { return &output{grown: make(chan struct{})} }

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.Write(b)
	close(o.grown)
	o.grown = make(chan struct{})
	return len(b), nil
}

// String is what was printed until now.
func (o *output) String() string {
	text, _ := o.now()
	return text
}

func (o *output) now() (text string, grown <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String(), o.grown
}

// announcement is how a run says how to join.
const announcement = "To join with"

// await returns when a text was printed. A run that ends before sends on ended.
func (o *output) await(t *testing.T, text string, ended <-chan error) {
	t.Helper()
	late := time.After(2 * time.Minute)
	for {
		printed, grown := o.now()
		if strings.Contains(printed, text) {
			return
		}
		select {
		case <-grown:
		case err := <-ended:
			t.Fatalf("the run ended before it said %q: %v: %s", text, err, o)
		case <-late:
			t.Fatalf("the run does not say %q: %s", text, o)
		}
	}
}

func TestASecondRunLeavesTheFirstAlone(t *testing.T) {
	webring := filepath.Join(build(t), "webring")
	t.Setenv("WEBRING_CORE", "native") // which is ready at once
	data, listen := t.TempDir(), devchain.FreeAddress()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	first, ended := newOutput(), make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"run", "--webring", webring, "--listen", listen, "--data", data}, first)
	}()
	first.await(t, announcement, ended)
	left, err := findNote(data)
	if err != nil || left.Base != "http://"+listen || len(left.Keys) != accounts {
		t.Fatalf("%+v, %v", left, err)
	}
	if command := "env MPPX_PRIVATE_KEY=" + left.Keys[0] + " " + describe.Client + " '" + left.Base + "/api/register' -r " + left.RPC + " "; !strings.Contains(first.String(), command) {
		t.Errorf("no %s in %s", command, first)
	}

	for what, args := range map[string][]string{
		"its folder": {"--webring", webring, "--listen", devchain.FreeAddress(), "--data", data},
		"its port":   {"--webring", webring, "--listen", listen, "--data", t.TempDir()},
	} {
		second := newOutput()
		if err := run(t.Context(), append([]string{"run"}, args...), second); err == nil || strings.Contains(second.String(), announcement) {
			t.Errorf("a second run with %s: %v: %s", what, err, second.String())
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
		if err := run(t.Context(), strings.Fields(args), out); err != nil || !strings.Contains(strings.ToLower(out.String()), "usage") {
			t.Errorf("%s: %v: %s", args, err, out.String())
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
