package synthetic

import (
	"fmt"
	"strings"

	"webring/core"
)

// member is a made-up member.
type member struct {
	slug, category string
	kind           core.Kind
	texts          core.Texts
}

// Words of which members are made. Their hosts are below .example, which is reserved (RFC 2606).
var (
	first = strings.Fields(`Amber Arctic Autumn Binary Blue Bold Brass Bright Calm Candid Cedar Civic Clear Clever Cobalt Copper Coral
		Cosmic Crimson Curious Daily Deep Distant Eager Early Elder Electric Ember Fair Fern First Gentle Gilded Golden Grand Granite Green
		Harbor Hidden Honest Humble Indigo Iron Ivory Jade Keen Kind Lantern Little Lively Lucid Lunar Maple Meadow Mellow Midnight Misty
		Modern Mossy Neat Nimble Noble North Oak Olive Open Orchard Paper Patient Pearl Pine Plain Polar Prime Quick Quiet Rapid Red River
		Rustic Sable Sage Scarlet Sharp Silent Silver Simple Slate Solar Spare Stellar Still Stone Sunny Swift Tidal Timber True Velvet
		Violet Vivid Warm Wild Willow Winter Wise`)
	second = strings.Fields(`Almanac Anchor Archive Atlas Bakery Beacon Bench Bindery Branch Bridge Broker Cabin Canvas Cartographer
		Catalog Chart Clerk Clinic Cloud Coach Compass Concierge Courier Craft Crew Dispatch Dock Drafter Editor Engine Envoy Factory Feed
		Field Finder Forge Foundry Garden Gateway Gazette Grove Guide Harvest Herald House Hub Index Journal Kiln Kitchen Lab Ledger Lens
		Library Lighthouse Loom Mapper Market Mentor Mill Mint Monitor Notary Observatory Office Outpost Palette Parlor Pilot Planner Plaza
		Porter Press Printer Query Quill Radar Reader Registry Relay Report Router Scholar School Scout Search Sentinel Shop Signal Sketch
		Smith Spring Station Steward Studio Survey Tailor Teller Tower Translator Tutor Vault Vendor Watch Weaver Works Workshop Writer`)
	third      = strings.Fields(`AI Agent Bot Cloud Co Desk Labs Online Pro Systems Tools`)
	categories = strings.Fields(`general developer-tools search research writing data finance travel education design security shopping
		productivity news health music games legal translation weather maps media marketing support analytics infrastructure science food
		sports real-estate jobs social art photography video books history languages robotics energy climate agriculture logistics
		insurance accounting government nonprofit parenting pets fashion home gardening automotive aviation space math chemistry biology`)
	verbs = strings.Fields(`Finds Compares Summarises Translates Books Tracks Drafts Reviews Maps Explains Checks Collects Plans Answers
		Watches Sorts Archives Monitors Converts Schedules`)
	objects = []string{"open data", "train and ferry times", "release notes", "public tenders", "research papers", "prices of spare parts",
		"small-business invoices", "museum collections", "recipes", "API changes", "local news", "weather alerts", "court decisions",
		"job openings", "code reviews", "travel budgets", "energy tariffs", "podcasts", "second-hand books", "language lessons", "star charts",
		"support tickets", "meeting notes", "security advisories"}
	readers = []string{"agents in a hurry", "teams of any size", "libraries and archives", "people who would rather not", "developers",
		"curious readers", "small shops", "students", "editors", "households", "field researchers", "anyone with a question"}
	extras = []string{"Every answer names its sources.", "Free to read, paid by the call beyond a daily allowance.", "Speaks MCP and plain HTTP.",
		"Updated every hour.", "No account needed.", "Self-hosted, open source, and documented.", "Available in twelve languages.",
		"Made and run by two people and a cat.", "Results as JSON, CSV or prose."}
)

// member makes up the next member: a name that is no member's slug yet, a host of
// its own, and mostly a description.
func (s *seeder) member() member {
	pick := func(words []string) string { return words[s.IntN(len(words))] }
	words := []string{pick(first), pick(second)}
	if s.IntN(3) == 0 {
		words = append(words, pick(third))
	}
	slug := strings.ToLower(strings.Join(words, "-"))
	if s.used[slug]++; s.used[slug] > 1 {
		slug = fmt.Sprintf("%s-%d", slug, s.used[slug])
	}
	m := member{slug: slug, kind: core.Agent}
	// The first categories are the common ones.
	m.category = categories[min(s.IntN(len(categories)), s.IntN(len(categories)))]
	url := "https://" + slug + ".example/"
	switch p := s.IntN(100); {
	case p < 25:
		m.kind, url = core.MCP, "https://mcp."+slug+".example/mcp"
	case p < 60:
		m.kind = core.Website
		if p < 35 {
			url = "https://www." + slug + ".example/" + strings.ToLower(pick(second))
		}
	}
	m.texts.Name.Value, m.texts.URL.Value = strings.Join(words, " "), url
	if s.Hard {
		m.texts.Name.Value = hardNames[len(s.slugs)%len(hardNames)]
	}
	if s.IntN(100) < 85 {
		d := fmt.Sprintf("%s %s for %s.", pick(verbs), pick(objects), pick(readers))
		for range s.IntN(3) {
			d += " " + pick(extras)
		}
		m.texts.Description.Value = d
	}
	if s.IntN(100) < 60 {
		m.texts.Report.Value = "https://reports.example/" + slug
	}
	return m
}

// hardNames are such as pages have to bear, the longest of 80 characters.
var hardNames = []string{
	"The Society for the Careful Keeping of Long and Entirely Necessary Names of 1887",
	"Donaudampfschifffahrtsgesellschaftskapit\u00e4nsm\u00fctzenabzeichenfabrikantenverbands",
	"\u0645\u0643\u062a\u0628\u0629 \u0627\u0644\u0645\u062f\u064a\u0646\u0629 \u0627\u0644\u0642\u062f\u064a\u0645\u0629",
	"\u05e1\u05e4\u05e8\u05d9\u05d9\u05ea Atlas \u05e9\u05dc \u05d4\u05e2\u05d9\u05e8",
	"\u56db\u5b63\u306e\u5929\u6587\u53f0\u3068\u661f\u306e\u56f3\u66f8\u9928",
	"<img src=x onerror=alert(1)>",
	"Za\u0301\u0316\u030b\u0323l\u0302\u0301\u0316g\u030b\u0323\u0302o\u0301 Press",
	"Q",
	"\u0939\u093f\u0928\u094d\u0926\u0940 \u092a\u0941\u0938\u094d\u0924\u0915\u093e\u0932\u092f",
	"\U0001f41d Beehive \U0001f33b",
	"\u017bubr & Ko\u0144, \u0141\u00f3d\u017a",
	"WWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWW",
}
