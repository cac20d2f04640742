// Command webring runs a paid webring: the origin with its ledger, payments and
// read surface, edges that follow it, and the operator's commands. Each setting is a flag, a
// variable and a key of a file: --base-url is WEBRING_BASE_URL. Some are no flags. Secrets come
// from files or the environment.
//
// main.go has the table of commands. Two of them run until they are stopped:
//
//   - serve.go: an origin. It reads the flags into a server.Config, opens the listeners, and
//     starts and stops a server.Origin, which has the wiring by role. offers.go, scorer.go and
//     publish.go make its payment methods, its scorer and what edges follow. shared.go makes what
//     a node of a cluster needs, and cluster.go has the commands for clusters
//   - edge.go: an edge, which is a replica, a shell before it, and a forwarder
//   - core.go: which build of the core answers reads; shell.go: how an origin and an edge
//     meet the outside; tls.go, reload.go and stop.go: the certificate, what SIGHUP reloads,
//     and how they stop
//
// operate.go, payments.go, blocklist.go, key.go, clock.go, log_level.go, backup.go and verify.go talk
// to a running process, or work on a folder or a file that no process uses. watch.go and logs.go
// show a process to its operator: health, metrics and logs. score.go scans a site, and
// seed.go makes a synthetic ledger.
// settings.go reads settings from flags, environment and file. flags.go declares those of serve,
// values.go has their types, config.go prints them, and check.go tries them without starting.
//
// The tests start the binary itself. Three of them are about the whole repository:
// imports_test.go lists what each package may import, papers_test.go checks that the READMEs
// name only what exists, and help_test.go does so for what the commands say of themselves.
package main
