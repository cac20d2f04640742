package local

import "cmp"

// Rubric is the name and version of the table below. Another table is another
// version: scores tell which they are by.
const Rubric = "webring-2"

// entry is one check of the rubric.
type entry struct {
	id     string
	title  string
	points int
	fix    string
	look   func(*site) finding
}

// finding is what a check found.
type finding struct {
	passed   bool
	evidence string
	fix      string // what to do, where that is less than the entry says
}

// MaxScore is the highest score. All points but those of the last group are as many. A site
// may well fail that one, [Bonus], as it has no use for what its checks look for. They make
// up for others, and take no score beyond it.
const MaxScore = 100

// Interfaces is the group of checks that only agents and MCP servers have a use for.
const Interfaces = "Interfaces"

// OnlyForAgents says whether only an agent or an MCP server has a use for a check of a group.
func OnlyForAgents(group string, c Check) bool { return group == Interfaces || c.ID == "ai-catalog" }

// headingFix is all that a page with enough text lacks.
const headingFix = "Add the main heading to the HTML itself: <h1>…</h1>."

// Effort says how much work it is to pass a check, in no unit: 1 is a line in a page or a small
// file, 2 a page or a list, 3 a setting of the server, and more is a program. Owners are advised by
// it; scores do not depend on it.
func Effort(c Check) int {
	switch c.ID {
	case "home", "not-found", "api-catalog", "skills":
		return 3
	case "gptbot", "claudebot", "chatgpt-user", "perplexitybot", "not-found-help", "about", "privacy", "ai-catalog":
		return 2
	case "text":
		if c.Fix == headingFix {
			return 1
		}
		return 4
	case "markdown", "vary", "mcp-card", "openapi", "payments":
		return 4
	case "mcp":
		return 8
	}
	return 1
}

