package main

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"webring/edge/describe"
	"webring/server/devchain"
	"webring/static"
)

// ownSites are sites on this machine, by host, and the name server that knows them.
type ownSites struct {
	t        *testing.T
	server   *httptest.Server
	resolver net.PacketConn

	mu    sync.Mutex
	files map[string]string // of tokens, by host
	pages map[string]string // at their roots, by host
	texts map[string]string // TXT records, by name
}

func newOwnSites(t *testing.T) *ownSites {
	t.Helper()
	s := &ownSites{t: t, files: map[string]string{}, pages: map[string]string{}, texts: map[string]string{}}
	s.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if file := s.files[r.Host]; file != "" && r.URL.Path == "/.well-known/webring-online.txt" {
			fmt.Fprint(w, file)
			return
		}
		if s.pages[r.Host] != "" && r.URL.Path == static.Icons[0].Path {
			w.Write(static.Icons[0].Body)
			return
		}
		if page := s.pages[r.Host]; page != "" && r.URL.Path == "/" {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, page)
			return
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(s.server.Close)
	var err error
	if s.resolver, err = net.ListenPacket("udp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.resolver.Close() })
	go s.resolve()
	return s
}

// args have an origin find these sites.
func (s *ownSites) args() []string {
	return []string{"--fetch-map", "*.strangers.test=" + s.server.Listener.Addr().String(), "--resolver", s.resolver.LocalAddr().String()}
}

func (s *ownSites) show(where map[string]string, name, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	where[name] = text
}

// resolve answers questions for TXT records until the test ends.
func (s *ownSites) resolve() {
	buf := make([]byte, 1500)
	for {
		n, from, err := s.resolver.ReadFrom(buf)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(buf[:n]) != nil || len(m.Questions) != 1 {
			continue
		}
		q := m.Questions[0]
		m.Header = dnsmessage.Header{ID: m.ID, Response: true, Authoritative: true, RCode: dnsmessage.RCodeNameError}
		m.Additionals = nil
		s.mu.Lock()
		text := s.texts[strings.TrimSuffix(q.Name.String(), ".")]
		s.mu.Unlock()
		if text != "" && q.Type == dnsmessage.TypeTXT {
			m.RCode = dnsmessage.RCodeSuccess
			m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class}, Body: &dnsmessage.TXTResource{TXT: []string{text}}}}
		}
		if answer, err := m.Pack(); err == nil {
			_, _ = s.resolver.WriteTo(answer, from)
		}
	}
}

// list registers a site of a stranger by an account.
func (o *origin) list(w devchain.Account, name, host string) string {
	o.t.Helper()
	p := o.pay(w, "/api/register", fmt.Sprintf(`{"name":%q,"url":"http://%s/","kind":"website"}`, name, host))
	if p.Status != http.StatusCreated {
		o.t.Fatalf("%d %s", p.Status, p.Body)
	}
	return at(o.t, paidDocument(o.t, p), "member", "slug").(string)
}

// does fails unless an answer has a status and, for a problem, a code.
func (r reply) does(t *testing.T, status int, code string) reply {
	t.Helper()
	if r.Status != status || status >= 300 && r.code(t) != code {
		t.Fatalf("%d %s, want %d %s", r.Status, r.Body, status, code)
	}
	return r
}

