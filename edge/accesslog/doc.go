// Package accesslog writes one line for each request that was answered.
//
// Lines are put together by those who answer and written by one goroutine, a little
// later and many at a time. An answer never waits for the disk: what the disk does not
// take in time is dropped and counted, and the count goes to the log of the process.
// What clients send stands in a line escaped and cut to [maxText] bytes; of a query, the
// value of from alone.
package accesslog
