package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/pelletier/go-toml/v2"

	"webring/server/paid/form"
)

// A setting is declared once, as a flag of package flag. The command line sets it, or else the
// environment, or else the file of --config.

// fileOnly begins the usage of settings that are keys of the file, and variables, but no flags
// of the command line: those that few operators need.
const fileOnly = "in the file: "

// The flags that no file may set.
const (
	configName  = "config"
	checkFlag   = "check"
	confirmFlag = "confirm"
)

// sources gives the source of each setting's value by its name: "flag", the variable, or a
// line of the file. A setting that is missing has its default.
type sources map[string]string

// parse sets the settings of a command that takes no words.
func parse(fs *flag.FlagSet, args []string) error {
	_, err := configure(fs, args)
	return err
}

// configure is parse, and gives the source of each value.
func configure(fs *flag.FlagSet, args []string) (sources, error) {
	if err := parseFlags(fs, args); err != nil {
		return nil, err
	}
	if fs.NArg() > 0 { // no flag behind it would be read
		return nil, fmt.Errorf("%q is not a flag; repeatable flags are repeated, as in --trusted-proxy A --trusted-proxy B", fs.Arg(0))
	}
	return layer(fs)
}

// parseFlags parses the flags at the beginning of args. Asked for help, it prints help and
// fails with [flag.ErrHelp].
func parseFlags(fs *flag.FlagSet, args []string) error {
	fs.SetOutput(io.Discard) // main prints errors, once
	err := fs.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		explain(os.Stdout, fs)
		return err
	case err != nil:
		return fmt.Errorf("%w; %s --help lists the flags", err, fs.Name())
	}
	fs.Visit(func(f *flag.Flag) {
		if strings.HasPrefix(f.Usage, fileOnly) {
			err = errors.Join(err, fmt.Errorf("--%s is no flag: set %[1]s in the file of --config, or the variable %s", f.Name, variable(f.Name)))
		}
	})
	return err
}

// parseWords parses flags between words. If the first word is ahead, the next argument is a
// word even if it begins like a flag, unless there is such a flag.
func parseWords(fs *flag.FlagSet, args []string, ahead string) (words []string, err error) {
	for {
		if err := parseFlags(fs, args); err != nil {
			return nil, err
		}
		if args = fs.Args(); len(args) == 0 {
			break
		}
		words, args = append(words, args[0]), args[1:]
		if len(words) == 1 && words[0] == ahead && len(args) > 0 && !isFlag(fs, args[0]) {
			words, args = append(words, args[0]), args[1:]
		}
	}
	fs.Visit(func(f *flag.Flag) {
		if m := takers.FindStringSubmatch(f.Usage); m != nil && len(words) > 0 && !slices.Contains(strings.Split(m[1], ", "), words[0]) {
			err = fmt.Errorf("--%s belongs to %s %s", f.Name, fs.Name(), m[1])
		}
	})
	if err == nil {
		_, err = layer(fs)
	}
	return words, err
}

// isFlag reports whether package flag knows an argument: as a flag, as a request for help, or as
// the end of flags.
func isFlag(fs *flag.FlagSet, arg string) bool {
	rest, dash := strings.CutPrefix(arg, "-")
	name, _, _ := strings.Cut(strings.TrimPrefix(rest, "-"), "=")
	return arg == "--" || dash && (fs.Lookup(name) != nil || name == "h" || name == "help")
}

// takers matches the words at the beginning of a flag's usage: the flag is for these alone.
var takers = regexp.MustCompile(`^([a-z]+(?:, [a-z]+)*)(?: --[a-z]+)?: `)

// layer sets what the command line did not set: from the environment, or else from the file. A
// list comes whole from one of the three. The error joins all mistakes of environment and file.
func layer(fs *flag.FlagSet) (sources, error) {
	from, errs := sources{}, []error{}
	fs.Visit(func(f *flag.Flag) { from[f.Name] = "flag" })
	fs.VisitAll(func(f *flag.Flag) {
		name := variable(f.Name)
		v, ok := os.LookupEnv(name)
		if !ok || from[f.Name] != "" {
			return
		}
		from[f.Name] = "environment " + name
		if err := fs.Set(f.Name, v); err != nil {
			errs = append(errs, fmt.Errorf("%s is %q: %w", name, v, taken(f.Value, err)))
		}
	})
	if names := strange(os.Environ()); len(names) > 0 {
		errs = append(errs, fmt.Errorf("%s: no command has such a setting; unset it, or correct it: webring COMMAND --help and the handbook list them", strings.Join(names, ", ")))
	}
	if f := fs.Lookup(configName); f != nil {
		if c := f.Value.(*configFile); c.path != "" {
			text, err := os.ReadFile(c.path)
			if path, is := errors.AsType[*os.PathError](err); is {
				err = fmt.Errorf("%s: %w", c.path, path.Err)
			}
			if err != nil {
				err = fmt.Errorf("--config: %w", err)
			} else {
				err = readFile(fs, c, text, from)
			}
			errs = append(errs, err)
		}
	}
	return from, errors.Join(errs...)
}

