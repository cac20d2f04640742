package describe

import "encoding/json"

// infos are the tools that combine several reads in one document: what an agent needs to join
// or to bid. output names the schema of the result in x-results.
var infos = []struct {
	name, output string
	build        func(*Source) []byte
}{
	{"ring_join_info", "JoinInfo", joinInfo},
	{"ring_bid_info", "BidInfo", bidInfo},
}

// node of a request that a tool stands for.
func requestOf(base, tool string) node {
	for _, op := range Operations() {
		if op.Tool == tool {
			return node{"tool": tool, "method": op.Method, "url": base + op.Path}
		}
	}
	return nil
}

func joinInfo(s *Source) []byte {
	ring, parts, board := s.forPayers()
	var rules struct {
		JoinAtFirst string `json:"join_at_first_bid_usd"`
	}
	if s.err == nil {
		s.fail(json.Unmarshal(board.Rules, &rules))
	}
	doc := node{"payments": parts.Payments, "validation": parts.Validation, "join_at_first_bid_usd": rules.JoinAtFirst,
		"check": requestOf(ring.Base, "ring_check"), "join": requestOf(ring.Base, "ring_join"),
		"then": "Call ring_check with the draft (free). Call ring_join with the same arguments: it answers with challenges. Pay one and call again with the credential. bid adds an opening bid. With only_if_rank nothing is charged unless the member gets that rank."}
	if parts.Policies != nil {
		doc["policies"] = parts.Policies
	}
	return s.json(doc)
}

func bidInfo(s *Source) []byte {
	ring, parts, board := s.forPayers()
	var first any
	if len(board.Leaderboard) > 0 {
		first = node{"slug": board.Leaderboard[0].Slug, "effective_bid_usd": board.Leaderboard[0].Standing}
	}
	return s.json(node{"payments": parts.Payments, "rules": board.Rules, "first": first, "bid": requestOf(ring.Base, "ring_bid"),
		"then": "ring_leaderboard has the price of rank 1 for each member in to_take_first_usd. Call ring_bid with member and amount: it answers with challenges. Pay one and call again with the credential. With only_if_rank nothing is charged unless the bid gives that rank."})
}

// payerParts are parts of the directory, unchanged.
type payerParts struct{ Payments, Validation, Policies json.RawMessage }

// payerBoard is what the leaderboard says to a payer.
type payerBoard struct {
	Rules       json.RawMessage
	Leaderboard []Member
}

// forPayers reads what joining and bidding cost.
func (s *Source) forPayers() (ring Ring, parts payerParts, board payerBoard) {
	ring = s.ring()
	s.read("/api", &parts)
	s.read("/api/leaderboard?limit=1", &board)
	return
}
