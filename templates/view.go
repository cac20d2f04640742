package templates

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/a-h/templ"

	"webring/core/api"
	"webring/edge/describe"
)

// Policy is the Content-Security-Policy of every page: all that it loads comes from the
// node that sent it, nothing is inline but the script of the theme, and no site may frame it.
// VerifyPolicy is that of the page that runs the core in the reader's browser.
var (
	Policy       = policy("")
	VerifyPolicy = policy(" 'wasm-unsafe-eval'")
)

func policy(scripts string) string {
	sum := sha256.Sum256([]byte(themeScript))
	return "default-src 'none'; style-src 'self'; script-src 'self' 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'" + scripts +
		"; img-src 'self'; font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
}

// themeScript gives the page the theme that its reader has chosen, before anything is drawn.
// page.js keeps the choice.
const themeScript = `try{document.documentElement.dataset.theme=localStorage.theme||""}catch{}`

// Page is what every page needs. Paths have a leading slash.
type Page struct {
	Title       string
	Ring        string // the ring's name, "" when it is not known
	Description string // for search results and previews, or ""
	Root        string // relative address of the home page's folder: "" or "../"
	Path        string // of the page itself; marks it in the navigation
	Canonical   string // the page's URL, for search, or ""
	Share       Share
	Style       string // path of the style sheet
	Face        string // path of the display face, or ""
	Script      string // path of the script that refreshes numbers, or ""
	Icon        string // path of the icon, or ""
	Icons       bool   // the node has the icons of members
	Synthetic   bool   // the ring was made for measurement, not by payments
	Policies    Policies
	Operator    Operator
	Look        Look
	Feeds       []Feed
}

// Policies are pages of the operator; a field is "" when there is none.
type Policies = describe.Policies

// Operator is who runs the ring.
type Operator = describe.Operator

// Look is how the operator has the ring look.
type Look = describe.Look

// Feed is another form of what the page shows.
type Feed struct{ Type, Title, Path string }

// Home is the front page. Amounts, here and below, are strings as documents
// spell them.
type Home struct {
	Page
	Base        string // the ring's URL, without a slash at its end
	Members     int
	Leader      *Row // nil in an empty ring
	Dollar      *Row // where the least bid does most; nil if it does little anywhere, and if that is not known
	Board       Board
	Fee         string
	JoinAtFirst string // opening bid that takes rank 1, "0.00" when the fee alone does
	Categories  []Category
	Picture     Picture
	Hops        *Hops // nil when they are not known
	News        []News
}

// News is a member that joined, or a bid on one.
type News struct {
	Joined    bool
	Member    describe.Member
	Amount    string          // that was paid
	Was, Rank int             // before and after it, 0 where that is not known
	Passed    describe.Member // the highest that it passed, or the zero value
	At        When
}

// Kind is how many members of one kind there are.
type Kind struct {
	Kind    string
	Members int
}

// Category is a category in use.
type Category struct {
	Name    string `json:"category"`
	Members int
}

// Row is a member as lists show it: what documents say of it, and what that means. Fields that a
// list does not have are empty.
type Row struct {
	describe.Member
	Bar     int    // length of its bar, in percent of the standing at rank 1
	Tail    int    // of the pale part behind it, which has faded
	Faded   string // what was paid and no longer counts, or ""
	Fresh   Freshness
	LastBid When // zero for none
	Bid     Bid  // the least one that does something
}

// Asleep says that the site does not answer, so that the ring skips the member.
func (r Row) Asleep() bool { return r.Health == "asleep" }

// Bid is what a bid on a member does.
type Bid struct {
	Amount string
	Rank   int    // that the member then has
	Above  int    // the rank directly above the member's, 0 for the leader
	Then   string // the member's standing after it
}

// Buys is what an amount does, if it is paid now and nobody else bids.
type Buys struct {
	Amount  string // of the bid, "0.00" for a member that joins without one
	Total   string // of the member, all of which then counts
	Rank    int
	Members int    // in the ring then
	First   bool   // it is the first bid on a member that has joined without one
	For     string // how long the total counts in full
	Fades   When   // the day on which it begins to fade, and that on which it is 0
	Gone    When
}

