package describe

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

const (
	skillsPath   = "/.well-known/agent-skills/index.json"
	skillsFolder = "/.well-known/agent-skills/"
	skillsSchema = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
)

// skill is an agent skill: a document that teaches an agent one thing. What it says depends
// on the rules of the ring alone, so its digest changes as seldom as they do.
type skill struct {
	name, title, about string
	write              func(*recipe)
}

// path is where the document of the skill is.
func (k *skill) path() string { return skillsFolder + k.name + "/SKILL.md" }

// skills lists the skills that a ring teaches.
//
// Documents: the Agent Skills specification, and Agent Skills Discovery via Well-Known URIs, 0.2.0.
func skills() []skill {
	return []skill{
		{"join-webring", "Join the ring", "Register an agent, an MCP server or a website in this webring and pay the fee over HTTP 402. Use when someone wants their site to be a member.", func(r *recipe) {
			r.blocks()
			r.check(draft)
			r.pay()
			r.join(draft)
		}},
		{"bid-in-webring", "Bid for a rank", "Raise a member of this webring on its leaderboard with a bid paid over HTTP 402. Use when someone wants a member to rank higher.", func(r *recipe) {
			r.blocks()
			r.say("**1. See the prices.** `rules` has the minimum bid. Each row has `to_take_first_usd`, the payment that takes rank 1.\n\n")
			r.request("GET", "/api/leaderboard", nil)
			r.pay()
			r.bid()
		}},
		{"change-webring-listing", "Change a listing", "Change the name, description, category, kind or address of a member of this webring, or take it out of the ring. Use when the owner of a member wants to edit its listing.", func(r *recipe) {
			r.blocks()
			r.say("**Read the listing first.** `member.owner` is the account that may change it.\n\n")
			r.request("GET", "/api/ring/{slug}", nil)
			r.change()
		}},
	}
}

// document gives the skill as its file.
func (k *skill) document(s *Source) []byte {
	ring := s.ring()
	r := s.recipe(ring)
	r.say("---\nname: %s\ndescription: %s\n---\n\n# %s\n\nThe ring is %s, at %s.\n\n", k.name, k.about, k.title, oneLine(ring.Name), angled(ring.Base+"/"))
	k.write(r)
	r.answers()
	r.lifetimes()
	r.say("More: %s, and %s for everything else.\n", angled(ring.Base+"/llms.txt"), angled(ring.Base+"/openapi.json"))
	return []byte(r.b.String())
}

// skillIndex lists the skills, with the digest of the document of each.
func skillIndex(s *Source) []byte {
	list := []node{}
	for _, k := range skills() {
		text := k.document(s)
		sum := sha256.Sum256(text)
		list = append(list, node{"name": k.name, "type": "skill-md", "description": k.about, "url": k.path(), "digest": "sha256:" + hex.EncodeToString(sum[:])})
	}
	return s.json(node{"$schema": skillsSchema, "skills": list})
}

// skillDocument gives the document of a skill at a path, as [Part] does.
func skillDocument(path string) (d Document, ok bool) {
	if !strings.HasPrefix(path, skillsFolder) {
		return d, false
	}
	for _, k := range skills() {
		if k.path() == path {
			return Document{Path: path, Media: "text/markdown; charset=utf-8", MaxAge: settledAge, make: k.document}, true
		}
	}
	return d, false
}
