package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

// sources gives the source of each flag's value, by the flag's name. A flag that is missing
// has its default.
type sources map[string]string

// The sources beside a file, of which [readFile] gives the line.
const (
	fromFlag        = "flag"
	fromEnvironment = "environment " // and the variable
)

// parse sets the flags of fs from the arguments, the environment, and the file that
// --config names.
func parse(fs *flag.FlagSet, args []string) error {
	_, err := configure(fs, args)
	return err
}

// configure is parse, and gives the source of each value.
func configure(fs *flag.FlagSet, args []string) (sources, error) {
	nameTwins(fs)
	if err := parseFlags(fs, args); err != nil {
		return nil, err
	}
	if fs.NArg() > 0 {
		// What stands behind a stray word would not be read as flags.
		return nil, fmt.Errorf("%q is not a flag; repeatable flags are repeated, as in --trusted-proxy A --trusted-proxy B", fs.Arg(0))
	}
	return layer(fs)
}

// parseFlags parses the flags at the beginning of args. Asked for help, it prints
// that and fails with [flag.ErrHelp].
func parseFlags(fs *flag.FlagSet, args []string) error {
	fs.SetOutput(io.Discard) // errors are told once, by main
	err := fs.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		explain(os.Stdout, fs)
	case err != nil:
		err = fmt.Errorf("%w; %s --help lists the flags", err, fs.Name())
	}
	return err
}

// layer sets the flags that the arguments did not set: from the environment, or else from
// the file of --config. A repeatable flag has its whole list from one of the three. The
// error joins all mistakes of environment and file.
func layer(fs *flag.FlagSet) (sources, error) {
	from := sources{}
	fs.Visit(func(f *flag.Flag) { from[f.Name] = fromFlag })
	err := errors.Join(environment(fs, from), checkVariables())
	if f := fs.Lookup(configName); f != nil {
		c := f.Value.(*configFile)
		err = errors.Join(err, readFile(fs, c, from))
	}
	return from, err
}

// nameTwins adds to the usage of each flag the variable that sets it, too.
func nameTwins(fs *flag.FlagSet) {
	fs.VisitAll(func(f *flag.Flag) { f.Usage += " [" + twin(f.Name) + "]" })
}

// environment sets each flag without a value whose twin is set: --base-url is
// WEBRING_BASE_URL.
func environment(fs *flag.FlagSet, from sources) (err error) {
	fs.VisitAll(func(f *flag.Flag) {
		twin := twin(f.Name)
		v, ok := os.LookupEnv(twin)
		if !ok || from[f.Name] != "" {
			return
		}
		from[f.Name] = fromEnvironment + twin
		if e := fs.Set(f.Name, v); e != nil {
			err = errors.Join(err, fmt.Errorf("%s is %q: %w", twin, v, taken(f.Value, e)))
		}
	})
	return err
}