// When is an instant with the words that say it at the time of drawing.
type When struct {
	At    time.Time
	Words string
}

// Freshness says how a bid has aged.
type Freshness struct {
	State State
	Until When // while fresh: how long it is yet; then the day on which all is or was gone, or zero
}

// State is one of four ages of a member's standing.
type State uint8

// The ages, as the rules of ranking make them.
const (
	FeeOnly State = iota // no bid: nothing fades before the first one
	Fresh
	Fading
	Faded
)

// Ring is a page of members: of one category when Category is not "", of those that a
// search finds when Query is not "".
type Ring struct {
	Page
	Category   string
	Kind       string // "" for all
	Query      string // words that names, hosts and slugs have
	Newest     bool   // the last to join come first; otherwise in ring order
	Search     SearchState
	Members    int    // that match
	InAll      int    // in the ring, on the page of a category
	Best       []Row  // members of the category that rank highest, if they are among the first of the ring
	Fee, Lead  string // what it takes to join, and to join above all of Best; Lead is "" without any
	From, To   int    // which of them are shown; 0 when none
	Rows       []Row
	Categories []Category
	Next, Prev string // relative addresses of the neighbouring pages, or ""
	Picture    Picture
}

// SearchState says what became of a search.
type SearchState uint8

// The states of a search.
const (
	Searched   SearchState = iota
	SearchAway             // the origin, which alone searches, does not answer
	SearchBad              // the words are none that can be searched for
)

// Moment is the page of the ring as it was after an event.
type Moment struct {
	Page
	Seq            uint64
	At             time.Time
	Number, Of     int // among the moments that there are
	First          []MomentRow
	Earlier, Later uint64 // the neighbouring moments, 0 for none
	Picture        Picture
}

// MomentRow is one of the highest members at a moment. Of one that may not be named any more the slug
// is "".
type MomentRow struct {
	Slug, Name string
	Counts     string // USD
}

// Member is the page of one member.
type Member struct {
	Page
	Base       string
	Row        Row
	Members    int // in the ring
	Prev, Next Row
	MinBid     string
	Buys       Buys   // what the bid does that the page begins with
	Grace      string // how long a bid counts in full
	Wallet     Wallet
	Picture    Picture
	Hops       *Hops // nil when they are not known
	Proofs     []Proof
	Lost       *Lost // nil when no earlier owner can take the member back
	Hub        bool  // feeds name a WebSub hub
}

// Lost is an earlier owner that a claim has taken the member from.
type Lost struct {
	Account string
	Until   When // it can take the member back
}

// Proof is an event about a member's money that is in the log.
type Proof struct {
	Index  uint64 // in the log
	What   string // "joined", "bid" or "credited"
	Amount string // USD, "" where it is not known
	At     When
}

// Join is the page on which a draft can be checked, and the answer to a check.
type Join struct {
	Page
	Fee         string
	MinBid      string
	JoinAtFirst string
	Buys        Buys   // what the opening bid does that is chosen
	JoinAtTen   string // opening bid that passes the member at rank 10, "" when there is none or the fee does
	Rule        string // what the score has to be
	Payments    bool   // whether the ring takes any
	Wallet      Wallet
	Categories  []Category
	Draft       Draft
	Checked     *Checked // nil before a check
	Foreign     bool     // another site has sent a draft, which is not shown
}

// Draft is the form as it was filled in.
type Draft struct {
	Name        string `json:"name,omitempty"`
	URL         string `json:"url,omitempty"`
	Kind        string `json:"kind,omitempty"`
	Category    string `json:"category,omitempty"`
	Description string `json:"description,omitempty"`
	Bid         string `json:"bid,omitempty"`
	OnlyIfRank  int    `json:"only_if_rank,omitempty"` // in what is paid for, the rank that the page shows
}

