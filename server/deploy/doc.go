// Package deploy holds what operators copy, and tests that run it as far as one machine
// can: units for systemd, an image, proxies that stand before a ring, and what Prometheus
// is to watch. The handbook, ../HANDBOOK.md, says how to use each.
package deploy
