package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"

	"webring/edge/front"
	"webring/server"
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

// logLevel is the level of a running process's log, as its socket tells and takes it.
type logLevel struct {
	Level string `json:"level"`
}

const levelPath = "/log-level"

// controls adds to what a process answers on its socket:
//
//	GET  /log-level            logLevel
//	POST /log-level  logLevel → logLevel
//
// rest answers everything else.
func (l *logs) controls(rest http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", rest)
	tell := func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json")
		// A client that is gone cannot be told.
		_ = json.NewEncoder(w).Encode(logLevel{logging.LevelName(l.Level.Level())})
	}
	mux.HandleFunc("GET "+levelPath, func(w http.ResponseWriter, _ *http.Request) { tell(w) })
	mux.HandleFunc("POST "+levelPath, func(w http.ResponseWriter, r *http.Request) {
		var order logLevel
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<10)).Decode(&order); err != nil {
			http.Error(w, "the body must be {level}: "+err.Error(), http.StatusBadRequest)
			return
		}
		level, err := logging.ParseLevel(order.Level)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		l.Level.Set(level)
		l.Log.Log(r.Context(), max(level, 0), "the operator has changed the level of this log", "level", order.Level)
		tell(w)
	})
	return mux
}

// listenEdge opens the socket of an edge on its folder, which only controls answer. An
// edge that cannot have one goes on without: it serves the same.
func (l *logs) listenEdge(data string) (end func()) {
	socket, err := new(server.Operator).Listen(socketPath(data))
	if err != nil {
		l.Warn("this edge has no socket for its operator", "err", err)
		return func() {}
	}
	control := &http.Server{Handler: l.controls(http.NotFoundHandler()), ReadHeaderTimeout: controlHeaderTime}
	go func(socket net.Listener) {
		if err := control.Serve(socket); !errors.Is(err, http.ErrServerClosed) {
			l.Warn("the operator's socket has failed", "err", err)
		}
	}(socket)
	return func() { control.Close() }
}
