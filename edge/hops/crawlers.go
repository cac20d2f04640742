package hops

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"slices"
	"strings"
)

// A crawler is told by its User-Agent: by one of these words, in any case. They are what
// names of crawlers have in common on the lists that others keep, such as
// github.com/monperrus/crawler-user-agents and github.com/omrilotan/isbot. Whoever explains
// itself by an address is no browser: browsers have none. Programs that fetch pages for their
// users, such as curl or an agent, are no crawlers.
//
// forUsers are words of agents that fetch for a user, at that moment. Some of them explain
// themselves by an address, too. The Worker in edge/worker reads the same file.
var crawlers, forUsers = func() (crawlers, forUsers []string) {
	var words struct{ Crawlers, ForUsers []string }
	if err := json.Unmarshal(crawlersJSON, &words); err != nil {
		panic(err) // the file is embedded
	}
	return words.Crawlers, words.ForUsers
}()

//go:embed crawlers.json
var crawlersJSON []byte

// firsts has the first bytes of all words, in both cases.
var firsts = func() (has [256]bool) {
	for _, w := range slices.Concat(crawlers, forUsers) {
		has[w[0]], has[strings.ToUpper(w)[0]] = true, true
	}
	return has
}()

// IsCrawler reports whether a User-Agent is that of a crawler.
func IsCrawler(agent []byte) bool {
	found := false
	for i := range agent {
		if !firsts[agent[i]] {
			continue
		}
		if begins(agent[i:], forUsers) {
			return false
		}
		found = found || begins(agent[i:], crawlers)
	}
	return found
}

func begins(text []byte, words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool {
		return len(w) <= len(text) && bytes.EqualFold(text[:len(w)], []byte(w))
	})
}
