package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"webring/core"
	"webring/server/backup"
	"webring/server/ledger"
	"webring/server/paid"
	"webring/server/publish"
	"webring/server/sites/score/local"
)

// Operator is the running origin's interface for its operator: HTTP on a socket in the
// data folder, which the permissions of the folder protect. A second process cannot open
// the ledger, so the operator's commands use this socket.
type Operator struct {
	Ledger   *ledger.Ledger
	Payments *paid.Service
	// Keys gives the files that a backup holds in addition to the ledger: paths by name.
	Keys func() map[string]string
	// Publisher signs for edges.
	Publisher *publish.Publisher
	// Cluster says what the part of this node in a cluster is; nil for the only origin.
	Cluster func() *ClusterStatus
	Log     *slog.Logger
}

// Status is what `webring version` shows of a running origin.
type Status struct {
	Name    string `json:"name"`
	BaseURL string `json:"base_url"`
	// Synthetic says that the ring was made for measurement.
	Synthetic bool   `json:"synthetic,omitempty"`
	Members   int    `json:"members"`
	Events    uint64 `json:"events"`
	Root      string `json:"root"` // RFC 6962 tree hash over the events, base64
	Open      int    `json:"open_reservations"`
	// Unconfirmed are the payments that their network could still undo.
	Unconfirmed int `json:"unconfirmed_payments"`
	// PaidCents and VoidedCents are the books: what was credited, and what of
	// it vanished again.
	PaidCents   int64 `json:"paid_cents"`
	VoidedCents int64 `json:"voided_cents"`
	// Cluster is missing for the only origin.
	Cluster *ClusterStatus `json:"cluster,omitempty"`
}

// Row is a member as its operator sees it, hidden and removed ones too.
type Row struct {
	Slug       string    `json:"slug"`
	Name       string    `json:"name"`
	URL        string    `json:"url"`
	Kind       string    `json:"kind"`
	Category   string    `json:"category"`
	Hidden     bool      `json:"hidden"`
	Removed    bool      `json:"removed"`
	Rank       int       `json:"rank"` // 0 when not in the ring
	TotalCents int64     `json:"total_cents"`
	Joined     time.Time `json:"joined_at"`
	Open       int       `json:"open_reservations"`
}

// Removal asks for a member to be taken out of the ring.
type Removal struct {
	Code   string `json:"code"`   // a code of [core.Reasons]; "" stands for "other"
	Reason string `json:"reason"` // words; in the ledger, which is public, unless Redact is set
	Redact bool   `json:"redact"`
	Block  bool   `json:"block"` // put the site's host on the blocklist, too
	By     string `json:"by"`    // the account that asks
}

// maxOperatorBody bounds what the socket reads, in bytes.
const maxOperatorBody = 16 << 10

// rowsPerAnswer bounds one page of the members' list.
const rowsPerAnswer = 1000

