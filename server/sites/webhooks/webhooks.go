// Package webhooks sends news of members to the URLs that their owners set, as Standard Webhooks
// says (https://www.standardwebhooks.com). Package aside keeps the URLs, and how far each has come.
// It also tells a WebSub hub which feeds have news.
package webhooks

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"webring/server/aside"
	"webring/server/ledger"
	"webring/server/sites/fetch"
)

const (
	// looks is how often a sender looks for news.
	looks = 5 * time.Second
	// atOnce bounds the requests that are sent at a time, and those to slow receivers, and scanned
	// the rows of one view.
	atOnce, scanned = 16, 256
	// maxAnswer is how much of an answer is read, in bytes. Only its status counts.
	maxAnswer = 1 << 10
	// busyLeast is the least wait after a limit of this process.
	busyLeast = time.Minute
	// maxFeeds bounds the feeds that one request to a hub names.
	maxFeeds = 200
)

// patience is for how long others wait for a receiver. One that takes longer is slow: it gets the same
// letter again, apart from the others, and so its next ones, until it has answered one in time.
var patience = time.Second

// errSlow says that nobody waits for a receiver any longer.
var errSlow = errors.New("webhooks: the receiver is slow")

// Config is what a [Sender] is made of.
type Config struct {
	Ledger *ledger.Ledger
	Fetch  *fetch.Client
	Hub    string // the WebSub hub that is told which feeds have news, or ""
	Base   string // of the addresses of feeds
	Now    func() time.Time
	Log    *slog.Logger
}

// Sender sends the news of one ledger, while its process leads. It keeps nothing that a restart
// must not lose: each webhook's row says what was sent.
type Sender struct {
	Config
	next uint64 // the batch of news that was looked at last

	feeds map[string]bool // that the hub has not been told of
	hubAt time.Time       // when it may be told

	apart sync.WaitGroup // of requests to slow receivers

	mu      sync.Mutex           // taken before a view
	waiting map[string]time.Time // members that may have news to send, and since when they may be tried
	slow    map[string]bool      // members with slow receivers; true while one is sent to
	sending int                  // how many of slow are true
}

// New makes a sender.
func New(c Config) *Sender {
	return &Sender{Config: c, feeds: map[string]bool{}, waiting: map[string]time.Time{}, slow: map[string]bool{}}
}

