package describe

import (
	"strconv"
	"time"
)

const (
	openWebringPath = "/.well-known/openwebring.json"
	// openWebrings is the folder of the lists of members.
	openWebrings       = "/openwebring/"
	openWebringVersion = "0.1"
)

// openWebring says to directories of webrings where the ring and its lists of members are. The
// format has no pages: a large ring is listed once for each part of its members.
//
// Document: OpenWebring 0.1, https://logicsrc.com/docs/openwebring.
func openWebring(s *Source) []byte {
	ring := s.ring()
	_, total := s.members("", 0, 1)
	var hosts []node
	for n := range parts(total, opmlSize) {
		part := strconv.Itoa(n + 1)
		host := ringNode(s, &ring, n+1)
		host["members"] = min(opmlSize, total-n*opmlSize)
		host["members_url"] = ring.Base + openWebrings + part + ".json"
		host["opml"] = ring.Base + "/opml/" + part + ".opml"
		hosts = append(hosts, host)
	}
	return s.json(node{"openwebring": openWebringVersion, "site": node{"url": ring.Base + "/", "name": ring.Name},
		"hosts": hosts, "spec": "https://logicsrc.com/openwebring"})
}

// ringNode is the n-th part of the ring as both documents name it. Below its URL are the hops.
func ringNode(s *Source, ring *Ring, n int) node {
	is := node{"slug": hostOf(ring.Base), "name": ring.Name, "url": ring.Base, "description": ring.Description}
	if n > 1 {
		part := strconv.Itoa(n)
		is["slug"], is["name"] = hostOf(ring.Base)+"-"+part, ring.Name+", part "+part
	}
	if s.has("/join") {
		is["join"] = ring.Base + "/join"
	}
	return is
}

// openWebringPart lists the n-th part of the members in ring order, or gives nil if there is none. Who
// makes a site only the site can say, so it stays unstated.
func openWebringPart(s *Source, n int) []byte {
	ring := s.ring()
	list := s.part("", n, opmlSize)
	if len(list) == 0 && n > 1 {
		return nil
	}
	var updated time.Time
	members := []node{}
	for _, m := range list {
		status := "active"
		if m.Health == "asleep" { // the hops skip it
			status = "inactive"
		}
		members = append(members, node{"url": m.URL, "slug": m.Slug, "name": m.Name, "status": status, "since": m.Joined.Format(time.DateOnly)})
		for _, at := range []time.Time{m.updated(), m.HealthSince} {
			if at.After(updated) {
				updated = at
			}
		}
	}
	is := ringNode(s, &ring, n)
	is["host"] = ring.Base + "/"
	doc := node{"openwebring": openWebringVersion, "ring": is, "members": members}
	if !updated.IsZero() {
		doc["updated"] = updated.Format(time.RFC3339Nano)
	}
	return s.json(doc)
}
