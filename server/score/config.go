package score

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// Config names a scorer as the operator's flags do.
type Config struct {
	// Spec is "fixed:N", the name of a preset, or "http".
	Spec string
	// URL is the template of the question. "{url}" and "{host}" in its path
	// or query stand for the site's URL and host name, escaped. Presets
	// have one.
	URL string
	// Pointer and ReportPointer are JSON pointers (RFC 6901) to the score and
	// to the report's address in the answer. Without the second there are
	// no reports. Presets have both.
	Pointer, ReportPointer string
	// ReportHosts are the names of hosts on which reports may lie; by default
	// the host of URL, and those a preset knows.
	ReportHosts []string
	// Header is sent with each question: see [HeaderFromEnviron].
	Header http.Header
}

// preset is what is known of a service.
type preset struct {
	url, pointer, report, scanned string
	// never is the "code" of the 404 problem for a site that was never
	// scanned. Any other 404 is a fault.
	never string
	// where is the page that scans a site.
	where string
	hosts []string
}

var presets = map[string]preset{
	// The API only reads reports; its page and its command line make them.
	"is-agentic": {
		url:     "https://is-agentic.com/api/v1/report?url={url}",
		pointer: "/score",
		report:  "/report_url",
		scanned: "/scanned_at",
		never:   "report_not_found",
		where:   "https://is-agentic.com/scan/{host}",
		hosts:   []string{"is-agentic.com", "www.is-agentic.com"},
	},
}

// New makes the scorer that cfg names.
func New(cfg Config) (Scorer, error) {
	if n, ok := strings.CutPrefix(cfg.Spec, "fixed:"); ok {
		return parseFixed(n)
	}
	p, known := presets[cfg.Spec]
	if !known && cfg.Spec != "http" {
		return nil, fmt.Errorf("score: unknown scorer %q", cfg.Spec)
	}
	if cfg.URL != "" {
		p.url = cfg.URL
	}
	if cfg.Pointer != "" {
		p.pointer = cfg.Pointer
	}
	if cfg.ReportPointer != "" {
		p.report = cfg.ReportPointer
	}
	origin, err := checkTemplate(p.url)
	if err != nil {
		return nil, err
	}

	r := &remote{
		provider: cfg.Spec,
		template: p.url,
		never:    p.never,
		where:    p.where,
		hosts:    cfg.ReportHosts,
		header:   cfg.Header.Clone(),
		client:   newClient(),
		timing:   defaultTiming,
	}
	if cfg.Spec == "http" {
		r.provider = origin.Hostname()
	}
	if r.where == "" {
		r.where = origin.Scheme + "://" + origin.Host + "/"
	}
	if len(r.hosts) == 0 {
		r.hosts = append([]string{origin.Hostname()}, p.hosts...)
	}
	if r.score, err = parsePointer(p.pointer); err != nil {
		return nil, err
	}
	// The whole answer is an object or list, and so neither score nor report.
	if p.pointer == "" {
		return nil, errors.New("score: no pointer to the score")
	}
	if r.report, err = parsePointer(p.report); err != nil {
		return nil, err
	}
	if r.scanned, err = parsePointer(p.scanned); err != nil {
		return nil, err
	}
	return r, nil
}

// checkTemplate refuses what would ask the same of every site, or let a site's
// URL choose whom to ask. It gives the origin that is asked.
func checkTemplate(template string) (*url.URL, error) {
	if !strings.Contains(template, "{url}") && !strings.Contains(template, "{host}") {
		return nil, fmt.Errorf("score: the URL %q contains neither {url} nor {host}", template)
	}
	u, err := url.Parse(expand(template, "https://a.example/"))
	if err != nil {
		return nil, fmt.Errorf("score: the URL %q: %w", template, err)
	}
	other, err := url.Parse(expand(template, "http://b.example/"))
	if err != nil || other.Scheme != u.Scheme || other.Host != u.Host || u.User != nil || other.Fragment != u.Fragment {
		return nil, fmt.Errorf("score: in the URL %q, {url} and {host} may stand in path and query only, without user name", template)
	}
	if u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" {
		return nil, fmt.Errorf("score: the URL %q is not an absolute http or https URL", template)
	}
	return u, nil
}

// expand fills in a template. QueryEscape suits paths too: it leaves letters,
// digits and "-_.~" only, and canonical URLs have no spaces.
func expand(template, site string) string {
	host := ""
	if u, err := url.Parse(site); err == nil {
		host = u.Hostname()
	}
	return strings.NewReplacer("{url}", url.QueryEscape(site), "{host}", url.QueryEscape(host)).Replace(template)
}

// headerPrefix begins the names of environment variables that are header
// fields; secrets stand nowhere else.
const headerPrefix = "WEBRING_SCORE_HEADER_"

// HeaderFromEnviron gives the header fields that environ, in the form of
// [os.Environ], sets for the scorer: WEBRING_SCORE_HEADER_X_API_KEY=k is the
// field X-Api-Key with the value k. Errors do not repeat values.
func HeaderFromEnviron(environ []string) (http.Header, error) {
	header := http.Header{}
	for _, variable := range environ {
		assignment, ok := strings.CutPrefix(variable, headerPrefix)
		if !ok {
			continue
		}
		name, value, _ := strings.Cut(assignment, "=")
		field := strings.ReplaceAll(name, "_", "-")
		if !httpguts.ValidHeaderFieldName(field) || !httpguts.ValidHeaderFieldValue(value) {
			return nil, fmt.Errorf("score: %s%s is not a header field", headerPrefix, name)
		}
		header.Set(field, value)
	}
	return header, nil
}
