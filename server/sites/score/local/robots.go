package local

import (
	"bytes"
	"strconv"
	"strings"
)

// maxRobots is how much of a robots.txt is read, in bytes; what follows does not count
// (RFC 9309, section 2.5).
const maxRobots = 500 << 10

// robots is what a robots.txt says, as RFC 9309 has it: groups for the same crawler are one
// group, the longest matching rule decides, and allow wins where an allow and a disallow rule
// match alike. It is read-only and safe for concurrent use.
//
// We have a parser of our own because the known libraries differ from the RFC in ties, in groups
// and in the time that wildcards take.
type robots struct {
	groups []group
	// Sitemaps are the values of Sitemap lines, as they stand.
	Sitemaps []string
	// Signals are the values of Content-Signal lines, as they stand.
	Signals []string
	// Strange is how many lines are neither empty, nor a comment, nor a name
	// and a value.
	Strange int
}

// group is the rules of the crawlers it names, in lower case.
type group struct {
	agents []string
	rules  []rule
}

type rule struct {
	allow   bool
	pattern string // normalised, as paths are
}

// Groups is how many groups the file has. Without groups it has no rules for any crawler.
func (f *robots) Groups() int { return len(f.groups) }

// parseRobots reads a file in UTF-8, without a byte order mark. It accepts every input: lines that make no
// sense say nothing.
func parseRobots(text []byte) *robots {
	if len(text) > maxRobots {
		text = text[:maxRobots]
	}
	f := &robots{}
	naming := false // the last line of a group was a user-agent line
	for line := range bytes.FieldsFuncSeq(text, func(r rune) bool { return r == '\n' || r == '\r' }) {
		line, _, _ = bytes.Cut(line, []byte("#"))
		if line = bytes.Trim(line, " \t"); len(line) == 0 {
			continue
		}
		before, after, ok := bytes.Cut(line, []byte(":"))
		if !ok {
			f.Strange++
			continue
		}
		value := string(bytes.Trim(after, " \t"))
		switch strings.ToLower(string(bytes.Trim(before, " \t"))) {
		case "user-agent":
			if !naming {
				f.groups = append(f.groups, group{})
			}
			naming = true
			if token := productToken(value); token != "" {
				g := &f.groups[len(f.groups)-1]
				g.agents = append(g.agents, token)
			}
		case "allow", "disallow":
			naming = false
			// Rules before the first group apply to no crawler, and an empty pattern
			// matches nothing.
			if len(f.groups) > 0 && value != "" {
				g := &f.groups[len(f.groups)-1]
				allow := before[0] == 'a' || before[0] == 'A'
				g.rules = append(g.rules, rule{allow, normal(value)})
			}
		case "sitemap":
			f.Sitemaps = append(f.Sitemaps, value)
		case "content-signal":
			f.Signals = append(f.Signals, value)
		}
		// Other records, such as sitemaps, belong to no group and end none.
	}
	return f
}

// productToken gives the name in a User-agent line, in lower case: "*", or
// letters, "_" and "-" up to the first other character.
func productToken(value string) string {
	if value == "*" || strings.HasPrefix(value, "* ") {
		return "*"
	}
	end := strings.IndexFunc(value, func(r rune) bool {
		return r != '-' && r != '_' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
	if end >= 0 {
		value = value[:end]
	}
	return strings.ToLower(value)
}

// Allowed says whether the crawler with a product token may fetch a path, with
// its query if it has one. The groups that name the crawler count, all together;
// without any, those for "*"; without these, everything is allowed.
func (f *robots) Allowed(agent, path string) bool {
	agent, path = strings.ToLower(agent), normal(path)
	if path == "/robots.txt" {
		return true
	}
	allowed, decided, found := f.decide(agent, path)
	if !found {
		allowed, decided, _ = f.decide("*", path)
	}
	return allowed || !decided
}

// decide applies all groups that name agent. found says whether there are any.
func (f *robots) decide(agent, path string) (allowed, decided, found bool) {
	longest := -1
	for _, g := range f.groups {
		named := false
		for _, a := range g.agents {
			named = named || a == agent
		}
		if !named {
			continue
		}
		found = true
		for _, r := range g.rules {
			if n := len(r.pattern); n > longest || n == longest && r.allow && !allowed {
				if matches(r.pattern, path) {
					longest, allowed, decided = n, r.allow, true
				}
			}
		}
	}
	return allowed, decided, found
}

// matches tells whether a pattern matches a beginning of path. "*" stands for any
// characters, "$" at the end of the pattern for the end of the path. The time is
// bounded by the lengths' product: taking each part where it first occurs is
// right, because what comes before a "*" never has to give anything back.
func matches(pattern, path string) bool {
	pattern, anchored := strings.CutSuffix(pattern, "$")
	first, rest, wild := strings.Cut(pattern, "*")
	if !strings.HasPrefix(path, first) {
		return false
	}
	path = path[len(first):]
	if !wild {
		return !anchored || path == ""
	}
	for {
		part, after, more := strings.Cut(rest, "*")
		if !more && anchored {
			return strings.HasSuffix(path, part)
		}
		i := strings.Index(path, part)
		if i < 0 {
			return false
		}
		path = path[i+len(part):]
		if !more {
			return true
		}
		rest = after
	}
}

// normal spells a path or pattern so that equal ones are equal bytes: escapes of
// unreserved characters are resolved, others are in upper case, and bytes beyond
// ASCII are escaped (RFC 9309, section 2.2.2). An empty path is "/".
func normal(s string) string {
	if s == "" {
		return "/"
	}
	const hex = "0123456789ABCDEF"
	plain := true
	for i := range len(s) {
		plain = plain && s[i] != '%' && s[i] < 0x80
	}
	if plain {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c, escape := s[i], s[i] >= 0x80
		if c == '%' && i+2 < len(s) {
			if v, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				c, escape = byte(v), !unreserved(byte(v))
				i += 2
			}
		}
		if escape {
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

func unreserved(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0
}
