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

	"webring/edge/follow"
	"webring/server"
	"webring/server/ledger/cluster"
	"webring/server/paid/form"
)

// membersOptions are the flags of `webring members`.
type membersOptions struct {
	data, reason  string
	redact, block bool
}

func (o *membersOptions) flags() *flag.FlagSet {
	fs := flag.NewFlagSet("webring members", flag.ContinueOnError)
	defineData(fs, &o.data, "`folder` of the running origin")
	fs.StringVar(&o.reason, "reason", "", "hide, unhide, remove: why; it is kept in the ledger, which is public")
	fs.BoolVar(&o.redact, "redact", false, "remove: delete the removed member's name, URL, description and report: they are never served or passed on again, and leave the disk as storage is compacted")
	fs.BoolVar(&o.block, "block", false, "remove: put the host of the removed member's site on the blocklist, too, so that it cannot join again")
	return fs
}

// members lists, shows, hides and removes members of the running origin.
func members(args []string, out io.Writer) error {
	var given membersOptions
	words, err := parseWords(given.flags(), args, "")
	if err != nil {
		return err
	}
	o := operator(given.data)
	switch {
	case len(words) == 1 && words[0] == "list":
		return o.list(out)
	case len(words) == 2 && words[0] == "show":
		var row server.Row
		if err := o.ask(http.MethodGet, "/members/"+url.PathEscape(words[1]), nil, &row); err != nil {
			return err
		}
		return printRow(out, row)
	case len(words) == 2 && moderations[words[0]].done != "":
		return o.moderate(out, words[0], words[1], given)
	}
	return misused("members")
}

// moderations are the words that change a member: what each asks the origin for, and
// what it says when that is done.
var moderations = map[string]struct{ path, done string }{
	"hide":   {"/hiding", "is hidden"},
	"unhide": {"/showing", "is in the ring again"},
	"remove": {"/removal", "was removed"},
}

// moderate hides, shows or removes a member.
func (o operator) moderate(out io.Writer, word, slug string, given membersOptions) error {
	if given.reason == "" {
		return fmt.Errorf("members %s needs --reason", word)
	}
	path, to := "/members/"+url.PathEscape(slug), moderations[word]
	var row server.Row
	if err := o.ask(http.MethodGet, path, nil, &row); err != nil {
		return err
	}
	if row.Open > 0 && word != "unhide" {
		fmt.Fprintf(os.Stderr, "webring: waiting, for %s at most, until what is being paid for %s is settled (payments: %d); it takes no new bids meanwhile\n", server.RemovalWait, row.Slug, row.Open)
	}
	var order any = server.Moderation{Reason: given.reason, By: asking()}
	if word == "remove" {
		order = server.Removal{Reason: given.reason, Redact: given.redact, Block: given.block, By: asking()}
	}
	if err := o.ask(http.MethodPost, path+to.path, order, &row); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "%s %s\n", row.Slug, to.done)
	return err
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

func printRow(out io.Writer, row any) error {
	text, err := json.MarshalIndent(row, "", "  ")
	if err == nil {
		_, err = fmt.Fprintf(out, "%s\n", text)
	}
	return err
}

// versionOptions are the flags of `webring version`.
type versionOptions struct{ data string }

func (o *versionOptions) flags() *flag.FlagSet {
	fs := flag.NewFlagSet("webring version", flag.ContinueOnError)
	defineData(fs, &o.data, "`folder` of the running origin, or of an edge")
	return fs
}

// version prints what this binary is, and what the origin on the data folder is
// at, when one is running. Of an edge's folder it says whether that edge is to be
// upgraded.
func version(args []string, out io.Writer) error {
	var given versionOptions
	if err := parse(given.flags(), args); err != nil {
		return err
	}
	if err := thisBuild().print(out); err != nil {
		return err
	}
	if err := printModule(out); err != nil {
		return err
	}
	if err := printVerifier(out, given.data); err != nil {
		return err
	}
	if _, err := os.Stat(replicaPath(given.data)); err == nil {
		return printEdge(out, given.data)
	}
	var s server.Status
	err := operator(given.data).ask(http.MethodGet, "/status", nil, &s)
	if errors.Is(err, errNotRunning) {
		fmt.Fprintf(out, "no origin is running on %s\n", given.data)
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
	switch {
	case err != nil:
		return err
	case what != "":
		_, err = fmt.Fprintf(out, "the edge on %s does not come to what its origin signs, and has %d events: %s\n", data, kept, what)
	default:
		_, err = fmt.Fprintf(out, "the edge on %s came to all that it saw signed: %d events\n", data, kept)
	}
	if err != nil {
		return err
	}
	keys, learned, err := follow.Learned(replicaPath(data))
	if err != nil || !learned {
		return err
	}
	return printKeys(out, keys.Current, keys.Next)
}

// operator asks the running origin on a data folder.
type operator string

var errNotRunning = errors.New("no origin is running on this data folder")

// ask sends body as JSON and reads the answer into result.
func (o operator) ask(method, path string, body, result any) error {
	return o.send(method, path, body, func(answer io.Reader) error { return json.NewDecoder(answer).Decode(result) })
}

// send gives the body of the answer to read.
func (o operator) send(method, path string, body any, read func(io.Reader) error) error {
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socketPath(string(o)))
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
		var dial *net.OpError
		switch {
		case !errors.As(err, &dial) || dial.Op != "dial":
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

func (o operator) list(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "RANK\tSLUG\tKIND\tTOTAL USD\tURL")
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

// socketPath is where the operator reaches a running origin.
func socketPath(data string) string { return filepath.Join(data, "operator.sock") }