// Run sends news until ctx ends.
func (s *Sender) Run(ctx context.Context) {
	defer s.apart.Wait()
	tick := time.NewTicker(looks)
	defer tick.Stop()
	if err := s.Resume(); err != nil {
		s.Log.Error("webhooks of earlier news are not sent", "err", err)
	}
	for {
		if err := s.Pass(ctx); err != nil && ctx.Err() == nil {
			s.Log.Warn("webhooks are not sent yet", "err", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Resume has the next pass look at all webhooks, for news that an earlier process did not send.
// Those after the present ones are found as they come.
func (s *Sender) Resume() (err error) {
	s.Ledger.View(func(v *ledger.View) { s.next, err = aside.LatestBatch(v) })
	for after, more := "", true; more && err == nil; {
		var slugs []string
		s.Ledger.View(func(v *ledger.View) { slugs, err = aside.Webhooks(v, after, scanned) })
		for _, slug := range slugs {
			after, s.waiting[slug] = slug, time.Time{}
		}
		more = len(slugs) == scanned
	}
	return err
}

// find finds the members of which there is news since the last time.
func (s *Sender) find() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for last := s.next + 1; last != s.next; {
		var slugs []string
		var err error
		last = s.next
		s.Ledger.View(func(v *ledger.View) {
			if slugs, s.next, err = aside.ToldOf(v, last); err != nil {
				return
			}
			for _, slug := range slugs {
				if s.Hub != "" && len(s.feeds) < maxFeeds {
					s.feeds["/feeds/members/"+slug], s.feeds["/feeds/joins"], s.feeds["/feeds/lead"] = true, true, true
				}
				for _, name := range aside.WebhooksOf(slug) {
					w, failed := aside.WebhookOf(v, name)
					if w != nil {
						s.waiting[name] = time.UnixMilli(w.Next) // another URL may have been set meanwhile
					}
					err = errors.Join(err, failed)
				}
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Pass sends the next news of each member whose turn has come, and waits until that is done, but not
// for slow receivers.
func (s *Sender) Pass(ctx context.Context) error {
	if err := s.find(); err != nil {
		return err
	}
	now := s.Now()
	var group errgroup.Group
	group.SetLimit(atOnce)
	if len(s.feeds) > 0 && !s.hubAt.After(now) {
		group.Go(func() error {
			s.tellHub(ctx)
			return nil
		})
	}
	s.mu.Lock()
	var due, slow []string
	for slug, at := range s.waiting {
		if sending, known := s.slow[slug]; at.After(now) || sending {
			continue
		} else if known {
			slow = append(slow, slug)
		} else {
			due = append(due, slug)
		}
	}
	s.mu.Unlock()
	for _, slug := range slow {
		s.sendApart(ctx, slug)
	}
	for _, slug := range due {
		group.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			within, cancel := context.WithTimeoutCause(ctx, patience, errSlow)
			defer cancel()
			err := s.one(ctx, within, slug)
			if errors.Is(err, errSlow) {
				s.sendApart(ctx, slug)
				return nil
			}
			return err
		})
	}
	return group.Wait()
}

// sendApart sends the next news of a member with a slow receiver, for which nobody waits: now, or in
// a later pass if there are too many.
func (s *Sender) sendApart(ctx context.Context, slug string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.slow[slug] = s.sending < atOnce; !s.slow[slug] {
		return
	}
	s.sending++
	s.apart.Go(func() {
		began := time.Now()
		err := s.one(ctx, ctx, slug)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.sending--
		if s.slow[slug] = false; err == nil && time.Since(began) < patience {
			delete(s.slow, slug)
		}
		if err != nil && ctx.Err() == nil {
			s.Log.Warn("a webhook is not sent yet", "member", slug, "err", err)
		}
	})
}

// letter gives the next news of a member, or notes when there may be some.
func (s *Sender) letter(slug string) (l *aside.Letter, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Ledger.View(func(v *ledger.View) { l, err = aside.NextLetter(v, slug) })
	switch {
	case err != nil || l == nil:
		delete(s.waiting, slug)
	case l.Next > s.Now().UnixMilli():
		s.waiting[slug] = time.UnixMilli(l.Next)
		return nil, nil
	}
	return l, err
}

// one sends the next news of a member, if there is any, while within lasts.
func (s *Sender) one(ctx, within context.Context, slug string) error {
	l, err := s.letter(slug)
	if err != nil || l == nil {
		return err
	}
	status, after, err := s.send(within, l)
	if status == 0 && ctx.Err() == nil && within.Err() != nil {
		return context.Cause(within)
	}
	if busy, is := errors.AsType[*fetch.Busy](err); is { // nothing was sent
		at := s.Now().Add(max(busy.RetryAfter, busyLeast))
		s.wait(slug, at)
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var off string
	if err := s.Ledger.Do(ctx, func(tx *ledger.Tx) (err error) {
		off, err = aside.Sent(tx, l, status, after)
		return err
	}); err != nil {
		at := s.Now().Add(busyLeast) // the ledger cannot be written
		s.wait(slug, at)
		return err
	}
	s.wait(slug, time.Time{})
	if off != "" {
		s.Log.Info("a webhook was switched off", "member", slug, "why", off, "status", status)
	}
	return nil
}

// wait notes when a member's turn is next.
func (s *Sender) wait(slug string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting[slug] = at
}

// send sends a letter. The status is 0 if there was no answer; after is how long the receiver asks
// to wait. An error says that a limit of this process was reached.
func (s *Sender) send(ctx context.Context, l *aside.Letter) (status int, after time.Duration, err error) {
	at := strconv.FormatInt(s.Now().Unix(), 10)
	answer, err := s.Fetch.Get(ctx, fetch.Request{URL: l.URL, UserAgent: "webring/1 (webhook)", MaxBody: maxAnswer, Exchange: &fetch.Exchange{
		Method: "POST", Body: l.Body, Fields: map[string]string{"Content-Type": "application/json", "webhook-id": l.ID, "webhook-timestamp": at,
			"webhook-signature": l.Sign(l.ID + "." + at + "." + string(l.Body))},
	}})
	if errors.As(err, new(*fetch.Busy)) {
		return 0, 0, err
	}
	if err != nil {
		return 0, 0, nil
	}
	if seconds, err := strconv.ParseUint(answer.Header.Get("Retry-After"), 10, 24); err == nil {
		after = time.Duration(seconds) * time.Second
	}
	return answer.Status, after, nil
}

// tellHub tells the hub which feeds have news, in one request. If that fails it is tried again
// later, together with the feeds of that time.
func (s *Sender) tellHub(ctx context.Context) {
	form := url.Values{"hub.mode": {"publish"}}
	for _, feed := range slices.Sorted(maps.Keys(s.feeds)) {
		form["hub.url"] = append(form["hub.url"], s.Base+feed+".atom", s.Base+feed+".json")
	}
	answer, err := s.Fetch.Get(ctx, fetch.Request{URL: s.Hub, UserAgent: "webring/1 (websub)", MaxBody: maxAnswer, Exchange: &fetch.Exchange{
		Method: "POST", Body: []byte(form.Encode()), Fields: map[string]string{"Content-Type": "application/x-www-form-urlencoded"},
	}})
	if err != nil || answer.Status/100 != 2 {
		s.hubAt = s.Now().Add(busyLeast)
		return
	}
	clear(s.feeds)
}
