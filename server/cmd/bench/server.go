package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// server is a process that is measured.
type server struct {
	name, address string
	cmd           *exec.Cmd
	gone          chan struct{}
}

// ring and edges are the servers that all others are peers of.
const (
	ring      = "webring"
	edge      = "edge"
	uncounted = "edge bare" // counts nothing
	hopping   = "edge hops" // counts hops, as edges with a secret do
)

// someAddress has a server choose where it is watched.
const someAddress = "127.0.0.1:0"

// bench is a ring of one size, its peers, and what they are asked.
type bench struct {
	o         *options
	dir, data string
	members   int
	seen      int      // rows of the leaderboard
	slugs     []string // members from all over the ring, in no order
	servers   []*server
	questions []*question
}

// start runs the ring, takes answers of it, and runs the others with these.
func (b *bench) start() error {
	address := free()
	// The limiter works and refuses no request.
	s, err := b.run(ring, address, "WEBRING_MEMORY_LIMIT=4096", b.o.webring, "serve", "--data", b.data, "--listen", address, "--admin-listen", someAddress, "--base-url", "http://"+address,
		"--rate-limit", "2000000000", "--capacity", fmt.Sprint(max(1_000_000, 2*b.members)))
	if err != nil {
		return err
	}
	redis, err := b.startRedis()
	if err != nil {
		return err
	}
	defer redis.close()
	if err := leaderboard(address, func(page []place) error {
		for _, p := range page {
			if sampled(b.seen, b.members) {
				b.slugs = append(b.slugs, p.slug)
			}
			b.seen++
		}
		return redis.add(page)
	}); err != nil {
		return err
	}
	if len(b.slugs) == 0 {
		return fmt.Errorf("the leaderboard of %s is empty", b.data)
	}
	shuffle(b.slugs) // as visitors come
	b.askRing(s)
	if err := b.startEdge(s); err != nil {
		return err
	}
	if err := b.startConstants(address); err != nil {
		return err
	}
	b.askRedis(redis)
	return nil
}

// ask puts GET requests to a server.
func (b *bench) ask(s *server, name string, depth int, of *targets) *question {
	q := &question{name: name, server: s, depth: depth, targets: of, take: (*reader).http}
	b.questions = append(b.questions, q)
	return q
}

// about are the targets of questions that are about a member each, up to its slug.
var about = map[string]string{"/next": "/next?from=", "api next": "/api/ring/next?from=", "widget": "/api/widget?from=", "detail": "/api/ring/"}

// askAbout puts such questions.
func (b *bench) askAbout(s *server, depth int, names ...string) {
	for _, name := range names {
		q := b.ask(s, name, depth, gets(about[name], b.slugs))
		if name == "detail" {
			q.like = "rank" // the document of a member has it
		}
	}
}

// askReads puts those questions to the ring or its edge that peers answer, too.
func (b *bench) askReads(s *server) {
	b.askAbout(s, 1, "/next")
	b.askAbout(s, b.o.depth, "/next")
	b.ask(s, "eight mixed", 1, gets("", b.mixed()))
	b.askAbout(s, 1, "detail")
}

// askRing puts all questions to the ring.
func (b *bench) askRing(s *server) {
	b.askReads(s)
	b.askAbout(s, 1, "api next", "widget")
	b.ask(s, "top 100", 1, gets("/api/leaderboard?limit=100", []string{""}))
	b.ask(s, "page of 100", 1, gets(pagePath, offsets(b.members)))
	// The front page as a browser gets it, compared with servers that only redirect.
	b.ask(s, "home", 1, gets("/", []string{""}, "Accept-Encoding: gzip, deflate, br, zstd")).like = "/next"
}

const pagePath = "/api/leaderboard?limit=100&offset="

// mixed are targets of eight endpoints.
func (b *bench) mixed() []string {
	m := b.slugs[len(b.slugs)/2]
	return []string{"/next?from=" + m, "/prev?from=" + m, "/api/ring/next?from=" + m, "/api/widget?from=" + m, "/api/ring/" + m,
		"/api/leaderboard?limit=10", "/api/ring?limit=10", "/api/categories"}
}

// startConstants runs the servers that repeat answers of the ring.
func (b *bench) startConstants(address string) error {
	var answers []*http.Response
	middle := pagePath + strconv.Itoa(max(0, b.members/2-50))
	for i, target := range slices.Concat([]string{"/next?from=" + b.slugs[0]}, b.mixed(), []string{middle}) {
		res, err := b.sample(address, i, target)
		if err != nil {
			return err
		}
		answers = append(answers, res)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	one := func(answer string) *targets { return gets("/", []string{answer}) }
	ask := func(s *server) {
		b.ask(s, "/next", 1, one("0"))
		b.ask(s, "/next", b.o.depth, one("0"))
		b.ask(s, "eight mixed", 1, gets("/", []string{"1", "2", "3", "4", "5", "6", "7", "8"}))
		b.ask(s, "detail", 1, one("5")).like = "rank"
	}
	for _, name := range []string{"fasthttp", "net/http"} {
		address := free()
		s, err := b.run(name, address, self, "constant", name, b.dir, address)
		if err != nil {
			return err
		}
		ask(s)
		if name == "fasthttp" { // so that each question has a peer
			b.ask(s, "api next", 1, one("3"))
			b.ask(s, "widget", 1, one("4"))
			b.ask(s, "page of 100", 1, one("9"))
		}
	}
	nginx, err := exec.LookPath(b.o.nginx)
	if err != nil {
		fmt.Printf("%s is not there and is not measured: apt-get install nginx\n", b.o.nginx)
		return nil
	}
	address = free()
	config := filepath.Join(b.dir, "nginx.conf")
	text, err := nginxConfig(b.dir, address, answers)
	if err != nil {
		return err
	}
	if err := os.WriteFile(config, text, 0o600); err != nil {
		return err
	}
	s, err := b.run("nginx", address, nginx, "-e", filepath.Join(b.dir, "error.log"), "-c", config)
	if err != nil {
		return err
	}
	ask(s)
	return nil
}

// run starts a process on the processor of servers and waits for it.
func (b *bench) run(name, address string, command ...string) (*server, error) {
	s := &server{name: name, address: address}
	s.cmd = exec.Command("taskset", append([]string{"-c", serverCPU, "env"}, command...)...)
	s.cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	s.cmd.Stderr = os.Stderr
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	s.gone = make(chan struct{})
	go func() { _ = s.cmd.Wait(); close(s.gone) }()
	b.servers = append(b.servers, s)
	return s, s.wait()
}

// stop ends those first that follow others.
func (b *bench) stop() {
	for _, s := range slices.Backward(b.servers) {
		s.stop()
	}
}

// free gives an address at which no process listens.
func free() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err) // nothing can be measured
	}
	defer l.Close()
	return l.Addr().String()
}

