package main

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"webring/server/devchain"
)

// configured writes a file for --config.
func configured(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ring.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A flag comes before the environment, the environment before the file, the file before
// the default: for flags of every kind, and for repeatable ones as whole lists.
func TestPrecedence(t *testing.T) {
	kinds := []struct {
		name                     string
		flags                    []string
		variable, file           string
		flag, env, inFile, usual string // values
	}{
		{"fee", []string{"--fee", "2"}, "3", `fee = "4.00"`, "2.00", "3.00", "4.00", "1.00"},
		{"rate-limit", []string{"--rate-limit=2"}, "3", `rate-limit = 4`, "2", "3", "4", "120"},
		{"tempo-chain-id", []string{"--tempo-chain-id", "7"}, "8", `tempo-chain-id = 9`, "7", "8", "9", "42431"},
		{"dev", []string{"--dev=false"}, "false", `dev = true`, "false", "false", "true", "false"},
		{"grace", []string{"--grace", "1d"}, "2d", `grace = "36h"`, "1d", "2d", "36h0m0s", "30d"},
		{"name", []string{"--name", "A"}, "B", `name = 'C'`, "A", "B", "C", "Webring"},
		{"tempo-recipient", []string{"--tempo-recipient", usdc}, strings.ToLower(usdc), `tempo-recipient = "` + usdc[2:] + `"`, usdc, usdc, usdc, ""},
		{"trusted-proxy", []string{"--trusted-proxy", "10.0.0.1", "--trusted-proxy", "10.0.0.2"}, "10.0.0.3,10.0.0.4", `trusted-proxy = ["10.0.0.5", "10.0.0.6"]`,
			"10.0.0.1,10.0.0.2", "10.0.0.3,10.0.0.4", "10.0.0.5,10.0.0.6", ""},
	}
	for _, k := range kinds {
		file := configured(t, "# a comment\n"+k.file+"\n")
		for given := range 8 {
			byFlag, byEnv, byFile := given&1 > 0, given&2 > 0, given&4 > 0
			var args []string
			value, source := k.usual, ""
			if byFile {
				args = append(args, "--config", file)
				value, source = k.inFile, file+":2"
			}
			os.Unsetenv(variable(k.name))
			if byEnv {
				t.Setenv(variable(k.name), k.variable)
				value, source = k.env, "environment "+variable(k.name)
			}
			if byFlag {
				args = append(args, k.flags...)
				value, source = k.flag, "flag"
			}
			fs := new(options).flags()
			from, err := configure(fs, args)
			if got := fs.Lookup(k.name).Value.String(); err != nil || got != value || from[k.name] != source {
				t.Errorf("%s by flag %t, environment %t, file %t: %q of %q, %v; want %q of %q", k.name, byFlag, byEnv, byFile, got, from[k.name], err, value, source)
			}
		}
		os.Unsetenv(variable(k.name))
	}
	// The file itself may be named by its variable.
	t.Setenv("WEBRING_CONFIG", configured(t, `name = "Of the file"`))
	var o options
	if err := parse(o.flags(), nil); err != nil || o.name != "Of the file" {
		t.Errorf("%q, %v", o.name, err)
	}
	if err := parse(o.flags(), []string{"--config", ""}); err != nil || o.name != "Webring" {
		t.Errorf("without the file: %q, %v", o.name, err)
	}
	// A list that is empty is one all the same.
	t.Setenv("WEBRING_TRUSTED_PROXY", "")
	if err := parse(o.flags(), []string{"--config", configured(t, `trusted-proxy = ["10.0.0.1"]`)}); err != nil || len(o.shell.trustedProxies) != 0 {
		t.Errorf("%v, %v", o.shell.trustedProxies, err)
	}
}

// What is wrong with a file is told with the line and with what to change, all of it at
// once, and without a value: it may be a secret.
func TestMistakesInAFile(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		"base_url = 'x'":                        `1: "base_url" is unknown: write base-url`,
		"\n\nWEBRING_FEE = '1'":                 `3: "WEBRING_FEE" is unknown: write fee`,
		"tempo.rpc = 'x'":                       `1: "tempo.rpc" is unknown: write tempo-rpc`,
		"\"--fee\" = '1'":                       `1: "--fee" is unknown: write fee`,
		"fees = '1'":                            `1: "fees" is no setting of this command: take it out, or correct it`,
		"\"\" = 1":                              `1: "" is no setting`,
		"[serve]\nfee = '1'":                    `1: "serve" is no setting of this command`,
		"fee.x = 1":                             `1: "fee.x" is no setting`,
		"origin = 'x'":                          `1: "origin" is no setting of this command`,
		"config = 'x'":                          `1: "config" is no setting`,
		"check = true":                          `1: "check" is no setting`,
		"fee = 'hunter2'":                       `1: fee: `,
		"fee = 1.555":                           `1: fee: `,
		"fee = ['1']":                           `1: fee: it takes one value, and not an array`,
		"rate-limit = 1.5":                      `1: rate-limit: it must be a whole number`,
		"tempo-depth = -1":                      `1: tempo-depth: it must be a whole number`,
		"dev = 'yes'":                           `1: dev: it must be true or false`,
		"grace = 07:32:00":                      `1: grace: it must be a time`,
		"trusted-proxy = [['10.0.0.1']]":        `1: trusted-proxy: it takes a string`,
		"name = {a = 1}":                        `1: name: it takes a string`,
		"name = 'a'\nname = 'b'":                `2: key name is already defined`,
		"name = 'hunter2":                       `1: `,
		"rate-limit = 99999999999999999999":     `1: `,
		"fees = 1\nfee = 1.555\nrate_limit = 3": ":3: \"rate_limit\" is unknown: write rate-limit",
		"name = \"\\uD800\"":                    `1: `,
		"tempo-rpc = ['https://hunter2@x.example/']": `1: tempo-rpc: it takes one value`,
	} {
		path := configured(t, text)
		err := parse(new(options).flags(), []string{"--config", path})
		if err == nil || !strings.Contains(err.Error(), says) || !strings.HasPrefix(err.Error(), path+":") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", text, err)
		}
		if n := strings.Count(text, "fees = 1\n"); n > 0 && strings.Count(err.Error(), "\n") != 2 {
			t.Errorf("%q: %v", text, err)
		}
	}
	if err := parse(new(options).flags(), []string{"--tempo-depth", "3"}); err == nil || !strings.Contains(err.Error(), "set tempo-depth in the file of --config, or the variable WEBRING_TEMPO_DEPTH") {
		t.Errorf("a setting that is no flag: %v", err)
	}
	missing := filepath.Join(t.TempDir(), "missing.toml")
	if err := parse(new(options).flags(), []string{"--config", missing}); err == nil || err.Error() != "--config: "+missing+": no such file or directory" {
		t.Errorf("%v", err)
	}
	if err := parse(new(edgeOptions).flags(), []string{"--config", configured(t, "fee = '1'")}); err == nil || !strings.Contains(err.Error(), `"fee" is no setting of this command`) {
		t.Errorf("an edge: %v", err)
	}
}

