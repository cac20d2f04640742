package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

// variable is how the names of all the project's environment variables begin.
const variable = "WEBRING_"

// twin is the environment variable that sets a flag, too.
func twin(name string) string {
	return variable + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// checkVariables refuses variables that are no command's, as mistyped ones are.
func checkVariables() error {
	if names := strange(os.Environ()); len(names) > 0 {
		return fmt.Errorf("%s: no command has a flag of that name; unset it, or correct it: webring COMMAND --help lists the variables", strings.Join(names, ", "))
	}
	return nil
}

// noFlag matches variables that set no flag and are in order: fields for the scoring
// service, those of the project's own tests, and what a cluster tells every container
// of a service called webring, as WEBRING_SERVICE_HOST and WEBRING_PORT_8402_TCP.
var noFlag = regexp.MustCompile(`^WEBRING_(SCORE_HEADER_|TEST_|BENCH_|SERVICE_|PORT|(FAILPOINT|SHOTS)$)`)

// clusterHost is what a cluster sets for every service.
const clusterHost = "_SERVICE_HOST"

// strange gives the names in environ, in the form of [os.Environ], that begin as a
// flag's twin does and are none. What a cluster tells of a service called webring-edge
// is none of them either: WEBRING_EDGE_SERVICE_HOST stands beside it.
func strange(environ []string) (names []string) {
	known := map[string]bool{}
	for _, c := range commands() {
		c.flags().VisitAll(func(f *flag.Flag) { known[twin(f.Name)] = true })
	}
	var services []string
	for _, v := range environ {
		name, _, _ := strings.Cut(v, "=")
		if strings.HasPrefix(name, variable) && !known[name] && !noFlag.MatchString(name) {
			names = append(names, name)
		}
		if service, ok := strings.CutSuffix(name, clusterHost); ok {
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

// taken is why a flag did not accept a value. For types of package flag it says what they
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
