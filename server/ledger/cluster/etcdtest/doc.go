// Package etcdtest runs etcd for tests: the real server, built from its module, each
// member a process of its own on this machine.
//
// Members listen on Unix sockets in their folders, so that no port is ever bound twice. What
// others connect to are links of the package faults, which tests can make slow, silent or cut.
package etcdtest
