package templates

import "time"

// Report is the page of a readiness report.
type Report struct {
	Page
	ID       string // its address, relative to the page's folder
	Site     string // URL, shown as text
	Score    int
	Rubric   string
	Note     string
	Requests int
	Scanned  time.Time
	Groups   []ReportGroup
}

// ReportGroup is a part of the rubric.
type ReportGroup struct {
	Name           string
	Earned, Points int
	Checks         []ReportCheck
}

// ReportCheck is one question about the site. Fix is "" when it passed.
type ReportCheck struct {
	Title, Evidence, Fix string
	Earned, Points       int
}

func (c ReportCheck) verdict() string {
	if c.Earned == c.Points {
		return "Passed."
	}
	return "Failed."
}
