package main

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every command explains itself, and a mistake is told in one line.
func TestHelp(t *testing.T) {
	t.Parallel()
	webring := func(args ...string) (out, complaint string, failed bool) {
		var stdout, stderr bytes.Buffer
		if args[0] == "help" || args[len(args)-1] == "--help" { // which is written to the process's own output
			c := invoke(t, args...)
			c.Stdout, c.Stderr = &stdout, &stderr
			failed = c.Run() != nil
			return stdout.String(), stderr.String(), failed
		}
		if err := run(args, &stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
			return stdout.String(), "webring: " + err.Error() + "\n", true
		}
		return stdout.String(), "", false
	}
	flagName := regexp.MustCompile(`--[a-z][a-z-]+`)
	var known []string
	for _, c := range commands() {
		out, complaint, failed := webring(c.name, "--help")
		if failed || complaint != "" || !strings.HasPrefix(out, "Usage: webring "+c.usage+"\n  "+c.summary+"\n") || !strings.Contains(out, "[WEBRING_") {
			t.Errorf("%s --help: %s%s", c.name, out, complaint)
		}
		if again, _, failed := webring("help", c.name); failed || again != out {
			t.Errorf("help %s says something else: %s", c.name, again)
		}
		for line := range strings.Lines(out) {
			if strings.HasPrefix(line, "  --") {
				known = append(known, flagName.FindString(line))
			}
		}
		c.flags().VisitAll(func(f *flag.Flag) {
			if m := takers.FindStringSubmatch(f.Usage); m != nil {
				for _, word := range strings.Split(m[1], ", ") {
					if !strings.Contains(" "+c.usage, " "+word+" ") {
						t.Errorf("--%s of %s is for the word %s, which the usage does not have", f.Name, c.name, word)
					}
				}
			}
		})
		for _, name := range flagName.FindAllString(c.usage, -1) {
			if !slices.Contains(known, name) {
				t.Errorf("%s has no flag %s", c.name, name)
			}
		}
		if _, complaint, failed := webring(c.name, "--bogus"); !failed || strings.Count(complaint, "\n") != 1 || !strings.Contains(complaint, "webring "+c.name+" --help") {
			t.Errorf("%s --bogus: %s", c.name, complaint)
		}
		if _, complaint, failed := webring(c.name, "three", "more", "words"); !failed ||
			complaint != "webring: usage: webring "+c.usage+"\n" && !strings.Contains(complaint, "is not a flag") {
			t.Errorf("%s with more words than it takes: %s", c.name, complaint)
		}
	}
	if out, _, _ := webring("serve", "--help"); strings.Count(out, "\n  --") > 45 {
		t.Errorf("serve has more than 45 flags:\n%s", out)
	}
	for _, c := range []struct {
		args string
		says string
	}{
		{"members list --redact", "--redact belongs to webring members remove"},
		{"members show ada --reason x", "--reason belongs to webring members hide, unhide, remove"},
		{"members hide ada --redact --reason x", "--redact belongs to webring members remove"},
		{"members unhide ada --block --reason x", "--block belongs to webring members remove"},
		{"blocklist remove host bad.dev --reason x", "--reason belongs to webring blocklist add"},
		{"blocklist add host bad.dev --data /nowhere", "blocklist add needs --reason"},
		{"blocklist list --data /nowhere", "no origin is running on this data folder: /nowhere"},
		{"payments list --void", "--void belongs to webring payments adjust"},
		{"payments scan --all", "--all belongs to webring payments list"},
		{"payments scan --since -5h", "--since must be a time to look back"},
		{"payments scan --since 0", "--since must be a time to look back"},
		{"payments scan --since 2999-01-01T00:00:00Z", "or an instant that is past"},
		{"payments scan --since 2026-11-20T08:00:00Z --data /nowhere", "no origin is running on this data folder: /nowhere"},
		{"payments adjust 0x1 --credit ada --member bob --reason x", "--member belongs to payments adjust --void"},
		{"payments adjust 0x1 --unclaimed --member bob --reason x", "--member belongs to payments adjust --void"},
		// An id can begin like a flag.
		{"payments show -XyZ --data /nowhere", "no origin is running on this data folder: /nowhere"},
		{"payments --data /nowhere show --XyZ", "no origin is running on this data folder: /nowhere"},
		{"payments show --data=/nowhere -- -XyZ", "no origin is running on this data folder: /nowhere"},
		{"payments show XyZ --bogus", "flag provided but not defined"},
		{"payments --bogus show XyZ", "flag provided but not defined"},
		{"members show --bogus", "flag provided but not defined"},
		{"payments adjust --bogus", "flag provided but not defined"},
	} {
		if _, complaint, failed := webring(strings.Fields(c.args)...); !failed || !strings.Contains(complaint, c.says) {
			t.Errorf("%s: %s", c.args, complaint)
		}
	}
	for twin, says := range map[string]string{
		"WEBRING_DEV=maybe": `WEBRING_DEV is "maybe": it must be true or false`,
		"WEBRING_GRACE=1w":  `WEBRING_GRACE is "1w": it must be a time such as`,
		"WEBRING_CAPACITY=": `WEBRING_CAPACITY is "": it must be a whole number`,
		"WEBRING_FEE=1.234": `WEBRING_FEE is "1.234": `,
	} {
		c := invoke(t, "serve", "--data", t.TempDir())
		c.Env = append(os.Environ(), twin)
		if out, err := c.CombinedOutput(); err == nil || !strings.Contains(string(out), says) {
			t.Errorf("%s: %v: %s", twin, err, out)
		}
	}
	// A variable that is there for one command is not in the way of the others.
	c := invoke(t, "payments", "list", "--data", t.TempDir())
	c.Env = append(os.Environ(), "WEBRING_SINCE=1h")
	if out, err := c.CombinedOutput(); err == nil || !strings.Contains(string(out), "no origin is running") {
		t.Errorf("payments list with WEBRING_SINCE: %v: %s", err, out)
	}
	for _, args := range [][]string{{"help"}, {"help", "help"}, {"help", "--help"}} {
		if out, _, failed := webring(args...); failed || strings.Count(out, "\n  webring ") != len(commands()) {
			t.Errorf("%s: %s", args, out)
		}
	}
	if _, complaint, failed := webring("bogus"); !failed || !strings.Contains(complaint, "webring help") {
		t.Errorf("bogus: %s", complaint)
	}
}
