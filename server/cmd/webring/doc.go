// Command webring runs a paid webring: the origin with its ledger, payments and
// read surface, edges that follow it, and the operator's commands. Every flag has
// an environment twin: --base-url is WEBRING_BASE_URL. Secrets come from files or
// the environment.
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
// to a running process, or work on a folder or a file that none uses. watch.go and logs.go
// are what an operator sees of one: health, metrics and logs. score.go scans a site, and
// seed.go makes a synthetic ledger.
// flags.go, environment.go and config_file.go read what a command is given, config.go prints
// it, and check.go tries it without starting.
//
// The tests start the binary itself. Three of them are about the whole repository:
// imports_test.go lists what each package may import, papers_test.go checks that the READMEs
// name only what exists, and help_test.go does so for what the commands say of themselves.
package main
