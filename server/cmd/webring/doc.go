// Command webring runs a paid webring: the origin with its ledger, payments and
// read surface, edges that follow it, and the operator's commands. Each setting is a flag, a
// variable and a key of a file: --base-url is WEBRING_BASE_URL. Some are no flags. Secrets come
// from files or the environment.
//
// main.go has the table of commands. Two of them run until they are stopped, and here all
// other packages are put together:
//
//   - serve.go: the origin, opened from the ledger outwards and closed in the opposite
//     order. ledger.go, offers.go, scorer.go, publish.go and serve_shell.go open its ledger,
//     its payment methods, its scorer, what edges follow and what clients see; rules.go
//     records what its flags have changed
//   - roles.go, leading.go and desk.go: what stands behind the origin's shell. An only origin
//     has one role. A node of a cluster changes its role while it runs: member.go decides
//     which it has, member_duties.go carries it out, term.go is what leading for a time means
//     for payments, shared.go knows the secrets that all nodes share, member_run.go puts it together
//   - edge.go: an edge, which is a replica, a shell before it, and a forwarder
//   - core.go: which build of the core answers reads; shell.go: how an origin and an edge
//     meet the outside; tls.go, reload.go and stop.go: the certificate, what SIGHUP reloads,
//     and how they stop
//
// operate.go, payments.go, blocklist.go, key.go, clock.go, log_level.go, backup.go and verify.go talk
// to a running process, or work on a folder or a file that no process uses. watch.go and logs.go
// are what an operator sees of a process: health, metrics and logs. score.go scans a site, and
// seed.go makes a synthetic ledger.
// settings.go reads settings from flags, environment and file. flags.go declares those of serve,
// values.go has their types, config.go prints them, and check.go tries them without starting.
//
// The tests start the binary itself. Three of them are about the whole repository:
// imports_test.go lists what each package may import, papers_test.go checks that the READMEs
// name only what exists, and help_test.go does so for what the commands say of themselves.
package main
