package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"

	"webring/edge/front"
	"webring/server/logging"
)

// logFlags say what an origin or an edge writes down, and where.
type logFlags struct {
	format, level   string
	access, clients string
}

// The two ways to name clients in the access log.
const (
	clientsCut   = "cut"
	clientsWhole = "whole"
)

func (f *logFlags) define(fs *flag.FlagSet) {
	fs.StringVar(&f.format, "log-format", logging.Text, "`format` of the log on the standard error: text or json")
	fs.StringVar(&f.level, "log-level", "info", "lowest `level` in the log: debug, info, warn or error; webring log-level changes it while the process runs")
	fs.StringVar(&f.access, "access-log", "", "`file` for a line about each request, in the log's format; - for the standard error (default: no access log)")
	fs.StringVar(&f.clients, "access-log-addresses", clientsCut, fileOnly+"how the access log `names` clients: cut to their /24 or /48, or whole")
}

func (f *logFlags) validate() error {
	if f.format != logging.Text && f.format != logging.JSON {
		return fmt.Errorf("--log-format %q is neither text nor json", f.format)
	}
	if _, err := logging.ParseLevel(f.level); err != nil {
		return fmt.Errorf("--log-level: %w", err)
	}
	switch {
	case f.clients != clientsCut && f.clients != clientsWhole:
		return fmt.Errorf("access-log-addresses %q is neither cut nor whole", f.clients)
	case f.clients == clientsWhole && f.access == "":
		return errors.New("access-log-addresses says how the access log names clients: give --access-log")
	}
	return nil
}

// logs are what a process writes down.
type logs struct {
	*logging.Log
	access *front.AccessLog // nil: none is kept
}

// open begins the logs; out gets the lines. Packages that know no other log than that of
// the standard library write there, too.
func (f *logFlags) open(out io.Writer) (*logs, error) {
	level, err := logging.ParseLevel(f.level)
	if err != nil {
		return nil, err
	}
	l := new(logs)
	if l.Log, err = logging.New(out, f.format, level); err != nil {
		return nil, err
	}
	if f.access != "" {
		l.access, err = front.OpenAccessLog(front.AccessConfig{Path: f.access, JSON: f.format == logging.JSON, Whole: f.clients == clientsWhole, Log: l.Logger})
		if err != nil {
			return nil, fmt.Errorf("--access-log: %w", err)
		}
	}
	log.SetFlags(0)
	log.SetOutput(packagesLog{linesOf{l.Logger}})
	return l, nil
}

// close writes what is pending.
func (l *logs) close() {
	if l.access != nil {
		if err := l.access.Close(); err != nil {
			l.Warn("the access log is not closed well", "err", err)
		}
	}
	l.Log.Close()
	log.SetOutput(packagesLog{os.Stderr})
}

// reloadLogs has a process reload the level of its log, and go on in the file that now has
// the name of the access log, as after a rotation. o are the flags in force.
func reloadLogs[O any](r *reloader[O], l *logs, o *logFlags, of func(*O) *logFlags) {
	level, access := o.level, o.access
	r.add(part[O]{"the level of the log", []string{"log-level"}, func(next *O) (change, error) {
		to := of(next).level
		if to == level {
			return change{}, nil // the operator may have set another by webring log-level
		}
		parsed, err := logging.ParseLevel(to)
		return change{said: to, apply: func() error {
			level = to
			l.Level.Set(parsed)
			return nil
		}}, err
	}})
	r.add(part[O]{"the access log", []string{"access-log"}, func(next *O) (change, error) {
		switch {
		case of(next).access != access:
			return change{}, errRestart
		case l.access == nil || access == "-":
			return change{}, nil
		}
		return change{said: access, apply: l.access.Reopen}, nil
	}})
}

// linesOf makes lines of a log of what is written line by line. The message is always
// the same, or each would be of a kind of its own.
type linesOf struct{ log *slog.Logger }

func (w linesOf) Write(line []byte) (int, error) {
	w.log.Warn("said by a package", "line", string(bytes.TrimSpace(line)))
	return len(line), nil
}

// packagesLog receives what packages write to the standard library's log. It drops the lines
// in which the client of net/http quotes up to four kilobytes that a server has sent without
// a request: sites that are scored could fill the disk with them.
type packagesLog struct{ to io.Writer }

func (l packagesLog) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("Unsolicited response received")) {
		return len(line), nil
	}
	return l.to.Write(line)
}
