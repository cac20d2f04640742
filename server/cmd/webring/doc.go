// Command webring runs a paid webring: the origin with its ledger, payments and
// read surface, edges that follow it, and the operator's commands. Each setting is a flag, a
// variable and a key of a file: --base-url is WEBRING_BASE_URL. Some are no flags. Secrets come
// from files or the environment.
//
// main.go has the table of commands. Two of them run until they are stopped:
//
//   - serve.go: an origin. It makes a server.Config of the flags, opens the listeners, and
//     starts and stops a server.Origin, which has the wiring by role
//   - edge.go: an edge, which is a replica, a shell in front of it, and a forwarder
//
// Both use process.go, for signals, the supervisor and memory; reload.go, for what SIGHUP reloads;
// logs.go; and check.go, which tries the settings without starting.
//
// operate.go, payments.go and cluster.go talk to a running process or to etcd. backup.go asks the
// running origin for a backup, and restores one into a folder. seed.go, score.go and registry.go
// work on a folder, a site or a key file.
//
// settings.go reads settings from flags, environment and file, and prints them. The settings are in
// flags.go, shell.go (listeners and TLS), logs.go, core.go, offers.go (payments), secret.go (files of
// keys) and cluster.go. failpoint.go is for the project's own tests.
//
// The tests start the binary itself. Three of them are about the whole repository:
// imports_test.go lists what each package may import, papers_test.go checks that the READMEs
// name only what exists, and help_test.go does so for what the commands say of themselves.
package main
