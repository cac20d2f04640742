package describe

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"webring/core/api"
)

// ServersPath is the list of a registry of MCP servers: of the members that are MCP servers. Below it is each of them.
const ServersPath = "/v0.1/servers"

// ServersParameters are what the list of a registry looks at.
var ServersParameters = []string{"cursor", "limit", "search", "updated_since", "version"}

const (
	// serversLimit is how many servers a page has unless it is asked for another number, and
	// mostServers is the highest number.
	serversLimit, mostServers = 30, 100
	// latest is the version that stands for the newest one.
	latest = "latest"
	// searchedWords and searchedLength, in bytes, bound what the origin looks for.
	searchedWords, searchedLength = 8, 100
	// longestVersion is more than any version here takes.
	longestVersion = 30
)

// Servers gives a document of the API of MCP registries, at ServersPath or below it. given
// gives the value of a parameter, "" for none. Editors and registries read this API: the ring is a
// sub-registry of the members that are MCP servers, in ring order.
//
// A page reads at most 500 members. So with updated_since a page may have fewer servers
// than its limit, or none, and still lead to a next one.
//
// Document: the API of the MCP registry, version 0.1.
func Servers(path string, given func(name string) string) Document {
	d := Document{Path: path, Media: jsonMedia, MaxAge: movingAge}
	if path == ServersPath {
		d.make = func(s *Source) []byte { return servers(s, given) }
	} else {
		d.make = func(s *Source) []byte { return serverVersions(s, strings.TrimPrefix(path, ServersPath+"/")) }
	}
	return d
}

// listed is an entry of a registry.
type listed struct {
	Server node `json:"server"`
	Meta   node `json:"_meta"`
}

// wanted is what a client asks of the list. The cursor of a page has all of it, since editors
// ask for the next page with nothing but the cursor and the limit.
type wanted struct {
	at      int    // members to pass over
	search  string // words, as the origin takes them
	since   time.Time
	version string
}

// cursor is short enough to be looked at as a parameter, and needs no escapes.
func (w *wanted) cursor() string {
	since := ""
	if !w.since.IsZero() {
		since = w.since.Format(time.RFC3339Nano)
	}
	return base64.RawURLEncoding.EncodeToString([]byte(strings.Join([]string{strconv.Itoa(w.at), w.search, since, w.version}, "\n")))
}

// readCursor is the opposite of cursor.
func readCursor(text string) (w wanted, ok bool) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	parts := strings.Split(string(b), "\n")
	if err != nil || len(parts) != 4 {
		return w, false
	}
	w.search, w.version = parts[1], parts[3]
	if parts[2] != "" {
		if w.since, ok = readTime(parts[2]); !ok {
			return w, false
		}
	}
	w.at, err = strconv.Atoi(parts[0])
	return w, err == nil && w.at >= 0 && w.at <= maxPart*readSize && w.search == searched(w.search, "") && len(w.version) <= longestVersion
}

// readTime reads a time with a year, at UTC, that a cursor can hold.
func readTime(text string) (t time.Time, ok bool) {
	t, err := time.Parse(time.RFC3339, text)
	t = t.UTC()
	return t, err == nil && t.Year() >= 1 && t.Year() <= 9999
}

// servers is a page of the list.
func servers(s *Source, given func(name string) string) []byte {
	ring := s.ring()
	invalid := func(name, rule string) []byte {
		s.fail(&Problem{http.StatusBadRequest, api.AppendProblem(nil, ring.Base, api.InvalidParameter, name+" must be "+rule+".", []byte(`,"parameter":"`+name+`"`))})
		return nil
	}
	limit, err := strconv.Atoi(cmp.Or(given("limit"), strconv.Itoa(serversLimit)))
	if err != nil || limit < 1 || limit > mostServers {
		return invalid("limit", "an integer from 1 to "+strconv.Itoa(mostServers))
	}
	w := wanted{search: searched(given("search"), reverseHost(ring.Base)), version: given("version")}
	nothing := w.search == "" && given("search") != "" || len(w.version) > longestVersion
	if since := given("updated_since"); since != "" {
		var ok bool
		if w.since, ok = readTime(since); !ok {
			return invalid("updated_since", "a time in the years 1 to 9999, such as 2026-01-02T15:04:05Z")
		}
	}
	if cursor := given("cursor"); cursor != "" {
		var ok bool
		if w, ok = readCursor(cursor); !ok {
			return invalid("cursor", "the nextCursor of a page")
		}
	}
	if w.version == latest {
		w.version = "" // there is one version of each
	}
	piece := readSize
	if w.since.IsZero() && w.version == "" {
		piece = limit // each member that is read is in the page
	}
	var list []Member
	total := 0
	switch {
	case nothing: // can be found
	case w.search == "":
		list, total = s.members("mcp", w.at, piece)
	default:
		list, total = s.search(w.search, w.at, piece)
	}
	found := []listed{}
	for _, m := range list {
		if len(found) == limit {
			break
		}
		w.at++
		if !m.updated().Before(w.since) && (w.version == "" || w.version == m.version()) {
			found = append(found, registryEntry(s, &ring, &m))
		}
	}
	metadata := node{"count": len(found)}
	if w.at < total && len(list) > 0 {
		metadata["nextCursor"] = w.cursor()
	}
	return s.json(node{"servers": found, "metadata": metadata})
}