// The operator's commands find the data folder by the file of the process, and take
// nothing else from it; a name that neither process has is a mistake to them, too.
func TestOperatorsFindTheDataFolderByTheFile(t *testing.T) {
	t.Parallel()
	for i, command := range [][]string{{"members", "list"}, {"payments", "list"}, {"payments", "show", "x"}, {"backup", filepath.Join(t.TempDir(), "b")}, {"key", "next"}, {"log-level"}} {
		path := configured(t, "base-url = 'https://ring.example.org'\nfee = '2'\norigin = 'x'\ndata = '/nowhere/at all'\n")
		said := refusal(t, nil, append(command, "--config", path)...)
		if !strings.Contains(said, "/nowhere/at all") || !strings.Contains(said, "no origin") || !strings.Contains(said, "running") {
			t.Errorf("%v: %s", command, said)
		}
		if i > 0 {
			continue // the rest is the same for all
		}
		if said := refusal(t, nil, append(command, "--config", path, "--data", "/elsewhere")...); !strings.Contains(said, "/elsewhere") {
			t.Errorf("%v: %s", command, said)
		}
		if said := refusal(t, []string{"WEBRING_CONFIG=" + path}, command...); !strings.Contains(said, "/nowhere/at all") {
			t.Errorf("%v: %s", command, said)
		}
		path = configured(t, "data = '/nowhere'\ndatta = 1\nreason = 'x'\n")
		if said := refusal(t, nil, append(command, "--config", path)...); !strings.Contains(said, path+`:2: "datta" is no setting`) || !strings.Contains(said, path+`:3: "reason" is no setting`) {
			t.Errorf("%v: %s", command, said)
		}
	}
}

