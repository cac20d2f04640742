package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// configName and checkName are the flags that no file may set.
const (
	configName = "config"
	checkFlag  = "check"
)

// configFile is --config. The file sets flags of the same name, of those in only where
// that is not nil.
type configFile struct {
	path string
	only []string
}

func (c *configFile) String() string { return c.path }

// Set names the file.
func (c *configFile) Set(path string) error {
	c.path = path
	return nil
}

// defineConfig defines --config for commands that a file sets every flag of.
func defineConfig(flags *flag.FlagSet) {
	flags.Var(&configFile{}, configName, "`file` in TOML that sets flags by their names, repeatable ones as arrays; flags and environment come first")
}

// defineData defines --data for the operator's commands, and --config, by which they find
// the data folder: the rest of that file is for the process that they talk to.
func defineData(flags *flag.FlagSet, data *string, usage string) {
	flags.Var(&configFile{only: []string{"data"}}, configName, "`file` of the process that runs on the data folder, as serve and edge take it: of it, data is read")
	flags.StringVar(data, "data", "./data", usage)
}

// maxConfig bounds the length of a file, in bytes.
const maxConfig = 1 << 20

// entry is a line of a configuration file.
type entry struct {
	name  string
	value any
	line  int
}

// readFile sets the flags without a value that a file sets.
func readFile(flags *flag.FlagSet, c *configFile, from sources) error {
	if c.path == "" {
		return nil
	}
	text, err := os.ReadFile(c.path)
	var path *fs.PathError
	switch {
	case errors.As(err, &path):
		return fmt.Errorf("--config: %s: %w", c.path, path.Err)
	case err != nil:
		return fmt.Errorf("--config: %w", err)
	case len(text) > maxConfig:
		return fmt.Errorf("--config: %s is longer than %d bytes", c.path, maxConfig)
	}
	return applyFile(flags, c, text, from)
}

// applyFile is readFile for a text. Errors name the line, and repeat no value: it may be
// a secret.
func applyFile(flags *flag.FlagSet, c *configFile, text []byte, from sources) error {
	entries, err := decode(text)
	if err != nil {
		return fmt.Errorf("%s:%w", c.path, err)
	}
	var wrong []error
	for _, e := range entries {
		if err := e.apply(flags, c, from); err != nil {
			wrong = append(wrong, fmt.Errorf("%s:%d: %w", c.path, e.line, err))
		}
	}
	return errors.Join(wrong...)
}

// decode reads TOML. Its errors begin with the line. A key with dots is one entry, and a
// table, too.
func decode(text []byte) ([]entry, error) {
	var values map[string]any
	err := toml.Unmarshal(text, &values)
	var wrong *toml.DecodeError
	if errors.As(err, &wrong) {
		line, _ := wrong.Position()
		return nil, fmt.Errorf("%d: %s", line, strings.TrimPrefix(wrong.Error(), "toml: "))
	}
	if err != nil {
		return nil, fmt.Errorf("1: %w", err)
	}
	// To a struct without fields every key is unknown, and what is unknown is told with
	// its line.
	err = toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields().Decode(&struct{}{})
	var unknown *toml.StrictMissingError
	if !errors.As(err, &unknown) {
		return nil, err
	}
	var entries []entry
	for _, key := range unknown.Errors {
		name := strings.Join(key.Key(), ".")
		line, _ := key.Position()
		entries = append(entries, entry{name, values[name], line})
	}
	return entries, nil
}

// apply sets the flag that an entry names, unless it has a value.
func (e entry) apply(flags *flag.FlagSet, c *configFile, from sources) error {
	f := flags.Lookup(e.name)
	settable := f != nil && e.name != configName && e.name != checkFlag
	if c.only != nil {
		if !settable || !slices.Contains(c.only, e.name) {
			return e.explain(processFlags())
		}
	} else if !settable {
		return e.explain(flagNames(flags))
	}
	values, err := e.strings(f)
	if err != nil || from[e.name] != "" {
		return err
	}
	from[e.name] = fmt.Sprintf("%s:%d", c.path, e.line)
	for _, v := range values {
		if err := flags.Set(e.name, v); err != nil {
			return fmt.Errorf("%s: %w", e.name, taken(f.Value, err))
		}
	}
	return nil
}

// strings gives the value as [flag.FlagSet.Set] takes it, a repeatable flag's item by
// item.
func (e entry) strings(f *flag.Flag) ([]string, error) {
	if _, repeatable := f.Value.(*list); repeatable {
		if s, one := e.value.(string); one {
			return []string{s}, nil
		}
		items, ok := e.value.([]any)
		if !ok {
			return nil, fmt.Errorf("%s can be repeated, so it is an array of strings: %[1]s = [\"…\"]", e.name)
		}
		var all []string
		for _, item := range items {
			s, ok := item.(string)
			if !ok {
				return nil, fmt.Errorf("%s is an array of strings: put each item into quotes", e.name)
			}
			all = append(all, s)
		}
		return all, nil
	}
	kind := any("")
	if get, ok := f.Value.(flag.Getter); ok {
		kind = get.Get()
	}
	switch kind.(type) {
	case bool:
		if v, ok := e.value.(bool); ok {
			return []string{strconv.FormatBool(v)}, nil
		}
		return nil, fmt.Errorf("%s is true or false, without quotes", e.name)
	case int, int64, uint, uint64:
		if v, ok := e.value.(int64); ok {
			return []string{strconv.FormatInt(v, 10)}, nil
		}
		return nil, fmt.Errorf("%s is a whole number, without quotes", e.name)
	}
	if v, ok := e.value.(string); ok {
		return []string{v}, nil
	}
	return nil, fmt.Errorf("%s is a string: put its value into quotes", e.name)
}

// explain refuses an entry that is none of known, and says what to change. It gives nil
// for one that is.
func (e entry) explain(known map[string]bool) error {
	name := strings.ToLower(e.name)
	name = strings.TrimPrefix(strings.TrimPrefix(name, strings.ToLower(variable)), "--")
	name = strings.NewReplacer("_", "-", ".", "-", " ", "-").Replace(name)
	_, table := e.value.(map[string]any)
	switch {
	case known[e.name]:
		return nil
	case e.name == configName || e.name == checkFlag:
		return fmt.Errorf("%s cannot stand in a file: it is a flag alone", e.name)
	case known[name]:
		return fmt.Errorf("%q is unknown: write %s", e.name, name)
	case table:
		return fmt.Errorf("%q is a table, and a file has none: write NAME = VALUE for each flag, before any [table]", e.name)
	case processFlags()[e.name]:
		return fmt.Errorf("%q belongs to another command: take it out, or move it to that command's file", e.name)
	}
	return fmt.Errorf("%q is unknown: take it out, or correct it; webring serve --help and webring edge --help list the names", e.name)
}

// flagNames gives the names that a file may set of a command's flags.
func flagNames(flags *flag.FlagSet) map[string]bool {
	names := map[string]bool{}
	flags.VisitAll(func(f *flag.Flag) { names[f.Name] = f.Name != configName && f.Name != checkFlag })
	return names
}

// processFlags gives what files of origins and edges may set.
func processFlags() map[string]bool {
	names := flagNames(new(options).flags())
	for name, settable := range flagNames(new(edgeOptions).flags()) {
		names[name] = names[name] || settable
	}
	return names
}
