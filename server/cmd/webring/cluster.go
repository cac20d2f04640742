package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"webring/server"
	"webring/server/ledger"
	"webring/server/ledger/badgerstore"
	"webring/server/ledger/cluster"
	"webring/server/publish"
)

// clusterOptions are the flags of `webring cluster`.
type clusterOptions struct {
	data          string
	mppSecretFile string
	cluster       clusterFlags
	capacity      int
	force         bool
}

// clusterPatience bounds a command that asks etcd.
const clusterPatience = 30 * time.Second

// runCluster shows and changes which nodes keep the ring through etcd.
func runCluster(fs *flag.FlagSet) action {
	o := new(clusterOptions)
	o.cluster.define(fs)
	only := []string{"data", "capacity", "mpp-secret-file"}
	fs.VisitAll(func(f *flag.Flag) { only = append(only, f.Name) })
	fs.Var(&configFile{only: only}, configName, "`file` of this node, as serve takes it: of it, data, capacity, mpp-secret-file and what belongs to etcd is read")
	fs.StringVar(&o.data, "data", "./data", "`folder` of this node")
	fs.IntVar(&o.capacity, "capacity", 1_000_000, "init: `members` that can ever join, as for serve")
	fs.StringVar(&o.mppSecretFile, "mpp-secret-file", "", "init: `file` with the key that signs challenges, as for serve (default: mpp-secret in the data folder)")
	fs.BoolVar(&o.force, "force", false, "init: the ring begins with what this node has, whatever etcd has; what etcd alone has is lost")
	return func(words []string, out io.Writer) error {
		ctx, cancel := context.WithTimeout(context.Background(), clusterPatience)
		defer cancel()
		if len(words) < 1 || len(words) > 2 {
			return errUsage
		}
		node := ""
		if len(words) == 2 {
			node = words[1]
		}
		switch verb := words[0]; {
		case verb == "leave" && node == "":
			return leaveCluster(operator(o.data), out)
		case verb == "key" && node == "":
			return o.renewKey(out)
		case verb == "init" && node == "":
			return o.begin(out)
		case verb == "status" && node == "":
			return o.with("", func(c *cluster.Cluster) error { return printCluster(ctx, c, out) })
		case verb == "add" && node != "":
			return o.with(node, func(c *cluster.Cluster) error { return addNode(ctx, c, node, out) })
		case verb == "remove" && node != "":
			return o.with("", func(c *cluster.Cluster) error { return removeNode(ctx, c, node, out) })
		case verb == "handover":
			return o.with("", func(c *cluster.Cluster) error { return handOver(ctx, c, node, out) })
		}
		return errUsage
	}
}

// with asks etcd in the name of a node, or of none. It does not look at this node's own part.
func (o *clusterOptions) with(node string, ask func(*cluster.Cluster) error) error {
	if err := o.cluster.validateReach(); err != nil {
		return err
	}
	config, err := o.cluster.config(o.data, "", slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	config.Node, config.Dir, config.KeyFile = node, "", "" // nothing that is asked here is sealed
	c, err := cluster.Open(config)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := ask(c); errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("--etcd %s: it took longer than %s: most members of etcd do not answer, or no node leads", o.cluster.endpoints.String(), clusterPatience)
	} else if err != nil {
		return err
	}
	return nil
}

// printCluster prints a line for the ring and one for each node.
func printCluster(ctx context.Context, c *cluster.Cluster, out io.Writer) error {
	s, err := c.Status(ctx)
	if err != nil {
		return err
	}
	switch {
	case s.Tombstone:
		fmt.Fprintf(out, "the ring was made a single origin again, which is %s, at transaction %d\n", s.Single, s.Head.Serial)
	case s.Leader.Node == "":
		fmt.Fprintf(out, "no node leads; etcd is at transaction %d, %d events, and holds %d bytes of the tail\n", s.Head.Serial, s.Head.Size, s.TailBytes)
	default:
		fmt.Fprintf(out, "%s leads; etcd is at transaction %d, %d events, and holds %d bytes of the tail\n", s.Leader.Node, s.Head.Serial, s.Head.Size, s.TailBytes)
	}
	w := table(out, "NODE\tROLE\tSERIAL\tAGE\tURL")
	for _, n := range s.Nodes {
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\n", n.Name, n.Role, n.Serial, n.Age.Round(time.Second), n.URL)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(s.Refused)) {
		fmt.Fprintf(out, "%s is refused: %s\n", name, s.Refused[name])
	}
	return printSealing(s, out)
}

// printSealing says which key seals, and which nodes already have a newer one.
func printSealing(s cluster.Status, out io.Writer) error {
	if s.Key == "" {
		return nil
	}
	older := "nothing in etcd needs an older one"
	if s.OldKey {
		older = "etcd still holds transactions of the one before, so no node may lose it"
	}
	_, err := fmt.Fprintf(out, "key %s seals; %s\n", s.Key, older)
	for _, n := range s.Nodes {
		if err == nil && !n.Joining && len(n.Keys) > 0 && n.Keys[0] != s.Key {
			_, err = fmt.Fprintf(out, "%s has key %s for the time when all nodes have it\n", n.Name, n.Keys[0])
		}
	}
	return err
}

