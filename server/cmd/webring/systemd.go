package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/coreos/go-systemd/v22/daemon"

	"webring/core/api"
)

// The names of sockets that a supervisor may pass (FileDescriptorName= of systemd.socket).
const (
	httpSocket  = "http"
	adminSocket = "admin"
)

// passedSockets are the listeners that a supervisor opened for this process before it
// started (sd_listen_fds(3)), by name. They outlive the process: what connects while
// there is none waits in the kernel for the next one.
type passedSockets map[string][]net.Listener

// takeSockets takes what was passed. A single socket is the one that answers clients,
// whatever its name, unless that is [adminSocket].
func takeSockets() (passedSockets, error) {
	files := activation.Files(true)
	passed := passedSockets{}
	for _, f := range files {
		name := f.Name()
		if name != adminSocket && len(files) == 1 {
			name = httpSocket
		}
		if name != httpSocket && name != adminSocket {
			return nil, fmt.Errorf("a socket was passed to this process under the name %q; the names are %s and %s (FileDescriptorName=)", name, httpSocket, adminSocket)
		}
		l, err := net.FileListener(f)
		if err != nil {
			return nil, fmt.Errorf("the socket %s that was passed to this process: %w", name, err)
		}
		f.Close() // the listener has its own
		passed[name] = append(passed[name], l)
	}
	return passed, nil
}

// listen gives the sockets that were passed under a name, or else the one that open opens.
func (p passedSockets) listen(name string, open func() (net.Listener, error), log *slog.Logger) ([]net.Listener, error) {
	if passed := p[name]; len(passed) > 0 {
		for _, l := range passed {
			log.Info("listening on a socket that was passed to this process", "name", name, "address", l.Addr().String())
		}
		return passed, nil
	}
	l, err := open()
	return []net.Listener{l}, err
}

// outlive reports whether the sockets of a name stay open when this process closes its
// listeners: then new connections wait for the next process.
func (p passedSockets) outlive(name string) bool { return len(p[name]) > 0 }

// closeAll closes listeners; to close one twice does no harm.
func closeAll(listeners []net.Listener) {
	for _, l := range listeners {
		l.Close()
	}
}

// notify tells the supervisor about the state of this process (sd_notify(3)), if it asked
// to be told.
func notify(state string, log *slog.Logger) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.Warn("the supervisor could not be told", "state", state, "err", err)
	}
}

func notifyReady(log *slog.Logger)     { notify(daemon.SdNotifyReady, log) }
func notifyReloading(log *slog.Logger) { notify(daemon.SdNotifyReloading, log) }
func notifyStopping(log *slog.Logger)  { notify(daemon.SdNotifyStopping, log) }

// answering is what a watchdog asks: a core that answers reads.
type answering interface {
	Serve(target []byte, r *api.Response)
}

// keepAlive tells the supervisor's watchdog, if there is one, that this process is alive:
// each time that the core has answered a read. end ends that, and waits for it.
func keepAlive(core answering, log *slog.Logger) (end func()) {
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("the supervisor's watchdog is not told anything", "err", err)
	}
	if interval <= 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var telling sync.WaitGroup
	telling.Go(func() {
		every := time.NewTicker(interval / 3)
		defer every.Stop()
		var r api.Response
		for {
			core.Serve([]byte("/api"), &r)
			notify(daemon.SdNotifyWatchdog, log)
			select {
			case <-every.C:
			case <-ctx.Done():
				return
			}
		}
	})
	return func() {
		cancel()
		telling.Wait()
	}
}
