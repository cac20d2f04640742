package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"html"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"webring/edge/describe"
	"webring/server/devchain"
)

// These tests follow what the ring tells programs, and know nothing else of it: no path, no
// field and no body stands in them. They know the form of the texts, how a challenge is
// signed by the reference client, and what they want to say of themselves.

// program follows texts with a wallet of its own.
type program struct {
	t      *testing.T
	wallet devchain.Account
	client *devchain.Client
	// words are what it puts in the place of words in braces.
	words map[string]string
	paid  []http.Header // of the answers that it paid or signed for
}

// block is a block of a text, with the bold words before it.
type block struct{ title, language, text string }

var (
	fence    = regexp.MustCompile("(?s)```([a-z]+)\n(.*?)```|\\*\\*([^*]+)\\*\\*")
	braces   = regexp.MustCompile(`\{[a-z]+\}`)
	httpLine = regexp.MustCompile(`^([A-Z]+) (\S+)\n`)
)

// blocksOf reads the blocks of a text in their order.
func blocksOf(text string) (all []block) {
	title := ""
	for _, m := range fence.FindAllStringSubmatch(text, -1) {
		if m[3] != "" {
			title = m[3]
		} else {
			all = append(all, block{title, m[1], m[2]})
		}
	}
	return all
}

// fill puts the program's words in their places.
func (p *program) fill(text string) string {
	return braces.ReplaceAllStringFunc(text, func(word string) string {
		if word == "{key}" && p.words[word] == "" {
			return "a-key-of-" + p.t.Name()
		}
		if p.words[word] == "" {
			p.t.Fatalf("the program has no %s", word)
		}
		return p.words[word]
	})
}

// send sends one block as it stands.
func (p *program) send(text string) reply {
	p.t.Helper()
	head, body, _ := strings.Cut(p.fill(text), "\n\n")
	lines := strings.Split(strings.TrimSpace(head), "\n")
	m := httpLine.FindStringSubmatch(lines[0] + "\n")
	if m == nil {
		p.t.Fatalf("no request: %q", lines[0])
	}
	req, err := http.NewRequestWithContext(p.t.Context(), m[1], m[2], strings.NewReader(strings.TrimSpace(body)))
	if err != nil {
		p.t.Fatal(err)
	}
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Add(name, value)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return reply{res.StatusCode, res.Header, got}
}

// follow sends the requests of a text one after the other. What a 402 asks is signed for the
// request after it. It gives the answers.
func (p *program) follow(text string) (all []reply) {
	p.t.Helper()
	delete(p.words, "{credential}")
	for _, b := range blocksOf(text) {
		if b.language != "http" {
			continue
		}
		pays := strings.Contains(b.text, "{credential}")
		r := p.send(b.text)
		all = append(all, r)
		switch {
		case r.Status == http.StatusPaymentRequired && !pays:
			var doc struct {
				Offers []struct{ Method, Intent, Amount, Currency, Network, Recipient, Expires string }
			}
			if err := json.Unmarshal(r.Body, &doc); err != nil || len(doc.Offers) == 0 || doc.Offers[0].Method != "tempo" || doc.Offers[0].Amount == "" || doc.Offers[0].Network == "" || doc.Offers[0].Recipient == "" || doc.Offers[0].Expires == "" {
				p.t.Fatalf("%s: offers %+v, %v: %s", b.title, doc.Offers, err, r.Body)
			}
			credential, err := p.client.Sign(p.t.Context(), p.wallet.HexKey(), r.Header.Get("WWW-Authenticate"))
			if err != nil {
				p.t.Fatal(err)
			}
			p.words["{credential}"] = strings.TrimPrefix(credential, "Payment ")
		case r.Status/100 == 2:
			if pays {
				p.paid = append(p.paid, r.Header)
				delete(p.words, "{credential}")
				p.words["{key}"] = "another-key-of-" + p.t.Name() + "-" + hex.EncodeToString([]byte{byte(len(p.paid))})
			}
			var doc struct{ Member struct{ Slug string } }
			if json.Unmarshal(r.Body, &doc) == nil && doc.Member.Slug != "" {
				p.words["{slug}"] = doc.Member.Slug
			}
		default:
			p.t.Fatalf("%s: status %d: %s\n%s", b.title, r.Status, r.Body, p.fill(b.text))
		}
	}
	return all
}

