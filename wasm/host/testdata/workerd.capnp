# A Worker that replies to a script: workerd test workerd.capnp --directory-path folder=FOLDER
using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = [
    ( name = "core", worker = .core ),
    ( name = "folder", disk = ( writable = true ) ),
  ],
);

const core :Workerd.Worker = (
  modules = [
    ( name = "workerd.mjs", esModule = embed "workerd.mjs" ),
    ( name = "replies.mjs", esModule = embed "replies.mjs" ),
    ( name = "wasi.js", esModule = embed "wasi.js" ),
    ( name = "core.wasm", wasm = embed "core.wasm" ),
    ( name = "script", data = embed "script" ),
  ],
  compatibilityDate = "2026-11-01",
  bindings = [ ( name = "FOLDER", service = "folder" ) ],
);
