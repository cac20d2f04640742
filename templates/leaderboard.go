package templates

import (
	"fmt"
	"strconv"
	"strings"

	"webring/edge/describe"
)

// Leaderboard is a page of the leaderboard.
type Leaderboard struct {
	Page
	Wallet Wallet
	Board  Board
	Pages  Pages
	Reigns []Reign // the present holder of rank 1 first; on the first page
}

// Board is a part of the leaderboard: the rows, and the rules in words.
type Board struct {
	Members      int // in the ring
	From, To     int // the ranks that are shown; 0 when none
	Rows         []Row
	Fee, MinBid  string
	Grace, Decay string              // how long a bid counts in full, and how long it then fades
	First        []describe.Forecast // the opening bid that takes rank 1, now and later
	AtTen        string              // the opening bid that passes rank 10 and takes less than rank 1, or ""
}

// Reign is a time for which a member held rank 1.
type Reign struct {
	Slug, Name, URL string // "" if it has left the ring
	From, Until     When   // Until is zero for the present holder
	For             string
	Seconds         int64
}

// Pages leads to the pages of a list. An address is "" where there is no such page.
type Pages struct {
	First, Prev, Next, Last PageLink
	Near                    []PageLink // this page and those around it
}

// PageLink leads to a page with these rows.
type PageLink struct {
	Address  string
	From, To int
	Here     bool
}

// rows names a page by what is on it.
func (l PageLink) rows() string {
	if l.From == l.To {
		return grouped(l.From)
	}
	return grouped(l.From) + "–" + grouped(l.To)
}

// does says what the bid does.
func (r Row) does() string {
	b, words := r.Bid, ""
	switch {
	case b.Above == 0:
		return "keeps it first, at " + Dollars(b.Then)
	case b.Rank == 1:
		words = "takes first place"
	case b.Rank < b.Above:
		words = "passes " + grouped(r.Rank-b.Rank) + " members to number " + grouped(b.Rank)
	default:
		words = "passes number " + grouped(b.Above)
	}
	if r.Faded != "" {
		words += " and restores " + Dollars(r.Faded)
	}
	return words
}

// words say what happened to the member, up to the name of the one that it passed, and others what
// comes behind that name.
func (n News) words() string {
	words := "got " + Dollars(n.Amount)
	if n.Joined {
		words = "joined"
		if n.Rank != 0 {
			words += " at rank " + grouped(n.Rank)
		}
	}
	switch {
	case n.Passed.Slug != "" && n.Joined:
		words += ", ahead of "
	case n.Passed.Slug != "":
		words += " and passed "
	case !n.Joined && n.Was > n.Rank:
		words += " and rose to rank " + grouped(n.Rank)
	}
	return words
}

func (n News) others() string {
	words, rest := "", n.Was-n.Rank-1
	if rest > 0 {
		words = " and " + grouped(rest) + Plural(rest, " other", " others")
	}
	if !n.Joined {
		words += ", now rank " + grouped(n.Rank)
	}
	return words
}

// money is an amount with its thousands apart, for columns. Dollars is one as people write it.
func money(usd string) string {
	whole, cents, _ := strings.Cut(usd, ".")
	n, err := strconv.Atoi(whole)
	if err != nil {
		return usd
	}
	return grouped(n) + "." + cents
}

// Dollars writes an amount as people do: $1, $8.26.
func Dollars(usd string) string { return "$" + strings.TrimSuffix(money(usd), ".00") }

// Payable says whether one payment can be of an amount with two decimals: at most 1,000,000.00.
func Payable(usd string) bool {
	const most = "1000000.00"
	return len(usd) < len(most) || usd == most
}

// total adds amounts. What is no amount counts as nothing.
func total(usd ...string) string {
	sum := int64(0)
	for _, amount := range usd {
		whole, cents, _ := strings.Cut(amount, ".")
		n, err := strconv.ParseInt(whole+(cents + "00")[:2], 10, 63)
		if err == nil {
			sum += n
		}
	}
	return fmt.Sprintf("%d.%02d", sum/100, sum%100)
}

// atHost says in a narrow place where a member's site lies. A long host is cut at its
// beginning: its end says who owns it.
func atHost(url string) string {
	const longest = 34
	where := Where(url)
	if len(where) <= longest {
		return where
	}
	host, _, _ := strings.Cut(where, "/")
	if len(host) <= longest {
		return host
	}
	return "…" + host[len(host)-longest+1:]
}

// bar is the width of the bar of a standing. What counts at all can be seen.
func (r Row) bar() string {
	if r.Bar == 0 && r.Standing != "0.00" {
		return "1%"
	}
	return strconv.Itoa(r.Bar) + "%"
}

// reignsShown is how many reigns are shown without being asked for.
const reignsShown = 4

// stretch is the place of a reign in a strip from 0 to 1000, the oldest first, with at least
// a little room for each.
type stretch struct{ at, width, color int }

// gone is the color of members that have left.
const gone = 5

// strip gives the place of each reign, in their order. A member has one color.
func strip(list []Reign) []stretch {
	const width, least, colors = 1000, 12, gone
	total, rest := int64(0), int64(width-least*len(list))
	for _, r := range list {
		total += r.Seconds
	}
	all, at, seen := make([]stretch, len(list)), width, map[string]int{"": gone}
	for i, r := range list {
		color, known := seen[r.Slug]
		if !known {
			color = (len(seen) - 1) % colors
			seen[r.Slug] = color
		}
		w := least + int(float64(rest)*float64(r.Seconds)/float64(max(total, 1)))
		if i == len(list)-1 {
			w = at // what rounding leaves
		}
		at -= w
		all[i] = stretch{at, w - 3, color}
	}
	return all
}

// takeFirst is what takes the member to rank 1 now, "" when it is there.
func (v Member) takeFirst() string {
	if len(v.Row.Forecast) == 0 {
		return ""
	}
	return v.Row.Forecast[0].TakeFirst
}

// later returns the later price of first place if no bid comes until then, or "".
func (v Member) later() string {
	if len(v.Row.Forecast) < 2 || v.takeFirst() == "" && v.Row.Rank > 1 {
		return "" // of one that no payment takes there
	}
	words, before := "If nobody bids,", ""
	for i, p := range v.Row.Forecast[1:] {
		if i > 0 {
			words += " and"
		}
		switch {
		case i > 0 && p.TakeFirst == before: // in so many days, too
		case p.TakeFirst != "" && before != "":
			words += " " + Dollars(p.TakeFirst)
		case p.TakeFirst != "":
			words += " first place costs " + Dollars(p.TakeFirst)
		case v.takeFirst() == "":
			words += " it is still first"
		default:
			words += " it is first"
		}
		before = p.TakeFirst
		words += " in " + strconv.Itoa(p.Days) + " days"
	}
	return words + "."
}

// falls says what it costs to join at rank 1, now and later.
func (b Board) falls() string {
	if len(b.First) == 0 {
		return ""
	}
	if b.First[0].JoinFirst == "0.00" {
		return "The fee alone takes first place."
	}
	words := "First place costs " + Dollars(total(b.Fee, b.First[0].JoinFirst)) + " today"
	for i, p := range b.First[1:] {
		if i == len(b.First)-2 {
			words += " and "
		} else {
			words += ", "
		}
		words += Dollars(total(b.Fee, p.JoinFirst)) + " in " + strconv.Itoa(p.Days) + " days"
	}
	return words + " if nobody bids, fee included."
}