// installed is a command line that the ring shows, with the installed client in place of the
// one that npx fetches.
func installed(t *testing.T, line string) string {
	t.Helper()
	arguments, is := strings.CutPrefix(line, describe.Client+" ")
	dir, err := devchain.Dir()
	if err != nil || !is {
		t.Fatalf("no command of the client: %s, %v", line, err)
	}
	return "'" + filepath.Join(dir, "node_modules/.bin/mppx") + "' " + arguments
}

// run runs the commands of a text with the reference client, and gives what they print.
func (p *program) run(text, rpc string) (printed []string) {
	p.t.Helper()
	for _, b := range blocksOf(text) {
		if b.language != "sh" {
			continue
		}
		line := p.fill(b.text)
		cmd := exec.CommandContext(p.t.Context(), "sh", "-c", installed(p.t, line))
		cmd.Env = append(cmd.Environ(), "MPPX_PRIVATE_KEY="+p.wallet.HexKey(), "MPPX_RPC_URL="+rpc, "NO_COLOR=1")
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Run(); err != nil {
			p.t.Fatalf("%s: %v: %s %s", line, err, out.String(), errs.String())
		}
		if slug := regexp.MustCompile(`"slug": ?"([a-z0-9-]+)"`).FindStringSubmatch(out.String()); slug != nil {
			p.words["{slug}"] = slug[1]
		}
		printed = append(printed, out.String())
	}
	return printed
}

// read reads an address, as a program does that was given it.
func (p *program) read(address string) []byte {
	p.t.Helper()
	return p.send("GET " + address + "\n").Body
}

func newProgram(t *testing.T, words map[string]string) *program {
	_, client := chain(t)
	return &program{t: t, wallet: wallet(t), client: client, words: words}
}

// TestAProgramFollowsLLMs gives a program the address of llms.txt and nothing else. It checks a
// draft, joins, bids and changes what it is, request by request, and then again with the
// commands that stand there.
func TestAProgramFollowsLLMs(t *testing.T) {
	t.Parallel()
	o := ring(t, freely...)
	c, _ := chain(t)
	p := newProgram(t, map[string]string{"{description}": "Follows what it reads."})
	address := o.base + "/llms.txt"
	text := string(p.read(address))

	var draft block
	for _, b := range blocksOf(text) {
		if b.language == "http" && strings.Contains(b.title, "Check") {
			draft = b
		}
	}
	for wrong, status := range map[string]int{`"kind":"robot"`: http.StatusUnprocessableEntity, `"kind":"agent"`: http.StatusPaymentRequired} {
		r := p.send(strings.Replace(draft.text, `"kind":"agent"`, wrong, 1))
		if r.Status != status || status == http.StatusPaymentRequired && !strings.HasSuffix(r.Header.Get("Link"), `/llms.txt>; rel="help"; type="text/plain"`) {
			t.Errorf("a draft with %s: status %d, Link %q: %s", wrong, r.Status, r.Header.Get("Link"), r.Body)
		}
	}
	if n := o.received(); n != 0 {
		t.Errorf("%d cents for a check", n)
	}

	answers := p.follow(text)
	if len(p.paid) != 3 || !slices.ContainsFunc(answers, func(r reply) bool { return r.Status == http.StatusCreated }) {
		t.Fatalf("%d requests were paid or proved, of %d: %v", len(p.paid), len(answers), answers)
	}
	if n := o.received(); n != 200 {
		t.Errorf("%d cents, want fee and bid", n)
	}
	first := p.words["{slug}"]
	o.holdsProgram(first, "2.00", p.words["{description}"])

	// The example has moved on with the ring, and can be paid again.
	printed := p.run(string(p.read(address)), c.RPC)
	if len(printed) != 3 || p.words["{slug}"] == first {
		t.Fatalf("%d commands, and the member is %s: %q", len(printed), p.words["{slug}"], printed)
	}
	o.holdsProgram(p.words["{slug}"], "2.00", p.words["{description}"])
	if n := o.received(); n != 400 {
		t.Errorf("%d cents, want 400", n)
	}
	o.runsExamples(p, c.RPC, first)
}

