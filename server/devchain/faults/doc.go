// Package faults stands between a program and a JSON-RPC node and spoils what
// goes through: it delays, drops, answers nonsense, answers late, and lies. For
// tests only.
//
// A [Proxy] asks its plan what to do with each request. A plan is a function, so
// a test can be exact about one request ([On]) or throw dice over all of them
// ([Dice]); [Pass] lets everything through.
package faults
