package templates

import "strings"

// of says what the total of a new member is made of.
func (b Buys) of() string {
	if b.Amount == "0.00" {
		return ", the fee alone,"
	}
	return ", fee included,"
}

// words go on behind the rank: for how long the total counts, and until when. whose is the
// possessive of the member.
func (b Buys) words(whose, minBid string) string {
	s := " of " + grouped(b.Members) + ". "
	if b.Fades.Words == "" {
		return s + "It fades only after a first bid."
	}
	s += "It counts in full for " + b.For + ", until " + b.Fades.Words
	if b.First {
		return s + ". " + b.fades(whose, minBid)
	}
	return s + ", then fades to $0 by " + b.Gone.Words + ". " + renewal(minBid, b.For) + "."
}

// fades says what a first bid begins.
func (b Buys) fades(whose, minBid string) string {
	return "From " + whose + " first bid on, the total fades unless it is renewed: " + Dollars(b.Total) + " today, $0 on " + b.Gone.Words + ". " + renewal(minBid, b.For) + "."
}

// notAnAmount says which amounts a field takes.
func notAnAmount(minBid string) string {
	return "Type dollars, such as 2.50. The least bid is " + Dollars(minBid) + "."
}

// renewal says what keeps a total from fading: the least bid, each time that the last one has
// counted in full.
func renewal(minBid, grace string) string {
	every := "every " + strings.TrimPrefix(grace, "1 ")
	if grace == "30 days" {
		every = "a month"
	}
	return Dollars(minBid) + " " + every + " keeps it"
}
