// Package requestid names requests, so that the lines about one request can be found in
// the logs of everything that it went through.
//
// The name is the value of X-Request-Id if there is one line of it, of 8 to 64 letters,
// digits, dots, underscores and hyphens; else the trace id of a valid traceparent (W3C
// Trace Context); else one that is made here. Whatever else a client sends is dropped:
// nothing of it reaches an answer, an origin or a log.
package requestid
