package describe

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/xml"
	"slices"
	"strings"
	"text/template"

	"webring/core/api"
)

// textsFile has llms.txt, the skills, and the pieces that both are put together from.
//
//go:embed texts.tmpl
var textsFile string

var texts = template.Must(template.New("").Funcs(template.FuncMap{
	"oneLine":   func(s string) string { return strings.Join(strings.Fields(s), " ") },
	"quoted":    strings.NewReplacer("'", `\u0027`).Replace,
	"quotedURL": strings.NewReplacer("'", "%27").Replace,
	"xml":       inXML,
	"client":    func() string { return Client },
}).Option("missingkey=error").Parse(textsFile))

// The reference client of the payment protocol, and the library that it uses. Their versions
// belong together: with others npm may install neither. The handbook says how to change them.
const (
	mppx           = "mppx@0.11.0"
	viem           = "viem@2.57.13"
	ClientPackages = mppx + " " + viem
	// Client is the command that runs the client. It fetches what it needs.
	Client = "npx -y -p " + mppx + " -p " + viem + " mppx"
)

// facts are what the texts name.
type facts struct {
	Ring
	Skill  skill
	Draft  string // JSON of a registration
	Member string // slug of the earliest member, "" in an empty ring
	News   bool   // members have feeds
	Log    bool   // the node has the log
	Tools  []string
	Lists  []list
}

// list has what there is to read on one subject.
type list struct {
	Title string
	Links []page
}

// inXML escapes words. Characters that XML cannot have become U+FFFD.
func inXML(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a builder takes all
	return b.String()
}

// text writes one of the texts.
func text(name string, of any) string {
	var b strings.Builder
	if err := texts.ExecuteTemplate(&b, name, of); err != nil {
		panic(err) // a constant of this package
	}
	return b.String()
}

// facts reads those of this ring.
func (s *Source) facts() facts { return facts{Ring: s.ring()} }

// llms is the page for language models (llmstxt.org): what the ring is, and what
// a program needs to check, pay, join, bid and change without any other document. It links only
// what a GET answers. Its size does not depend on the members.
func llms(s *Source) []byte {
	f := s.facts()
	f.Draft = string(inJSON(exampleDraft(s.example(f.Base))))
	if first, _ := s.members("", 0, 1); len(first) > 0 {
		f.Member = first[0].Slug
	}
	f.News, f.Log = s.has("/feeds/members/x.atom"), s.has(logCheckpoint)
	reads, links := list{Title: "Reads"}, list{Title: "Links to put on a page"}
	documents, optional := list{Title: "Documents"}, list{Title: "Optional", Links: pagesOf(s)}
	for i := range optional.Links {
		optional.Links[i].About += " Also as Markdown, with `Accept: text/markdown`."
	}
	for _, op := range Operations() {
		if op.Tool != "" {
			f.Tools = append(f.Tools, op.Tool)
		}
		link := page{Path: op.Path, Title: op.Method + " " + op.Path, About: op.About}
		link.Gone = f.Member == "" && slices.Contains(op.codes, api.EmptyRing) // nowhere to go yet
		switch {
		case op.Tag == linksTag:
			links.Links = append(links.Links, link)
		case op.Tool != "" && op.Method == "GET" && !strings.Contains(op.Path, "{"):
			reads.Links = append(reads.Links, link)
		}
	}
	for _, path := range []string{"/openapi.json", apiCatalogPath, aiCatalogPath, skillsPath, "/mcp/server-card",
		"/widget.js", "/feeds/joins.atom", "/feeds/joins.json", "/feeds/lead.atom", "/feeds/lead.json", "/ring.opml", "/sitemap.xml"} {
		at := slices.IndexFunc(Operations(), func(op Operation) bool { return op.Path == path })
		link := page{Path: path, Title: path, About: Operations()[at].About}
		if len(documents.Links) < 5 {
			documents.Links = append(documents.Links, link)
		} else if s.has(path) {
			optional.Links = append(optional.Links, link)
		}
	}
	if s.has(FeedsPath) {
		optional.Links = append(optional.Links, page{Path: FeedsPath, Title: FeedsPath, About: "The feeds of members' own sites, as OPML."})
	}
	f.Lists = []list{reads, links, documents, optional}
	return []byte(text("llms.txt", f))
}

// robots lets everyone read everything. What each answer costs is bounded by the rate limit, not
// by asking nicely.
func robots(s *Source) []byte { return []byte(text("/robots.txt", s.ring())) }

const (
	skillsPath   = "/.well-known/agent-skills/index.json"
	skillsFolder = "/.well-known/agent-skills/"
	skillsSchema = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
)

// skill is an agent skill: a document that teaches an agent one thing. What it says depends
// on the rules of the ring alone, so its digest changes as seldom as they do.
type skill struct{ Name, Title, About string }

// path is where the document of the skill is.
func (k *skill) path() string { return skillsFolder + k.Name + "/SKILL.md" }

// skills are those that a ring teaches.
//
// Documents: the Agent Skills specification, and Agent Skills Discovery via Well-Known URIs, 0.2.0.
var skills = []skill{
	{"join-webring", "Join the ring", "Register an agent, an MCP server or a website in this webring and pay the fee over HTTP 402. Use when someone wants their site to be a member."},
	{"bid-in-webring", "Bid for a rank", "Raise a member of this webring on its leaderboard with a bid paid over HTTP 402. Use when someone wants a member to rank higher."},
	{"change-webring-listing", "Change a listing", "Change the name, description, category, kind or address of a member of this webring, or take it out of the ring. Use when the owner of a member wants to edit its listing."},
}

// document writes the skill as its file.
func (k *skill) document(s *Source) []byte {
	f := s.facts()
	f.Skill, f.Draft = *k, `{"category":"{category}","description":"{description}","kind":"{kind}","name":"{name}","url":"{url}"}`
	return []byte(text(k.Name, f))
}

// skillIndex lists the skills, with the digest of the document of each.
func skillIndex(s *Source) []byte {
	list := []node{}
	for _, k := range skills {
		sum := sha256.Sum256(k.document(s))
		list = append(list, node{"name": k.Name, "type": "skill-md", "description": k.About, "url": k.path(), "digest": "sha256:" + hex.EncodeToString(sum[:])})
	}
	return s.json(node{"$schema": skillsSchema, "skills": list})
}
