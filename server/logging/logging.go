package logging

import (
	"fmt"
	"io"
	"log/slog"
)

// The formats of a log.
const (
	Text = "text" // key=value
	JSON = "json" // an object a line
)

// Log is the log of a process. Close it at the end, for the sums of lines that were
// collected.
type Log struct {
	*slog.Logger
	// Level is the least level that is written. It may be set at any time.
	Level *slog.LevelVar
	all   *collected
}

// New makes a log that writes to out, each line with one call. The format is Text or
// JSON.
func New(out io.Writer, format string, level slog.Level) (*Log, error) {
	l := &Log{Level: new(slog.LevelVar)}
	l.Level.Set(level)
	options := &slog.HandlerOptions{Level: l.Level}
	var lines slog.Handler
	switch format {
	case Text:
		lines = slog.NewTextHandler(out, options)
	case JSON:
		lines = slog.NewJSONHandler(out, options)
	default:
		return nil, fmt.Errorf("%q is no format of logs: there are %s and %s", format, Text, JSON)
	}
	l.all = &collected{out: lines, kinds: map[kind]*count{}}
	l.Logger = slog.New(&collector{next: lines, all: l.all})
	return l, nil
}

// Close writes the sums of lines that were collected. Lines that come later are written
// all the same.
func (l *Log) Close() { l.all.close() }

// ParseLevel reads one of the levels debug, info, warn and error.
func ParseLevel(text string) (slog.Level, error) {
	for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
		if text == LevelName(level) {
			return level, nil
		}
	}
	return 0, fmt.Errorf("%q is no level of logs: there are debug, info, warn and error", text)
}

// LevelName is the name that [ParseLevel] reads.
func LevelName(level slog.Level) string {
	switch level {
	case slog.LevelDebug:
		return "debug"
	case slog.LevelInfo:
		return "info"
	case slog.LevelWarn:
		return "warn"
	}
	return "error"
}