// Checked is what was found about a draft.
type Checked struct {
	Draft     Draft             // as it was checked: filled in by the site where it was empty
	Unknown   bool              // nothing is known of it: it was not checked, or long ago
	Wrong     map[string]string // by field: what is wrong, as a sentence
	Refusal   string            // another reason why paying would be of no use, or ""
	Code      string            // of the problem behind the refusal
	Existing  string            // slug of the member that has the URL already, or ""
	Departed  *Departed         // that member, if it has left and its owner can put it back
	Readiness *Readiness        // nil when the score is not known
	Price     string
	Rank      int    // 0 where the page is to find it
	Slug      string // that the member would get
	Body      string // JSON of the registration
	Command   string // that pays
}

// Embed is the page that makes snippets for a member.
type Embed struct {
	Page
	Base      string
	From      string // as asked for, or ""
	Member    *Row   // nil when From names none
	Prev      Row    // the neighbours of Member
	Next      Row
	Widget    string // path of the widget that never changes
	Integrity string
}

// About is the page about the ring itself.
type About struct {
	Page
	Words  string // what the ring is
	Fee    string
	MinBid string
	Rule   string // what the score has to be
}

// Verify is the page on which a reader recomputes the leaderboard.
type Verify struct {
	Page
	Base     string // the ring's URL, without a slash at its end
	Verifier string // path of the script
	Module   string // path of the core as WebAssembly, or ""
	// Policy says that witnesses must cosign, and Witnessed how many events they have cosigned.
	Policy      bool
	Witnessed   int64
	WitnessedAt When
}

func (v Verify) command() string {
	return "webring edge --origin " + v.Base + " --origin-key KEY"
}

// Docs is the page about the API.
type Docs struct {
	Page
	About     describe.Ring
	Member    string               // slug in the examples, "" in an empty ring
	Answers   map[string]string    // to the examples, by the ids of operations
	Documents []describe.Operation // that the node publishes
	Feeds     bool                 // the node has [describe.FeedsPath]
	Hub       bool                 // feeds name a WebSub hub
}

func (v Docs) verifications() string {
	return "webring verify " + v.About.Base + "\nwebring verify --receipt FILE"
}

func (v Docs) examples() string {
	return "curl " + quotedURL(v.About.Base+"/api/leaderboard?limit=3") + "\n" +
		"curl " + quotedURL(v.About.Base+"/api/ring/next") + "\n" +
		joinCommand(v.About.Base)
}

//go:embed _examples
var examplePrograms embed.FS

// exampleProgram is a program that uses the ring.
type exampleProgram struct{ id, language, text string }

// programs are the examples for this ring.
func (v Docs) programs() (all []exampleProgram) {
	words := []string{"https://ring.example", strings.ReplaceAll(v.About.Base, "'", "%27"), `"1.00"`, `"` + v.About.MinBid + `"`}
	takes := func(method string) bool {
		return slices.ContainsFunc(v.About.Offers, func(o describe.Offer) bool { return o.Method == method })
	}
	if takes("evm") && !takes("tempo") {
		words = append(words, "{ Mppx, tempo }", "{ evm, Mppx }", "tempo({ ", "evm({ currencies: [evm.assets.base.USDC], ")
	}
	facts := strings.NewReplacer(words...)
	for _, e := range []exampleProgram{{"curl.sh", "curl", ""}, {"client.ts", "TypeScript", ""}, {"client.go", "Go", ""}, {"client.py", "Python", ""}} {
		text, err := examplePrograms.ReadFile("_examples/" + e.id)
		if err != nil {
			panic(err) // a constant of this package
		}
		e.id, e.text = strings.ToLower(e.language), facts.Replace(string(text))
		all = append(all, e)
	}
	return all
}

// generators are commands that make clients of the OpenAPI document.
func (v Docs) generators() string {
	document := quotedURL(v.About.Base + "/openapi.json")
	return "oapi-codegen -package ring -o ring.go " + document + "\n" +
		"openapi-ts -i " + document + " -o ring"
}

