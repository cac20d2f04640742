// Command server is etcd itself, built for tests from its own modules. They are in a
// go.mod of their own, so that nothing else depends on them.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
