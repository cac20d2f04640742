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
	fmt.Fprintf(&b, "%s\n\nJoining costs %s USD, once. To lift a member's rank, anyone bids on it, be it their own or another: %s USD or more. Ranks are paid placement and nothing else.\n\n",
		ring.Description, ring.Fee, ring.MinBid)
	fmt.Fprintf(&b, "%s The score comes with a report that says what was looked for, what was found, and what would mend the rest. "+
		"Nobody is asked for money before. Names and descriptions are the members' own words.\n\n", ring.Rule)
	fmt.Fprintf(&b, "The ring counts how many visitors it sends to each member, by day; the counts hold nothing about visitors. What is known of members, with all that they paid, can be read at <%s/api>. Pages set no cookies and load nothing from other sites; where somebody signs with a wallet, the browser keeps what was signed (in localStorage) until the answer to it is known. How to join and bid: <%[1]s/llms.txt>\n", ring.Base)
	b.WriteString(ring.Policies.lines())
	return []byte(b.String()), nil
}