// search reads a part of the MCP servers that have words beginning with each of these.
func (s *Source) search(words string, offset, limit int) (list []Member, total int) {
	if s.err != nil {
		return nil, 0
	}
	var doc struct {
		Total   int
		Members []Member
	}
	if !s.origin(membersTarget("mcp", offset, limit)+"&q="+url.QueryEscape(words), &doc) {
		s.fail(&Problem{http.StatusServiceUnavailable, api.AppendProblem(nil, s.ring().Base, api.OriginUnavailable,
			"Only the ring's origin searches members, and it has not answered yet. Try again.", nil)})
	}
	return doc.Members, doc.Total
}

// searched gives the words of a search, as the ring's own search takes them: at most 8, in a bounded
// number of bytes. A search for a whole name is one for the part that is the member's own.
func searched(search, space string) string {
	words := strings.FieldsFunc(strings.TrimPrefix(search, space+"/"), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r)
	})
	all := strings.Join(words[:min(len(words), searchedWords)], " ")
	return strings.TrimSpace(strings.ToValidUTF8(all[:min(len(all), searchedLength)], ""))
}

// serverVersions answers for one server: rest is its name, "/versions", and perhaps which one.
func serverVersions(s *Source, rest string) []byte {
	ring := s.ring()
	unknown := func(detail string) []byte {
		s.fail(&Problem{http.StatusNotFound, api.AppendProblem(nil, ring.Base, api.UnknownMember, detail, nil)})
		return nil
	}
	slug, own := strings.CutPrefix(rest, reverseHost(ring.Base)+"/")
	slug, version, asked := strings.Cut(slug, "/versions")
	if !asked || version != "" && (version[0] != '/' || version == "/" || strings.Count(version, "/") > 1) {
		return nil // no path of this API
	}
	if !own || !isSlug(slug) {
		return unknown("No server of this registry has this name.")
	}
	var detail struct{ Member Member }
	s.read(memberTarget(slug), &detail)
	m := detail.Member
	if s.err != nil {
		return nil
	}
	if m.Slug != slug || m.Kind != "mcp" {
		return unknown("No server of this registry has this name.")
	}
	entry := registryEntry(s, &ring, &m)
	switch strings.TrimPrefix(version, "/") {
	case "":
		return s.json(node{"servers": []listed{entry}, "metadata": node{"count": 1}})
	case latest, m.version():
		return s.json(entry)
	}
	return unknown("This server has no such version. Ask for latest.")
}

// isSlug says whether a text could be the slug of a member, and not the name of another document.
func isSlug(s string) bool {
	return s != "" && len(s) <= 48 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == "" && !slices.Contains([]string{"next", "prev", "random"}, s)
}

// registryEntry is a member in the registry.
func registryEntry(s *Source, ring *Ring, m *Member) listed {
	server := memberServer(s, ring, m)
	entry := server.entry(RegistrySchema, shortened(m.about(ring), cardAbout), m.URL)
	delete(entry, "$schema") // editors refuse entries that name a newer one than theirs
	return listed{
		Server: entry,
		Meta: node{
			"io.modelcontextprotocol.registry/official": node{"status": "active", "isLatest": true,
				"publishedAt": m.Joined.Format(time.RFC3339Nano), "updatedAt": m.updated().Format(time.RFC3339Nano)},
			serverName(ring.Base): node{"slug": m.Slug, "category": m.Category, "member": ring.Base + memberTarget(m.Slug)},
		},
	}
}

// memberServer is a member that is an MCP server, under a name of the ring's own.
func memberServer(s *Source, ring *Ring, m *Member) Server {
	return Server{Name: reverseHost(ring.Base) + "/" + m.Slug, Version: m.version(), Title: m.Name, URL: memberPage(s, ring.Base, m.Slug)}
}

// updated is when the entry of a member last changed by its owner's hand.
func (m *Member) updated() time.Time {
	if m.Changed.After(m.Joined) {
		return m.Changed
	}
	return m.Joined
}

// version is that of what the ring says of a server: it rises when the owner changes it. The
// server's own version only the server knows.
func (m *Member) version() string {
	if m.Changed.IsZero() {
		return unknownVersion
	}
	return fmt.Sprintf("0.0.%d", m.Changed.Unix())
}

// about is the description of a member, or words in its place.
func (m *Member) about(ring *Ring) string {
	return cmp.Or(m.Description, "A member of "+ring.Name+".")
}
