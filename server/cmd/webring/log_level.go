package main

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"

	"webring/server"
	"webring/server/logging"
)

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
