package admin

import (
	"encoding/json"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
)

// Check is one question that readiness depends on. It is asked at each look, at several
// times at once perhaps, so it must be quick.
type Check struct {
	Name string // of a fixed set: it is a label, too
	// Ask gives what was found, in words. An error says what is wrong.
	Ask func() (found string, err error)
	// Advisory has an error told and measured, and the process ready all the same.
	Advisory bool
}

// Row is a check with what it found.
type Row struct {
	Name     string `json:"name"`
	OK       bool   `json:"ok"`
	Required bool   `json:"required"` // readiness depends on it
	Detail   string `json:"detail"`
}

// Readiness is the document at /readyz: with 200 when the process is ready, and with 503
// when a required check fails, while it starts and while it stops.
type Readiness struct {
	Ready    bool  `json:"ready"`
	Stopping bool  `json:"stopping"`
	Checks   []Row `json:"checks"`
}

// Starting says what the process is at while it is not ready yet.
func (s *Server) Starting(at string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starting = at
}

// Started has readiness depend on these checks from now on.
func (s *Server) Started(checks ...Check) { s.StartedWith(func() []Check { return checks }) }

// StartedWith is Started for a process with changing checks. checks returns the current ones.
func (s *Server) StartedWith(checks func() []Check) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starting, s.checks = "", checks
}

// Stopping makes the process not ready, permanently: it is called at the beginning of a stop,
// while requests are still answered. It may be called more than once.
func (s *Server) Stopping() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopping = true
}

// Readiness asks all checks.
func (s *Server) Readiness() Readiness {
	s.mu.Lock()
	checks, starting, stopping := s.checks, s.starting, s.stopping
	s.mu.Unlock()
	r := Readiness{Ready: !stopping && starting == "", Stopping: stopping, Checks: []Row{}}
	if starting != "" {
		r.Checks = append(r.Checks, Row{Name: "start", Required: true, Detail: starting})
	}
	if stopping {
		r.Checks = append(r.Checks, Row{Name: "stop", Required: true, Detail: "the process is stopping; send requests elsewhere"})
	}
	var present []Check
	if checks != nil {
		present = checks()
	}
	for _, c := range present {
		row := Row{Name: c.Name, OK: true, Required: !c.Advisory}
		var err error
		if row.Detail, err = c.Ask(); err != nil {
			row.OK, row.Detail, r.Ready = false, err.Error(), r.Ready && c.Advisory
		}
		r.Checks = append(r.Checks, row)
	}
	return r
}

func (s *Server) ready(w http.ResponseWriter, _ *http.Request) {
	r := s.Readiness()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if !r.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	_ = enc.Encode(r) // a client that is gone cannot be told
}

var (
	readyDesc = desc("ready", "1 while /readyz answers 200, and 0 otherwise.")
	checkDesc = desc("ready_check", "1 for a check of readiness that holds, and 0 for one that fails.", "check")
)

// readiness collects [Server.Readiness].
type readiness struct{ s *Server }

func (c readiness) Describe(to chan<- *prometheus.Desc) { to <- readyDesc; to <- checkDesc }

func (c readiness) Collect(to chan<- prometheus.Metric) {
	r := c.s.Readiness()
	to <- YesNo(readyDesc, r.Ready)
	for _, row := range r.Checks {
		to <- YesNo(checkDesc, row.OK, row.Name)
	}
}
