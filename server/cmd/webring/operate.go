package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"webring/core"
	"webring/edge/durable"
	"webring/edge/follow"
	"webring/server"
	"webring/server/ledger"
	"webring/server/ledger/cluster"
	"webring/server/logging"
	"webring/server/paid/form"
	"webring/wasm/module"
)

// operator asks the running origin on a data folder.
type operator string

var errNotRunning = errors.New("no origin is running on this data folder")

// defineData defines --data for the operator's commands, and --config, by which they find
// the data folder: the rest of that file is for the process that they talk to.
func defineData(fs *flag.FlagSet, usage string) *operator {
	o := new(operator)
	fs.Var(&configFile{only: []string{"data"}}, configName, "`file` of the process that runs on the data folder, as serve and edge take it; only data is read from it")
	fs.StringVar((*string)(o), "data", "./data", usage)
	return o
}

// socketPath is where the operator reaches a running origin.
func socketPath(data string) string { return filepath.Join(data, "operator.sock") }

// ask sends body as JSON and reads the answer into result.
func (o operator) ask(method, path string, body, result any) error {
	return o.send(method, path, body, func(answer io.Reader) error { return json.NewDecoder(answer).Decode(result) })
}

// send gives the body of the answer to read.
func (o operator) send(method, path string, body any, read func(io.Reader) error) error {
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socketPath(string(o)))
	}}}
	defer client.CloseIdleConnections()
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequest(method, "http://origin"+path, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	res, err := client.Do(req)
	if err != nil {
		dial, is := errors.AsType[*net.OpError](err)
		switch {
		case !is || dial.Op != "dial":
			return err
		case errors.Is(dial, syscall.ENOENT), errors.Is(dial, syscall.ECONNREFUSED), errors.Is(dial, syscall.EINVAL): // the last: too long for a socket
			return fmt.Errorf("%w: %s", errNotRunning, o)
		}
		return fmt.Errorf("whether an origin is running on %s cannot be found out: %w", o, dial)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		text, err := io.ReadAll(io.LimitReader(res.Body, 4096))
		return errors.Join(errors.New(strings.TrimSpace(string(text))), err)
	}
	return read(res.Body)
}

// asking names the account that runs the command: the one that called sudo, or else the one of
// this process. The socket lets in only the origin's own account and root, so the name is a
// note and no proof.
func asking() string {
	if name := os.Getenv("SUDO_USER"); name != "" {
		return name
	}
	if own, err := user.Current(); err == nil {
		return own.Username
	}
	return os.Getenv("USER")
}

// printRow asks for a document and prints it.
func (o operator) printRow(out io.Writer, path string) error {
	var row json.RawMessage
	err := o.ask(http.MethodGet, path, nil, &row)
	if err == nil {
		var text bytes.Buffer
		err = json.Indent(&text, row, "", "  ")
		fmt.Fprintln(out, &text)
	}
	return err
}

// table aligns the columns that are written to it, with tabs between them.
func table(out io.Writer, head string) *tabwriter.Writer {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, head)
	return w
}

// members lists, shows, hides and removes members of the running origin.
func members(fs *flag.FlagSet) action {
	o := defineData(fs, "`folder` of the running origin")
	reason := fs.String("reason", "", "hide, unhide, remove: why, in words; they are kept in the ledger, which is public, until the member is redacted, and not at all with --redact")
	code := fs.String("code", "", "hide, unhide, remove: why, as a `code` that stays in the ledger forever: "+strings.Join(core.Reasons(), ", ")+" (default other, which needs --reason)")
	redact := fs.Bool("redact", false, "remove: delete the removed member's name, URL, description and report: they are never served or passed on again, and leave the disk as storage is compacted")
	block := fs.Bool("block", false, "remove: put the host of the removed member's site on the blocklist, too, so that it cannot join again")
	// What each word that changes a member asks the origin for, and what it says when that is done.
	moderations := map[string]struct{ path, done string }{
		"hide":   {"/hiding", "is hidden"},
		"unhide": {"/showing", "is in the ring again"},
		"remove": {"/removal", "was removed"},
	}
	return func(words []string, out io.Writer) error {
		if len(words) == 1 && words[0] == "list" {
			return o.listMembers(out)
		}
		if len(words) != 2 {
			return errUsage
		}
		path := "/members/" + url.PathEscape(words[1])
		if words[0] == "show" {
			return o.printRow(out, path)
		}
		to, known := moderations[words[0]]
		if !known {
			return errUsage
		}
		if *reason == "" && (*code == "" || *code == core.Otherwise.String()) {
			return fmt.Errorf("members %s needs --reason, or a --code other than %s", words[0], core.Otherwise)
		}
		var row server.Row
		var order any = server.Moderation{Code: *code, Reason: *reason, By: asking()}
		if words[0] == "remove" {
			order = server.Removal{Code: *code, Reason: *reason, Redact: *redact, Block: *block, By: asking()}
		}
		if err := o.ask(http.MethodPost, path+to.path, order, &row); err != nil {
			return err
		}
		_, err := fmt.Fprintf(out, "%s %s\n", row.Slug, to.done)
		return err
	}
}

