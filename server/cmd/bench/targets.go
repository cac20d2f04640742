package main

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
)

// mostTargets is how many members a question is about at most: many times as many
// as the cache of a node has room for, so that it has none of the answers.
const mostTargets = 1 << 18

// targets are the requests of a question. They are asked in turn and not at
// random: each is asked again only after all others, when a cache of some of them
// does not have it any more. Questions may share them and go on where the other
// has stopped.
type targets struct {
	names   []string                            // what differs from one to the next
	request func(to []byte, name string) []byte // appends the request for a name
	asked   atomic.Uint64
}

// append appends the next request.
func (t *targets) append(to []byte) []byte {
	return t.request(to, t.names[(t.asked.Add(1)-1)%uint64(len(t.names))])
}

// gets are GET requests: the names follow path. More are further header fields.
func gets(path string, names []string, more ...string) *targets {
	head := "GET " + path
	tail := " HTTP/1.1\r\n" + strings.Join(append([]string{"Host: ring.example", "User-Agent: bench", "Accept: */*"}, more...), "\r\n") + "\r\n\r\n"
	return &targets{names: names, request: func(to []byte, name string) []byte {
		return append(append(append(to, head...), name...), tail...)
	}}
}

// sampled says whether the i-th of so many members is one of those that are asked
// about: there are mostTargets of them from all over the ring, or all of a smaller
// one.
func sampled(i, members int) bool {
	return members <= mostTargets || (i+1)*mostTargets/members > i*mostTargets/members
}

// offsets gives up to a thousand offsets of whole pages of the leaderboard: more
// than the cache of a node has room for.
func offsets(members int) (names []string) {
	places := max(members-100, 0) + 1
	n := min(places, 1000)
	for i := range n {
		names = append(names, strconv.Itoa(i*places/n))
	}
	shuffle(names)
	return names
}

// shuffle gives names the same order in each run, and none that the ring has.
func shuffle(names []string) {
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
}
