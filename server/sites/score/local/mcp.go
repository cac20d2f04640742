package local

import (
	"context"
	"path"
	"slices"
	"strings"

	"webring/server/sites/fetch"
)

// Where the card of an MCP server was found.
const (
	byCatalog  = "The AI catalog leads to it"
	reserved   = "It is at the place that is reserved for it, below the server's own address"
	formerPath = "/.well-known/mcp/server-card.json"
	former     = "It is at " + formerPath + ", where scanners look; clients find it by the AI catalog, or by the server's address with /server-card"
)

// mcpServer is what is known of the MCP server of a site.
type mcpServer struct {
	card  *document
	place string // where the card was found

	at     string // where the server was asked, "" when it was not
	method string // that it has answered
	gated  bool   // it wants an authorization first, and says where to get one
	answer answer // the last, without its body
}

// findServer looks for the card of an MCP server, and asks the server to introduce itself.
// Only a server that a card names is asked, or one at the address that was given for the
// site: a request other than GET goes nowhere by guess.
func (s *site) findServer(ctx context.Context, catalog *document) *mcpServer {
	m := &mcpServer{card: &document{}}
	s.findCard(ctx, m, catalog)
	for _, l := range m.card.leads {
		if m.at = s.own(l.url); m.at != "" {
			break
		}
	}
	if endpoint, given := s.endpoint(); m.at == "" && given && len(m.card.leads) == 0 {
		m.at = endpoint
	}
	if m.at != "" {
		s.meet(ctx, m)
	}
	return m
}

// findCard looks where the drafts have a card, and where earlier ones had it.
//
// Document: Discovery, of the server card extension of the Model Context Protocol.
func (s *site) findCard(ctx context.Context, m *mcpServer, catalog *document) {
	for _, l := range catalog.leads {
		card := l.card
		if card == nil {
			own := s.own(l.url)
			if own == "" {
				continue
			}
			card = s.readDocument(ctx, serverCard, own)
		}
		if m.card, m.place = card, byCatalog; card.formed {
			return
		}
		break // the first says how the catalog is kept
	}
	endpoint, _ := s.endpoint()
	for _, place := range []struct{ address, words string }{{endpoint + "/server-card", reserved}, {s.at(formerPath), former}} {
		d := s.readDocument(ctx, serverCard, place.address)
		if d.formed || !m.card.json {
			m.card, m.place = d, place.words
		}
		if d.formed {
			return
		}
	}
}

// endpoint is the address at which an MCP server of the site may be, and whether it is the
// address that was given for the site.
func (s *site) endpoint() (address string, given bool) {
	base := *s.base()
	base.RawQuery, base.Fragment = "", ""
	// What servers answer to a GET.
	noPage := s.home.err == nil && slices.Contains([]int{400, 401, 405, 406, 415}, s.home.Status)
	if noPage || path.Base(base.Path) == "mcp" {
		return strings.TrimSuffix(base.String(), "/"), true
	}
	return s.at("/mcp"), false
}

// meet asks a server to introduce itself, in the way of this year and then in the earlier one.
func (s *site) meet(ctx context.Context, m *mcpServer) {
	for _, way := range []struct {
		method   string
		exchange *fetch.Exchange
	}{{"server/discover", fetch.Discover}, {"initialize", fetch.Initialize}} {
		m.answer = s.get(ctx, fetch.Request{URL: m.at, Accept: fetch.AcceptMCP, MaxBody: fetch.MaxMCP, Exchange: way.exchange})
		if m.answer.err != nil {
			return
		}
		var said fetch.Introduction
		var spoken bool
		s.read(ctx, func() { said, spoken = fetch.ReadMCP(m.answer.Body) })
		m.answer.drop()
		session := m.answer.Header.Get(fetch.SessionField)
		if session != "" && m.answer.Status/100 == 2 {
			s.get(ctx, fetch.Request{URL: m.at, MaxBody: 1, Exchange: fetch.EndSession(session)})
		}
		switch {
		case said.Introduced && m.answer.ok():
			m.method = way.method
			return
		case slices.Contains([]int{401, 402, 403, 429}, m.answer.Status):
			// RFC 9728, as the protocol has it.
			m.gated = m.answer.Status == 401 && strings.Contains(strings.ToLower(m.answer.Header.Get("WWW-Authenticate")), "resource_metadata=")
			return
		case !spoken && (m.answer.Status == 404 || m.answer.Status == 405):
			return // no server is here: an earlier one would have answered in JSON-RPC
		}
	}
}

func (s *site) checkCard() finding {
	d := s.mcp.card
	if f := d.finding(); !f.passed {
		return f
	}
	return pass("%s.", s.mcp.place)
}

func (s *site) checkServer() finding {
	m := s.mcp
	switch {
	case m.method != "":
		return pass("The server introduces itself when it is asked by %s.", m.method)
	case m.gated:
		return pass("The server wants an authorization, and says where to get one.")
	case m.at == "" && len(m.card.leads) > 0:
		return fail("The card names servers on other sites only, which are not asked.")
	case m.at == "":
		return fail("No card says where a server is.")
	case !m.answer.ok():
		return fail("%s", noAnswer(m.answer))
	}
	return fail("What answers is no MCP server over streamable HTTP.")
}
