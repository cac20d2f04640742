package describe

import "encoding/json"

// infos are the tools whose results are made of several reads: what an agent needs that
// wants to join or to bid, in one document.
var infos = []struct {
	name, output string
	build        func(*Source) ([]byte, error)
}{
	{"ring_join_info", "JoinInfo", joinInfo},
	{"ring_bid_info", "BidInfo", bidInfo},
}

// infoSchemas are the schemas of their results. Of parts that other tools give they say which.
func infoSchemas() map[string]*schema {
	part := func(of string) *schema { return &schema{Type: "object", Description: "As " + of + " has it."} }
	request := func() *schema {
		return object(field{"tool", text("The tool that does it.")}, field{"method", text("")}, field{"url", link("The same over HTTP.")})
	}
	return map[string]*schema{
		"JoinInfo": object(
			field{"payments", part("ring_directory")}, field{"validation", part("ring_directory")}, field{"policies?", part("ring_directory")},
			field{"join_at_first_bid_usd", usd("Opening bid that lets a new member join at rank 1; 0.00: the fee alone does; above 1000000.00: no opening bid does.")},
			field{"check", request()}, field{"join", request()}, field{"then", text("What to do.")}),
		"BidInfo": object(
			field{"payments", part("ring_directory")}, field{"rules", part("ring_leaderboard")},
			field{"first", orNull(object(field{"slug", text("")}, field{"effective_bid_usd", usd("Its standing.")}))},
			field{"bid", request()}, field{"then", text("What to do.")}),
	}
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
		"then": "Call ring_check with the draft, free of charge. Call ring_join with the same arguments: without payment it answers with challenges, and a client that pays answers one of them and calls again. With bid the member joins with an opening bid, and with only_if_rank nothing is charged unless it gets that rank."}
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
		"then": "ring_leaderboard says of each member in to_take_first_usd what takes rank 1. Call ring_bid with member and amount: without payment it answers with challenges, and a client that pays answers one of them and calls again. With only_if_rank nothing is charged unless the bid gives that rank."})
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
