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
	// Method of the question is GET, or POST with the site as {"url": …} in
	// the body. By default GET.
	Method string
	// Start says what to do about a site that was never scanned: "none", or
	// "post" to have it scanned by a POST of {"url": …} to StartURL. A 202 is
	// followed to its Location, by GET, until the scan is done or the time is
	// over.
	Start, StartURL string
	// Pointer, ReportPointer, TimePointer and VersionPointer are JSON pointers
	// (RFC 6901) to the score, to the report's address, to when the site was
	// scanned (RFC 3339), and to the version of the rubric. All but the first
	// may be left out.
	Pointer, ReportPointer, TimePointer, VersionPointer string
	// ReportHosts are the names of hosts on which reports may lie; by default
	// the host of URL, and those a preset knows.
	ReportHosts []string
	// Header is sent with each question: see [HeaderFromEnviron].
	Header http.Header
}

// preset is what is known of a service.
type preset struct {
	url, method                      string
	start                            string // URL; "" when scans are not started
	pointer, report, scanned, rubric string
	// reportAt is the template of the report's address, when the answer has
	// none: {url} and {host} as in url, {report} what report points to.
	reportAt string
	// state points to what a scan is at. A 200 counts only when it is done;
	// failed is a site without a score; any other is a scan at work. stateless
	// says that an answer without a state counts, too.
	state, done, failed string
	stateless           bool
	// poll points to where to ask on, when an answer has no Location.
	poll string
	// levels is set when the score is a level from 0 to this, whose hundredths count.
	levels int64
	// slow says that the answer comes only when the scan is done: it is waited for, since
	// a second try would be a second scan.
	slow bool
	// visited says that only a visit to where has a site scanned anew.
	visited bool
	// never is the "code" of the 404 problem for a site that was never
	// scanned, or "" when each 404 means that.
	never string
	// where is the page that scans a site.
	where string
	hosts []string
}

