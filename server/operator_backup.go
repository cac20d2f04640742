package server

import (
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"

	"webring/server/backup"
	"webring/server/ledger"
	"webring/server/paid"
)

// Verified is the result of a verification.
type Verified struct {
	ledger.Audit
	Chain *paid.ChainAudit `json:"chain,omitempty"` // on request
}

func (o *Operator) backup(w http.ResponseWriter, _ *http.Request) {
	sendBackup(w, o.Ledger, o.Keys(), o.Log)
}

// sendBackup streams a backup of a ledger and of the files that are kept beside it. If the
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

func (o *Operator) verify(w http.ResponseWriter, r *http.Request) {
	a, err := o.Ledger.Audit(r.Context())
	if err != nil {
		o.failed(w, "verifying the ledger", err)
		return
	}
	v := Verified{Audit: *a}
	if r.URL.Query().Has("chain") {
		c, err := o.Payments.VerifyChain(r.Context())
		if err != nil {
			o.failed(w, "verifying payments", err)
			return
		}
		v.Chain = &c
	}
	reply(w, v)
}
