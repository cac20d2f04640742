package etcdstore

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
	// Founded is the id of the log there. A log that begins anew has another one.
	Founded string `json:"founded,omitempty"`
	// Folder is random: a copy of the node in another folder has another one, unless the marker was
	// copied, too.
	Folder string `json:"folder,omitempty"`
}

// ReadMarker reads the marker of a data folder. The error is [os.ErrNotExist] if the folder
// is that of a single origin.
func ReadMarker(dir string) (m Marker, err error) {
	path := filepath.Join(dir, MarkerName)
	b, err := os.ReadFile(path)
	if err != nil {
		return m, fmt.Errorf("etcdstore: %w", err)
	}
	if m, err = parseMarker(b); err != nil {
		return m, fmt.Errorf("etcdstore: %s %w", path, err)
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
		return fmt.Errorf("etcdstore: %w", err)
	}
	return nil
}

func (m Marker) write(dir string) error {
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	if err := durable.Write(filepath.Join(dir, MarkerName), append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("etcdstore: %w", err)
	}
	return nil
}

// checkMarker refuses a data folder of another ring or node.
func checkMarker(c Config) error {
	if c.Dir == "" {
		return nil
	}
	m, err := ReadMarker(c.Dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case m.Ring != c.Ring:
		return fmt.Errorf("%w: %s belongs to the ring %s, not to %s", ErrRefused, c.Dir, m.Ring, c.Ring)
	case m.Node != c.Node:
		return fmt.Errorf("%w: %s is that of the node %s, not of %s", ErrRefused, c.Dir, m.Node, c.Node)
	}
	return nil
}

// checkEtcd compares the etcd cluster that has answered with that of the marker.
func (c *Cluster) checkEtcd(id uint64) error {
	if c.c.Dir == "" {
		return nil
	}
	m, err := ReadMarker(c.c.Dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case m.Etcd != id:
		return fmt.Errorf("%w: %s belongs to the etcd cluster %x, but %x has answered; if that one takes its place, run webring cluster init on the node with the most transactions, with --force, and on the others without",
			ErrRefused, c.c.Dir, m.Etcd, id)
	}
	return nil
}

// foundingID gives the id of the log in etcd, "" if that is of a ring without one.
func foundingID(value []byte) (string, error) {
	var f founding
	if value == nil {
		return "", nil
	}
	err := decodeText(value, &f)
	return f.ID, err
}

// checkFounded refuses a node with transactions of an earlier log, which the one in etcd may
// have others in place of: it began before them, by force or in another etcd cluster. It gives
// the id of the log. A folder without a marker is a backup of a node.
func (c *Cluster) checkFounded(value []byte, own uint64) (id string, err error) {
	var f founding
	if value == nil || c.c.Dir == "" {
		return "", nil
	}
	if err := decodeText(value, &f); err != nil {
		return "", err
	}
	m, err := ReadMarker(c.c.Dir)
	if errors.Is(err, os.ErrNotExist) {
		return f.ID, nil
	}
	if err == nil && m.Founded != f.ID && own > f.Serial {
		err = fmt.Errorf("%w: the ring began anew in etcd after transaction %d, and this node has %d, of which the ring may not have the last: restore a backup of another node into an empty folder",
			ErrRefused, f.Serial, own)
	}
	return f.ID, err
}

// pin writes the marker where there is none for this log.
func (c *Cluster) pin(id uint64, founded string) error {
	if c.c.Dir == "" {
		return nil
	}
	m, err := ReadMarker(c.c.Dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) || err == nil && m.Founded == founded && m.Folder != "" {
		return err
	}
	return c.mark(m, id, founded)
}

// mark writes the marker. The folder stays the one that it was.
func (c *Cluster) mark(before Marker, id uint64, founded string) error {
	c.self.Folder = before.Folder
	if c.self.Folder == "" {
		c.self.Folder = rand.Text()
	}
	return Marker{Ring: c.c.Ring, Node: c.c.Node, Etcd: id, Founded: founded, Folder: c.self.Folder}.write(c.c.Dir)
}
