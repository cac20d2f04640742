// Package logscan finds in logs what no log may hold: secrets, credentials, receipts and
// whole addresses of clients. It is for tests.
package logscan
