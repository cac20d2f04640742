// Package form reads what clients send: the bodies of requests, and in them names, URLs and
// amounts. Its errors are problems that name each field that is wrong. It knows no ledger
// and no network.
//
//   - body.go: the body of each request; problem.go: the error of a refused request
//   - text.go: the form in which texts are kept; name.go: names that are reserved
//   - site.go: the URLs that may join; slug.go: slugs; money.go: amounts in dollars
package form
