package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"webring/core"
	"webring/server"
	"webring/server/paid"
	"webring/server/paid/form"
	"webring/server/paid/risk"
)

// lookBack is the instant that --since names.
func lookBack(since string, now time.Time) (time.Time, error) {
	if d, err := parseDuration(since); err == nil && d > 0 {
		return now.Add(-d), nil
	}
	if at, err := time.Parse(time.RFC3339, since); err == nil && at.Before(now) {
		return at, nil
	}
	return time.Time{}, errors.New("--since must be a time to look back, such as 30d, or an instant that is past, such as 2026-11-20T08:00:00Z")
}

// payments shows the payments of the running origin, looks for money without an
// event, and puts single ones right.
func payments(fs *flag.FlagSet) action {
	o := defineData(fs, "`folder` of the running origin")
	all := fs.Bool("all", false, "list: payments that are in order, too")
	since := fs.String("since", "30d", "scan: how far to look back, or from which `instant` on, such as 2026-11-20T08:00:00Z")
	goOn := fs.Bool("go-on", false, "scan: continue the daily scan from the end of this one, if it cannot continue from its own")
	credit := fs.String("credit", "", "adjust: the member, by its `slug`, to which the transaction's money is credited, as a bid")
	register := fs.String("register", "", "adjust: the registration that the transaction paid for and that was lost, as the `JSON` that POST /api/register takes; it joins now, without a score")
	void := fs.Bool("void", false, "adjust: the transaction vanished from its chain; the books say so, and the member keeps its total")
	member := fs.String("member", "", "adjust --void: the member, by its `slug`, where no stored payment names it")
	unclaimed := fs.Bool("unclaimed", false, "adjust: the transaction's money belongs to no member")
	reason := fs.String("reason", "", "adjust: why; it is kept in the ledger, which is public")
	return func(words []string, out io.Writer) error {
		switch {
		case len(words) == 1 && words[0] == "list":
			return o.listPayments(out, *all)
		case len(words) == 2 && words[0] == "show":
			return o.printRow(out, "/payments/"+url.PathEscape(words[1]))
		case len(words) == 1 && words[0] == "gas":
			return o.gasWasted(out)
		case len(words) == 1 && words[0] == "scan":
			from, err := lookBack(*since, time.Now())
			if err != nil {
				return err
			}
			return o.scan(out, from, *goOn)
		case len(words) != 2 || words[0] != "adjust":
			return errUsage
		}
		a := paid.Adjustment{Transaction: words[1], Member: *member, Reason: *reason}
		chosen := 0
		for _, choice := range []struct {
			kind core.Adjustment
			on   bool
		}{{core.Credit, *credit != ""}, {core.Credit, *register != ""}, {core.Void, *void}, {core.Unclaimed, *unclaimed}} {
			if choice.on {
				a.Kind = choice.kind
				chosen++
			}
		}
		switch {
		case chosen != 1 || *reason == "":
			return errors.New("payments adjust needs one of --credit SLUG, --register JSON, --void and --unclaimed, and --reason")
		case *member != "" && a.Kind != core.Void:
			return errors.New("--member belongs to payments adjust --void; --credit takes the member itself")
		case *register != "" && !json.Valid([]byte(*register)):
			return errors.New("--register must be a JSON object, such as '{\"name\":\"My Agent\",\"url\":\"https://my-agent.dev/\",\"kind\":\"agent\"}'")
		case *register != "":
			a.Register = json.RawMessage(*register)
		case a.Kind == core.Credit:
			a.Member = *credit
		}
		var done server.Adjusted
		if err := o.ask(http.MethodPost, "/adjustments", a, &done); err != nil {
			return err
		}
		what := "adjusted"
		if a.Register != nil {
			what = done.Member + " joined"
		}
		_, err := fmt.Fprintf(out, "%s USD of %s: %s\n", form.FormatUSD(done.Cents), done.Transaction, what)
		return err
	}
}

// listPayments prints what needs a look: what is open, to be confirmed, failed
// by a transfer that went elsewhere, settled without an effect, or vanished. With
// all, it prints every one.
func (o operator) listPayments(out io.Writer, all bool) error {
	w := table(out, "STATE\tUSD\tOPERATION\tMEMBER\tCREATED\tTRANSACTION\tID")
	for after := ""; ; {
		var rows []server.PaymentRow
		if err := o.ask(http.MethodGet, "/payments?after="+url.QueryEscape(after), nil, &rows); err != nil {
			return err
		}
		if len(rows) == 0 {
			return w.Flush()
		}
		for _, r := range rows {
			if state, odd := describePayment(r); all || odd {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", state, form.FormatUSD(r.Cents), r.Operation, r.Member, r.Created.Format(time.RFC3339), r.Reference, r.ID)
			}
		}
		after = rows[len(rows)-1].ID
	}
}

// describePayment puts the state of a payment into a word or two, and says
// whether it is out of the ordinary.
func describePayment(r server.PaymentRow) (state string, odd bool) {
	switch {
	case r.Vanished:
		return "vanished", true
	case r.Overdue:
		return "overdue", true
	case r.Lapsed:
		return "lapsed", true
	case r.State == "reserved":
		return "open", true
	case r.State == "applied" && !r.Confirmed:
		return "to confirm", true
	case r.Diverted:
		return "diverted", true
	case r.NoEffect:
		return "no effect", true
	case r.State == "failed" && (r.Outcome == "settled" || r.Outcome == "mismatched"):
		return "adjusted", false
	}
	return r.State, false
}

// gasWasted prints what payments have cost for nothing in the last hour.
func (o operator) gasWasted(out io.Writer) error {
	var g risk.Wasted
	if err := o.ask(http.MethodGet, "/gas", nil, &g); err != nil {
		return err
	}
	most := "without a limit"
	if g.Budget.Sign() > 0 {
		most = fmt.Sprintf("of at most %d", g.Budget)
	}
	fmt.Fprintf(out, "wei wasted within the last hour: %d by accounts that had never paid, and %d by those that had, each %s\n", g.New, g.Paid, most)
	w := table(out, "WEI\tGAS\tAT\tCLIENT\tPAYER\tTRANSACTION")
	for _, x := range g.Last {
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\n", x.Wei, x.Gas, x.At.Format(time.RFC3339), x.Client, x.Payer, x.Transaction)
	}
	return w.Flush()
}

func (o operator) scan(out io.Writer, since time.Time, goOn bool) error {
	var s server.Scan
	method := http.MethodGet
	if goOn {
		method = http.MethodPost
	}
	if err := o.ask(method, "/scan?since="+url.QueryEscape(since.UTC().Format(time.RFC3339)), nil, &s); err != nil {
		return err
	}
	w := table(out, "MISSING USD\tNETWORK\tAT\tTRANSACTION\tPAYER")
	for _, x := range s.Strays {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", form.FormatUSD(x.Missing), x.Network, x.Transfer.At.UTC().Format(time.RFC3339), x.Transfer.Reference, x.Transfer.Payer)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if s.Error != "" {
		return fmt.Errorf("not everything was looked through: %s", s.Error)
	}
	return nil
}