// Problem explains a problem code.
type Problem struct {
	Page
	Code    string
	Status  int
	Summary string
	Meaning string
	Remedy  string
}

// Problems is the page of all problem codes.
type Problems struct {
	Page
	All []Problem
}

//go:embed problems.json
var problemsFile []byte

// problemWords has what pages say of each problem code: what it means and what to do, the
// heading and reason of an error page, and those of the refusal of a draft, which may pass. An
// empty reason stands for the detail of the problem.
var problemWords = sync.OnceValue(func() (all map[string]struct {
	Meaning, Remedy string
	Page, Draft     struct {
		Heading, Reason string
		Wait            bool
	}
}) {
	if err := json.Unmarshal(problemsFile, &all); err != nil {
		panic(err) // a constant of this package
	}
	return all
})

// Explain says what problem codes mean.
func Explain(codes ...api.Code) (all []Problem) {
	for _, code := range codes {
		words := problemWords()[string(code)]
		all = append(all, Problem{Code: string(code), Status: code.Status(), Summary: code.Title(), Meaning: words.Meaning, Remedy: words.Remedy})
	}
	return all
}

// Plainly gives the heading and the reason of the error page of a problem code, "" where those of
// the problem are plain enough. known says that there is a page about the code.
func Plainly(code string) (heading, reason string, known bool) {
	words, known := problemWords()[code]
	return words.Page.Heading, words.Page.Reason, known
}

// Error is what people see when a page cannot be shown, or a form cannot be taken.
type Error struct {
	Page
	Status    int
	Heading   string
	Reason    string // one or two sentences
	Hint      string // what helps, as a sentence, or ""
	Code      string // of the problem
	Explained bool   // there is a page about the code
	RequestID string // "" when it is not known
	Empty     bool   // the ring has no members, so the page offers neither a search nor a random one

	Again string // words of a link to the same address, or ""

	Departed *Departed // the member that is gone, if its owner can put it back
	Wallet   Wallet    // for that
}

// Departed is a member that its owner has taken out of the ring and can put back.
type Departed struct {
	Slug  string
	Until time.Time
}

// DepartedBy reads from the detail of a problem until when the owner of a member can put it back. It
// is nil if that says nothing of it, or if that is over.
func DepartedBy(slug, detail string, now time.Time) *Departed {
	_, rest, _ := strings.Cut(detail, " until ")
	stamp, _, _ := strings.Cut(rest, "Z")
	until, err := time.Parse(time.RFC3339, stamp+"Z")
	if err != nil || !now.Before(until) {
		return nil
	}
	return &Departed{slug, until}
}

// under is a path with a leading slash as a relative address.
func (p Page) under(path string) string {
	if path == "/" {
		return p.home()
	}
	return p.Root + path[1:]
}

// home is the relative address of the front page.
func (p Page) home() string {
	if p.Root == "" {
		return "./"
	}
	return p.Root
}

// site describes the ring to programs that read pages, in the words of schema.org.
func (p Page) site() templ.JSONScriptElement {
	return templ.JSONScript("", struct {
		Context     string `json:"@context"`
		Type        string `json:"@type"`
		Name        string `json:"name"`
		URL         string `json:"url"`
		Description string `json:"description"`
	}{"https://schema.org", "WebSite", p.name(), p.Canonical, p.Description}).WithType("application/ld+json")
}

// name is the ring's, or a word for it.
func (p Page) name() string {
	if p.Ring == "" {
		return "The ring"
	}
	return p.Ring
}

// SVG draws the badge. It is the one template that is read as XML.
func (v Badge) SVG() []byte {
	v.Ring, v.Name = inXML(v.Ring), inXML(v.Name)
	return Render(badgeImage(v))
}

// Render draws a page. One that fails is a broken invariant: nothing in it
// can but the writer, and that is a buffer.
func Render(c templ.Component) []byte {
	var b bytes.Buffer
	if err := c.Render(context.Background(), &b); err != nil {
		panic(err)
	}
	return b.Bytes()
}
