package cluster

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"webring/edge/durable"
)

// MarkerName is the file in the data folder that holds the [Marker].
const MarkerName = "cluster.json"

// Marker pins a data folder to a ring in an etcd cluster, so that it is neither served as a
// single origin nor mixed with another ring.
type Marker struct {
	Ring string `json:"ring"`
	Node string `json:"node"`
	Etcd uint64 `json:"etcd,string"` // the id of the etcd cluster
	// Founded is the id of the log there. A log that begins anew gets a new one.
	Founded string `json:"founded,omitempty"`
	// Folder is random. A copy of the node in another folder has another one, unless the marker was
	// copied too.
	Folder string `json:"folder,omitempty"`
}

// ReadMarker reads the marker of a data folder. The error is [os.ErrNotExist] if the folder
// is that of a single origin.
func ReadMarker(dir string) (m Marker, err error) {
	path := filepath.Join(dir, MarkerName)
	b, err := os.ReadFile(path)
	if err != nil {
		return m, fmt.Errorf("cluster: %w", err)
	}
	if m, err = parseMarker(b); err != nil {
		return m, fmt.Errorf("cluster: %s %w", path, err)
	}
	return m, nil
}

func parseMarker(b []byte) (m Marker, err error) {
	if len(b) > maxText || json.Unmarshal(b, &m) != nil || !validName.MatchString(m.Ring) || m.Node != "" && !validName.MatchString(m.Node) || m.Etcd == 0 {
		return Marker{}, errors.New("does not name a ring, a node and an etcd cluster")
	}
	return m, nil
}

// RemoveMarker makes a data folder that of a single origin.
func RemoveMarker(dir string) error {
	err := os.Remove(filepath.Join(dir, MarkerName))
	if err == nil {
		err = durable.SyncFolder(dir)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("cluster: %w", err)
	}
	return nil
}

func (m Marker) write(dir string) error {
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	if err := durable.Write(filepath.Join(dir, MarkerName), append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	return nil
}

// ownMarker is the marker of a data folder, the zero one if the folder has none or is not given. A
// folder without a marker is a backup of a node.
func ownMarker(dir string) (Marker, error) {
	if dir == "" {
		return Marker{}, nil
	}
	m, err := ReadMarker(dir)
	if errors.Is(err, os.ErrNotExist) {
		return Marker{}, nil
	}
	return m, err
}

// checkMarker refuses a data folder of another ring or node.
func checkMarker(c Config) error {
	m, err := ownMarker(c.Dir)
	switch {
	case err != nil || m.Ring == "":
		return err
	case m.Ring != c.Ring:
		return fmt.Errorf("%w: %s belongs to the ring %s, not to %s", ErrRefused, c.Dir, m.Ring, c.Ring)
	case m.Node != c.Node:
		return fmt.Errorf("%w: %s is that of the node %s, not of %s", ErrRefused, c.Dir, m.Node, c.Node)
	}
	return nil
}

// checkEtcd compares the etcd cluster that has answered with that of the marker.
func (m Marker) checkEtcd(dir string, id uint64) error {
	if m.Ring == "" || m.Etcd == id {
		return nil
	}
	return fmt.Errorf("%w: %s belongs to the etcd cluster %x, but %x has answered; if that one takes its place, run webring cluster init on the node with the most transactions, with --force, and on the others without",
		ErrRefused, dir, m.Etcd, id)
}

// checkFounded refuses a node with transactions of an earlier log. The log in etcd may have others
// in their place: it began before them, by force or in another etcd cluster. It gives the id of the
// log in etcd.
func (m Marker) checkFounded(found values, k keyspace, own uint64) (id string, err error) {
	var f founding
	err = found.text(k.founded(), &f)
	if err == nil && m.Ring != "" && m.Founded != f.ID && own > f.Serial {
		err = fmt.Errorf("%w: the ring began anew in etcd after transaction %d, and this node has %d, of which the ring may not have the last: restore a backup of another node into an empty folder",
			ErrRefused, f.Serial, own)
	}
	return f.ID, err
}

// mark writes the marker for a log. The folder keeps its id.
func (c *Cluster) mark(before Marker, etcd uint64, founded string) error {
	if c.c.Dir == "" {
		return nil
	}
	if c.self.Folder = before.Folder; c.self.Folder == "" {
		c.self.Folder = rand.Text()
	}
	return Marker{Ring: c.c.Ring, Node: c.c.Node, Etcd: etcd, Founded: founded, Folder: c.self.Folder}.write(c.c.Dir)
}
