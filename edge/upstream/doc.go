// Package upstream keeps which origins an edge may ask, and which of them it asks.
//
// The origins of a [List] are equal: nodes of one cluster, or edges that follow them. An
// edge asks one of them for as long as that one answers, and then the next. It does not
// return to the first when that one is back: the one at hand is as good.
//
// Package replica and package forward have a list each. A node that serves checkpoints may
// take no payments, and the other way round.
package upstream
