# The Worker under workerd: make run-worker starts it.
using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = [
    ( name = "edge", worker = .edge ),
    ( name = "internet", network = ( allow = ["public", "private"], tlsOptions = ( trustBrowserCas = true ) ) ),
    ( name = "floor", disk = ( writable = true ) ),
  ],
  sockets = [ ( name = "http", http = (), service = "edge" ) ],
);

const edge :Workerd.Worker = (
  modules = [
    ( name = "worker.js", esModule = embed "worker.js" ),
    ( name = "core.wasm", wasm = embed "core.wasm" ),
  ],
  compatibilityDate = "2026-11-01",
  bindings = [
    ( name = "ORIGIN", fromEnvironment = "ORIGIN" ),
    ( name = "ORIGIN_KEY", fromEnvironment = "ORIGIN_KEY" ),
    ( name = "EDGE_SECRET", fromEnvironment = "EDGE_SECRET" ),
    ( name = "RATE_LIMIT", fromEnvironment = "RATE_LIMIT" ),
    ( name = "POLICY", fromEnvironment = "POLICY" ),
    ( name = "FLOOR", kvNamespace = "floor" ),
  ],
);
