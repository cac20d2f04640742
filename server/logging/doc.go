// Package logging makes the log of a process: its format, its level, which can be changed
// while the process runs, and the collecting of lines that repeat.
//
// # Collecting
//
// Lines of one kind have the same level and message; their attributes may differ. The
// first [burst] of a kind within [window] are written at once. Further ones are counted,
// and summed up at the end of the window by one line of the same level and message with
// the attributes more and in. While a kind goes on like that, each further window
// has its first line and the sum. So a chain that makes no blocks, or strangers that try
// again and again, write a few lines a minute, and the first line of a kind is never late.
//
// A line with the attribute [Audit] is always written: those say what became of somebody's
// money.
//
// At most [maxKinds] kinds are remembered; the one that began first makes room for
// another, with its sum. Messages are constants, so no stranger makes kinds.
package logging
