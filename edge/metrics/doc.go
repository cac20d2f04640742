// Package metrics counts what a shell answers, without locks and without allocating, for
// whoever watches the process.
//
// [Metrics] has the table of routes and reads the counters, [Shard] writes them. A counter
// is spread over several shards, so that processors which count at the same time do not
// wait for each other's caches; to read it is to add the shards up.
//
// Every name here is of a fixed set: the routes are the patterns that a shell serves, and
// [Other]; the statuses are those of the table of problems and of answers, and "other";
// the reasons are listed. What a stranger sends makes no new one.
//
// All methods do nothing, and give nothing, on a nil *Metrics or *Shard: a shell that does
// not count has none.
package metrics
