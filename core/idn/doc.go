// Package idn turns names of hosts into those that the domain name system has: one
// answer for the URLs that may join, for those that are fetched, and for the
// references by which members are asked for. The ring itself knows the result alone,
// which is ASCII.
package idn
