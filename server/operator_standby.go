package server

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"webring/server/ledger"
)

// ClusterStatus is what `webring version` and /status show of a node of a cluster.
type ClusterStatus struct {
	Node  string    `json:"node"`
	Role  string    `json:"role"` // leader, standby or refused
	Since time.Time `json:"since"`
	// Reason is why the node is refused.
	Reason string `json:"reason,omitempty"`
	// Leader is the node that leads and LeaderURL where it is reached; both are empty while
	// this node knows of none.
	Leader    string `json:"leader"`
	LeaderURL string `json:"leader_url"`
	// Serial is the last transaction that is durable here, and Epoch the term of a leader,
	// 0 for any other.
	Serial uint64 `json:"serial"`
	Epoch  int64  `json:"epoch"`
}

// StandbyBooks are what is read of the ledger of a node that does not write it.
type StandbyBooks interface {
	View(func(*ledger.View))
	Root() (size uint64, root tlog.Hash)
	Rows(func(ledger.Row) error) error
	Audit(ctx context.Context) (*ledger.Audit, error)
}

// Standby is [Operator] for a node of a cluster that does not lead.
type Standby struct {
	// Books are those of the node, nil while it opens them.
	Books StandbyBooks
	// Keys gives the files that a backup holds in addition to the ledger: paths by name.
	Keys func() map[string]string
	// Cluster says what the node's part in the cluster is.
	Cluster func() *ClusterStatus
	Log     *slog.Logger
}

// Handler answers the operator as [Operator.Handler] does to
//
//	GET /status
//	GET /backup
//	GET /verify
//
// and refuses everything else, which is for the node that leads.
func (o *Standby) Handler() http.Handler {
	mux := http.NewServeMux()
	if o.Books != nil {
		mux.HandleFunc("GET /status", answering(o.Log, func(*http.Request) (any, error) { return statusOf(o.Books, o.Cluster()), nil }))
		mux.HandleFunc("GET /backup", func(w http.ResponseWriter, _ *http.Request) { sendBackup(w, o.Books, o.Keys(), o.Log) })
		mux.HandleFunc("GET /verify", answering(o.Log, o.verify))
	}
	mux.HandleFunc("/", answering(o.Log, o.notHere))
	return mux
}

func (o *Standby) verify(r *http.Request) (any, error) {
	if r.URL.Query().Has("chain") {
		return o.notHere(r)
	}
	a, err := o.Books.Audit(r.Context())
	if err != nil {
		return nil, err
	}
	return Verified{Audit: *a}, nil
}

// notHere says where an operator is to ask for what only the leader does.
func (o *Standby) notHere(*http.Request) (any, error) {
	c := o.Cluster()
	if c.Leader == "" || c.Leader == c.Node {
		return nil, refused{http.StatusConflict, fmt.Sprintf("the node %s does not lead at the moment, and knows of no node that does: ask again in a few seconds", c.Node)}
	}
	return nil, refused{http.StatusConflict, fmt.Sprintf("the node %s does not lead: ask on the machine of %s, which leads and is reached at %s", c.Node, c.Leader, c.LeaderURL)}
}