// TestOwnersKeepTheirPlace has the reference client change, claim, move and leave over an
// origin and its edge. A squatter lists two sites of a stranger; the stranger claims one by
// a file and one by DNS, and the squatter's proofs are refused from then on.
func TestOwnersKeepTheirPlace(t *testing.T) {
	t.Parallel()
	c, _ := chain(t)
	sites, secret := newOwnSites(t), secretFile(t)
	o := start(t, append([]string{"--tempo-rpc", c.RPC, "--core", "native", "--edge-secret-file", secret}, sites.args()...)...)
	e := o.follow(t, o.verifier(), "--core", "native", "--edge-secret-file", secret)
	other := start(t, "--tempo-rpc", c.RPC, "--core", "native")
	squatter, stranger := wallet(t), wallet(t)
	o.list(squatter, "Mine", "one.strangers.test")
	other.list(squatter, "Mine", "mine.dev")
	e.list(squatter, "Also mine", "two.strangers.test")

	// The account that paid owns what it paid for. The edge shows a change at once.
	const mine = "/api/ring/mine"
	changed := e.prove(squatter, http.MethodPatch, mine, `{"name":"Mine alone","description":"Bought"}`).does(t, 200, "")
	if now := e.get(mine).document(t); at(t, now, "member", "name") != "Mine alone" || at(t, now, "member", "description") != "Bought" || changed.Header.Get("Payment-Receipt") == "" {
		t.Errorf("%v %v", now, changed.Header)
	}

	// The client's command line does the same, as pages show it.
	command := exec.CommandContext(t.Context(), "sh", "-c", installed(t, describe.Client+" "+e.base+mine+` -X PATCH -J '{"description":"By hand"}'`))
	command.Env = append(command.Environ(), "MPPX_PRIVATE_KEY="+squatter.HexKey(), "MPPX_RPC_URL="+c.RPC)
	if out, err := command.CombinedOutput(); err != nil || at(t, o.get(mine).document(t), "member", "description") != "By hand" {
		t.Errorf("%v\n%s", err, out)
	}

	// What is no proof for this leaves no trace.
	before := o.position()
	const body = `{"name":"Mine for ever"}`
	e.prove(stranger, http.MethodPatch, mine, body).does(t, 403, "not_owner")
	o.prove(stranger, http.MethodDelete, mine, "").does(t, 403, "not_owner")
	good := o.signAs(squatter, http.MethodPatch, mine, body)
	send := func(n *origin, method, path, body, credential string) reply {
		return n.send(method, path, []byte(body), "Content-Type", "application/json", "Authorization", credential)
	}
	send(e, http.MethodPatch, mine, `{"name":"Others"}`, good).does(t, 402, "invalid_challenge")
	send(o, http.MethodPatch, "/api/ring/also-mine", body, good).does(t, 402, "invalid_challenge")
	send(o, http.MethodDelete, mine, "", good).does(t, 402, "invalid_challenge")
	send(o, http.MethodPost, "/api/bid", `{"member":"mine","amount":"1.00"}`, good).does(t, 402, "invalid_challenge")
	send(o, http.MethodPatch, mine, body, other.signAs(squatter, http.MethodPatch, mine, body)).does(t, 402, "invalid_challenge")
	send(o, http.MethodPatch, mine, body, o.signAs(squatter, http.MethodPost, "/api/bid", `{"member":"mine","amount":"1.00"}`)).does(t, 402, "invalid_challenge")
	if now := o.position(); now != before {
		t.Errorf("the ring is at %s, and was at %s", now, before)
	}

	// One credential at both nodes at once has one effect.
	var copies sync.WaitGroup
	var mu sync.Mutex
	told := map[string]int{}
	for i := range 16 {
		node := []*origin{o, e}[i%2]
		copies.Go(func() {
			r := send(node, http.MethodPatch, mine, body, good)
			what := fmt.Sprint(r.Status)
			if r.Status >= 300 {
				what += " " + r.code(t)
			}
			mu.Lock()
			defer mu.Unlock()
			told[what]++
		})
	}
	copies.Wait()
	if told["200"] != 1 || told["409 credential_reused"] != 15 {
		t.Errorf("answers: %v", told)
	}

	// By a file over the edge, and by DNS at the origin.
	claim := func(n *origin, slug string) (token, dns string) {
		r := n.post("/api/ring/"+slug+"/claim", fmt.Sprintf(`{"account":%q}`, stranger.Address.Hex())).does(t, 200, "").document(t)
		return at(t, r, "token").(string), at(t, r, "dns", "name").(string)
	}
	token, _ := claim(e, "mine")
	shown := fmt.Sprintf(`{"token":%q}`, token)
	e.post(mine+"/claim", shown).does(t, 422, "token_not_found")
	for _, guestbook := range []string{"Nice ring!\n" + token + "\n", "<!doctype html>\n<!--\n" + token + "\n-->\n"} {
		sites.show(sites.files, "one.strangers.test", guestbook)
		e.post(mine+"/claim", shown).does(t, 422, "token_not_found")
	}
	sites.show(sites.files, "one.strangers.test", "# tokens\n"+token+"\n")
	e.prove(squatter, http.MethodPost, mine+"/claim", shown).does(t, 403, "not_owner")
	claimed := e.prove(stranger, http.MethodPost, mine+"/claim", shown).does(t, 200, "").document(t)
	if at(t, claimed, "owner") != strings.ToLower(stranger.Address.Hex()) {
		t.Errorf("%v", claimed)
	}
	for field, want := range map[string]any{"owner": strings.ToLower(stranger.Address.Hex()), "claimed": true, "verified": "file"} {
		if got := at(t, e.get(mine).document(t), "member", field); got != want {
			t.Errorf("%s is %v, want %v", field, got, want)
		}
	}
	token, name := claim(o, "also-mine")
	shown = fmt.Sprintf(`{"token":%q}`, token)
	sites.show(sites.texts, name, token)
	if name != "_webring-online.two.strangers.test" {
		t.Errorf("the record is %s", name)
	}
	o.prove(stranger, http.MethodPost, "/api/ring/also-mine/claim", shown).does(t, 200, "")
	for _, slug := range []string{"mine", "also-mine"} {
		o.prove(stranger, http.MethodPatch, "/api/ring/"+slug, `{"name":"Hers","category":"hers"}`).does(t, 200, "")
		e.prove(squatter, http.MethodPatch, "/api/ring/"+slug, body).does(t, 403, "not_owner")
		e.prove(squatter, http.MethodDelete, "/api/ring/"+slug, "").does(t, 403, "not_owner")
	}

	// The account signs words that say what is done. Somebody who has it sign the challenge
	// for a departure under other words gets nothing; and the owner of a member that a blind
	// signature has removed returns to its place, while its address is kept for it.
	challenge := o.send(http.MethodDelete, mine, nil).does(t, 402, "payment_required").Header.Get("WWW-Authenticate")
	id, _, _ := strings.Cut(strings.TrimPrefix(challenge, `Payment id="`), `"`)
	if !strings.HasPrefix(id, "Remove mine from the ring #") {
		t.Errorf("signed is %q", id)
	}
	_, client := chain(t)
	for _, words := range []string{"", "Sign in to a shop #", "Visit the site of mine now #"} {
		shown := strings.Replace(challenge, id, words+strings.TrimPrefix(id, "Remove mine from the ring #"), 1)
		credential, err := client.Sign(t.Context(), stranger.HexKey(), shown)
		if err != nil {
			t.Fatal(err)
		}
		send(e, http.MethodDelete, mine, "", credential).does(t, 402, "invalid_challenge")
	}
	stood := o.get(mine).does(t, 200, "").document(t)
	e.prove(stranger, http.MethodDelete, mine, "").does(t, 200, "") // signed blindly
	if gone := e.get(mine).does(t, 410, "member_removed"); !strings.Contains(string(gone.Body), "/return") {
		t.Errorf("%s", gone.Body)
	}
	o.post("/api/register", `{"name":"Thief","url":"http://one.strangers.test/","kind":"agent"}`).does(t, 409, "already_registered")
	e.prove(wallet(t), http.MethodPost, mine+"/return", "{}").does(t, 403, "not_owner")
	o.kill() // what is known of it is in the ledger
	o.launch()
	e.prove(stranger, http.MethodPost, mine+"/return", "{}").does(t, 200, "")
	for _, field := range []string{"slug", "ring_position", "paid_total_usd", "owner", "url", "name", "verified"} {
		if now := e.get(mine).does(t, 200, "").document(t); at(t, now, "member", field) != at(t, stood, "member", field) {
			t.Errorf("%s is %v, and was %v", field, at(t, now, "member", field), at(t, stood, "member", field))
		}
	}

	// A move frees the old address; leaving does not free the slug.
	e.prove(stranger, http.MethodPatch, mine, `{"url":"http://three.strangers.test/"}`).does(t, 200, "")
	if now := e.get(mine).document(t); at(t, now, "member", "verified") != nil {
		t.Errorf("moved, it is still verified: %v", now)
	}
	// The owner has the new site visited now, which links back.
	sites.show(sites.pages, "three.strangers.test", `<a href="`+o.base+`/next?from=mine">Next</a>`)
	e.prove(squatter, http.MethodPost, mine+"/visit", "{}").does(t, 403, "not_owner")
	e.prove(stranger, http.MethodPost, mine+"/visit", "{}").does(t, 200, "")
	eventually(t, "verified by its link", longEnough, func() bool { return at(t, e.get(mine).document(t), "member", "verified") == "link" })
	// The visit has seen its icon. The ring draws it anew.
	for _, n := range []*origin{o, e} {
		icon := n.get("/members/mine/icon.png").does(t, 200, "")
		n.fields(icon, "Content-Type", "image/png", "X-Content-Type-Options", "nosniff")
		if m, err := png.Decode(bytes.NewReader(icon.Body)); err != nil || m.Bounds() != image.Rect(0, 0, 32, 32) || string(icon.Body) == string(n.get("/members/also-mine/icon.png").Body) {
			t.Errorf("%v: %v %q", err, icon.Header, icon.Body)
		}
	}
	if slug := o.list(squatter, "Mine", "one.strangers.test"); slug != "mine-2" {
		t.Errorf("the slug is %s", slug)
	}
	e.prove(stranger, http.MethodDelete, "/api/ring/also-mine", "").does(t, 200, "")
	e.get("/api/ring/also-mine").does(t, 410, "member_removed")
	o.prove(stranger, http.MethodDelete, mine, "{}").does(t, 200, "")
	if r := o.get("/api/ring").document(t); at(t, r, "total") != 1.0 {
		t.Errorf("%v", r)
	}
	o.confirmed()
	o.balanced()
	alike(t, o, e)
}