// An origin and an edge take everything from files.
func TestAnOriginAndAnEdgeRunByFiles(t *testing.T) {
	t.Parallel()
	o := prepare(t, nil, "--core", "native")
	flags := o.args[1:]
	var text strings.Builder
	for i := 0; i < len(flags); i++ {
		name := strings.TrimPrefix(flags[i], "--")
		switch {
		case name == "dev":
			fmt.Fprintf(&text, "%s = true\n", name)
			continue
		case name == "rate-limit":
			fmt.Fprintf(&text, "%s = %s\n", name, flags[i+1])
		default:
			fmt.Fprintf(&text, "%s = '%s'\n", name, flags[i+1])
		}
		i++
	}
	o.args = []string{"serve", "--config", configured(t, text.String()+"name = 'By a File'\nallow-name = ['official']\n")}
	o.launch()
	t.Cleanup(o.kill)
	key := o.verifier()
	e := &origin{t: t, data: folder(t), base: "http://" + devchain.FreeAddress()}
	e.args = []string{"edge", "--config", configured(t, fmt.Sprintf("listen = '%s'\norigin = '%s'\norigin-key = ['%s']\ncore = 'native'\nrate-limit = 0\n",
		strings.TrimPrefix(e.base, "http://"), o.base, key))}
	e.launch()
	t.Cleanup(e.kill)
	if r := e.get("/"); !strings.Contains(string(r.Body), "By a File") {
		t.Errorf("the edge's front page: %s", r.Body)
	}
}

