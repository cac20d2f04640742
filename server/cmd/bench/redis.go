package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
)

// place is a row of the leaderboard: the member's slug, and its standing in cents.
type place struct{ slug, standing string }

// leaderboard reads all of the ring's, page by page: none is kept. The order
// changes meanwhile, so that a row or two may be missed or come twice.
func leaderboard(address string, found func(page []place) error) error {
	for offset := 0; ; offset += 500 {
		res, err := http.Get(fmt.Sprintf("http://%s/api/leaderboard?limit=500&offset=%d", address, offset))
		if err != nil {
			return err
		}
		page, err := places(res.Body)
		res.Body.Close()
		if err == nil {
			err = found(page)
		}
		if err != nil || len(page) == 0 {
			return err
		}
	}
}

// places reads the rows of a page.
func places(page io.Reader) (rows []place, err error) {
	var board struct {
		Leaderboard []struct {
			Slug     string `json:"slug"`
			Standing string `json:"effective_bid_usd"`
		} `json:"leaderboard"`
	}
	err = json.NewDecoder(page).Decode(&board)
	for _, r := range board.Leaderboard {
		if r.Standing == "" {
			return nil, fmt.Errorf("the leaderboard gives %s no standing", r.Slug)
		}
		rows = append(rows, place{r.Slug, strings.Replace(r.Standing, ".", "", 1)})
	}
	return rows, err
}

// sortedSet is a Redis that has the leaderboard as one.
type sortedSet struct {
	server *server
	in     reader
}

// startRedis runs Redis; it gives nil where there is none.
func (b *bench) startRedis() (*sortedSet, error) {
	binary, err := exec.LookPath(b.o.redis)
	if err != nil {
		fmt.Printf("%s is not there and is not measured: apt-get install redis-server\n", b.o.redis)
		return nil, nil
	}
	address := free()
	_, port, _ := strings.Cut(address, ":")
	s, err := b.run("redis", address, binary, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", b.dir, "--loglevel", "warning")
	if err != nil {
		return nil, err
	}
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	return &sortedSet{server: s, in: reader{conn: conn, buf: make([]byte, 0, 64<<10)}}, nil
}

// add puts a page of the leaderboard into the set. It does nothing to nil.
func (s *sortedSet) add(page []place) error {
	if s == nil || len(page) == 0 {
		return nil
	}
	words := []string{"ZADD", "board"}
	for _, p := range page {
		words = append(words, p.standing, p.slug)
	}
	if _, err := s.in.conn.Write(command(nil, words...)); err != nil {
		return err
	}
	return s.in.redis()
}

// close ends the connection by which the set was filled.
func (s *sortedSet) close() {
	if s != nil {
		s.in.conn.Close()
	}
}

// askRedis puts the questions about the leaderboard to Redis.
func (b *bench) askRedis(set *sortedSet) {
	if set == nil {
		return
	}
	rank := func(to []byte, slug string) []byte { return command(to, "ZREVRANK", "board", slug) }
	top := func(to []byte, last string) []byte {
		return command(to, "ZREVRANGE", "board", "0", last, "WITHSCORES")
	}
	b.questions = append(b.questions,
		&question{name: "rank", server: set.server, depth: 1, take: (*reader).redis, targets: &targets{names: b.slugs, request: rank}},
		&question{name: "top 100", server: set.server, depth: 1, take: (*reader).redis, targets: &targets{names: []string{"99"}, request: top}})
}

// command appends one in Redis's protocol.
func command(to []byte, words ...string) []byte {
	to = append(strconv.AppendInt(append(to, '*'), int64(len(words)), 10), "\r\n"...)
	for _, w := range words {
		to = append(strconv.AppendInt(append(to, '$'), int64(len(w)), 10), "\r\n"...)
		to = append(append(to, w...), "\r\n"...)
	}
	return to
}

// redis takes one reply.
func (r *reader) redis() error {
	for {
		if n, err := redisReply(r.buf[r.at:]); err != nil || n > 0 {
			r.at += n
			return err
		}
		if err := r.more(); err != nil {
			return err
		}
	}
}

// redisReply gives the length of the reply at the beginning of b, 0 when it is
// not whole.
func redisReply(b []byte) (int, error) {
	line, _, whole := bytes.Cut(b, []byte("\r\n"))
	if !whole {
		return 0, nil
	}
	at := len(line) + 2
	n, err := strconv.Atoi(string(line[1:]))
	switch line[0] {
	case ':', '+':
		return at, nil
	case '$':
		if err != nil || n < 0 {
			return 0, fmt.Errorf("redis knows nothing of it: %q", line)
		}
		if len(b) < at+n+2 {
			return 0, nil
		}
		return at + n + 2, nil
	case '*':
		if err != nil {
			return 0, err
		}
		for range n {
			length, err := redisReply(b[at:])
			if err != nil || length == 0 {
				return 0, err
			}
			at += length
		}
		return at, nil
	}
	return 0, fmt.Errorf("redis: %q", line)
}