// TestAnOwnerTakesBackAtAnEdge has a thief claim a member by a file on its site, and move it. The owner
// sees that at an edge and takes the member back, with its rank and its money: from an origin that was
// restored from an earlier backup, and from the edge. All nodes agree.
func TestAnOwnerTakesBackAtAnEdge(t *testing.T) {
	t.Parallel()
	c, _ := chain(t)
	sites, secret := newOwnSites(t), secretFile(t)
	o := start(t, append([]string{"--tempo-rpc", c.RPC, "--core", "native", "--edge-secret-file", secret}, sites.args()...)...)
	e := o.follow(t, o.verifier(), "--core", "native", "--edge-secret-file", secret)
	owner, thief := wallet(t), wallet(t)
	o.list(owner, "Mine", "one.strangers.test")
	o.list(thief, "Other", "two.strangers.test")
	o.pay(owner, "/api/bid", `{"member":"mine","amount":"5.00"}`)
	const mine = "/api/ring/mine"
	e.prove(owner, http.MethodPatch, mine, `{"webhook":"http://one.strangers.test/told"}`).does(t, 200, "")
	stood := o.get(mine).document(t)
	file, restored := filepath.Join(t.TempDir(), "backup.tar"), filepath.Join(t.TempDir(), "data")
	if out, err := o.operate("backup", file); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	e.post(mine+"/return", "{}").does(t, 422, "invalid_request")
	token := at(t, e.post(mine+"/claim", fmt.Sprintf(`{"account":%q}`, thief.Address.Hex())).does(t, 200, "").document(t), "token").(string)
	sites.show(sites.files, "one.strangers.test", token)
	e.prove(thief, http.MethodPost, mine+"/claim", fmt.Sprintf(`{"token":%q}`, token)).does(t, 200, "")
	e.prove(thief, http.MethodPatch, mine, `{"url":"http://three.strangers.test/"}`).does(t, 200, "")
	account := strings.ToLower(owner.Address.Hex())
	eventually(t, "the edge names the earlier owner", longEnough, func() bool {
		news := e.get(mine+"/events").does(t, 200, "").document(t)
		back, _ := news["take_back"].(map[string]any)
		return back["account"] == account && strings.Contains(string(e.get("/members/mine").Body), account)
	})
	eventually(t, "the edge has all", longEnough, func() bool { return e.position() == o.position() })
	o.kill()
	if out, err := o.operate("restore", file, "--data", restored, "--from", e.base); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	o.data = restored
	o.launch()
	e.prove(thief, http.MethodPost, mine+"/return", "{}").does(t, 403, "not_owner")
	e.prove(owner, http.MethodPost, mine+"/return", "{}").does(t, 200, "")
	for _, field := range []string{"slug", "ring_position", "paid_total_usd", "owner", "url", "name", "claimed", "leaderboard_rank"} {
		if now := e.get(mine).does(t, 200, "").document(t); at(t, now, "member", field) != at(t, stood, "member", field) {
			t.Errorf("%s is %v, and was %v", field, at(t, now, "member", field), at(t, stood, "member", field))
		}
	}
	if news := o.get(mine+"/events").does(t, 200, "").document(t); news["webhook"] == nil {
		t.Errorf("the owner's webhook is gone: %v", news)
	}
	e.prove(thief, http.MethodPatch, mine, `{"name":"Ours"}`).does(t, 403, "not_owner")
	e.post(mine+"/return", "{}").does(t, 422, "invalid_request")
	alike(t, o, e)
}