// TestTheCommandInstallsItsClient runs the first command of llms.txt as it stands there, on a
// machine that has fetched no package before.
func TestTheCommandInstallsItsClient(t *testing.T) {
	t.Parallel()
	o := ring(t, freely...)
	c, _ := chain(t)
	var line string
	for _, b := range slices.Backward(blocksOf(string(o.get("/llms.txt").Body))) {
		if b.language == "sh" {
			line = b.text
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.Dir = t.TempDir()
	cmd.Env = append(cmd.Environ(), "npm_config_cache="+t.TempDir(), "MPPX_PRIVATE_KEY="+wallet(t).HexKey(), "MPPX_RPC_URL="+c.RPC, "NO_COLOR=1")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), `"joined":true`) || o.received() != 100 {
		t.Errorf("%s: %v, and %d cents were paid:\n%s", line, err, o.received(), out)
	}
}

// localChain is loaded before a program in JavaScript that is to use the chain of the tests in
// place of the public one. The chain sometimes reckons too little gas.
const localChain = `const real = globalThis.fetch
globalThis.fetch = async (input, init) => {
  if (!String(input.url ?? input).includes('tempo.xyz')) return real(input, init)
  const question = JSON.parse(init.body)
  const answer = await (await real(process.env.TEST_RPC, { method: 'POST', headers: { 'content-type': 'application/json' }, body: init.body })).json()
  if (question.method === 'eth_fillTransaction' && answer.result) answer.result.tx.gas = '0x' + (BigInt(answer.result.tx.gas) * 4n).toString(16)
  return Response.json(answer)
}`

var exampleBlock = regexp.MustCompile(`(?s)<h3 id="example-([a-z]+)">.*?<pre><code>(.*?)</code></pre>`)

// runsExamples runs the programs that stand in /docs, as they stand there.
func (o *origin) runsExamples(p *program, rpc, member string) {
	page, received := string(o.get("/docs").Body), o.received()
	found := exampleBlock.FindAllStringSubmatch(page, -1)
	if len(found) != 4 {
		o.t.Errorf("%d examples", len(found))
	}
	for _, m := range found {
		o.t.Run("the example in "+m[1], func(t *testing.T) {
			how, file, dir := m[1], "example", t.TempDir()
			text := html.UnescapeString(m[2])
			var command []string
			switch how {
			case "curl":
				command = []string{"sh", file}
			case "go":
				file += ".go"
				command = []string{"go", "run", file}
			case "python":
				command = []string{"python3", file}
			case "typescript":
				modules, err := devchain.Dir()
				if err == nil {
					err = os.Symlink(filepath.Join(modules, "node_modules"), filepath.Join(dir, "node_modules"))
				}
				if err == nil {
					err = os.WriteFile(filepath.Join(dir, "chain.mjs"), []byte(localChain), 0o644)
				}
				if err != nil {
					t.Fatal(err)
				}
				quoted, _ := json.Marshal(text)
				text = runNode(t, agents(t), "-e", "process.stdout.write(require('typescript').transpileModule("+string(quoted)+", { compilerOptions: { target: 'es2022', module: 'esnext' } }).outputText)")
				file += ".mjs"
				command = []string{"node", "--import", "./chain.mjs", file}
			}
			if _, err := exec.LookPath(command[0]); err != nil {
				t.Skip(err)
			}
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
			cmd.Dir = dir
			cmd.Env = append(cmd.Environ(), "SLUG="+member, "NAME=Example in "+how, "URL=https://example-in-"+how+".dev/", "KEY="+p.wallet.HexKey(), "TEST_RPC="+rpc)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s\n%s", err, out, text)
			}
			if how == "typescript" {
				o.holdsProgram("example-in-typescript", "2.00", "Now with tides.")
				if n := o.received() - received; n != 200 || !strings.Contains(string(out), "joined: example-in-typescript") {
					t.Errorf("%d cents: %s", n, out)
				}
				received += 200
				return
			}
			// They ask for the prices of joining and of a bid, and what proves an owner.
			if strings.Count(string(out), "recipient") < 3 || !strings.Contains(string(out), "1.00") || !strings.Contains(string(out), "0.00") || o.received() != received || o.get("/api/ring/example-in-"+how).Status != 404 {
				t.Errorf("%s", out)
			}
		})
	}
}