// Listen opens the socket at path, and replaces one that an ended process has left. The
// caller has the ledger open, so no other origin can use that.
func (o *Operator) Listen(path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	// The kernel bounds the length of a socket's address.
	if len(path) > 100 {
		return nil, fmt.Errorf("server: the operator socket %s has a path of more than 100 bytes; choose a data folder with a shorter one", path)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("server: operator socket: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// Handler answers the operator:
//
//	GET  /status                  Status
//	GET  /members?after=N         up to 1000 Rows in join order, from row N
//	GET  /members/{slug}          Row
//	POST /members/{slug}/removal  Removal → Row
//	POST /members/{slug}/hiding   Moderation → Row
//	POST /members/{slug}/showing  Moderation → Row
//	GET  /blocklist               ledger.Block rows by kind and value
//	POST /blocklist/additions     Blocking → ledger.Block
//	POST /blocklist/removals      Blocking → ledger.Block
//	GET  /payments?after=ID       up to 1000 PaymentRows in the order of ids
//	GET  /payments/{reference}    PaymentRow by id or transaction
//	GET  /gas                     risk.Wasted
//	GET  /scan?since=TIME         Scan
//	POST /scan?since=TIME         Scan; the daily look goes on where it ended
//	POST /adjustments             paid.Adjustment → Adjusted
//	POST /keys/next               SigningKeys
//	POST /keys/switch             SigningKeys
//	POST /clock/back              Moderation → Clock
//	GET  /backup                  a backup, as package backup writes it
//	GET  /verify[?chain=yes]      Verified
//
// Errors are plain text.
func (o *Operator) Handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, f := range map[string]func(*http.Request) (any, error){
		"GET /status":                  o.status,
		"GET /members":                 o.members,
		"GET /members/{slug}":          o.member,
		"POST /members/{slug}/removal": o.remove,
		"POST /members/{slug}/hiding":  o.hide,
		"POST /members/{slug}/showing": o.show,
		"GET /blocklist":               o.blocklist,
		"POST /blocklist/additions":    o.block,
		"POST /blocklist/removals":     o.unblock,
		"GET /payments":                o.payments,
		"GET /payments/{reference}":    o.payment,
		"GET /gas":                     func(*http.Request) (any, error) { return o.Payments.GasWasted(), nil },
		"GET /scan":                    o.scan,
		"POST /scan":                   o.scan,
		"POST /adjustments":            o.adjust,
		"POST /clock/back":             o.setClockBack,
		"POST /keys/next":              o.announceKey,
		"POST /keys/switch":            o.switchKey,
		"GET /verify":                  o.verify,
	} {
		mux.HandleFunc(pattern, answering(o.Log, f))
	}
	mux.HandleFunc("GET /backup", func(w http.ResponseWriter, _ *http.Request) { sendBackup(w, o.Ledger, o.Keys(), o.Log) })
	return mux
}

// refused is an error that the operator caused, with the status that says so.
type refused struct {
	status int
	text   string
}

func (e refused) Error() string { return e.text }

// answering answers with the JSON of what f gives. It logs errors that are not [refused].
func answering(log *slog.Logger, f func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, err := f(r)
		no, ok := errors.AsType[refused](err)
		switch {
		case err == nil:
			w.Header().Set("Content-Type", "application/json")
			enc := json.NewEncoder(w)
			enc.SetIndent("", "  ")
			// A client that is gone cannot be told.
			_ = enc.Encode(v)
		case ok:
			http.Error(w, no.text, no.status)
		default:
			log.Error("the operator's request failed", "path", r.URL.Path, "err", err)
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}
}

func (o *Operator) status(*http.Request) (any, error) {
	var cluster *ClusterStatus
	if o.Cluster != nil {
		cluster = o.Cluster()
	}
	return statusOf(o.Ledger, cluster), nil
}

// statusOf is what is shown of a ledger, and of the node's part in a cluster.
func statusOf(books StandbyBooks, cluster *ClusterStatus) (s Status) {
	books.View(func(v *ledger.View) {
		st := v.State()
		s = Status{Members: st.Len(), Events: st.Seq(), Open: len(v.Open()), Unconfirmed: len(v.Unconfirmed()), Cluster: cluster}
		if r := st.Rules(); r != nil { // a node of a new cluster may have none yet
			s.Name, s.BaseURL, s.Synthetic = r.Name, r.BaseURL, r.Synthetic
		}
		s.PaidCents, s.VoidedCents = st.Books()
	})
	_, root := books.Root()
	s.Root = root.String()
	return s
}

// now advances the state to the present second, so that ranks are up to date.
func (o *Operator) now(ctx context.Context) error {
	return o.Ledger.Do(ctx, func(*ledger.Tx) error { return nil })
}

func (o *Operator) members(r *http.Request) (any, error) {
	after := 0
	if text := r.URL.Query().Get("after"); text != "" {
		var err error
		if after, err = strconv.Atoi(text); err != nil || after < 0 {
			return nil, refused{http.StatusBadRequest, "after must be a row number"}
		}
	}
	if err := o.now(r.Context()); err != nil {
		return nil, err
	}
	rows := []Row{}
	o.Ledger.View(func(v *ledger.View) {
		for i := after; i < v.State().Rows() && len(rows) < rowsPerAnswer; i++ {
			rows = append(rows, row(v, core.Ordinal(i)))
		}
	})
	return rows, nil
}

func (o *Operator) member(r *http.Request) (found any, err error) {
	if err := o.now(r.Context()); err != nil {
		return nil, err
	}
	slug := r.PathValue("slug")
	err = noMember(slug)
	o.Ledger.View(func(v *ledger.View) {
		if at, ok := v.State().BySlug([]byte(slug)); ok {
			found, err = row(v, at), nil
		}
	})
	return found, err
}

func noMember(slug string) error {
	return refused{http.StatusNotFound, "no member has the slug " + slug}
}

func row(v *ledger.View, at core.Ordinal) Row {
	m := v.State().Member(at)
	open, _ := v.OpenOnMember(m.Slug)
	return Row{Slug: strings.Clone(m.Slug), Name: strings.Clone(m.Name), URL: strings.Clone(m.URL), Kind: m.Kind.String(),
		Category: strings.Clone(m.Category), Hidden: m.Hidden, Removed: m.Removed,
		Rank: v.State().Rank(at), TotalCents: m.Total(), Joined: time.UnixMilli(m.Joined).UTC(), Open: open}
}

// remove takes a member out of the ring permanently. Payments that are open still count for it.
func (o *Operator) remove(r *http.Request) (any, error) {
	var req Removal
	why, words, err := readWhy(r, &req, &req.Code, &req.Reason, "{code, reason, redact, block, by}")
	if err != nil {
		return nil, err
	}
	if req.Redact {
		words = nil // nothing could redact them later
	}
	slug := r.PathValue("slug")
	err = o.Ledger.Do(r.Context(), func(tx *ledger.Tx) error {
		if req.Block {
			if err := keepOut(tx, slug, req); err != nil {
				return err
			}
		}
		if req.Redact { // reports name the sites, too
			if err := removeReports(tx, slug); err != nil {
				return err
			}
		}
		_, err := tx.Append(&core.Removed{Stamp: tx.Stamp(), Member: slug, Redacted: req.Redact, Why: why}, words)
		return err
	})
	if err != nil {
		return nil, notModerated(slug, err)
	}
	o.Log.Info("member removed", paid.Audit, "moderation", "member", slug, "reason", why.Code.String(), "redacted", req.Redact, "blocked", req.Block, "by", req.By)
	return o.member(r)
}

// readReasoned is [readOrder] for orders that need a reason.
func readReasoned(r *http.Request, order any, reason *string, form string) error {
	if err := readOrder(r, order, reason, form); err != nil {
		return err
	}
	if *reason == "" {
		return refused{http.StatusBadRequest, "a reason is required"}
	}
	return nil
}

// readOrder decodes the body into order, and the reason also into reason. It refuses a body of
// another form, and a reason longer than an event keeps.
func readOrder(r *http.Request, order any, reason *string, form string) error {
	d := json.NewDecoder(http.MaxBytesReader(nil, r.Body, maxOperatorBody))
	d.DisallowUnknownFields()
	if err := d.Decode(order); err != nil {
		return refused{http.StatusBadRequest, "the body must be " + form + ": " + err.Error()}
	}
	if len(*reason) > core.MaxNote {
		return refused{http.StatusBadRequest, fmt.Sprintf("the reason has %d bytes, and %d are kept", len(*reason), core.MaxNote)}
	}
	return nil
}

// removeReports removes the reports behind the scores that a member has had, of each of its
// URLs, if this origin serves them.
func removeReports(tx *ledger.Tx, slug string) error {
	links, err := tx.View().Reports(slug)
	if err != nil {
		return err
	}
	for _, link := range links {
		if _, id, ours := strings.Cut(link, ReportsPath); ours {
			if err := local.Remove(tx, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// Verified is the result of a verification.
type Verified struct {
	ledger.Audit
	Chain *paid.ChainAudit `json:"chain,omitempty"` // on request
}

// sendBackup streams a backup of a ledger and of the files that are kept with it. If the
// stream breaks it lacks its end, so the reader knows.
func sendBackup(w http.ResponseWriter, books backup.Rows, files map[string]string, log *slog.Logger) {
	var keys []backup.File
	for _, name := range slices.Sorted(maps.Keys(files)) {
		data, err := os.ReadFile(files[name])
		if err != nil {
			log.Error("reading a key for a backup", "err", err)
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		keys = append(keys, backup.File{Name: name, Data: data})
	}
	w.Header().Set("Content-Type", "application/x-tar")
	if err := backup.Write(w, books, keys); err != nil {
		log.Error("backup not finished", "err", err)
		panic(http.ErrAbortHandler)
	}
	// The client says whether it has stored the file.
	log.Info("backup handed out")
}

func (o *Operator) verify(r *http.Request) (any, error) {
	a, err := o.Ledger.Audit(r.Context())
	if err != nil {
		return nil, err
	}
	v := Verified{Audit: *a}
	if r.URL.Query().Has("chain") {
		c, err := o.Payments.VerifyChain(r.Context())
		if err != nil {
			return nil, err
		}
		v.Chain = &c
	}
	return v, nil
}

// Clock says how the clock of a ring was set back.
type Clock struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// setClockBack sets the clock of the ring back to the present, after one that was ahead has
// stamped events or signed checkpoints.
func (o *Operator) setClockBack(r *http.Request) (any, error) {
	var req Moderation
	if err := readOrder(r, &req, &req.Reason, "{reason, by}"); err != nil {
		return nil, err
	}
	var done Clock
	err := o.Ledger.Do(r.Context(), func(tx *ledger.Tx) error {
		done = Clock{From: time.UnixMilli(tx.State().LastStamp()).UTC()}
		if signed := o.Publisher.SignedUntil().UTC(); signed.After(done.From) {
			done.From = signed
		}
		if done.To = tx.Now().UTC(); done.From.Sub(done.To) <= ledger.MaxSkew {
			return refused{http.StatusConflict, "nothing is to be set back: neither the last event nor the last signature is later than this machine's clock"}
		}
		_, err := tx.SetBack(req.Reason)
		return err
	})
	if errors.Is(err, ledger.ErrNotNow) {
		return nil, refused{http.StatusConflict, err.Error()}
	}
	if err != nil {
		return nil, err
	}
	o.Log.Info("the clock of the ring was set back", paid.Audit, "clock", "from", done.From, "to", done.To, "by", req.By)
	return done, nil
}

// announceKey announces the next key.
func (o *Operator) announceKey(*http.Request) (any, error) {
	current, next, err := o.Publisher.Announce()
	if err != nil {
		return nil, err
	}
	o.Log.Info("the next key that signs for edges is announced", "current", current, "next", next)
	return SigningKeys{current, next}, nil
}

// switchKey has the announced key sign alone, at once if now=yes.
func (o *Operator) switchKey(r *http.Request) (any, error) {
	wait := publish.LearnTime
	if r.URL.Query().Get("now") == "yes" {
		wait = 0
	}
	current, err := o.Publisher.SwitchKey(wait)
	switch {
	case errors.Is(err, publish.ErrNoNext):
		return nil, refused{http.StatusConflict, "no next key is announced: run webring key next, and give edges the time to learn of it"}
	case errors.Is(err, publish.ErrTooSoon):
		return nil, refused{http.StatusConflict, fmt.Sprintf("the next key was announced less than %d minutes ago, and an edge that has not learned of it would follow no more: wait, or add --now when webring version --data DIR shows it at every edge", int(publish.LearnTime.Minutes()))}
	case err != nil:
		return nil, err
	}
	o.Log.Info("another key signs for edges from now on, and the one before is destroyed", "current", current)
	return SigningKeys{Current: current}, nil
}

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