// taken says why a setting did not accept a value. For types of package flag it says what they
// accept.
func taken(v flag.Value, err error) error {
	if get, ok := v.(flag.Getter); ok {
		switch get.Get().(type) {
		case bool:
			return errors.New("it must be true or false")
		case int, uint64:
			return errors.New("it must be a whole number")
		}
	}
	return err
}

// prefix begins the names of all the project's environment variables.
const prefix = "WEBRING_"

// variable is the environment variable of a setting.
func variable(name string) string {
	return prefix + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// noSetting matches variables that are no settings and in order: fields for the scoring
// service, those of the project's own tests, and what a container platform sets for every
// service called webring, as WEBRING_SERVICE_HOST and WEBRING_PORT_8402_TCP.
var noSetting = regexp.MustCompile(`^WEBRING_(SCORE_HEADER_|TEST_|BENCH_|SERVICE_|PORT|(FAILPOINT|SHOTS)$)`)

// strange gives the names in environ, in the form of [os.Environ], that begin like a variable of
// a setting and are none. What a container platform sets for a service called webring-edge is in
// order: WEBRING_EDGE_SERVICE_HOST tells of it.
func strange(environ []string) (names []string) {
	known := map[string]bool{}
	for _, c := range commands() {
		c.flags().VisitAll(func(f *flag.Flag) { known[variable(f.Name)] = true })
	}
	var services []string
	for _, v := range environ {
		name, _, _ := strings.Cut(v, "=")
		if strings.HasPrefix(name, prefix) && !known[name] && !noSetting.MatchString(name) {
			names = append(names, name)
		}
		if service, ok := strings.CutSuffix(name, "_SERVICE_HOST"); ok {
			services = append(services, service)
		}
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		return slices.ContainsFunc(services, func(service string) bool {
			return strings.HasPrefix(name, service+"_SERVICE_") || name == service+"_PORT" || strings.HasPrefix(name, service+"_PORT_")
		})
	})
	slices.Sort(names)
	return names
}

// configFile is --config. A command reads the settings in only, or all if it is nil.
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

// maxConfig bounds the length of a file, in bytes.
const maxConfig = 1 << 20

// readFile sets what a file sets and nothing before it did. Errors name the line, and repeat no
// value: it may be a secret.
func readFile(fs *flag.FlagSet, c *configFile, text []byte, from sources) error {
	if len(text) > maxConfig {
		return fmt.Errorf("%s:1: the file is longer than %d bytes", c.path, maxConfig)
	}
	var values map[string]any
	if err := toml.Unmarshal(text, &values); err != nil {
		line := 1
		if wrong, is := errors.AsType[*toml.DecodeError](err); is {
			line, _ = wrong.Position()
		}
		return fmt.Errorf("%s:%d: %s", c.path, line, strings.TrimPrefix(err.Error(), "toml: "))
	}
	// For a struct without fields every key is unknown, and the error tells its line.
	err := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields().Decode(&struct{}{})
	unknown, is := errors.AsType[*toml.StrictMissingError](err)
	if !is {
		return err
	}
	known := settable(fs)
	var wrong []error
	for _, key := range unknown.Errors {
		name := strings.Join(key.Key(), ".")
		line, _ := key.Position()
		at := fmt.Sprintf("%s:%d", c.path, line)
		switch {
		case c.only != nil && !slices.Contains(c.only, name) && (settable(new(options).flags())[name] || settable(new(edgeOptions).flags())[name]):
		case !known[name] || c.only != nil && !slices.Contains(c.only, name):
			wrong = append(wrong, fmt.Errorf("%s: %w", at, misnamed(name, known)))
		case from[name] == "":
			from[name] = at
			if err := set(fs, name, values[name]); err != nil {
				wrong = append(wrong, fmt.Errorf("%s: %s: %w", at, name, err))
			}
		}
	}
	return errors.Join(wrong...)
}

func onlyFlag(f *flag.Flag) bool {
	return f.Name == configName || f.Name == checkFlag || f.Name == confirmFlag
}

// settable gives the names that a file may set of a command's settings.
func settable(fs *flag.FlagSet) map[string]bool {
	names := map[string]bool{}
	fs.VisitAll(func(f *flag.Flag) { names[f.Name] = !onlyFlag(f) })
	return names
}