// wait waits until the server accepts connections: a ring folds its ledger
// first, which takes minutes for ten million members.
func (s *server) wait() error {
	for range 36_000 {
		if c, err := net.Dial("tcp", s.address); err == nil {
			return c.Close()
		}
		select {
		case <-s.gone:
			return fmt.Errorf("%s ended at once", s.name)
		case <-time.After(100 * time.Millisecond):
		}
	}
	return fmt.Errorf("%s does not answer", s.name)
}

func (s *server) stop() {
	_ = s.cmd.Process.Kill()
	<-s.gone
}

// sample keeps one answer in a file, for the constant servers.
func (b *bench) sample(address string, n int, target string) (*http.Response, error) {
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Get("http://" + address + target)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	if res.StatusCode >= 400 {
		return nil, fmt.Errorf("%s: status %s", target, res.Status)
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	var out bytes.Buffer
	if err := res.Write(&out); err != nil {
		return nil, err
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	return res, os.WriteFile(answerFile(b.dir, n), out.Bytes(), 0o600)
}

func answerFile(dir string, n int) string { return filepath.Join(dir, fmt.Sprintf("answer%d", n)) }

// own are the fields that every server writes by itself.
func own(field string) bool {
	return field == "Date" || field == "Content-Length" || field == "Connection"
}

// mostAtEdge is the most members that an edge is measured with: both the edge and its origin
// hold all members in memory.
const mostAtEdge = 1_000_000

var verifierLine = regexp.MustCompile(`--origin-key (\S+)`)

// mostUncounted is of how many members an edge is measured at most that counts nothing:
// what counting costs does not depend on them.
const mostUncounted = 100_000

// startEdge runs an edge that follows the ring, and asks it what readers ask edges
// most; another one that counts nothing, just before; and one that counts hops, just after. The
// ring has nothing to do meanwhile.
func (b *bench) startEdge(origin *server) error {
	if b.members > mostAtEdge {
		fmt.Printf("no edge is measured with %d members: memory is for up to %d\n", b.members, mostAtEdge)
		return nil
	}
	out, err := exec.Command(b.o.webring, "version", "--data", b.data).Output()
	if err != nil {
		return fmt.Errorf("the origin's key: %w", err)
	}
	key := verifierLine.FindSubmatch(out)
	if key == nil {
		return fmt.Errorf("no origin's key in %q", out)
	}
	run := func(name, watched string, more ...string) (*server, error) {
		address := free()
		// It listens once it has something to show.
		s, err := b.run(name, address, append([]string{b.o.webring, "edge", "--origin", "http://" + origin.address, "--origin-key", string(key[1]),
			"--listen", address, "--admin-listen", watched, "--data", filepath.Join(b.dir, name), "--rate-limit", "2000000000"}, more...)...)
		if err != nil {
			return nil, err
		}
		return s, s.reach(origin)
	}
	s, err := run(edge, someAddress)
	if err != nil {
		return err
	}
	if b.members <= mostUncounted {
		bare, err := run(uncounted, "")
		if err != nil {
			return err
		}
		b.askAbout(bare, 1, "/next")
	}
	b.askReads(s)
	if b.members <= mostUncounted {
		secret := filepath.Join(b.dir, "edge-secret")
		if err := os.WriteFile(secret, []byte(strings.Repeat("5e", 32)+"\n"), 0o600); err != nil {
			return err
		}
		counting, err := run(hopping, someAddress, "--edge-secret-file", secret)
		if err != nil {
			return err
		}
		b.askAbout(counting, 1, "/next")
	}
	return nil
}

// reach waits until the server is where the origin is.
func (s *server) reach(origin *server) error {
	for range 600 {
		there, err := origin.position()
		if err != nil {
			return err
		}
		here, err := s.position()
		if err != nil {
			return err
		}
		if here == there {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return fmt.Errorf("%s does not come to where its origin is", s.name)
}

// position is what the server says it shows.
func (s *server) position() (string, error) {
	res, err := http.Get("http://" + s.address + "/api")
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	seq := res.Header.Get("Webring-Seq")
	if seq == "" {
		return "", fmt.Errorf("%s answers with status %d and no position", s.name, res.StatusCode)
	}
	return seq, nil
}
