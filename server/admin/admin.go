package admin

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Build names what is running.
type Build struct{ Version, Revision string }

// Server serves health and metrics of the process. Its methods may be called concurrently. The
// methods of a nil *Server do nothing: it was not asked for.
type Server struct {
	listener net.Listener // the first
	http     *http.Server
	registry *prometheus.Registry

	mu       sync.Mutex
	checks   func() []Check // nil until the process has started
	starting string         // what it is at until then
	stopping bool
}

// Serve answers on listeners, of which there is at least one, from now on. Until
// [Server.Started], the process is not ready. Close ends it, and them.
func Serve(listeners []net.Listener, b Build, log *slog.Logger) *Server {
	s := &Server{listener: listeners[0], registry: prometheus.NewRegistry(), starting: "the process is starting"}
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "webring_build_info", Help: "What is running: always 1."}, []string{"version", "revision"})
	info.WithLabelValues(b.Version, b.Revision).Set(1)
	s.Add(info, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), readiness{s})
	s.http = &http.Server{Handler: s.handler(log), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
	for _, l := range listeners {
		go func() {
			if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				log.Error("admin: nothing can be watched any more", "address", l.Addr().String(), "err", err)
			}
		}()
	}
	return s
}

// Addr is where the server listens first, "" for nil.
func (s *Server) Addr() string {
	if s == nil {
		return ""
	}
	return s.listener.Addr().String()
}

// Add has collectors scraped, too. It panics when a metric is there already.
func (s *Server) Add(all ...prometheus.Collector) {
	if s != nil {
		s.registry.MustRegister(all...)
	}
}

// Close ends the listener and all connections.
func (s *Server) Close() error {
	if s == nil {
		return nil
	}
	return s.http.Close()
}

// scrapesAtOnce bounds the scrapes that are answered at a time, and scrapeTime how long one
// may take.
const (
	scrapesAtOnce = 4
	scrapeTime    = 10 * time.Second
)

func (s *Server) handler(log *slog.Logger) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", s.ready)
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn), MaxRequestsInFlight: scrapesAtOnce, Timeout: scrapeTime}))
	// Without cmdline: a flag may hold the address of a node with its key.
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}
