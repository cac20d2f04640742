package server

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"os/user"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"webring/core"
	"webring/server/ledger"
)

// What a start refuses unless the operator confirms it.
const (
	ConfirmBaseURL = "base-url" // another base URL than that of the ring
	ConfirmKeys    = "keys"     // new keys for a ring that has events
	ConfirmUser    = "user"     // files of several users
)

// Confirmed is what the operator has confirmed.
type Confirmed []string

func (c Confirmed) refuse(what, format string, args ...any) error {
	if slices.Contains(c, what) {
		return nil
	}
	return fmt.Errorf(format+". If you want this all the same, start once with --confirm "+what, args...)
}

// Ring refuses a start that would change for everybody what they know the ring by: its base URL, or its keys, in files
// that are missing. A ring that was made for measurement has neither users nor edges.
func (c Confirmed) Ring(v *ledger.View, baseURL string, keyFiles map[string]string) error {
	rules := v.State().Rules()
	if rules == nil || rules.Synthetic {
		return nil
	}
	var wrong []error
	if rules.BaseURL != baseURL {
		wrong = append(wrong, c.refuse(ConfirmBaseURL, "--base-url is %s, and this ring is at %s: all edges would link to the new one, and the change stays in the ledger. Give the settings of this ring, such as its --config",
			baseURL, rules.BaseURL))
	}
	for _, name := range slices.Sorted(maps.Keys(keyFiles)) {
		path := keyFiles[name]
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			wrong = append(wrong, c.refuse(ConfirmKeys, "%s is missing, and the ledger has events: with a new key edges would refuse this ring, or it would not know payments that were made. Take the file from a backup: tar -xf BACKUP %s",
				path, name))
		}
	}
	return errors.Join(wrong...)
}

// User refuses a data folder with files of another user than this process runs as. root may write into any folder, so
// for root the folder itself must be its own, too.
func (c Confirmed) User(data string) error {
	me, folder := os.Geteuid(), 0
	return filepath.WalkDir(data, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // it is made at the start, or was removed meanwhile
			return nil
		}
		if err != nil {
			return err
		}
		if e.Name() == "lost+found" { // of the file system
			return fs.SkipDir
		}
		info, err := e.Info()
		if err != nil { // it was removed meanwhile
			return nil
		}
		owner := int(info.Sys().(*syscall.Stat_t).Uid)
		if path == data {
			folder = owner
		}
		if owner == me || path == data && me != 0 {
			return nil
		}
		return cmp.Or(c.refuse(ConfirmUser, "%s belongs to the user %s, and this process runs as %s: neither can open what the other writes. Run webring as %s, the owner of the folder, and give it all files: chown -R %[4]s '%s'",
			path, userName(owner), userName(me), userName(folder), data), fs.SkipAll)
	})
}

func userName(id int) string {
	if u, err := user.LookupId(strconv.Itoa(id)); err == nil {
		return u.Username
	}
	return strconv.Itoa(id)
}

// rulesInWords are the names of rules as settings have them, with their units. The others have those of their fields.
var rulesInWords = map[string]string{"BaseURL": "base-url", "Fee": "fee, in cents", "MinBid": "min-bid, in cents", "Grace": "grace, in seconds", "Decay": "decay, in seconds"}

// logChanges logs each rule of the ring that has changed.
func logChanges(log *slog.Logger, from, to *core.Rules) {
	was, is := reflect.ValueOf(*from), reflect.ValueOf(*to)
	for i := range was.NumField() {
		name, x, y := was.Type().Field(i).Name, was.Field(i).Interface(), is.Field(i).Interface()
		if name != "Stamp" && !reflect.DeepEqual(x, y) {
			log.Warn("a rule of the ring has changed, for all its edges, and the ledger keeps it", "rule", cmp.Or(rulesInWords[name], strings.ToLower(name)), "from", x, "to", y)
		}
	}
}
