package describe

import (
	"fmt"
	"strings"
)

// markdownAbout says what the page about the ring says.
func markdownAbout(s *Source) ([]byte, error) {
	ring, err := s.ring()
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	head(&b, &ring, "About "+inMarkdown(ring.Name))
	fmt.Fprintf(&b, "%s\n\nJoining costs %s USD, once. Anyone may bid on any member, %s USD or more, to lift its rank. Ranks are paid placement and nothing else.\n\n",
		ring.Description, ring.Fee, ring.MinBid)
	fmt.Fprintf(&b, "%s The score comes with a report that says what was looked for, what was found, and what would mend the rest. "+
		"It comes before any payment. Names and descriptions are the members' own words.\n\n", ring.Rule)
	fmt.Fprintf(&b, "The ring counts how many visitors it sends to each member, by day; the counts hold nothing about visitors. What is known of members, with all that they paid, can be read at <%s/api>. Pages set no cookies and load nothing from other sites; where somebody signs with a wallet, the browser keeps what was signed (in localStorage) until the answer to it is known. How to join and bid: <%[1]s/llms.txt>\n", ring.Base)
	b.WriteString(ring.Policies.lines())
	return []byte(b.String()), nil
}

// markdownVerify says what a reader without a browser does.
func markdownVerify(s *Source) ([]byte, error) {
	ring, err := s.ring()
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	head(&b, &ring, "Verify the leaderboard")
	fmt.Fprintf(&b, "Nobody has to believe this site. The ledger of all payments is public and signed, and whoever replays it gets the same leaderboard, byte for byte. "+
		"This page does it in a browser. A program of your own does it continuously:\n\n```sh\nwebring edge --origin %s --origin-key KEY\n```\n\n"+
		"KEY is the verifier at <%[1]s/sync/keys>, signed by itself. Compare it with the one that other edges and the operator give.\n", ring.Base)
	return []byte(b.String()), nil
}