// What webring config prints is a file that comes to the same, says where each value is
// from, and holds no secret, wherever that came from.
func TestConfigIsPrinted(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	path := configured(t, "fee = '2.50'\ntempo-recipient = '"+usdc+"'\nevm-rpc = 'https://node.example/"+secret+"'\nallow-name = [\"it's\", 'off\"icial']\n")
	env := append(os.Environ(), "WEBRING_TEMPO_RPC=https://rpc.example:8443/v2?key="+secret, "WEBRING_SCORE_HEADER_AUTHORIZATION=Bearer "+secret, "WEBRING_GRACE=7d", "WEBRING_SCORE_URL=https://"+secret+".example@x.example/{url}")
	run := func(env []string, args ...string) string {
		t.Helper()
		c := invoke(t, append([]string{"config"}, args...)...)
		c.Env = env
		out, err := c.CombinedOutput()
		if err != nil || strings.Contains(string(out), secret) {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	out := run(env, "serve", "--config", path, "--trusted-proxy", "10.0.0.0/8", "--name", "Ring\tof \"quotes\"")
	for _, line := range []string{
		"fee = '2.50'  # " + path + ":1",
		"grace = '7d'  # environment WEBRING_GRACE",
		"trusted-proxy = ['10.0.0.0/8']  # flag",
		"min-bid = '1.00'  # default",
		"rate-limit = 120  # default",
		"dev = false  # default",
		"# tempo-rpc = 'https://rpc.example:8443/…' (what may be secret is left out)  # environment WEBRING_TEMPO_RPC",
		"# evm-rpc = 'https://node.example/…' (what may be secret is left out)  # " + path + ":3",
		"# score-url = 'https://x.example/…' (what may be secret is left out)  # environment WEBRING_SCORE_URL",
		"# WEBRING_SCORE_HEADER_AUTHORIZATION is set, and secret",
	} {
		if !strings.Contains(out, "\n"+line+"\n") {
			t.Errorf("there is no line %s in\n%s", line, out)
		}
	}
	for _, named := range []string{"config = ", "check = "} {
		if strings.Contains(out, "\n"+named) {
			t.Errorf("a file cannot hold %s", named)
		}
	}
	comment := regexp.MustCompile(`  # .*`)
	again := run(os.Environ(), "--config", configured(t, out))
	blanked := regexp.MustCompile(`(?m)^(# )?(tempo-rpc|evm-rpc|score-url|# WEBRING\S+) .*\n|^# WEBRING.*\n`)
	plain := func(s string) string { return comment.ReplaceAllString(blanked.ReplaceAllString(s, ""), "") }
	if plain(again) != plain(out) {
		t.Errorf("given back, it comes to\n%s\nand not to\n%s", plain(again), plain(out))
	}
	for args, line := range map[string]string{"--dev": "drain = '0s'  # default", "--dev --drain 3s": "drain = '3s'  # flag", "": "drain = '10s'  # default"} {
		if out := run(os.Environ(), strings.Fields(args)...); !strings.Contains(out, "\n"+line+"\n") {
			t.Errorf("config %s has no line %s:\n%s", args, line, out)
		}
	}
	out = run(os.Environ(), "edge", "--origin", "https://"+secret+"@ring.example", "--origin-key", "ring.example+1+x")
	for _, line := range []string{"# origin = ['https://ring.example/…']", "origin-key = ['ring.example+1+x']  # flag", "data = './edge-data'  # default", "core = 'wasm'  # default"} {
		if !strings.Contains(out, "\n"+line) {
			t.Errorf("there is no line %s in\n%s", line, out)
		}
	}
	for _, c := range []struct{ args, says string }{
		{"config edge --fee 1", "webring config edge --help"},
		{"config seed", "is not a flag"},
	} {
		if said := refusal(t, nil, strings.Fields(c.args)...); !strings.Contains(said, c.says) {
			t.Errorf("%s: %s", c.args, said)
		}
	}
}

// Any file is taken, or refused with the line. What was taken gives the same settings when
// it is printed and read again.
func FuzzConfig(f *testing.F) {
	for _, seed := range []string{"", "fee = '2'", "rate-limit = 0x10\ndev=true", "trusted-proxy = ['a,b', ' c ']", "a.b = 1\n[c]\nd = 2", "grace = '1d12h'", "name = \"\"\"\nx\"\"\"",
		"tempo-depth = 18446744073709551615", "allow-name = ['', \"\\u0000\"]", "[[fee]]", "\"fee\" = '1'", "fee = {a=1}", "tempo-recipient = '" + usdc + "'", "tempo-rpc='://'", "x = 1\r\n\xff"} {
		f.Add([]byte(seed))
	}
	line := regexp.MustCompile(`^F:\d+: `)
	f.Fuzz(func(t *testing.T, text []byte) {
		read := func(text []byte) (*flag.FlagSet, sources, error) {
			fs, from := new(options).flags(), sources{}
			return fs, from, readFile(fs, &configFile{path: "F"}, text, from)
		}
		fs, from, err := read(text)
		if err != nil {
			for said := range strings.SplitSeq(err.Error(), "\nF:") {
				if said = "F:" + strings.TrimPrefix(said, "F:"); !line.MatchString(said) {
					t.Fatalf("%q: %v", text, err)
				}
			}
			return
		}
		for name, where := range from {
			if fs.Lookup(name) == nil || !strings.HasPrefix(where, "F:") {
				t.Fatalf("%q sets %s at %s", text, name, where)
			}
		}
		var printed bytes.Buffer
		for _, name := range slices.Sorted(maps.Keys(from)) {
			line, err := setting(fs.Lookup(name))
			if err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			if !strings.HasPrefix(line, "# ") {
				fmt.Fprintln(&printed, line)
			} else {
				delete(from, name)
			}
		}
		again, _, err := read(printed.Bytes())
		if err != nil {
			t.Fatalf("%q is printed as %q: %v", text, &printed, err)
		}
		for name := range from {
			if is, was := again.Lookup(name).Value.String(), fs.Lookup(name).Value.String(); is != was {
				t.Fatalf("%q: %s was %q, and read again %q", text, name, was, is)
			}
		}
	})
}