// holdsProgram holds that a member is what a program has made of it.
func (o *origin) holdsProgram(slug, paid, description string) {
	o.t.Helper()
	m := at(o.t, o.read("/api/ring/"+slug), "member")
	if at(o.t, m, "paid_total_usd") != paid || at(o.t, m, "description") != description {
		o.t.Errorf("%v", m)
	}
}

// TestAProgramFollowsEachSkill gives a program the address of the index of skills. It refuses a
// skill of another digest, and does what each teaches.
func TestAProgramFollowsEachSkill(t *testing.T) {
	t.Parallel()
	o := ring(t, freely...)
	p := newProgram(t, map[string]string{"{name}": "Skilful", "{url}": "https://skilful.dev/", "{kind}": "mcp", "{category}": "tools", "{description}": "It learns."})
	address := o.base + "/.well-known/agent-skills/index.json"
	var index struct {
		Skills []struct{ Name, Type, Description, URL, Digest string }
	}
	if err := json.Unmarshal(p.read(address), &index); err != nil || len(index.Skills) != 3 {
		t.Fatalf("%v: %+v", err, index)
	}
	base, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range index.Skills {
		at, err := base.Parse(k.URL)
		if err != nil {
			t.Fatal(err)
		}
		text := p.read(at.String())
		if sum := sha256.Sum256(text); k.Digest != "sha256:"+hex.EncodeToString(sum[:]) || k.Type != "skill-md" {
			t.Fatalf("%+v is not the digest of %s", k, at)
		}
		before := len(p.paid)
		if p.follow(string(text)); len(p.paid) != before+1 {
			t.Errorf("%s: %d requests were paid or proved", k.Name, len(p.paid)-before)
		}
		p.words["{description}"] = "It has learned."
	}
	o.holdsProgram("skilful", "2.00", "It has learned.")

	// And it is now where agents look for MCP servers.
	var catalogue struct {
		Entries []struct {
			Identifier, Type, URL string
			Data                  struct{ Remotes []struct{ URL string } }
		}
	}
	look := func(address string) {
		r := p.send("GET " + address + "\n")
		if media := r.Header.Get("Content-Type"); media != "application/ai-catalog+json" {
			t.Errorf("%s is %s", address, media)
		}
		if err := json.Unmarshal(r.Body, &catalogue); err != nil {
			t.Fatal(err)
		}
	}
	look(o.base + "/.well-known/ai-catalog.json")
	for _, e := range catalogue.Entries {
		if e.URL == "" || p.send("GET "+e.URL+"\n").Status != http.StatusOK {
			t.Errorf("%+v leads nowhere", e)
		}
	}
	look(catalogue.Entries[len(catalogue.Entries)-1].URL)
	if len(catalogue.Entries) != 1 || len(catalogue.Entries[0].Data.Remotes) != 1 || catalogue.Entries[0].Data.Remotes[0].URL != "https://skilful.dev/" {
		t.Errorf("%+v", catalogue)
	}
}
