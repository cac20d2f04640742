package main

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"webring/edge/describe"
)

// papers gives the Markdown files of the project, by path from its root.
func papers(t *testing.T) map[string]string {
	t.Helper()
	root := filepath.Join("..", "..", "..")
	found := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && (name == ".git" || name == "node_modules" || name == "testdata" || name == "data" || name == "bin" || name == ".run"):
			return filepath.SkipDir
		case strings.HasSuffix(name, ".md"):
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			name, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			found[filepath.ToSlash(name)] = string(text)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"README.md", "CHANGELOG.md", "core/README.md", "wasm/README.md", "edge/README.md", "server/README.md", "server/HANDBOOK.md", "server/DESIGN.md",
		"templates/README.md", "static/README.md", ".github/CONTRIBUTING.md", ".github/SECURITY.md"} {
		if found[name] == "" {
			t.Errorf("there is no %s", name)
		}
	}
	return found
}

var (
	codeBlock = regexp.MustCompile("(?ms)^```.*?^```$")
	codeSpan  = regexp.MustCompile("`[^`]*`")
	link      = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	heading   = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notInName = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors gives the names under which the headings of a paper can be linked to.
func anchors(text string) (names []string) {
	for _, h := range heading.FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1) {
		names = append(names, strings.ReplaceAll(notInName.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-"))
	}
	return names
}

// Every relative link in a paper leads to a file, and to a heading if it names one.
func TestLinksInPapersLeadSomewhere(t *testing.T) {
	t.Parallel()
	all := papers(t)
	links := 0
	for name, text := range all {
		text = codeSpan.ReplaceAllString(codeBlock.ReplaceAllString(text, ""), "")
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			target, anchor, anchored := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			links++
			file := name
			if target != "" {
				file = filepath.ToSlash(filepath.Join(filepath.Dir(name), target))
			}
			if _, err := os.Stat(filepath.Join("..", "..", "..", file)); err != nil {
				t.Errorf("%s links to %s: %v", name, m[1], err)
			} else if anchored && !slices.Contains(anchors(all[file]), anchor) {
				t.Errorf("%s links to %s, and %s has no such heading", name, m[1], file)
			}
		}
	}
	if links < 30 {
		t.Errorf("only %d links were found", links)
	}
}

// All that names the reference client names the versions that are tested and that npm can install.
func TestOneVersionOfTheClientIsNamed(t *testing.T) {
	t.Parallel()
	all := papers(t)
	delete(all, "CHANGELOG.md") // it tells of what was
	for _, file := range []string{"templates/docs.templ", "templates/_examples/client.ts", "server/pay/mpp/doc.go", "server/devchain/package.json"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "..", file))
		if err != nil {
			t.Fatal(err)
		}
		all[file] = strings.ReplaceAll(string(text), `": "`, "@")
	}
	named, run := regexp.MustCompile(`\b(mppx|viem)[ @]([0-9][0-9.]*[0-9])`), regexp.MustCompile(`npx [^\n]*mppx`)
	commands := 0
	for file, text := range all {
		for _, m := range named.FindAllStringSubmatch(text, -1) {
			if !slices.Contains(strings.Fields(describe.ClientPackages), m[1]+"@"+m[2]) {
				t.Errorf("%s names %s %s, and not those of %s", file, m[1], m[2], describe.ClientPackages)
			}
		}
		for _, command := range run.FindAllString(text, -1) {
			if commands++; command != describe.Client {
				t.Errorf("%s runs %s, and not %s", file, command, describe.Client)
			}
		}
	}
	if commands < 2 {
		t.Errorf("only %d commands were found", commands)
	}
}

// Commands, flags, variables and make targets that a paper names exist. The changelog is
// left out: it tells of what was.
func TestPapersNameWhatExists(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile(filepath.Join("..", "..", "..", "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	widget, err := os.ReadFile(filepath.Join("..", "..", "..", "static", "widget.js"))
	if err != nil {
		t.Fatal(err)
	}
	handbook := papers(t)["server/HANDBOOK.md"]
	flags, words, of := map[string]bool{"--help": true}, map[string]bool{"help": true, "COMMAND": true}, map[string]map[string]bool{}
	for _, c := range commands() {
		words[c.name] = true
		of[c.name] = map[string]bool{"--help": true}
		c.flags().VisitAll(func(f *flag.Flag) {
			if !strings.HasPrefix(f.Usage, fileOnly) {
				flags["--"+f.Name], of[c.name]["--"+f.Name] = true, true
			} else if !strings.Contains(handbook, "\n| `"+f.Name+"` |") {
				t.Errorf("the handbook has no row for the setting %s", f.Name)
			}
		})
	}
	// What papers say of the programs of others.
	others := map[string]bool{"--no-save": true, "--omit-lockfile-registry-resolved": true, "--state": true,
		"--now": true, "--ignore-missing": true, "--peer-urls": true}
	var (
		flagName = regexp.MustCompile(`--[a-z][a-z-]*[a-z]`)
		variable = regexp.MustCompile(`WEBRING_[A-Z_]+`)
		target   = regexp.MustCompile("make ([a-z-]+)`|(?m)^make ([a-z-]+)")
		run      = regexp.MustCompile("(?m)(?:^|[` /])webring ([a-zA-Z]+(?:-[a-z]+)*)((?: [^`\n]*?(?:\\\\\n[^`\n]*?)*)?)(?:`|$)")
	)
	said := map[string]int{}
	for name, text := range papers(t) {
		if name == "CHANGELOG.md" {
			continue
		}
		for _, f := range flagName.FindAllString(text, -1) {
			// Properties of the widget's style have the form of flags.
			property := strings.HasPrefix(f, "--webring-") && strings.Contains(string(widget), "var("+f+",")
			if said["flag"]++; !flags[f] && !others[f] && !property {
				t.Errorf("%s names %s, which no command has", name, f)
			}
		}
		for _, v := range variable.FindAllString(text, -1) {
			if said["variable"]++; len(strange([]string{v + "=x"})) > 0 && v != "WEBRING_" {
				t.Errorf("%s names %s, which sets nothing", name, v)
			}
		}
		for _, m := range target.FindAllStringSubmatch(text, -1) {
			goal := m[1] + m[2]
			if said["target"]++; !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(goal) + `:`).Match(makefile) {
				t.Errorf("%s names make %s, which the Makefile does not have", name, goal)
			}
		}
		code := strings.Join(codeBlock.FindAllString(text, -1), "\n") + "\n" + strings.Join(codeSpan.FindAllString(codeBlock.ReplaceAllString(text, ""), -1), "\n")
		for _, m := range run.FindAllStringSubmatch(code, -1) {
			if said["command"]++; !words[m[1]] {
				t.Errorf("%s names webring %s, which is no command", name, m[1])
				continue
			}
			for _, f := range flagName.FindAllString(m[2], -1) {
				if of[m[1]] != nil && !of[m[1]][f] {
					t.Errorf("%s gives %s to webring %s, which does not have it", name, f, m[1])
				}
			}
		}
	}
	for what, least := range map[string]int{"flag": 60, "variable": 3, "target": 10, "command": 15} {
		if said[what] < least {
			t.Errorf("%d times a %s was found, which is too few to believe", said[what], what)
		}
	}
}
