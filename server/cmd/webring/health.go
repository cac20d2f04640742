package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// healthTime bounds how long `webring health` waits.
const healthTime = 5 * time.Second

// healthOptions are the flags of `webring health`.
type healthOptions struct{ adminListen string }

func (o *healthOptions) flags() *flag.FlagSet {
	fs := flag.NewFlagSet("webring health", flag.ContinueOnError)
	fs.StringVar(&o.adminListen, "admin-listen", usualAdmin, "`address` of the admin listener of the origin or edge to ask")
	return fs
}

// askHealth asks a running origin or edge whether it is well, and fails if it is not. It is
// for containers, which hold no other program that could ask.
func askHealth(args []string, out io.Writer) error {
	var given healthOptions
	if err := parse(given.flags(), args); err != nil {
		return err
	}
	client := &http.Client{Timeout: healthTime}
	res, err := client.Get("http://" + given.adminListen + "/healthz")
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 4096))
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return errors.New(strings.TrimSpace(fmt.Sprintf("/healthz answers %d: %s", res.StatusCode, text)))
	}
	_, err = fmt.Fprintln(out, "ok")
	return err
}