func (o operator) listMembers(out io.Writer) error {
	w := table(out, "RANK\tSLUG\tKIND\tTOTAL USD\tURL")
	for after := 0; ; {
		var rows []server.Row
		if err := o.ask(http.MethodGet, fmt.Sprintf("/members?after=%d", after), nil, &rows); err != nil {
			return err
		}
		if len(rows) == 0 {
			return w.Flush()
		}
		for _, r := range rows {
			rank := fmt.Sprint(r.Rank)
			switch {
			case r.Removed:
				rank = "removed"
			case r.Hidden:
				rank = "hidden"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", rank, r.Slug, r.Kind, form.FormatUSD(r.TotalCents), r.URL)
		}
		after += len(rows)
	}
}

// blocklist lists and changes what the running origin keeps out of its ring.
func blocklist(fs *flag.FlagSet) action {
	o := defineData(fs, "`folder` of the running origin")
	reason := fs.String("reason", "", "add: why; it is kept with the entry, and only the operator sees it")
	// An entry is shown as it is compared, except for words: those are written with one letter for
	// all that look alike, which is not for people.
	shown := func(b ledger.Block) string {
		if b.Kind == ledger.BlockWord {
			return fmt.Sprintf("%q", b.Text)
		}
		return b.Value
	}
	return func(words []string, out io.Writer) error {
		path, why, done := "/blocklist/removals", "", "on the blocklist no longer"
		switch {
		case len(words) == 1 && words[0] == "list":
			var all []ledger.Block
			if err := o.ask(http.MethodGet, "/blocklist", nil, &all); err != nil {
				return err
			}
			w := table(out, "KIND\tENTRY\tADDED\tBY\tREASON")
			for _, b := range all {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%q\n", b.Kind, shown(b), b.At.UTC().Format(time.RFC3339), b.By, b.Reason)
			}
			return w.Flush()
		case len(words) == 3 && words[0] == "add":
			if *reason == "" {
				return errors.New("blocklist add needs --reason")
			}
			path, why, done = "/blocklist/additions", *reason, "on the blocklist"
		case len(words) != 3 || words[0] != "remove":
			return errUsage
		}
		var b ledger.Block
		order := server.Blocking{Kind: ledger.BlockKind(words[1]), Text: words[2], Reason: why, By: asking()}
		if err := o.ask(http.MethodPost, path, order, &b); err != nil {
			return err
		}
		_, err := fmt.Fprintf(out, "%s %s is %s\n", b.Kind, shown(b), done)
		return err
	}
}

// changeKey announces the next key that signs for edges, or has it sign alone. Or it makes the
// line of a new secret, with a check, or the key of a new witness.
func changeKey(fs *flag.FlagSet) action {
	o := defineData(fs, "`folder` of the running origin")
	now := fs.Bool("now", false, "switch: also in the minutes after the next key was announced, when edges may not have learned of it")
	return func(words []string, out io.Writer) error {
		if len(words) == 2 && words[0] == "witness" {
			return printCosigner(out, words[1])
		}
		if len(words) != 1 {
			return errUsage
		}
		path, next := "/keys/"+words[0], ""
		switch words[0] {
		case "new":
			_, err := fmt.Fprintln(out, durable.NewKey())
			return err
		case "next":
			next = "checkpoints are signed with both; make a backup now, and switch when webring version --data DIR shows the next key at every edge"
		case "switch":
			next = "checkpoints are signed with this key alone; the one before is destroyed; make a backup now, since an older one does not hold this key as the one that signs"
		default:
			return errUsage
		}
		if *now {
			path += "?now=yes"
		}
		var keys server.SigningKeys
		if err := o.ask(http.MethodPost, path, nil, &keys); err != nil {
			return err
		}
		if err := printKeys(out, keys.Current, keys.Next); err != nil {
			return err
		}
		_, err := fmt.Fprintln(out, next)
		return err
	}
}

// printVerifier says what edges pin, if the origin on this folder has a key.
func printVerifier(out io.Writer, data string) error {
	keys, err := server.ReadSigningKeys(data)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return printKeys(out, keys.Current, keys.Next)
}

// printKeys says which key edges pin, and which one after it.
func printKeys(out io.Writer, current, next string) error {
	_, err := fmt.Fprintf(out, "edges follow with --origin-key %s\n", current)
	if next != "" && err == nil {
		_, err = fmt.Fprintf(out, "announced as the next key: %s\n", next)
	}
	return err
}

// clockPath is the file by which the operator vouches for the clock of a machine.
func clockPath(data string) string { return filepath.Join(data, "clock") }

// changeClock sets the clock of the ring back, or vouches for that of this machine.
func changeClock(fs *flag.FlagSet) action {
	o := defineData(fs, "`folder` of the origin")
	reason := fs.String("reason", "", "back: why; it is kept in the ledger, which is public")
	return func(words []string, out io.Writer) error {
		switch {
		case len(words) == 1 && words[0] == "trust":
			if err := ledger.Vouch(clockPath(string(*o))); err != nil {
				return err
			}
			_, err := fmt.Fprintf(out, "the origin on %s believes for an hour that it is %s now\n", *o, time.Now().UTC().Format(time.RFC3339))
			return err
		case len(words) == 1 && words[0] == "back":
			var done server.Clock
			if err := o.ask(http.MethodPost, "/clock/back", server.Moderation{Reason: *reason, By: asking()}, &done); err != nil {
				return err
			}
			_, err := fmt.Fprintf(out, "the clock of the ring was set back from %s to %s; nothing is lost\n", done.From.Format(time.RFC3339), done.To.Format(time.RFC3339))
			return err
		}
		return errUsage
	}
}

// changeLogLevel changes the level of a running process's log, or prints it.
func changeLogLevel(fs *flag.FlagSet) action {
	o := defineData(fs, "`folder` of the running origin or edge")
	return func(words []string, out io.Writer) error {
		var now logLevel
		var err error
		switch len(words) {
		case 0:
			err = o.ask(http.MethodGet, levelPath, nil, &now)
		case 1:
			if _, err := logging.ParseLevel(words[0]); err != nil {
				return err
			}
			err = o.ask(http.MethodPost, levelPath, logLevel{words[0]}, &now)
		default:
			return errUsage
		}
		if errors.Is(err, errNotRunning) {
			return fmt.Errorf("no origin and no edge is running on %s", *o)
		}
		if err == nil {
			fmt.Fprintln(out, now.Level)
		}
		return err
	}
}

// askHealth asks a running origin or edge whether it is well, and fails if it is not. It is
// for containers, which hold no other program that could ask.
func askHealth(fs *flag.FlagSet) action {
	address := fs.String("admin-listen", usualAdmin, "`address` of the admin listener of the origin or edge to ask")
	return func(words []string, out io.Writer) error {
		if len(words) > 0 {
			return errUsage
		}
		client := &http.Client{Timeout: 5 * time.Second}
		res, err := client.Get("http://" + *address + "/healthz")
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
}

// version prints what this binary is, and what the origin on the data folder is
// at, when one is running. Of an edge's folder it says whether that edge is to be
// upgraded.
func version(fs *flag.FlagSet) action {
	o := defineData(fs, "`folder` of the running origin, or of an edge")
	return func(words []string, out io.Writer) error {
		if len(words) > 0 {
			return errUsage
		}
		data := string(*o)
		if err := thisBuild().print(out); err != nil {
			return err
		}
		digest, err := module.Digest()
		switch {
		case errors.Is(err, module.ErrMissing):
			fmt.Fprintln(out, "core.wasm is missing: this binary was built without it")
		case err != nil:
			return err
		default:
			fmt.Fprintf(out, "core.wasm sha256:%x\n", digest)
		}
		if err := printVerifier(out, data); err != nil {
			return err
		}
		if _, err := os.Stat(replicaPath(data)); err == nil {
			return printEdge(out, data)
		}
		var s server.Status
		err = o.ask(http.MethodGet, "/status", nil, &s)
		if errors.Is(err, errNotRunning) {
			fmt.Fprintf(out, "no origin is running on %s\n", data)
			return nil
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s at %s: %d members, %d events, tree %s, paid %s USD, voided %s USD, %d open reservations, %d payments to confirm\n",
			s.Name, s.BaseURL, s.Members, s.Events, s.Root, form.FormatUSD(s.PaidCents), form.FormatUSD(s.VoidedCents), s.Open, s.Unconfirmed)
		if c := s.Cluster; c != nil {
			fmt.Fprintln(out, describeNode(c))
		}
		return nil
	}
}

// describeNode says what the part of a node in its cluster is.
func describeNode(c *server.ClusterStatus) string {
	text := fmt.Sprintf("node %s: %s since %s, transaction %d", c.Node, c.Role, c.Since.Format(time.RFC3339), c.Serial)
	switch {
	case c.Reason != "":
		text += ": " + c.Reason
	case c.Role == string(cluster.RoleLeader):
		text += fmt.Sprintf(", term %d", c.Epoch)
	case c.Leader == "":
		text += "; no node leads"
	default:
		text += fmt.Sprintf("; %s leads at %s", c.Leader, c.LeaderURL)
	}
	return text
}

// printEdge says whether the edge on a folder comes to what its origin signs.
func printEdge(out io.Writer, data string) error {
	what, err := follow.Unreachable(replicaPath(data))
	if err != nil {
		return err
	}
	kept, err := follow.Kept(replicaPath(data))
	if err != nil {
		return err
	}
	if what != "" {
		fmt.Fprintf(out, "the edge on %s does not come to what its origin signs, and has %d events: %s\n", data, kept, what)
	} else {
		fmt.Fprintf(out, "the edge on %s came to all that it saw signed: %d events\n", data, kept)
	}
	keys, learned, err := follow.Learned(replicaPath(data))
	if err != nil || !learned {
		return err
	}
	return printKeys(out, keys.Current, keys.Next)
}
