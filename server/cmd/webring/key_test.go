package main

import (
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTheSigningKeyIsChanged changes the key of a real origin with two edges:
// both learn the next key under the present one, go on when it signs alone, over restarts
// too, and trust the old one no more. An edge that was not there says what it lacks.
func TestTheSigningKeyIsChanged(t *testing.T) {
	t.Parallel()
	o := start(t, "--core", "native")
	old := o.verifier()
	near := o.follow(t, old, "--core", "native")
	far := o.follow(t, old, "--core", "native")
	alike(t, o, near, far)

	if out, err := o.operate("key", "switch"); err == nil || !strings.Contains(out, "run webring key next") {
		t.Errorf("a change without a next key: %v %s", err, out)
	}
	out, err := o.operate("key", "next")
	announced := regexp.MustCompile(`announced as the next key: (\S+)`).FindStringSubmatch(out)
	if err != nil || announced == nil {
		t.Fatalf("%v: %s", err, out)
	}
	next := announced[1]
	if again, err := o.operate("key", "next"); err != nil || again != out {
		t.Errorf("announced again: %v %s", err, again)
	}
	for _, node := range []*origin{o, near, far} {
		eventually(t, "the next key at every node", longEnough, func() bool {
			said, err := node.operate("version")
			return err == nil && strings.Contains(said, "--origin-key "+old) && strings.Contains(said, "announced as the next key: "+next)
		})
	}
	if said := checked(t, nil, nil, append(o.args, "--data", o.data)...); !strings.Contains(said, "note   signing key      a next one is announced: "+next) {
		t.Errorf("%s", said)
	}
	saved := filepath.Join(t.TempDir(), "backup")
	if out, err := o.operate("backup", saved); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	// An edge that is given both, and one that has only the new one, follow already.
	for _, keys := range [][]string{{"--origin-key", old}, nil} {
		e := o.follow(t, next, append([]string{"--core", "native"}, keys...)...)
		alike(t, o, e)
		e.stop()
	}

	near.stop() // it comes back after the change, with what it has learned
	if out, err := o.operate("key", "switch"); err == nil || !strings.Contains(out, "add --now") {
		t.Errorf("a key that was announced a moment ago signs alone: %v %s", err, out)
	}
	if out, err := o.operate("key", "switch", "--now"); err != nil || !strings.Contains(out, "--origin-key "+next) || strings.Contains(out, old) {
		t.Fatalf("%v: %s", err, out)
	}
	o.stop()
	o.args = append(o.args, "--fee", "1.23") // an event
	o.launch()
	if got := o.verifier(); got != next {
		t.Errorf("a restart signs with %s", got)
	}
	near.launch()
	alike(t, o, near, far)
	for _, node := range []*origin{near, far} {
		eventually(t, "the new key alone", longEnough, func() bool {
			said, err := node.operate("version")
			return err == nil && strings.Contains(said, "--origin-key "+next) && !strings.Contains(said, "announced")
		})
		node.logs("this edge trusts no other from now on")
	}
	far.stop()
	if out, err := far.operate(append(far.args, "--check")...); err != nil || !strings.Contains(out, "ok     origin") {
		t.Errorf("a check of an edge that has learned the key: %v %s", err, out)
	}
	far.launch()
	far.logs("the origin has given up a key that this edge was started with")
	alike(t, o, far)

	// The backup holds the old key and the next one, so the edges follow what is restored
	// from it.
	into := filepath.Join(t.TempDir(), "restored")
	if out, err := o.operate("restore", "--data", into, "--from", near.base, saved); err != nil || !strings.Contains(out, " events that the backup lacked") {
		t.Errorf("%v: %s", err, out)
	}

	late := &origin{t: t, data: folder(t), base: near.base}
	late.args = []string{"edge", "--core", "native", "--listen", unlisted, "--origin", o.base, "--origin-key", old}
	late.boot()
	t.Cleanup(late.kill)
	late.logs("if the origin has changed its key while this edge could not learn of it, give the new one with --origin-key")
	fresh := o.follow(t, next, "--core", "native")
	alike(t, o, fresh)
	if r := fresh.get("/sync/keys"); r.Status != http.StatusOK || !strings.Contains(string(r.Body), "current "+next+"\n") {
		t.Errorf("%d %s", r.Status, r.Body)
	}
}
