package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What webring verify checks without a network, what it says, and its exit codes.
func TestVerifyOffline(t *testing.T) {
	t.Parallel()
	memory := t.TempDir()
	saved := "../../../edge/monitor/testdata"
	at := func(name string) string { return filepath.Join(saved, name) }
	read := func(name string) []byte {
		b, err := os.ReadFile(at(name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	key := string(read("key"))
	altered := func(name, of, by string) string {
		path := filepath.Join(t.TempDir(), "altered")
		b := bytes.Replace(read(name), []byte(of), []byte(by), 1)
		if bytes.Equal(b, read(name)) {
			t.Fatalf("%s has no %q", name, of)
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	wrongRing := t.TempDir()
	if err := os.CopyFS(wrongRing, os.DirFS(at("ring"))); err != nil {
		t.Fatal(err)
	}
	board := filepath.Join(wrongRing, "api/leaderboard")
	if err := os.WriteFile(board, append(read("ring/api/leaderboard"), ' '), 0o600); err != nil {
		t.Fatal(err)
	}
	policy := filepath.Join(t.TempDir(), "policy")
	if err := os.WriteFile(policy, []byte("log "+key+"\nquorum none\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const nothing = exitUnknown
	for _, c := range []struct {
		args string
		code int
		says []string
	}{
		{"--receipt " + at("bid.tlog-proof"), nothing, []string{"give it with --origin-key"}},
		{"--offline " + wrongRing + " --origin-key " + key, exitWrong, []string{"/api/leaderboard is not what the events lead to"}},
		{"--offline " + at("ring") + " --policy " + policy, 0, []string{"257 events lead to the signed root", "first verification", "the same to the byte", "accounts paid", "operator can pay itself"}},
		{"--offline " + at("ring"), 0, []string{"it is the one of your last verification", "it continues the 257 events"}},
		{"--offline " + t.TempDir() + " --origin-key " + key, nothing, []string{"no such file"}},
		{"--receipt " + at("bid.tlog-proof"), 0, []string{"event 256 is in the log of ring.example, of 257 events", "bid on member ", "2.50 USD", "in transaction 0x1", "none that is known here has cosigned"}},
		{"--receipt " + altered("bid.tlog-proof", "index 256", "index 255"), exitWrong, []string{"wrong"}},
		{"--evidence " + at("contradiction"), 0, []string{"ring.example has signed two histories", "of which the first 257 have the root"}},
		{"--evidence " + altered("contradiction", "\n257\n", "\n256\n"), exitWrong, []string{"no evidence of a contradiction"}},
		{"--evidence " + at("key"), exitWrong, []string{"not a file of one"}},
		{"--receipt a --evidence b", nothing, []string{"usage"}},
		{"--save " + t.TempDir(), nothing, []string{"--save keeps what is fetched from a URL"}},
		{"--rpc tempo:1=http://127.0.0.1:1 --data x", nothing, []string{"--rpc is for a URL"}},
	} {
		var out strings.Builder
		err := run(append([]string{"verify", "--memory", memory}, strings.Fields(c.args)...), &out)
		code := 0
		if err != nil {
			code = exitUnknown
			out.WriteString(err.Error())
		}
		if e, ok := errors.AsType[coded](err); ok {
			code = e.code
		}
		if code != c.code {
			t.Errorf("verify %s: code %d, not %d: %s", c.args, code, c.code, out.String())
		}
		for _, words := range c.says {
			if !strings.Contains(out.String(), words) {
				t.Errorf("verify %s says %s, without %q", c.args, out.String(), words)
			}
		}
	}
}
