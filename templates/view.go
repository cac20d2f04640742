package templates

// Page is what every page needs.
type Page struct {
	Title string
	Ring  string // the ring's name, "" when it is not known
	Root  string // relative address of the home page's folder: "" or "../"
	Style string // path of the style sheet, with a leading slash
}

// Home is the front page. Amounts are strings as documents spell them.
type Home struct {
	Page
	Members     int
	Synthetic   bool // made for measurement, not by payments
	Leader      *Row // nil in an empty ring
	Rows        []Row
	Fee         string
	JoinAtFirst string // opening bid that takes rank 1, "0.00" when the fee alone does
}

// Row is a member on the leaderboard.
type Row struct {
	Rank        int
	Name        string
	URL         string
	Description string
	Kind        string
	Category    string
	Standing    string
	Paid        string
	TakeFirst   string // "" for the leader
}

// Problem explains a problem code.
type Problem struct {
	Page
	Code    string
	Status  int
	Meaning string
	Remedy  string
}

// under is a path with a leading slash as a relative address.
func (p Page) under(path string) string { return p.Root + path[1:] }

// home is the relative address of the front page.
func (p Page) home() string {
	if p.Root == "" {
		return "./"
	}
	return p.Root
}
