package cluster

import (
	"cmp"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"sync"
	"time"

	"google.golang.org/grpc"
)

// Config says which ring a node belongs to, and how it reaches etcd.
type Config struct {
	// Endpoints are the members of etcd, as host:port or URLs.
	Endpoints []string
	// TLS is for connections to etcd; nil means none.
	TLS *tls.Config
	// Username and Password authenticate to etcd, if it asks.
	Username, Password string
	// Ring names the ring in etcd. It is the same on all nodes.
	Ring string
	// Node names this node. No other node may have the name.
	Node string
	// Advertise is the URL by which others reach this node.
	Advertise string
	// Dir is the data folder, in which a marker names the ring and the etcd cluster. Without
	// it no marker is read or written.
	Dir string
	// KeyFile holds one or two keys that seal the values in etcd; see [NewKeyFile]. The first is the
	// newest, and seals as soon as all nodes have it. Both open. The node reads the file again while
	// it takes part.
	KeyFile string
	// Shared gives the fingerprints of the secrets that must be the same on all nodes, by name: the
	// one in use first, then the others that the node knows; see [Fingerprint]. It may be called at
	// any time. If it is nil, no secrets are compared.
	Shared func() map[string][]string
	// Now is the wall clock, for what is shown of nodes; nil stands for [time.Now].
	// Deadlines go by the monotonic clock.
	Now func() time.Time
	// Log gets what an operator should know; nil discards it.
	Log *slog.Logger
	// Unfenced takes the comparisons out of all writes, so that tests can show that their checks find
	// what then goes wrong.
	Unfenced bool

	// Of tests: options of the connections to etcd, and other bounds than the usual ones.
	dial         []grpc.DialOption
	lease, stall time.Duration
	tailBound    int64
}

var (
	// ErrRefused says that this node must not take part in the ring. The message says why and what
	// to do. A retry does not help.
	ErrRefused = errors.New("cluster: refused")
	// ErrTooOld says that the tail begins after what this node has. It needs a backup of
	// another node.
	ErrTooOld = errors.New("cluster: the tail in etcd does not reach back to what this node has; restore a backup of another node")
	// ErrNotLeading says that this node does not lead.
	ErrNotLeading = errors.New("this node no longer leads")
	// ErrLost says that a term has ended and that another node may lead.
	ErrLost = errors.New("cluster: this node no longer leads")
	// ErrResigned says that a term was ended on purpose.
	ErrResigned = errors.New("cluster: this node has handed over")
)

// The usual bounds.
const (
	// defaultLease is how long a leader that does not answer still leads. etcd takes no less than 2 s.
	defaultLease = 3 * time.Second
	// defaultTail is how many bytes the tail may have. It is well below the quota of etcd's database.
	defaultTail = 512 << 20
	// defaultStall is how long the local store of a leader may take for one commit. A disk that hangs
	// does not fail, and the node would keep its lease.
	defaultStall = 10 * time.Second
)

var validName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// Cluster is a node's view of the ring in etcd. All methods may be called concurrently, except that
// only one of [Cluster.Stand], [Cluster.Follow] and a [Term] may be in use at a time.
type Cluster struct {
	c       Config
	keys    keyspace
	members *members
	sealer  *sealer
	log     *slog.Logger

	self        instance // changed by Stand only
	displaces   string   // the process that had the name of this node when this one began
	displacedBy string   // the process that has come under the name of this node

	mu       sync.Mutex // guards those below
	until    int64      // the last that was seen
	untilRev int64      // and at which revision
	leader   Leader
	changed  chan struct{} // closed when leader changes
	trouble  error         // with etcd, since no node was known to lead
	unfit    error         // why this node can take no payments
	since    time.Time     // when that began
	back     time.Time     // until when it stands back, since it gave way
}

// Leader is the node that leads; the zero Leader is none.
type Leader struct {
	Node string `json:"node"`
	URL  string `json:"url"`
}

// Open checks the configuration, and reads the keys and the marker. It does not wait for etcd.
func Open(c Config) (*Cluster, error) {
	if len(c.Endpoints) == 0 {
		return nil, errors.New("cluster: no endpoints of etcd are given")
	}
	if !validName.MatchString(c.Ring) {
		return nil, fmt.Errorf("cluster: %q cannot name a ring: use up to 63 letters, digits, dots, dashes and underscores", c.Ring)
	}
	if c.Node != "" && !validName.MatchString(c.Node) {
		return nil, fmt.Errorf("cluster: %q cannot name a node: use up to 63 letters, digits, dots, dashes and underscores", c.Node)
	}
	c.lease, c.stall, c.tailBound = cmp.Or(c.lease, defaultLease), cmp.Or(c.stall, defaultStall), cmp.Or(c.tailBound, defaultTail)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	sealer, err := newSealer(c.KeyFile, c.Ring)
	if err != nil {
		return nil, err
	}
	if err := checkMarker(c); err != nil {
		return nil, err
	}
	members, err := dial(c)
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	return &Cluster{c: c, keys: keyspace("/ring/" + c.Ring + "/"), members: members, sealer: sealer, log: c.Log,
		self: instance{Process: rand.Text()}, changed: make(chan struct{})}, nil
}

// Close closes the connections to etcd. Nothing may be in work.
func (c *Cluster) Close() error { return c.members.close() }

// Leader gives the node that leads, as far as this node knows while it follows or leads. The channel
// is closed when that changes.
func (c *Cluster) Leader() (Leader, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.leader, c.changed
}

func (c *Cluster) setLeader(l Leader) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l != (Leader{}) {
		c.trouble = nil
	}
	if c.leader == l {
		return
	}
	c.leader = l
	close(c.changed)
	c.changed = make(chan struct{})
}

// Trouble says why this node neither leads nor knows a leader, as far as it has seen; nil if it has seen
// no reason.
func (c *Cluster) Trouble() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.trouble
}

// Until is the time up to which checkpoints were signed, in ms, as far as this node has seen.
func (c *Cluster) Until() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.until
}

// sawUntil keeps the time of the latest revision, which may be an earlier time.
func (c *Cluster) sawUntil(rev, ms int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if rev >= c.untilRev {
		c.until, c.untilRev = ms, rev
	}
}

var (
	errNotKnown  = errors.New("it is not known yet whether it can take payments")
	errStoodBack = errors.New("it gave way to another node a short time ago, because it could take no payments then, and stands back for a while")
)

// setUnfit takes why this node can take no payments now, nil if it can.
func (c *Cluster) setUnfit(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unfit == nil && err != nil {
		c.since = time.Now()
	}
	c.unfit = err
}

// unfitness says why this node can take no payments, and since when; nil if it can.
func (c *Cluster) unfitness() (since time.Time, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.since, c.unfit
}

// standBack has this node be no better than one that can take no payments, for a while.
func (c *Cluster) standBack(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.back = time.Now().Add(d)
}

// holdsBack says why this node should lead only if no other does; nil if it may at once.
func (c *Cluster) holdsBack() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unfit == nil && time.Now().Before(c.back) {
		return errStoodBack
	}
	return c.unfit
}
