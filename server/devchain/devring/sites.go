package main

import (
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"webring/server/sites/score/exemplar"
)

// unready says what some sites of the demonstration lack, as most sites do, by
// checks of the rubric.
var unready = map[string][]string{
	"Small Hours":          {"markdown", "vary", "mcp-card", "mcp", "openapi", "agent-card", "skills", "payments", "api-catalog"},
	"The Index of Indexes": {"json-ld", "open-graph", "description", "sitemap", "privacy", "mcp-card", "mcp", "ai-catalog", "agent-card", "skills", "payments"},
	"Seedbank":             {"llms-txt", "links", "content-signal", "not-found-help", "openapi", "api-catalog", "payments", "mcp-card", "mcp", "ai-catalog", "skill"},
	"Kiln":                 {"gptbot", "markdown", "vary", "headings", "json-ld", "mcp-card", "mcp", "openapi", "payments", "llms-txt"},
	"Lantern":              {"sitemap", "privacy", "contact", "skills"},
	"Quill":                {"payments", "open-graph", "json-ld"},
	"Ledgerbird":           {"mcp-card", "mcp", "skills"},
}

// anyHosts are host names for trying out: each is a site of its own.
const anyHosts = "*.webring.test"

// myAgent is the site in the printed command.
var myAgent = joining{Name: "My Agent", URL: "https://my-agent.dev/", Description: "An agent to try the ring with."}

// serveSites serves the sites that join the ring here: those of the
// demonstration, the one in the printed command, and any below webring.test. The
// names all lead to this machine, so sites elsewhere with these names are never
// asked. The certificates to trust about them are written below folder.
func serveSites(folder string) (args, env []string, stop func(), err error) {
	sites := map[string]*exemplar.Site{}
	hosts := []string{anyHosts}
	for _, m := range append(slices.Clone(demoMembers), myAgent) {
		u, err := url.Parse(m.URL)
		if err != nil {
			return nil, nil, nil, err
		}
		site := exemplar.Site{Name: m.Name, About: m.Description, Path: u.Path, Without: unready[m.Name]}
		if site.About == "" {
			site.About = m.Name + " is a site for trying the ring out."
		}
		sites[u.Host] = &site
		hosts = append(hosts, u.Host)
	}
	server, err := exemplar.Serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		site := sites[strings.ToLower(host)]
		if site == nil {
			site = &exemplar.Site{Name: host, About: "A site for trying the ring out."}
		}
		site.ServeHTTP(w, r)
	}), hosts...)
	if err != nil {
		return nil, nil, nil, err
	}
	for _, host := range hosts {
		args = append(args, "--fetch-map", host+"="+server.Addr.String())
	}
	// A folder of certificates in addition to the system's own.
	roots := filepath.Join(folder, "roots")
	if err = os.Mkdir(roots, 0o700); err == nil {
		err = os.WriteFile(filepath.Join(roots, "authority.pem"), server.Roots, 0o600)
	}
	if err != nil {
		server.Close()
		return nil, nil, nil, err
	}
	return args, []string{"SSL_CERT_DIR=" + roots + ":/etc/ssl/certs:/etc/pki/tls/certs"}, server.Close, nil
}