// addNode registers a node that is to be made of a backup, so that the tail keeps what
// follows any backup which is made from now on.
func addNode(ctx context.Context, c *cluster.Cluster, node string, out io.Writer) error {
	for {
		s, err := c.Status(ctx)
		if err != nil {
			return err
		}
		if s.Tombstone {
			return errors.New("the ring was made a single origin again")
		}
		for _, n := range s.Nodes {
			if n.Name == node {
				return fmt.Errorf("there is a node %s already; if it is to begin anew, remove it first", node)
			}
		}
		at := s.Head
		at.Serial = s.BackedUp()
		if err := c.Admit(ctx, at); errors.Is(err, cluster.ErrTooOld) {
			continue // it was trimmed meanwhile
		} else if err != nil {
			return err
		}
		_, err = fmt.Fprintf(out, "etcd keeps what follows transaction %d for %s; make a backup of any node now, restore it there, and start it\n", at.Serial, node)
		return err
	}
}

// removeNode ends the part of a node in the ring.
func removeNode(ctx context.Context, c *cluster.Cluster, node string, out io.Writer) error {
	s, err := c.Status(ctx)
	if err != nil {
		return err
	}
	if s.Leader.Node == node {
		return fmt.Errorf("%s leads: hand over first, or stop it", node)
	}
	if err := c.Remove(ctx, node); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s is no node of the ring any more\n", node)
	return err
}

// handOver has another node lead.
func handOver(ctx context.Context, c *cluster.Cluster, to string, out io.Writer) error {
	if err := c.Handover(ctx, to); err != nil {
		return err
	}
	s, err := c.Status(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s leads\n", s.Leader.Node)
	return err
}

// leaveCluster makes the ring a single origin, which is the node that runs on a data folder
// and leads.
func leaveCluster(o operator, out io.Writer) error {
	var s server.Status
	if err := o.ask(http.MethodGet, "/status", nil, &s); err != nil {
		return err
	}
	if s.Cluster == nil {
		return fmt.Errorf("the origin on %s is a single one", o)
	}
	var left server.ClusterStatus
	if err := o.ask(http.MethodPost, "/cluster/leave", nil, &left); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "the ring is a single origin again: %s, at transaction %d; start it anew without --etcd, and stop the other nodes\n", o, left.Serial)
	return err
}

// begin makes a cluster of a stopped single origin, or pins a stopped node to a cluster that
// there is.
func (o *clusterOptions) begin(out io.Writer) error {
	if err := o.cluster.validateAll(); err != nil {
		return err
	}
	if _, err := os.Lstat(filepath.Join(o.data, "head")); err != nil {
		return fmt.Errorf("%s holds no ledger: start a new ring once without --etcd, or restore a backup of another node", o.data)
	}
	if err := needKeys(&options{data: o.data, mppSecretFile: o.mppSecretFile}); err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	start, err := o.start(log)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), clusterPatience)
	defer cancel()
	made, err := o.needKey(ctx)
	if err != nil {
		return err
	}
	config, err := o.cluster.config(o.data, "", log)
	if err != nil {
		return err
	}
	if err := cluster.Init(ctx, config, start); err != nil {
		return err
	}
	if made {
		fmt.Fprintf(out, "%s seals what lies in etcd; every node needs a copy\n", o.cluster.sealPath(o.data))
	}
	_, err = fmt.Fprintf(out, "%s is the node %s of the ring %s, at transaction %d, %d events; start it with the same flags\n", o.data, o.cluster.node, o.cluster.ring, start.At.Serial, start.At.Size)
	return err
}

// start is what a ring begins with: what the stopped origin on the data folder has, and has signed.
func (o *clusterOptions) start(log *slog.Logger) (s cluster.Start, err error) {
	until, err := publish.OpenUntil(server.SyncPath(o.data))
	if err != nil {
		return s, err
	}
	store, err := badgerstore.Open(storePath(o.data), log)
	if err != nil {
		return s, err
	}
	of := options{data: o.data, capacity: o.capacity}
	config := of.ledgerConfig()
	config.Store = store
	books, err := ledger.Follow(config)
	if err != nil {
		return s, errors.Join(err, store.Close())
	}
	s = cluster.Start{At: books.Position(), Until: until.Until(), Force: o.force}
	return s, errors.Join(books.Close(), store.Close())
}

// needKey makes the file with the sealing key of a ring that is not in etcd yet. A node of a ring that
// is there needs the file of the other nodes.
func (o *clusterOptions) needKey(ctx context.Context) (made bool, err error) {
	path := o.cluster.sealPath(o.data)
	if exists(path) {
		return false, nil
	}
	err = o.with("", func(c *cluster.Cluster) error {
		s, err := c.Status(ctx)
		if err == nil && !s.Tombstone {
			return fmt.Errorf("%s is missing, and the ring is in etcd already: copy the file of another node there", path)
		}
		return err
	})
	if err != nil && !errors.Is(err, cluster.ErrRefused) {
		return false, err
	}
	return true, cluster.NewKeyFile(path)
}

// renewKey makes the file with the sealing key, or puts a new key above the present one.
func (o *clusterOptions) renewKey(out io.Writer) error {
	path := o.cluster.sealPath(o.data)
	told := "%s has a new key above the one before; give every node a copy, and restart the nodes one after the other, the leader last\n"
	err := cluster.RenewKeyFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		told = "%s holds a new key; give every node a copy\n"
		err = cluster.NewKeyFile(path)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, told, path)
	return err
}
