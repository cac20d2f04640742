package main

import (
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// configFlags are the flags of `webring config`: those of the origin, unless its first
// word is edge.
func configFlags() *flag.FlagSet { return new(options).configFlags() }

func (o *options) configFlags() *flag.FlagSet {
	fs := o.flags()
	fs.Init("webring config", flag.ContinueOnError)
	return fs
}

// printConfig prints, as a file that --config takes, what is in force, and where it is
// from. Secrets are left out.
func printConfig(args []string, out io.Writer) error {
	o := new(options)
	fs, command := o.configFlags(), "serve"
	if len(args) > 0 {
		switch args[0] {
		case "edge":
			fs, command, args = new(edgeOptions).flags(), args[0], args[1:]
			fs.Init("webring config edge", flag.ContinueOnError)
		case command:
			args = args[1:]
		}
	}
	from, err := configure(fs, args)
	if err != nil {
		return err
	}
	o.inDevelopment()
	fmt.Fprintf(out, "# webring %s, and where each value is from\n", command)
	fs.VisitAll(func(f *flag.Flag) {
		if f.Name == configName || f.Name == checkFlag {
			return
		}
		where := from[f.Name]
		if where == "" {
			where = "default"
		}
		line, e := setting(f)
		if e != nil && err == nil {
			err = fmt.Errorf("%s: %w", f.Name, e)
		}
		fmt.Fprintf(out, "%s  # %s\n", line, where)
	})
	for _, v := range slices.Sorted(slices.Values(os.Environ())) {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, prefix+"SCORE_HEADER_") {
			fmt.Fprintf(out, "# %s is set, and secret\n", name)
		}
	}
	return err
}

// setting is a flag as a line of a file. One that holds a secret is a comment, without
// the secret.
func setting(f *flag.Flag) (string, error) {
	value, blanked := blank(f.Name, tomlValue(f))
	line, err := toml.Marshal(map[string]any{f.Name: value})
	text := strings.TrimSpace(string(line))
	if blanked {
		text = "# " + text + " (what may be secret is left out)"
	}
	return text, err
}

// tomlValue is what a file sets a flag to.
func tomlValue(f *flag.Flag) any {
	if l, ok := f.Value.(*list); ok {
		return append([]string{}, *l...)
	}
	if get, ok := f.Value.(flag.Getter); ok {
		switch v := get.Get().(type) {
		case bool, int, int64, uint, uint64:
			return v
		}
	}
	return f.Value.String()
}

// secretURLs are the flags with URLs that may hold a key anywhere.
var secretURLs = []string{"tempo-rpc", "evm-rpc", "score-url"}

// blank leaves out of a value what may be a secret: of these URLs all but scheme and
// host, and of any other its user.
func blank(name string, value any) (shown any, blanked bool) {
	if all, repeatable := value.([]string); repeatable {
		texts := make([]string, len(all))
		for i, text := range all {
			one, secret := blank(name, text)
			texts[i], blanked = one.(string), blanked || secret
		}
		return texts, blanked
	}
	text, ok := value.(string)
	if !ok || text == "" {
		return value, false
	}
	secret := slices.Contains(secretURLs, name)
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "":
		if secret || strings.Contains(text, "@") && strings.Contains(text, "://") {
			return "…", true
		}
		return value, false
	case u.User != nil, secret && (strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != ""):
		return u.Scheme + "://" + u.Host + "/…", true
	}
	return value, false
}
