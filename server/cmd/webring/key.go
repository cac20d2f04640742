package main

import (
	"flag"
	"fmt"
	"io"
	"net/http"

	"webring/edge/durable"
	"webring/server"
)

// keyOptions are the flags of `webring key`.
type keyOptions struct {
	data string
	now  bool
}

func (o *keyOptions) flags() *flag.FlagSet {
	fs := flag.NewFlagSet("webring key", flag.ContinueOnError)
	defineData(fs, &o.data, "`folder` of the running origin")
	fs.BoolVar(&o.now, "now", false, "switch: also in the minutes after the next key was announced, when edges may not have learned of it")
	return fs
}

// changeKey announces the next key that signs for edges, or has it sign alone. Or it makes the
// line of a new secret, with a check.
func changeKey(args []string, out io.Writer) error {
	var given keyOptions
	words, err := parseWords(given.flags(), args, "")
	if err != nil {
		return err
	}
	if len(words) == 1 && words[0] == "new" {
		_, err := fmt.Fprintln(out, durable.NewKey())
		return err
	}
	if len(words) != 1 || words[0] != "next" && words[0] != "switch" {
		return misused("key")
	}
	path := "/keys/" + words[0]
	if given.now {
		path += "?now=yes"
	}
	var keys server.SigningKeys
	if err := operator(given.data).ask(http.MethodPost, path, nil, &keys); err != nil {
		return err
	}
	if err := printKeys(out, keys.Current, keys.Next); err != nil {
		return err
	}
	if words[0] == "next" {
		_, err = fmt.Fprintln(out, "checkpoints are signed with both; make a backup now, and switch when webring version --data DIR shows the next key at every edge")
	} else {
		_, err = fmt.Fprintln(out, "checkpoints are signed with this key alone; the one before is destroyed; make a backup now, since an older one does not hold this key as the one that signs")
	}
	return err
}
