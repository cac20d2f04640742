package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"webring/edge/durable"
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
	fs.Var(&configFile{only: only}, configName, "configuration `file` of this node, the one that serve reads; only data, capacity, mpp-secret-file and the settings for etcd count")
	fs.StringVar(&o.data, "data", "./data", "`folder` of this node")
	fs.IntVar(&o.capacity, "capacity", 1_000_000, "init: `members` that can ever join, as for serve")
	fs.StringVar(&o.mppSecretFile, "mpp-secret-file", "", "init: `file` with the key that signs challenges, as for serve (default: mpp-secret in the data folder)")
	fs.BoolVar(&o.force, "force", false, "init: start the ring from this node even if etcd holds one; what only etcd has is lost")
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
			return o.with("", func(c *cluster.Cluster) error {
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
			})
		case verb == "handover":
			return o.with("", func(c *cluster.Cluster) error {
				if err := c.Handover(ctx, node); err != nil {
					return err
				}
				s, err := c.Status(ctx)
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(out, "%s leads\n", s.Leader.Node)
				return err
			})
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
		return fmt.Errorf("--etcd %s: it took longer than %s: most members of etcd do not answer, or no node leads", strings.Join(o.cluster.Endpoints, ","), clusterPatience)
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
	for _, n := range s.Nodes {
		if n.Unfit != "" {
			fmt.Fprintf(out, "%s leads only if no other can: %s\n", n.Name, n.Unfit)
		}
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
	_, err = fmt.Fprintf(out, "%s is the node %s of the ring %s, at transaction %d, %d events; start it with the same flags\n", o.data, o.cluster.Node, o.cluster.Ring, start.At.Serial, start.At.Size)
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
	told := "%s has a new key above the previous one; give every node a copy: nodes read the file again by themselves, without a restart\n"
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

// clusterFlags say in which etcd cluster a ring is, and which of its nodes this one is.
// Without endpoints an origin is the only one.
type clusterFlags struct {
	cluster.Config           // without Dir, TLS, Password and Log
	caFile, cert, key string // of TLS
	passwordFile      string
}

// given says whether the origin is one of several.
func (f *clusterFlags) given() bool { return len(f.Endpoints) > 0 }

// define defines the flags by which a command reaches the ring in etcd.
func (f *clusterFlags) define(fs *flag.FlagSet) {
	fs.Var((*list)(&f.Endpoints), "etcd", "`host:port` or URL of a member of the etcd cluster through which several origins keep one ledger (repeatable)")
	fs.StringVar(&f.Ring, "cluster-id", "", "`name` of the ring in etcd, the same on all nodes")
	fs.StringVar(&f.Node, "node", "", "`name` of this node, which no other node has")
	fs.StringVar(&f.caFile, "etcd-cacert", "", fileOnly+"`file` with the certificates, in PEM, by which etcd is known; with it, or with an https URL, etcd is asked over TLS (default: those of the system)")
	fs.StringVar(&f.cert, "etcd-cert", "", fileOnly+"`file` with the TLS certificate that this node shows to etcd; it is read at each connection")
	fs.StringVar(&f.key, "etcd-key", "", fileOnly+"`file` with the key of that certificate")
	fs.StringVar(&f.Username, "etcd-user", "", fileOnly+"`name` under which this node authenticates to etcd")
	fs.StringVar(&f.passwordFile, "etcd-password-file", "", fileOnly+"`file` with the password of that user")
	fs.StringVar(&f.KeyFile, "cluster-key-file", "", fileOnly+"`file` with the key that seals what lies in etcd, the same on all nodes: a line of at least 64 hex digits, and on a second line another that still opens (default: cluster-key in the data folder)")
}

// validate checks the flags of a command that may go without etcd.
func (f *clusterFlags) validate() error {
	if f.given() {
		return f.validateAll()
	}
	var wrong mistakes
	for _, of := range []struct{ name, value string }{{"cluster-id", f.Ring}, {"node", f.Node}, {"advertise", f.Advertise}, {"etcd-cacert", f.caFile},
		{"etcd-cert", f.cert}, {"etcd-key", f.key}, {"etcd-user", f.Username}, {"etcd-password-file", f.passwordFile}, {"cluster-key-file", f.KeyFile}} {
		wrong.when(of.value != "", "%s is for --etcd, which is missing", of.name)
	}
	return errors.Join(wrong...)
}

// validateAll checks the flags of a node.
func (f *clusterFlags) validateAll() error {
	err := f.validateReach()
	if f.Node == "" {
		err = errors.Join(err, errors.New("--node is needed: the name of this node in the cluster"))
	}
	return err
}

// validateReach checks the flags of a command that asks etcd.
func (f *clusterFlags) validateReach() error {
	var wrong mistakes
	wrong.when(!f.given(), "--etcd is needed: the members of the etcd cluster")
	for _, endpoint := range f.Endpoints {
		wrong.when(!isEndpoint(endpoint), "--etcd %q is no host:port and no http or https URL of a member", endpoint)
	}
	wrong.when(f.Ring == "", "--cluster-id is needed: the name of the ring in etcd")
	wrong.when((f.cert == "") != (f.key == ""), "etcd-cert and etcd-key go together")
	wrong.when((f.Username == "") != (f.passwordFile == ""), "etcd-user and etcd-password-file go together")
	if f.Advertise != "" {
		if u, err := url.Parse(f.Advertise); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.User != nil {
			wrong = append(wrong, fmt.Errorf("advertise %q is not an http or https URL without path", f.Advertise))
		}
	}
	return errors.Join(wrong...)
}

// isEndpoint says whether s names a member of etcd.
func isEndpoint(s string) bool {
	if u, err := url.Parse(s); err == nil && (u.Scheme == "http" || u.Scheme == "https") {
		return u.Host != "" && u.User == nil
	}
	host, port, err := net.SplitHostPort(s)
	return err == nil && host != "" && port != ""
}

// reachedAt is where others reach a node that listens on listen: what advertise says, or
// else that address, if it can be reached.
func (f *clusterFlags) reachedAt(listen string, tls bool) (string, error) {
	if f.Advertise != "" {
		return strings.TrimRight(f.Advertise, "/"), nil
	}
	host, _, err := net.SplitHostPort(listen)
	if ip := net.ParseIP(host); err != nil || host == "" || ip != nil && ip.IsUnspecified() {
		return "", fmt.Errorf("advertise is needed: other nodes cannot reach this one at %q, on which it listens", listen)
	}
	if tls {
		return "https://" + listen, nil
	}
	return "http://" + listen, nil
}

// sealName is the file of the sealing keys in a data folder, and in backups.
const sealName = "cluster-key"

// sealPath is where the key lies that seals what is in etcd.
func (f *clusterFlags) sealPath(data string) string {
	if f.KeyFile != "" {
		return f.KeyFile
	}
	return filepath.Join(data, sealName)
}

// config is what a cluster needs of a node with this data folder, reached at this URL.
func (f *clusterFlags) config(data, advertise string, log *slog.Logger) (cluster.Config, error) {
	c := f.Config
	c.Advertise, c.Dir, c.KeyFile, c.Log = advertise, data, f.sealPath(data), log
	var err error
	if c.TLS, err = f.tls(); err != nil {
		return c, err
	}
	if f.passwordFile != "" {
		text, err := durable.ReadSecret(f.passwordFile)
		if err != nil {
			return c, fmt.Errorf("etcd-password-file: %w", err)
		}
		c.Password = strings.TrimRight(string(text), "\r\n")
	}
	return c, nil
}

// tls is how etcd is asked over TLS, nil for not at all.
func (f *clusterFlags) tls() (*tls.Config, error) {
	secure := f.caFile != "" || f.cert != ""
	for _, endpoint := range f.Endpoints {
		secure = secure || strings.HasPrefix(endpoint, "https://")
	}
	if !secure {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.caFile != "" {
		text, err := os.ReadFile(f.caFile)
		if err != nil {
			return nil, fmt.Errorf("etcd-cacert: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("etcd-cacert: %s holds no certificate in PEM", f.caFile)
		}
	}
	if f.cert != "" {
		read := func() (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(f.cert, f.key)
			if err != nil {
				return nil, fmt.Errorf("etcd-cert: %w", err)
			}
			return &pair, nil
		}
		if _, err := read(); err != nil {
			return nil, err
		}
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return read() }
	}
	return c, nil
}
