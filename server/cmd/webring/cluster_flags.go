package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"webring/edge/durable"
	"webring/server/ledger/cluster"
)

// clusterFlags say in which etcd cluster a ring is, and which of its nodes this one is.
// Without endpoints an origin is the only one.
type clusterFlags struct {
	endpoints             list
	ring, node, advertise string
	caFile, cert, key     string
	user, passwordFile    string
	sealFile              string
}

// given says whether the origin is one of several.
func (f *clusterFlags) given() bool { return len(f.endpoints) > 0 }

// define defines the flags by which a command reaches the ring in etcd.
func (f *clusterFlags) define(fs *flag.FlagSet) {
	fs.Var(&f.endpoints, "etcd", "`host:port` or URL of a member of the etcd cluster through which several origins keep one ledger (repeatable)")
	fs.StringVar(&f.ring, "cluster-id", "", "`name` of the ring in etcd, the same on all nodes")
	fs.StringVar(&f.node, "node", "", "`name` of this node, which no other node has")
	fs.StringVar(&f.caFile, "etcd-cacert", "", fileOnly+"`file` with the certificates, in PEM, by which etcd is known; with it, or with an https URL, etcd is asked over TLS (default: those of the system)")
	fs.StringVar(&f.cert, "etcd-cert", "", fileOnly+"`file` with the TLS certificate that this node shows to etcd; it is read at each connection")
	fs.StringVar(&f.key, "etcd-key", "", fileOnly+"`file` with the key of that certificate")
	fs.StringVar(&f.user, "etcd-user", "", fileOnly+"`name` under which this node authenticates to etcd")
	fs.StringVar(&f.passwordFile, "etcd-password-file", "", fileOnly+"`file` with the password of that user")
	fs.StringVar(&f.sealFile, "cluster-key-file", "", fileOnly+"`file` with the key that seals what lies in etcd, the same on all nodes: a line of at least 64 hex digits, and on a second line another that still opens (default: cluster-key in the data folder)")
}

// defineAdvertise defines what only a running node has.
func (f *clusterFlags) defineAdvertise(fs *flag.FlagSet) {
	fs.StringVar(&f.advertise, "advertise", "", fileOnly+"`URL` by which other nodes and edges reach this one (default: the address that it listens on)")
}

// validate checks the flags of a command that may go without etcd.
func (f *clusterFlags) validate() error {
	if f.given() {
		return f.validateAll()
	}
	var errs []error
	for _, of := range []struct{ name, value string }{{"cluster-id", f.ring}, {"node", f.node}, {"advertise", f.advertise}, {"etcd-cacert", f.caFile},
		{"etcd-cert", f.cert}, {"etcd-key", f.key}, {"etcd-user", f.user}, {"etcd-password-file", f.passwordFile}, {"cluster-key-file", f.sealFile}} {
		if of.value != "" {
			errs = append(errs, fmt.Errorf("%s is for --etcd, which is missing", of.name))
		}
	}
	return errors.Join(errs...)
}

// validateAll checks the flags of a node.
func (f *clusterFlags) validateAll() error {
	err := f.validateReach()
	if f.node == "" {
		err = errors.Join(err, errors.New("--node is needed: the name of this node in the cluster"))
	}
	return err
}

// validateReach checks the flags of a command that asks etcd.
func (f *clusterFlags) validateReach() error {
	var errs []error
	if !f.given() {
		errs = append(errs, errors.New("--etcd is needed: the members of the etcd cluster"))
	}
	for _, endpoint := range f.endpoints {
		if !isEndpoint(endpoint) {
			errs = append(errs, fmt.Errorf("--etcd %q is no host:port and no http or https URL of a member", endpoint))
		}
	}
	if f.ring == "" {
		errs = append(errs, errors.New("--cluster-id is needed: the name of the ring in etcd"))
	}
	if (f.cert == "") != (f.key == "") {
		errs = append(errs, errors.New("etcd-cert and etcd-key go together"))
	}
	if (f.user == "") != (f.passwordFile == "") {
		errs = append(errs, errors.New("etcd-user and etcd-password-file go together"))
	}
	if f.advertise != "" {
		if u, err := url.Parse(f.advertise); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.User != nil {
			errs = append(errs, fmt.Errorf("advertise %q is not an http or https URL without path", f.advertise))
		}
	}
	return errors.Join(errs...)
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
	if f.advertise != "" {
		return strings.TrimRight(f.advertise, "/"), nil
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
	if f.sealFile != "" {
		return f.sealFile
	}
	return filepath.Join(data, sealName)
}

// config is what a cluster needs of a node with this data folder, reached at this URL.
func (f *clusterFlags) config(data, advertise string, log *slog.Logger) (cluster.Config, error) {
	c := cluster.Config{Endpoints: f.endpoints, Username: f.user, Ring: f.ring, Node: f.node, Advertise: advertise, Dir: data,
		KeyFile: f.sealPath(data), Log: log}
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
	for _, endpoint := range f.endpoints {
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
