package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"webring/server/devchain"
)

// joining is one member of the demonstration.
type joining struct {
	Name        string `json:"name"`
	URL         string `json:"url"`
	Kind        string `json:"kind"`
	Category    string `json:"category"`
	Description string `json:"description,omitempty"`
	Bid         string `json:"bid,omitempty"`
}

// demoMembers are a dozen members of all kinds. Their sites are served by the
// running ring; what has these names elsewhere is not contacted.
var demoMembers = []joining{
	{"Tidewater Notes", "https://tidewater-notes.org/", "website", "writing", "Field notes from a coast, one page a week.", ""},
	{"Ledgerbird", "https://ledgerbird.dev/agent", "agent", "finance", "Reconciles invoices and says what is missing.", "3.00"},
	{"Atlas MCP", "https://atlas-mcp.dev/", "mcp", "maps", "Geocoding and routes as tools.", ""},
	{"Small Hours", "https://smallhours.net/", "website", "music", "A radio for people who are up late.", "1.00"},
	{"Patchwork", "https://patchwork-agent.com/", "agent", "code", "Reviews a change before you do.", "5.50"},
	{"Weatherglass", "https://weatherglass.io/mcp", "mcp", "weather", "Forecasts with their uncertainty.", ""},
	{"The Index of Indexes", "https://index-of-indexes.org/", "website", "reference", "", ""},
	{"Quill", "https://quill-agent.app/", "agent", "writing", "Edits without flattening your voice.", "2.25"},
	{"Seedbank", "https://seedbank.garden/", "website", "garden", "What to sow this week, where you are.", ""},
	{"Pocket Statistics", "https://pocketstats.dev/mcp", "mcp", "reference", "Distributions, tests and plots as tools.", "1.50"},
	{"Lantern", "https://lantern-agent.net/", "agent", "research", "Reads ten papers and cites the eleventh.", ""},
	{"Kiln", "https://kiln.studio/", "website", "craft", "Glazes, tested and photographed.", ""},
}

// demoBids come after everybody has joined: by slug and by URL. With them, all bids on
// the member are Total.
var demoBids = []struct{ Slug, Member, Amount, Total string }{
	{"tidewater-notes", "tidewater-notes", "4.00", "4.00"},
	{"atlas-mcp", "https://atlas-mcp.dev/", "2.00", "2.00"},
	{"kiln", "kiln", "1.00", "1.00"},
	{"patchwork", "patchwork", "1.75", "7.25"},
	{"weatherglass", "https://weatherglass.io/mcp", "6.25", "6.25"},
}

// demo fills the ring that is running, each step really paid by a wallet of its
// own. What is there already is not paid for again.
func demo(ctx context.Context, data string) error {
	if err := devchain.FindNode(); err != nil {
		return err
	}
	n, err := findNote(data)
	if err != nil {
		return err
	}
	if len(n.Keys) < accounts {
		return fmt.Errorf("the running chain has %d accounts; the demonstration needs %d", len(n.Keys), accounts)
	}
	client, err := devchain.StartClient(ctx, n.RPC)
	if err != nil {
		return err
	}
	defer client.Close()
	for i, m := range demoMembers {
		if err := pay(ctx, client, n.Keys[1+i], n.Base+"/api/register", m, m.Name); err != nil {
			return err
		}
	}
	for i, b := range demoBids {
		what := "bid of " + b.Amount + " on " + b.Member
		there, err := hasBids(ctx, n.Base, b.Slug, b.Total)
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if there {
			fmt.Printf("is there  %s\n", what)
			continue
		}
		body := map[string]string{"member": b.Member, "amount": b.Amount}
		if err := pay(ctx, client, n.Keys[40+i], n.Base+"/api/bid", body, what); err != nil {
			return err
		}
	}
	return showLeaderboard(ctx, n.Base)
}

func pay(ctx context.Context, client *devchain.Client, key string, url string, body any, what string) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	p, err := client.Pay(ctx, key, devchain.Request{Method: "POST", URL: url,
		Header: map[string]string{"Content-Type": "application/json"}, Body: raw})
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	switch p.Status {
	case http.StatusOK, http.StatusCreated:
		fmt.Printf("paid      %s\n", what)
	case http.StatusConflict:
		fmt.Printf("is there  %s\n", what)
	default:
		return fmt.Errorf("%s: status %d: %s", what, p.Status, p.Body)
	}
	return nil
}

// hasBids says whether the bids on a member are worth as much as total, in dollars.
func hasBids(ctx context.Context, base, slug, total string) (bool, error) {
	var detail struct {
		Member struct {
			Bids string `json:"bid_total_usd"`
		} `json:"member"`
	}
	if err := read(ctx, base+"/api/ring/"+slug, &detail); err != nil {
		return false, err
	}
	has, err := cents(detail.Member.Bids)
	if err != nil {
		return false, err
	}
	wanted, err := cents(total)
	return has >= wanted, err
}

// cents reads an amount as the ring writes it, with two decimals.
func cents(amount string) (int64, error) {
	return strconv.ParseInt(strings.Replace(amount, ".", "", 1), 10, 64)
}

// read gets a document of the ring.
func read(ctx context.Context, url string, document any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: status %d", url, res.StatusCode)
	}
	return json.NewDecoder(res.Body).Decode(document)
}

func showLeaderboard(ctx context.Context, base string) error {
	var board struct {
		Leaderboard []struct {
			Rank      int    `json:"rank"`
			Name      string `json:"name"`
			Kind      string `json:"kind"`
			Effective string `json:"effective_bid_usd"`
		} `json:"leaderboard"`
	}
	if err := read(ctx, base+"/api/leaderboard?limit=20", &board); err != nil {
		return err
	}
	fmt.Println()
	for _, m := range board.Leaderboard {
		fmt.Printf("%3d  %8s USD  %-8s %s\n", m.Rank, m.Effective, m.Kind, m.Name)
	}
	return nil
}