// presets are made from what the services and their public clients say of
// themselves. Each part can be set by the operator.
var presets = map[string]preset{
	// https://isitagentready.com/llms-full.txt: a POST scans and answers with a level from 0
	// (Not Ready) to 5 (Agent-Native). Its clients read the time from scannedAt, and wait up
	// to 30 seconds; we have half of that. The percentage on its pages is computed by the
	// pages, from checks that visitors choose. A level is what the service itself says,
	// so a fifth of 100 counts for each.
	"isitagentready": {
		url:      "https://isitagentready.com/api/scan",
		method:   http.MethodPost,
		slow:     true,
		pointer:  "/level",
		levels:   5,
		scanned:  "/scannedAt",
		reportAt: "https://isitagentready.com/{host}",
		where:    "https://isitagentready.com/",
		hosts:    []string{"isitagentready.com", "www.isitagentready.com"},
	},
	// The API reads the last report and never scans, as https://is-agentic.com and its public
	// clients say. Its page and its command line do.
	"is-agentic": {
		url:     "https://is-agentic.com/api/v1/report?url={url}",
		pointer: "/score",
		report:  "/report_url",
		scanned: "/scanned_at",
		visited: true,
		never:   "report_not_found",
		where:   "https://is-agentic.com/scan/{host}",
		hosts:   []string{"is-agentic.com", "www.is-agentic.com"},
	},
	"ora": {
		url:     "https://ora.ai/api/score/{host}",
		start:   "https://ora.ai/api/scan",
		pointer: "/score",
		scanned: "/scannedAt",
		// Its clients wait for this; it is not known to stand in all answers.
		state:     "/analysisStatus",
		done:      "complete",
		stateless: true,
		reportAt:  "https://ora.ai/score/{host}",
		where:     "https://ora.ai/score/{host}",
		hosts:     []string{"ora.ai", "www.ora.ai"},
	},
	// https://agent-ready.dev/docs/api.md and https://agent-ready.dev/api/v1/openapi.json: a POST
	// is answered with 202, the Location and a pollUrl; the scan there is queued, running,
	// completed or failed. Needs a key: WEBRING_SCORE_HEADER_AUTHORIZATION="Bearer …".
	"agent-ready": {
		url:      "https://agent-ready.dev/api/v1/scans",
		method:   http.MethodPost,
		poll:     "/pollUrl",
		state:    "/status",
		done:     "completed",
		failed:   "failed",
		pointer:  "/vercelScore",
		scanned:  "/completedAt",
		report:   "/shareToken",
		reportAt: "https://agent-ready.dev/scan/{report}",
		where:    "https://agent-ready.dev/",
		hosts:    []string{"agent-ready.dev", "www.agent-ready.dev"},
	},
	// https://agentgrade.com/llms.txt.
	"agentgrade": {
		url:     "https://agentgrade.com/api/scan?url={url}",
		pointer: "/score/pct",
		where:   "https://agentgrade.com/",
		hosts:   []string{"agentgrade.com", "www.agentgrade.com"},
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
	for _, set := range []struct {
		to   *string
		from string
	}{{&p.url, cfg.URL}, {&p.method, cfg.Method}, {&p.start, cfg.StartURL}, {&p.pointer, cfg.Pointer}, {&p.report, cfg.ReportPointer},
		{&p.scanned, cfg.TimePointer}, {&p.rubric, cfg.VersionPointer}} {
		if set.from != "" {
			*set.to = set.from
		}
	}
	if cfg.ReportPointer != "" {
		p.reportAt = ""
	}
	switch cfg.Start {
	case "none":
		p.start = ""
	case "":
		if cfg.StartURL != "" {
			return nil, errors.New("score: a URL to start scans at needs start: post")
		}
	case "post":
		if p.start == "" {
			return nil, errors.New("score: start: post needs a URL to start scans at")
		}
	default:
		return nil, fmt.Errorf("score: start is none or post, not %q", cfg.Start)
	}
	switch p.method {
	case "":
		p.method = http.MethodGet
	case http.MethodGet, http.MethodPost:
	default:
		return nil, fmt.Errorf("score: the method is GET or POST, not %q", p.method)
	}
	origin, err := checkTemplate(p.url, p.method == http.MethodPost)
	if err != nil {
		return nil, err
	}
	if p.start != "" {
		if to, err := checkTemplate(p.start, true); err != nil {
			return nil, err
		} else if to.Scheme != origin.Scheme || to.Host != origin.Host {
			return nil, errors.New("score: scans are started where the score is asked for, at one scheme, host and port")
		}
	}
	return newRemote(cfg, p, origin)
}

// newRemote makes the scorer of a preset that was completed and checked.
func newRemote(cfg Config, p preset, origin *url.URL) (_ Scorer, err error) {
	r := &remote{
		preset:   p,
		provider: cfg.Spec,
		origin:   origin,
		header:   cfg.Header.Clone(),
		client:   newClient(),
		timing:   p.timing(),
		polls:    newCache[string](maxCached),
	}
	if cfg.Spec == "http" {
		r.provider = origin.Hostname()
	}
	if r.where == "" {
		r.where = origin.Scheme + "://" + origin.Host + "/"
	}
	if len(cfg.ReportHosts) > 0 {
		r.hosts = cfg.ReportHosts
	} else {
		r.hosts = append([]string{origin.Hostname()}, p.hosts...)
	}
	// The whole answer is an object or list, and so neither score nor report.
	if p.pointer == "" {
		return nil, errors.New("score: no pointer to the score")
	}
	for _, set := range []struct {
		to   *pointer
		from string
	}{{&r.at.score, p.pointer}, {&r.at.report, p.report}, {&r.at.scanned, p.scanned}, {&r.at.rubric, p.rubric}, {&r.at.state, p.state}, {&r.at.poll, p.poll}} {
		if *set.to, err = parsePointer(set.from); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// checkTemplate refuses a template that would give the same question for every site,
// unless the site is in the body, and one in which a site's URL could change the
// service's scheme, host or port. It returns the URL of the service.
func checkTemplate(template string, inBody bool) (*url.URL, error) {
	if !inBody && !strings.Contains(template, "{url}") && !strings.Contains(template, "{host}") {
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
