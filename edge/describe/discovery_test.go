package describe

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"webring/core"
	"webring/core/coretest"
)

// partOf gives the document at a path that [Part] knows, "" when there is none.
func partOf(t *testing.T, r *coretest.Ring, path string) string {
	t.Helper()
	d, ok := Part(path)
	if !ok {
		return ""
	}
	b, err := d.Build(source(r, Site{}))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// airForm is how the specification has identifiers, urn:air:[a-zA-Z0-9.-]+(:[a-zA-Z0-9._-]+)+, with the
// parts that the ring's have.
var airForm = regexp.MustCompile(`^urn:air:[a-zA-Z0-9.-]+:[a-z0-9-]+:(mcp|agent|skill|catalog)$`)

// entriesOf gives the entries of a catalogue by identifier, each of the form that the
// specification has.
func entriesOf(t *testing.T, text string) map[string]map[string]any {
	t.Helper()
	doc := decoded(t, text)
	if doc["specVersion"] != "1.0" || at(doc, "host", "displayName") != "Example Ring" || at(doc, "host", "identifier") != "ring.example" {
		t.Errorf("version %v, host %v", doc["specVersion"], doc["host"])
	}
	all := map[string]map[string]any{}
	for _, e := range doc["entries"].([]any) {
		e := e.(map[string]any)
		id := e["identifier"].(string)
		_, linked := e["url"]
		_, inline := e["data"]
		if !airForm.MatchString(id) || all[id] != nil || linked == inline || e["type"] == "" || e["displayName"] == "" {
			t.Errorf("entry %v", e)
		}
		all[id] = e
	}
	return all
}

func TestIdentifiersHaveTheirFormUnderEveryHost(t *testing.T) {
	for _, base := range []string{"", "https://ring.example", "https://Ring.Example:8443", "http://127.0.0.1:8402", "http://[2001:db8::1]:80", "http://localhost", "https://xn--mller-kva.example/ring"} {
		for _, kind := range []string{"mcp", "agent", "skill", "catalog"} {
			if id := entryOf(base, "members-mcp-1", kind, "", "", "")["identifier"].(string); !airForm.MatchString(id) {
				t.Errorf("at %q: %s", base, id)
			}
		}
	}
}

func TestTheCatalogueListsWhatAgentsCanUse(t *testing.T) {
	r := coretest.NewRing(t, payable)
	if all := entriesOf(t, build(t, r, aiCatalogPath, Site{})); len(all) != 1+len(skills) || all["urn:air:ring.example:webring:mcp"]["url"] != "https://ring.example/mcp/server-card" {
		t.Errorf("an empty ring: %v", all)
	}
	of := func(kind core.Kind) func(*core.Joined, *core.Texts) {
		return func(e *core.Joined, x *core.Texts) { e.Kind = kind }
	}
	for i := range catalogSize + 1 {
		r.Join(fmt.Sprintf("m%d", i), fmt.Sprintf("https://m%d.dev/mcp", i), of(core.MCP))
	}
	r.Join("site", "https://site.dev/", of(core.Website))
	r.Join("eve", "https://eve.dev/", func(e *core.Joined, x *core.Texts) {
		e.Kind, x.Name.Value, x.Description.Value = core.Agent, hostile[:54], strings.Repeat("word ", 60)
	})
	all := entriesOf(t, build(t, r, aiCatalogPath, Site{}))
	for id, path := range map[string]string{"members-mcp-1": "/ai-catalogs/mcp-1.json", "members-mcp-2": "/ai-catalogs/mcp-2.json", "members-agent-1": "/ai-catalogs/agent-1.json"} {
		if e := all["urn:air:ring.example:"+id+":catalog"]; e["url"] != "https://ring.example"+path || e["type"] != aiCatalogMedia {
			t.Errorf("%s: %v", id, e)
		}
	}
	if len(all) != 1+len(skills)+3 {
		t.Errorf("%d entries", len(all))
	}
	servers := entriesOf(t, partOf(t, r, "/ai-catalogs/mcp-1.json"))
	card := servers["urn:air:ring.example:m7:mcp"]
	if len(servers) != catalogSize || card["type"] != cardMedia || at(card, "data", "remotes", 0, "url") != "https://m7.dev/mcp" || at(card, "data", "name") != "example.ring/m7" {
		t.Errorf("%d servers, %v", len(servers), card)
	}
	if n := len(entriesOf(t, partOf(t, r, "/ai-catalogs/mcp-2.json"))); n != 1 {
		t.Errorf("%d servers in the second part", n)
	}
	agents := entriesOf(t, partOf(t, r, "/ai-catalogs/agent-1.json"))
	if e := agents["urn:air:ring.example:eve:agent"]; len(agents) != 1 || e["displayName"] != hostile[:54] || e["url"] != "https://ring.example/api/ring/eve" || e["publisher"] != nil {
		t.Errorf("agents %v", agents)
	}
	for _, path := range []string{"/ai-catalogs/mcp-3.json", "/ai-catalogs/mcp-0.json", "/ai-catalogs/mcp-01.json", "/ai-catalogs/mcp-.json", "/ai-catalogs/website-1.json", "/ai-catalogs/agent-1", "/ai-catalogs/"} {
		if text := partOf(t, r, path); text != "" {
			t.Errorf("%s: %.100s", path, text)
		}
	}
	if s := shortened(strings.Repeat("word ", 60), cardAbout); len([]rune(s)) > cardAbout || !strings.HasSuffix(s, "word…") {
		t.Errorf("%q", s)
	}
}

// A client refuses a skill with another digest, so it must not change when a member joins.
func TestSkillsHaveTheDigestsOfTheIndex(t *testing.T) {
	r := coretest.NewRing(t, payable)
	index := build(t, r, skillsPath, Site{})
	doc := decoded(t, index)
	if doc["$schema"] != skillsSchema || len(doc["skills"].([]any)) != 3 {
		t.Fatal(index)
	}
	name := regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	for _, s := range doc["skills"].([]any) {
		k := s.(map[string]any)
		text := partOf(t, r, k["url"].(string))
		sum := sha256.Sum256([]byte(text))
		if k["digest"] != "sha256:"+hex.EncodeToString(sum[:]) || k["type"] != "skill-md" || !name.MatchString(k["name"].(string)) || len(k["description"].(string)) > 1024 {
			t.Errorf("%v", k)
		}
		if want := fmt.Sprintf("---\nname: %s\ndescription: %s\n---\n\n# ", k["name"], k["description"]); !strings.HasPrefix(text, want) || len(text) > 10<<10 || strings.Contains(k["description"].(string), ": ") {
			t.Errorf("%d bytes: %.300s", len(text), text)
		}
	}
	r.Join("ada", "https://ada.dev/")
	if again := build(t, r, skillsPath, Site{}); again != index {
		t.Error("a member changes the skills")
	}
	if text := partOf(t, r, skillsFolder+"nothing/SKILL.md") + partOf(t, r, skillsFolder+"join-webring/"); text != "" {
		t.Error(text)
	}
}

// The recipe stays small, and as it is however many members there are.
func TestLLMsStaysSmall(t *testing.T) {
	r := coretest.NewRing(t, func(e *core.Rules) {
		e.Networks = []core.Network{{Name: "tempo:42431", Method: "tempo", Currency: "0x20c0000000000000000000000000000000000000"},
			{Name: "eip155:8453", Method: "evm", Currency: "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"}}
	})
	for i := range 30 {
		r.Join(fmt.Sprintf("m%d", i), fmt.Sprintf("https://m%d.dev/", i))
	}
	text := build(t, r, "/llms.txt", Site{})
	if len(text) > 16<<10 {
		t.Errorf("%d bytes", len(text))
	}
	prose, _, _ := strings.Cut(text, "\n## ")
	for _, want := range []string{"`tempo` on `eip155:42431`", "`evm` on `eip155:8453`", "never pay again on 503", "a bid keeps its fee as its standing", "the whole total, fee included, counts in full for `grace_period` after the last bid and then falls to 0 over `decay_span`", "`credential_reused`", "```sh\n" + Client + " 'https://ring.example/api/register' -J '{"} {
		if !strings.Contains(prose, want) {
			t.Errorf("it does not say %q", want)
		}
	}
	if strings.Count(text, "```")%2 != 0 || strings.Count(prose, "\n# ") > 0 {
		t.Error(text)
	}
}
