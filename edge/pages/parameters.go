package pages

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"webring/edge/describe"
)

// MaxParameter is the longest value of a parameter, or of a segment of a path, that pages look
// at, in bytes.
const MaxParameter = 300

// pageParameters are what the page at a path looks at in a query, in the order in
// which the target of a cached page spells them.
func pageParameters(path string) []string {
	switch {
	case path == "/ring":
		return []string{"at", "q", "kind", "category", "sort", "page"}
	case path == CardPath:
		return []string{"at"}
	case strings.HasPrefix(path, categoriesPath):
		return []string{"kind", "sort", "page"}
	case path == leaderboardPath:
		return []string{"page"}
	case path == JoinPath:
		return []string{"opening", "category", "url", "amount"}
	case path == "/embed":
		return []string{"from"}
	case path == describe.ServersPath:
		return describe.ServersParameters
	case strings.HasPrefix(path, membersPath):
		return []string{"amount"}
	}
	return nil
}

// spelling gives the value of a parameter as all values are spelled that mean the same to a
// page: "" for one that the page shows no trace of. Values that the core refuses stay as
// they are.
func spelling(name, value string) string {
	switch name {
	case "q", "search":
		return Words(value)
	case "sort":
		if value != newestFirst {
			return ""
		}
	case "opening":
		if value != openFirst && value != openPast && value != openLead {
			return ""
		}
	case "url":
		if !strings.HasPrefix(value, "https://") && !strings.HasPrefix(value, "http://") {
			return ""
		}
	case "page":
		return pageNumber(value)
	case "at":
		return momentName(value)
	case "amount":
		cents, ok := readUSD(value)
		if !ok || cents == 0 || cents > maxBid {
			return ""
		}
		return usd(cents)
	}
	return value
}

// newestFirst is the value of sort that has an effect.
const newestFirst = "newest"

// The openings that a link to the join page may choose: a bid that takes the first place, one that
// passes the tenth, or one that passes the first of the category.
const (
	openFirst = "first"
	openPast  = "pass"
	openLead  = "lead"
)

// Words are those of a search as pages and addresses spell them: in small letters, with one
// space between them, in one form of each character (NFKC). A search finds the same with
// them. Accents stay, though searches ignore them: in many scripts a word without its marks
// cannot be read. What is not UTF-8 stays as it is.
func Words(q string) string {
	if !utf8.ValidString(q) {
		return q
	}
	return strings.Join(strings.Fields(norm.NFKC.String(strings.ToLower(norm.NFKC.String(q)))), " ")
}

// lastPage is more than any list has pages. All that follow show the same.
const lastPage = 10_000_000

// pageNumber spells the number of a page: without zeros before it, "" for the first, and
// none beyond lastPage.
func pageNumber(value string) string {
	if strings.Trim(value, "0123456789") != "" {
		return value
	}
	digits := strings.TrimLeft(value, "0")
	n, err := strconv.Atoi(digits)
	switch {
	case digits == "":
		return value
	case err != nil || n > lastPage:
		return strconv.Itoa(lastPage)
	case n == 1:
		return ""
	}
	return digits
}