// rubric is the whole table: 100 points, and what counts on top. The fixes are what a
// site's owner reads first, so they say what to publish and where. The handbook has the
// table with the reasons for the points.
var rubric = []struct {
	name    string
	entries []entry
}{
	{"Reach", []entry{
		{"home", "The page answers 200 over https within three redirects", 5,
			"Serve the page over https with status 200, after at most three redirects on the same site.", (*site).checkHome},
		{"gptbot", "GPTBot gets the same page", 2,
			"Answer the user agent GPTBot with the page that browsers get.", sameFor("GPTBot")},
		{"claudebot", "ClaudeBot gets the same page", 2,
			"Answer the user agent ClaudeBot with the page that browsers get.", sameFor("ClaudeBot")},
		{"chatgpt-user", "ChatGPT-User gets the same page", 2,
			"Answer the user agent ChatGPT-User with the page that browsers get.", sameFor("ChatGPT-User")},
		{"perplexitybot", "PerplexityBot gets the same page", 2,
			"Answer the user agent PerplexityBot with the page that browsers get.", sameFor("PerplexityBot")},
		{"not-found", "A page that does not exist answers 404", 4,
			"Answer 404 or 410 for paths that do not exist, not 200 and not a redirect to the home page.", (*site).checkNotFound},
		{"not-found-help", "The answer for a missing page helps on", 2,
			"Say on the page for missing paths what happened, and link to where to go from there; or answer with a problem document (RFC 9457) whose type or links lead on.", (*site).checkNotFoundHelp},
		{"robots", "robots.txt is valid and lets AI agents read the page", 6,
			"Publish /robots.txt (RFC 9309) with at least one group, and allow the page to GPTBot, ClaudeBot, ChatGPT-User and PerplexityBot.", (*site).checkRobots},
	}},
	{"Content", []entry{
		{"text", "An h1 and 500 characters of text without scripts", 10,
			"Send the main heading and the text in the HTML itself, so that they are there before any script runs.", (*site).checkText},
		{"headings", "Headings skip no level", 2,
			"Order headings so that an h2 follows an h1, an h3 an h2, and none is skipped on the way down.", (*site).checkHeadings},
		{"title", "The page has a title", 1,
			"Give the page a <title>.", stated("The title", func(s *site) bool { return s.page.title != "" })},
		{"description", "The page has a description", 1,
			`Add <meta name="description" content="…">.`, stated("The description", func(s *site) bool { return s.page.description != "" })},
		{"canonical", "The page names its canonical URL", 1,
			`Add <link rel="canonical" href="…"> with the page's own URL.`, stated("A canonical URL on this site", func(s *site) bool { return s.page.canonical != "" && s.own(s.page.canonical) != "" })},
		{"lang", "The page names its language", 1,
			`Add a lang attribute, as in <html lang="en">.`, stated("The language", func(s *site) bool { return s.page.lang != "" })},
		{"open-graph", "The page has Open Graph data", 1,
			`Add <meta property="og:title" content="…"> and og:type or og:url.`, stated("Open Graph data with a title, and a type or URL,", func(s *site) bool {
				return s.page.openGraph["og:title"] && (s.page.openGraph["og:type"] || s.page.openGraph["og:url"])
			})},
		{"json-ld", "Structured data as JSON-LD", 4,
			`Add a <script type="application/ld+json"> with valid JSON, an @context of schema.org and an @type.`, (*site).checkJSONLD},
		{"markdown", "The page is Markdown for those who ask for it", 4,
			"Answer Accept: text/markdown with the page's content as text/markdown.", (*site).checkMarkdown},
		{"vary", "Caches are told that the answer depends on Accept", 1,
			"Send Vary: Accept with the page.", (*site).checkVary},
	}},
	{"Discovery", []entry{
		{"ai-catalog", "An AI catalog lists what agents can use", 4,
			"Publish /.well-known/ai-catalog.json as application/ai-catalog+json: specVersion and entries, each with identifier, type, and url or data.", documentFor("ai-catalog")},
		{"sitemap", "A sitemap lists pages", 4,
			"Publish /sitemap.xml, or name one in robots.txt, with the URLs of this site.", func(s *site) finding { return s.sitemap }},
		{"llms-txt", "llms.txt has a heading and links", 6,
			"Publish /llms.txt as text that begins with a # heading and lists links.", (*site).checkLLMs},
		{"links", "The page links to what machines read", 3,
			`Send a Link header field (RFC 8288), such as rel="service-desc", or add <link rel="alternate" type="text/markdown" href="…">.`, (*site).checkLinks},
		{"content-signal", "Content-Signal says what agents may do", 2,
			"Add a line such as Content-Signal: search=yes, ai-input=yes, ai-train=no to robots.txt.", (*site).checkSignal},
		{"about", "There is a page about the site", 2,
			"Link to a page whose address has “about” in it, and serve it.", pageFor("about")},
		{"contact", "There is a way to make contact", 2,
			"Link to a page whose address has “contact” in it, or to a mailto: address.", pageFor("contact")},
		{"privacy", "There is a privacy page", 1,
			"Link to a page whose address has “privacy” in it, and serve it.", pageFor("privacy")},
	}},
	{Interfaces, []entry{
		{"mcp-card", "An MCP server card", 4,
			"Publish a card with the server's name, version and remotes at the server's own address with /server-card behind it, and name it in the AI catalog; scanners also read " + formerPath + ".", (*site).checkCard},
		{"mcp", "The MCP server introduces itself", 7,
			"Have the server that the card names answer server/discover (revision 2026-07-28), or initialize, by POST over streamable HTTP on this site.", (*site).checkServer},
		{"openapi", "An OpenAPI 3 description", 5,
			`Publish /openapi.json, or link to it with rel="service-desc": openapi 3.x, info with title and version, paths.`, documentFor("openapi")},
		{"api-catalog", "An API catalog", 3,
			"Publish /.well-known/api-catalog (RFC 9727), a linkset in JSON.", documentFor("api-catalog")},
		{"skills", "An index of agent skills", 2,
			"Publish /.well-known/agent-skills/index.json with a list of skills, each with name, type, description, url and digest.", documentFor("skills")},
		{"skill", "The first agent skill is what the index says", 2,
			"Serve the skill at the url in the index, on this site, and have its digest say sha256: and the SHA-256 of these bytes in hexadecimal.", (*site).checkSkill},
		{"payments", "Payments can be discovered", 2,
			"Publish /.well-known/x402, or x-payment-info on a paid operation of the OpenAPI description.", (*site).checkPayments},
	}},
	{Bonus, []entry{
		{"agent-card", "The card of an agent", 3,
			"If an agent is to be called here: publish /.well-known/agent-card.json (A2A) with name, description, version, skills and where the agent is reached.", agentsOnly("agent-card")},
		{"signatures", "Keys of an agent that signs its requests", 2,
			"If the site sends agents or crawlers: have them sign requests (RFC 9421), and publish the public keys as a JWK Set at /.well-known/http-message-signatures-directory.", agentsOnly("signatures")},
	}},
}

// grade applies the rubric to what was seen.
func grade(s *site) *Report {
	r := &Report{URL: s.asked, Rubric: Rubric, Note: Note, Requests: s.requests()}
	for _, g := range rubric {
		group := Group{Name: g.name}
		for _, e := range g.entries {
			f := e.look(s)
			c := Check{ID: e.id, Title: e.title, Points: e.points, Evidence: f.evidence}
			if f.passed {
				c.Earned = e.points
			} else {
				c.Fix = cmp.Or(f.fix, e.fix)
			}
			group.Points += c.Points
			group.Earned += c.Earned
			group.Checks = append(group.Checks, c)
		}
		r.Score = min(r.Score+group.Earned, MaxScore)
		r.Groups = append(r.Groups, group)
	}
	return r
}
