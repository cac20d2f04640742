package describe

import "encoding/json"

// infos are the tools whose results are made of several reads: what an agent needs that
// wants to join or to bid, in one document. output names the schema of the result in x-results.
var infos = []struct {
	name, output string
	build        func(*Source) ([]byte, error)
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

func joinInfo(s *Source) ([]byte, error) {
	ring, parts, board, err := s.forPayers()
	if err != nil {
		return nil, err
	}
	doc := node{"payments": parts.Payments, "validation": parts.Validation, "join_at_first_bid_usd": board.Rules.JoinAtFirst,
		"check": requestOf(ring.Base, "ring_check"), "join": requestOf(ring.Base, "ring_join"),
		"then": "Call ring_check with the draft (free). Call ring_join with the same arguments: it answers with challenges. Pay one and call again with the credential. bid adds an opening bid. With only_if_rank nothing is charged unless the member gets that rank."}
	if parts.Policies != nil {
		doc["policies"] = parts.Policies
	}
	return json.Marshal(doc)
}

func bidInfo(s *Source) ([]byte, error) {
	ring, parts, board, err := s.forPayers()
	if err != nil {
		return nil, err
	}
	var first any
	if len(board.Leaderboard) > 0 {
		first = node{"slug": board.Leaderboard[0].Slug, "effective_bid_usd": board.Leaderboard[0].Standing}
	}
	return json.Marshal(node{"payments": parts.Payments, "rules": board.rules, "first": first, "bid": requestOf(ring.Base, "ring_bid"),
		"then": "ring_leaderboard has the price of rank 1 for each member in to_take_first_usd. Call ring_bid with member and amount: it answers with challenges. Pay one and call again with the credential. With only_if_rank nothing is charged unless the bid gives that rank."})
}

// payerParts are parts of the directory as they stand there.
type payerParts struct{ Payments, Validation, Policies json.RawMessage }

// payerBoard is what the leaderboard says to a payer.
type payerBoard struct {
	Rules struct {
		JoinAtFirst string `json:"join_at_first_bid_usd"`
	}
	Leaderboard []Member
	rules       json.RawMessage
}

// forPayers reads what joining and bidding cost.
func (s *Source) forPayers() (ring Ring, parts payerParts, board payerBoard, err error) {
	if ring, err = s.ring(); err != nil {
		return
	}
	if err = s.read("/api", &parts); err != nil {
		return
	}
	if err = s.read("/api/leaderboard?limit=1", &board); err != nil {
		return
	}
	var raw struct{ Rules json.RawMessage }
	err = json.Unmarshal(s.r.Body, &raw)
	board.rules = raw.Rules
	return
}
