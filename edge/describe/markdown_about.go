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
	fmt.Fprintf(&b, "%s\n\nJoining costs %s USD, once. Whoever wants a member to rank higher bids, %s USD or more. Ranks are paid placement and nothing else.\n\n",
		ring.Description, ring.Fee, ring.MinBid)
	fmt.Fprintf(&b, "%s The score comes with a report that says what was looked for, what was found, and what would mend the rest. "+
		"It is measured before anybody is asked for money. Names and descriptions are the members' own words.\n\n", ring.Rule)
	fmt.Fprintf(&b, "The ring counts how many visitors it sends to each member, by day; the counts hold nothing about visitors. What is known of members, with all that they paid, can be read at <%s/api>. How to join and bid: <%[1]s/llms.txt>\n", ring.Base)
	b.WriteString(ring.Policies.lines())
	return []byte(b.String()), nil
}