// misnamed says what to change about a key that is no setting of a command.
func misnamed(name string, known map[string]bool) error {
	name = strings.ReplaceAll(name, "\n", " ")
	meant := strings.NewReplacer("_", "-", ".", "-").Replace(strings.TrimPrefix(strings.ToLower(strings.TrimPrefix(name, prefix)), "--"))
	if known[meant] && meant != name {
		return fmt.Errorf("%q is unknown: write %s", name, meant)
	}
	return fmt.Errorf("%q is no setting of this command: take it out, or correct it; webring config prints the names, and a file has no tables", name)
}

// set sets a setting to a value of a file: a list to an array or to one string, all others to one
// value.
func set(fs *flag.FlagSet, name string, value any) error {
	f := fs.Lookup(name)
	_, repeatable := f.Value.(*list)
	items, array := value.([]any)
	if !array {
		items = []any{value}
	} else if !repeatable {
		return errors.New("it takes one value, and not an array")
	}
	for _, item := range items {
		switch item.(type) {
		case map[string]any, []any:
			return errors.New("it takes a string or a number, and no table or array in its place")
		}
		if err := fs.Set(name, fmt.Sprint(item)); err != nil {
			return taken(f.Value, err)
		}
	}
	return nil
}

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
		if onlyFlag(f) {
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

// secretURL says that a flag is a URL that may hold a key anywhere.
func secretURL(name string) bool { return strings.HasSuffix(name, "-rpc") || name == "score-url" }

// blank leaves out of a value what may be a secret: of such URLs all but scheme and
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
	secret := secretURL(name)
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

// list is a repeatable flag; its environment twin separates with commas.
type list []string

func (l *list) String() string { return strings.Join(*l, ",") }

// Set adds one or, separated by commas, several values.
func (l *list) Set(v string) error {
	for _, s := range strings.Split(v, ",") {
		if s = strings.TrimSpace(s); s != "" {
			*l = append(*l, s)
		}
	}
	return nil
}

// cents is an amount of money in a flag.
type cents int64

func (c *cents) String() string { return form.FormatUSD(int64(*c)) }

// Set reads dollars with at most two decimals.
func (c *cents) Set(v string) error {
	n, err := form.ParseUSD(v)
	*c = cents(n)
	return err
}

// seconds gives a duration that validate has found whole.
func seconds(d time.Duration) int64 { return int64(d / time.Second) }

// day is 24 hours, whatever a calendar says.
const day = 24 * time.Hour

// duration is a time in a flag.
type duration time.Duration

// String is the time in a form that Set reads: in days where they are whole.
func (d *duration) String() string {
	t := time.Duration(*d)
	if t != 0 && t%day == 0 {
		return fmt.Sprintf("%dd", t/day)
	}
	return t.String()
}

// Set reads what [parseDuration] reads.
func (d *duration) Set(v string) error {
	t, err := parseDuration(v)
	*d = duration(t)
	return err
}

// parseDuration reads a time as [time.ParseDuration] does, with days before it or
// alone: 30d, 1d12h, 90s.
func parseDuration(v string) (time.Duration, error) {
	wrong := errors.New("it must be a time such as 30d, 720h or 90s")
	if days, rest, found := strings.Cut(v, "d"); found {
		n, err := strconv.ParseUint(days, 10, 32)
		if err != nil {
			return 0, wrong
		}
		v = fmt.Sprintf("%dh%s", 24*n, rest)
	}
	d, err := time.ParseDuration(v)
	if err != nil {
		return 0, wrong
	}
	return d, nil
}

// address is an account or a token in a flag; the zero address stands for none.
type address common.Address

// String is the address with its checksum, and empty for none.
func (a *address) String() string {
	if *a == (address{}) {
		return ""
	}
	return common.Address(*a).Hex()
}

// Set reads an address. Where its letters are of both cases, they are its checksum
// (EIP-55). One that does not hold tells of a mistake somewhere in the address, so no
// other spelling is proposed.
func (a *address) Set(v string) error {
	if v == "" {
		*a = address{}
		return nil
	}
	if !common.IsHexAddress(v) {
		return errors.New("it is not an account address, 0x and 40 hex digits")
	}
	read := common.HexToAddress(v)
	if read == (common.Address{}) {
		return errors.New("it is the zero address, which has no owner")
	}
	digits := v[len(v)-2*common.AddressLength:]
	if digits != strings.ToLower(digits) && digits != strings.ToUpper(digits) && digits != read.Hex()[2:] {
		return errors.New("its checksum (EIP-55) does not hold, so some character of it is wrong: give the address again, copied from where it was made")
	}
	*a = address(read)
	return nil
}
