package monitor

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"webring/edge/follow"
	"webring/edge/tlog"
)

// answer is what a ring answers at a path. Seq is its Webring-Seq, and date the second of its
// Date; both are 0 where the answer has none.
type answer struct {
	body []byte
	seq  uint64
	date int64
}

// answers gives the answers of a ring, each of at most so many bytes. Paths begin with a slash.
type answers interface {
	get(ctx context.Context, path string, most int64) (answer, error)
}

const (
	// requestTime bounds one request, and attempts how often a request is sent that fails.
	requestTime = 2 * time.Minute
	attempts    = 4
	// leastRest and mostRest bound the wait before the next attempt.
	leastRest, mostRest = time.Second, time.Minute
)

// site gives the answers of a ring's site. With a folder, it keeps them there, and asks for
// nothing again that never changes.
type site struct {
	url    string
	dir    string // "" for none
	client *http.Client
	bytes  atomic.Int64 // that came, compressed

	mu        sync.Mutex
	saved     []string // the paths of answers that never change, as they came
	discarded bool     // so nothing more is saved
}

// uncheckedName is the file in the folder with the paths of answers that never change and that no
// verification has come to the end with: one that was killed, or lost the network, leaves them.
const uncheckedName = "unchecked"

func newSite(url, dir string) (s *site, err error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost, transport.ResponseHeaderTimeout = tlog.Ahead, 30*time.Second
	s = &site{url: strings.TrimRight(url, "/"), dir: dir, client: &http.Client{
		Transport: transport, Timeout: requestTime,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if dir != "" {
		s.saved, err = folder(dir).unchecked()
	}
	return s, err
}

func (s *site) get(ctx context.Context, path string, most int64) (answer, error) {
	if s.dir != "" && forGood(path) {
		if a, err := folder(s.dir).get(ctx, path, most); err == nil {
			return a, nil
		}
	}
	for attempt := 1; ; attempt++ {
		a, rest, err := s.ask(ctx, path, most)
		if err == nil && s.dir != "" {
			err = s.save(path, a)
		}
		if err == nil || rest == 0 || attempt >= attempts && !errors.Is(err, errBusy) {
			return a, err
		}
		if err := follow.Rest(ctx, rest); err != nil {
			return a, err
		}
	}
}

func (s *site) save(path string, a answer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.discarded { // it was asked for ahead
		return nil
	}
	if forGood(path) {
		s.saved = append(s.saved, path)
		if err := folder(s.dir).note(path); err != nil {
			return err
		}
	}
	return folder(s.dir).put(path, a)
}

// end forgets which answers were not checked. If something was found to be wrong, it removes them
// first: that may be in them, and they would never be asked for again.
func (s *site) end(wrong bool) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dir == "" {
		return nil
	}
	names := []string{uncheckedName}
	if s.discarded = wrong; wrong {
		names = slices.Concat(s.saved, names)
	}
	for _, name := range names {
		if gone := os.Remove(folder(s.dir).file(name)); !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}
	return err
}

var (
	errBusy   = errors.New("the site asks to wait")
	errStatus = errors.New("status")
)

// ask sends one request. After an error, it may be sent again after a rest, if that is not 0.
func (s *site) ask(ctx context.Context, path string, most int64) (a answer, rest time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
	if err != nil {
		return a, 0, err
	}
	req.Header.Set("Accept-Encoding", "gzip")
	res, err := s.client.Do(req)
	if err != nil {
		return a, leastRest, err
	}
	defer res.Body.Close()
	switch status := res.StatusCode; {
	case status == http.StatusOK:
	case status == http.StatusTooManyRequests:
		seconds, _ := strconv.Atoi(res.Header.Get("Retry-After"))
		return a, min(max(time.Duration(seconds)*time.Second, leastRest), mostRest), fmt.Errorf("%s: %w", path, errBusy)
	case status >= 500:
		return a, leastRest, fmt.Errorf("%s was answered with %w %d", path, errStatus, status)
	default:
		return a, 0, fmt.Errorf("%s was answered with %w %d", path, errStatus, status)
	}
	came := &counted{Reader: res.Body}
	body := io.Reader(came)
	if res.Header.Get("Content-Encoding") == "gzip" {
		if body, err = gzip.NewReader(came); err != nil {
			return a, leastRest, fmt.Errorf("%s: %w", path, err)
		}
	}
	a.body, err = io.ReadAll(io.LimitReader(body, most+1))
	s.bytes.Add(came.n)
	if err != nil {
		return a, leastRest, fmt.Errorf("%s: %w", path, err)
	}
	if int64(len(a.body)) > most {
		return a, 0, fmt.Errorf("%s has more than the %d bytes that it may have", path, most)
	}
	a.seq, _ = strconv.ParseUint(res.Header.Get("Webring-Seq"), 10, 63)
	if date, err := http.ParseTime(res.Header.Get("Date")); err == nil {
		a.date = date.Unix()
	}
	return a, 0, nil
}

// counted counts what was read.
type counted struct {
	io.Reader
	n int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += int64(n)
	return n, err
}

// forGood reports whether the answer at a path never changes.
func forGood(path string) bool {
	return strings.HasPrefix(path, "/log/tile/") || strings.HasPrefix(path, "/log/texts/")
}

// folder gives the answers that were saved there, under the paths that they had at the site.
// Beside an answer with a position lies a file .head with its position and second.
type folder string

func (f folder) get(_ context.Context, path string, most int64) (a answer, err error) {
	name := f.file(path)
	info, err := os.Stat(name)
	if err != nil {
		return a, err
	}
	if info.Size() > most {
		return a, fmt.Errorf("%s has more than the %d bytes that it may have", name, most)
	}
	if a.body, err = os.ReadFile(name); err != nil || forGood(path) {
		return a, err
	}
	head, err := os.ReadFile(name + ".head")
	if errors.Is(err, fs.ErrNotExist) {
		return a, nil
	}
	if err == nil {
		_, err = fmt.Sscanf(string(head), headForm, &a.seq, &a.date)
	}
	return a, err
}

const headForm = "%d events at second %d\n"

// put saves an answer. A tile takes the place of the partial ones that are in it.
func (f folder) put(path string, a answer) error {
	name := f.file(path)
	whole, _, _ := strings.Cut(name, ".p"+string(filepath.Separator))
	if forGood(path) {
		if err := os.RemoveAll(whole + ".p"); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	if err := write(name, a.body); err != nil || a.seq == 0 {
		return err
	}
	return write(name+".head", fmt.Appendf(nil, headForm, a.seq, a.date))
}

// note notes that the answer at a path is not checked yet.
func (f folder) note(path string) error {
	if err := os.MkdirAll(string(f), 0o755); err != nil {
		return err
	}
	list, err := os.OpenFile(f.file(uncheckedName), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = list.WriteString("\n" + path)
	return errors.Join(err, list.Close())
}

// unchecked gives the paths that were noted.
func (f folder) unchecked() (paths []string, err error) {
	text, err := os.ReadFile(f.file(uncheckedName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, path := range strings.Fields(string(text)) {
		if forGood(path) && filepath.IsLocal(path[1:]) {
			paths = append(paths, path)
		}
	}
	return paths, err
}

// write writes a file that has its name only when it is whole.
func write(name string, data []byte) error {
	part := name + ".part"
	if err := os.WriteFile(part, data, 0o644); err != nil {
		return err
	}
	return os.Rename(part, name)
}

func (f folder) file(path string) string {
	return filepath.Join(string(f), filepath.FromSlash(path))
}
