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
	"webring/server/ledger/cluster"
)

// What a start refuses unless the operator confirms it.
const (
	ConfirmBaseURL = "base-url" // another base URL than that of the ring
	ConfirmKeys    = "keys"     // new keys for a ring that has events
	ConfirmUser    = "user"     // root, in the folder of another user
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
	if rules := v.State().Rules(); rules != nil && !rules.Synthetic {
		return c.RingAt(rules.BaseURL, baseURL, keyFiles)
	}
	return nil
}

// RingAt is [Confirmed.Ring] for one that is at a base URL.
func (c Confirmed) RingAt(at, baseURL string, keyFiles map[string]string) error {
	var wrong []error
	if at != baseURL {
		wrong = append(wrong, c.refuse(ConfirmBaseURL, "--base-url is %s, and this ring is at %s: all edges would link to the new one, and the change stays in the ledger. Give the settings of this ring, such as its --config",
			baseURL, at))
	}
	for _, name := range slices.Sorted(maps.Keys(keyFiles)) {
		path := keyFiles[name]
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			wrong = append(wrong, c.refuse(ConfirmKeys, "%s is missing, and the ledger has events: with a new key edges would refuse this ring, or it would not know payments that were made. Take the file from a backup: tar -xf BACKUP -C '%s' %s",
				path, filepath.Dir(path), name))
		}
	}
	return errors.Join(wrong...)
}

// opened are the files of a data folder without which origin or edge do not start. Others may stand beside them.
var opened = []string{"head", "ledger", "sync", "sync-key", "sync-key-next", "mpp-secret", cluster.MarkerName, "cluster-key", "replica", "acme", "operator.sock"}

// User refuses a data folder with files that this process cannot open. root can open all, so it is refused where the
// owner of the folder could not open what root would leave beside the owner's files.
func (c Confirmed) User(data string) error {
	data = filepath.Clean(data)
	me, folder := os.Geteuid(), os.Geteuid()
	if info, err := os.Stat(data); err == nil {
		folder = ownerOf(info)
	}
	right := cmp.Or(folder, me) // the user that all should belong to
	run := ""
	if right != me {
		run = fmt.Sprintf("run webring as %s, the owner of the folder, and ", userName(right))
	}
	remedy := fmt.Sprintf("%sgive that user all files, as root: chown -R %d '%s'", run, right, data)
	look := func(path string, e fs.DirEntry, err error) error {
		var info fs.FileInfo
		if err == nil {
			info, err = e.Info()
		}
		switch {
		case errors.Is(err, fs.ErrNotExist): // it is made at the start, or was removed meanwhile
			return nil
		case errors.Is(err, fs.ErrPermission) || err == nil && e.Name() != "lost+found" && syscall.Access(path, access(data, path, info.Mode())) == syscall.EACCES:
			owner := "another user"
			if info != nil {
				owner = userName(ownerOf(info))
			}
			return fmt.Errorf("%s belongs to %s, and this process, which runs as %s, cannot open it: %s", path, owner, userName(me), remedy)
		case err != nil:
			return err
		case me == 0 && folder != 0 && path != data && ownerOf(info) == folder && !slices.Contains(c, ConfirmUser):
			return fmt.Errorf("%s belongs to %s, and this process runs as %s: it would leave files that %[2]s cannot open: %[4]s. If it must run as %[3]s, add --confirm %[5]s to every start",
				path, userName(folder), userName(me), remedy, ConfirmUser)
		case path == data || e.Name() == "lost+found": // that is of the file system
			return fs.SkipDir
		}
		return nil
	}
	for _, name := range append([]string{""}, opened...) {
		if err := filepath.WalkDir(filepath.Join(data, name), look); err != nil {
			return err
		}
	}
	return nil
}

// access is what a start does with a file, as access(2) has it: files of secrets and signatures are read only.
func access(data, path string, mode fs.FileMode) uint32 {
	const execute, write, read = 1, 2, 4
	rel, _ := filepath.Rel(data, path)
	switch first, _, _ := strings.Cut(rel, string(filepath.Separator)); {
	case mode.IsDir():
		return read | write | execute
	case first == "head" || first == "ledger" || first == "replica":
		return read | write
	case mode.IsRegular():
		return read
	}
	return 0 // a socket is made anew
}

func ownerOf(info fs.FileInfo) int { return int(info.Sys().(*syscall.Stat_t).Uid) }

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
