package monitor

import (
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"webring/edge/durable"
	log "webring/edge/tlog"
)

// Memory is the folder in which the last verified checkpoint of each ring lies, with the key
// that it was verified by, and which logs each URL has shown: a ring that takes another name does not
// leave its past behind. "" remembers nothing. A file begins with the verifier, and after an
// empty line comes the checkpoint as it was signed.
type Memory string

// remembered is what was verified last.
type remembered struct {
	key    string // verifier
	signed []byte // checkpoint
}

// file is the file of the ring that has this origin line.
func (m Memory) file(origin string) string {
	return filepath.Join(string(m), url.PathEscape(origin)+".checkpoint")
}

// recall gives what was verified last, and nothing if that was never.
func (m Memory) recall(origin string) (last remembered, err error) {
	if m == "" {
		return last, nil
	}
	text, err := os.ReadFile(m.file(origin))
	if errors.Is(err, fs.ErrNotExist) {
		return last, nil
	}
	key, signed, _ := strings.Cut(string(text), "\n\n")
	return remembered{key, []byte(signed)}, err
}

// remember keeps what was verified, in place of what was verified before.
func (m Memory) remember(origin string, last remembered) error {
	if m == "" {
		return nil
	}
	return m.write(m.file(origin), append([]byte(last.key+"\n\n"), last.signed...))
}

// names is the file with the origin lines of the logs that a URL has shown, one a line.
func (m Memory) names(site string) string {
	return filepath.Join(string(m), url.PathEscape(strings.TrimRight(site, "/"))+".names")
}

// shown remembers that a URL shows the log with this origin line, and gives those that it showed
// before under other names.
func (m Memory) shown(site, origin string) (others []string, err error) {
	if m == "" || site == "" {
		return nil, nil
	}
	text, err := os.ReadFile(m.names(site))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	known := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	others = slices.DeleteFunc(slices.Clone(known), func(name string) bool { return name == origin || name == "" })
	if slices.Contains(known, origin) {
		return others, nil
	}
	return others, m.write(m.names(site), append(text, origin+"\n"...))
}

// Keys gives the verifiers by which the ring with this origin line was verified last.
func (m Memory) Keys(origin string) ([]string, error) {
	last, err := m.recall(origin)
	return strings.Fields(last.key), err
}

// Evidence writes evidence against a ring, and gives the path of the file.
func (m Memory) Evidence(c *log.Contradiction) (path string, err error) {
	if m == "" {
		return "", errors.New("there is no folder for it")
	}
	origin, _, _ := strings.Cut(string(c.Earlier), "\n")
	path = strings.TrimSuffix(m.file(origin), ".checkpoint") + ".contradiction"
	return path, m.write(path, c.Text())
}

func (m Memory) write(path string, text []byte) error {
	if err := os.MkdirAll(string(m), 0o700); err != nil {
		return err
	}
	return durable.Write(path, text, 0o600)
}
