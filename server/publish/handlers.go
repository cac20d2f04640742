package publish

import "github.com/valyala/fasthttp"

// Handlers gives the handlers of the paths that edges ask, by path; a segment
// {sha256} is in hexadecimal:
//
//	GET /sync/checkpoint         the newest signed checkpoint
//	GET /sync/events?from=N      records from event number N to the end of its block
//	GET /sync/snapshot/{sha256}  a snapshot's file
//	GET /sync/core/{sha256}      the module that answers reads
//
// baseURL says what the types of problem documents begin with.
func Handlers(s Source, baseURL func() string) map[string]fasthttp.RequestHandler {
	return map[string]fasthttp.RequestHandler{}
}
