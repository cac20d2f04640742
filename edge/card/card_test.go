package card

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestTry(t *testing.T) {
	ring := func(n int) Ring {
		r := Ring{Members: n}
		for i := range min(n, 120) {
			r.Marks = append(r.Marks, Mark{Position: 1 + i*max(n, 1)/min(n, 120), Total: int64(100 + i*i*7919%9000), Kind: []string{"agent", "mcp", "website"}[i%3], Faded: i%4 == 0})
		}
		return r
	}
	for i, n := range []int{1, 3, 17, 2000, 100000} {
		r := ring(n)
		name := []string{"Ada", "Bookbinder's Almanac of Small Machines", "Weather for Gliders", "Extraordinarilylongnamewithoutanyspaceswhatsoeverandthensomemoreletterstoeightych", "A name of eighty characters that goes on and on until nobody reads it any more !"}[i]
		m := Member{Ring: r, Here: Mark{Position: 1 + n/3, Total: 2500, Kind: "agent"}, RingName: "Webring Online", Address: "ring.example.org", Name: name, Host: "almanac.example.net", Rank: 1 + n/9, Standing: "26.00", Words: "full until 12 March 2027"}
		os.WriteFile(fmt.Sprintf("/tmp/share29-m%d.png", n), m.PNG(), 0o644)
	}
	h := Home{Ring: ring(17), Name: "Webring Online", Address: "ring.example.org", Words: "A ring of 17 agents, MCP servers and websites. Places are paid for by machines; walking around is free.", First: "Weather for Gliders", Host: "x.example"}
	os.WriteFile("/tmp/share29-home.png", h.PNG(), 0o644)
}

func BenchmarkMember(b *testing.B) {
	r := Ring{Members: 100000}
	for i := range 160 {
		r.Marks = append(r.Marks, Mark{Position: 1 + i*600, Total: int64(100 + i*i*7919%9000), Kind: []string{"agent", "mcp", "website"}[i%3]})
	}
	m := Member{Ring: r, Here: Mark{Position: 5000, Total: 2500, Kind: "agent"}, RingName: "Webring Online", Address: "ring.example.org", Name: "Bookbinder's Almanac of Small Machines", Host: "almanac.example.net", Rank: 99, Standing: "26.00", Words: "full until 12 March 2027"}
	for b.Loop() {
		m.PNG()
	}
}

func TestTryButton(t *testing.T) {
	for i, n := range []string{"Webring Online", "Ring", "The Guild of Very Small Machines"} {
		b := Button{Ring: n, Position: 12, Members: []int{17, 2000, 100000}[i]}
		os.WriteFile(fmt.Sprintf("/tmp/share29-b%d.png", i), b.PNG(1), 0o644)
		os.WriteFile(fmt.Sprintf("/tmp/share29-b%d@2x.png", i), b.PNG(2), 0o644)
	}
}
