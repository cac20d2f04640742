package aside

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"webring/core"
	"webring/core/api"
	"webring/server/ledger"
)

// Webhook is where the owner of a member wants its news sent, and how far that has come. Only the
// origin has it: no event holds the URL, because events are public.
type Webhook struct {
	URL   string       `json:"url,omitempty"` // "" once it is off
	Owner core.Account `json:"owner"`         // that set the URL
	Seed  []byte       `json:"seed"`          // of the key that signs for this member alone
	Told  uint64       `json:"told"`          // the number of the last news that was sent, or is too old to be sent
	Tries int          `json:"tries,omitempty"`
	Next  int64        `json:"next,omitempty"`  // when to try again, in milliseconds
	Since int64        `json:"since,omitempty"` // when the first of Tries failed, or when it was switched off
	Off   string       `json:"off,omitempty"`   // why it is off

	lost *Lost // by its owner, which it tells
}

// Why a webhook is off.
const (
	gone    = "gone"    // its receiver answered 410
	failing = "failing" // no try of [retries] succeeded
)

// retries are the waits of the schedule that Standard Webhooks recommends. A webhook that fails
// once more after the last of them is switched off.
var retries = [...]time.Duration{5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour,
	10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour}

// WebhookKey is the public key of a webhook in the form of Standard Webhooks.
func (w *Webhook) WebhookKey() string {
	public := ed25519.NewKeyFromSeed(w.Seed).Public().(ed25519.PublicKey)
	return "whpk_" + base64.StdEncoding.EncodeToString(public)
}

// Sign gives the value of webhook-signature for what is signed: id, timestamp and body, with full
// stops between them.
func (w *Webhook) Sign(content string) string {
	return "v1a," + base64.StdEncoding.EncodeToString(ed25519.Sign(ed25519.NewKeyFromSeed(w.Seed), []byte(content)))
}

const webhookPrefix = "w"

// formerly is the name of the webhook of a member's earlier owner, which is sent what happens to the member
// for as long as the owner can take it back. No slug holds a slash.
func formerly(slug string) string { return slug + "/" }

// WebhookOf gives a webhook by its name, which is the slug of its member or one of [Webhooks], nil if
// there is none. One that was set by an earlier owner, or whose member has left, is none.
func WebhookOf(v *ledger.View, name string) (*Webhook, error) {
	w, err := readWebhook(v, name)
	if err != nil || w == nil {
		return nil, err
	}
	if slug, former := strings.CutSuffix(name, "/"); former {
		lost, err := LostOf(v, slug, v.State().Clock()*1000)
		if err != nil || lost == nil || lost.Owner != w.Owner {
			return nil, err
		}
		w.lost = lost
	} else if !w.holds(v.State(), slug) {
		return nil, nil
	}
	return w, nil
}

func readWebhook(v *ledger.View, name string) (*Webhook, error) {
	b, err := v.Value(ledger.News, webhookPrefix+name)
	if err != nil || b == nil {
		return nil, err
	}
	w := &Webhook{}
	if err := json.Unmarshal(b, w); err != nil {
		return nil, err
	}
	if len(w.Seed) != ed25519.SeedSize {
		return nil, errors.New("aside: a webhook without a key")
	}
	return w, nil
}

func (w *Webhook) holds(st *core.State, slug string) bool {
	o, known := st.BySlug([]byte(slug))
	if !known {
		return false
	}
	_, departed := st.Departed(o)
	m := st.Member(o)
	return !departed && !m.Removed && m.Owner == w.Owner
}

func (w *Webhook) write(tx *ledger.Tx, name string) error {
	b, err := json.Marshal(w)
	if err != nil {
		return err
	}
	return tx.Put(ledger.News, webhookPrefix+name, b)
}

// SetWebhook sets the URL of a member's webhook for its owner, or deletes the webhook if url is
// "". The key stays while the owner does. News from now on are sent.
func SetWebhook(tx *ledger.Tx, slug string, owner core.Account, url string) error {
	w, err := readWebhook(tx.View(), slug)
	if err != nil {
		return err
	}
	if url == "" {
		if w == nil {
			return nil
		}
		return tx.Put(ledger.News, webhookPrefix+slug, nil)
	}
	s, err := readStatus(tx.View())
	if err != nil {
		return err
	}
	next := &Webhook{URL: url, Owner: owner}
	if s != nil {
		next.Told = s.batch<<idBits | (1<<idBits - 1)
	}
	if w != nil && w.Owner == owner {
		next.Seed = w.Seed
	} else {
		next.Seed = make([]byte, ed25519.SeedSize)
		rand.Read(next.Seed) // never fails
	}
	return next.write(tx, slug)
}

// dropWebhook deletes the webhook of the member of an event, if the event has ended it: the member
// left, or has another owner. If the owner can take the member back, the webhook stays to tell it, and
// is the member's again when it has. dropWebhook is called after the event was applied, and after
// what [observeLost] gives. A row that is left sends nothing.
func dropWebhook(tx *ledger.Tx, e core.Event) error {
	switch e.(type) {
	case *core.Left, *core.Departed, *core.Removed, *core.Claimed, *core.Returned:
	default:
		return nil
	}
	slug := core.MemberOf(e)
	w, err := readWebhook(tx.View(), slug)
	former, failed := readWebhook(tx.View(), formerly(slug))
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	if former != nil && former.holds(tx.State(), slug) {
		err = errors.Join(former.write(tx, slug), tx.Put(ledger.News, webhookPrefix+formerly(slug), nil))
	} else if w != nil && !w.holds(tx.State(), slug) {
		lost, failed := LostOf(tx.View(), slug, tx.Stamp())
		if failed != nil {
			return failed
		}
		if lost != nil && lost.Owner == w.Owner {
			err = w.write(tx, formerly(slug))
		}
		err = errors.Join(err, tx.Put(ledger.News, webhookPrefix+slug, nil))
	}
	if errors.Is(err, ledger.ErrTurn) {
		return nil
	}
	return err
}

// Letter is news for a webhook.
type Letter struct {
	Webhook
	Name string // of the webhook
	ID   string // the same for each try
	Body []byte
	news uint64
}

// NextLetter gives the oldest news that a webhook has not sent, nil if there is none. What is sent are
// the news an owner may want to act on.
func NextLetter(v *ledger.View, name string) (*Letter, error) {
	w, err := WebhookOf(v, name)
	if err != nil || w == nil || w.Off != "" {
		return nil, err
	}
	st, slug := v.State(), strings.TrimSuffix(name, "/")
	o, _ := st.BySlug([]byte(slug))
	items, err := itemsAt(v, memberKey(o))
	if err != nil {
		return nil, err
	}
	for _, i := range items {
		if i.id <= w.Told || !w.tells(i.kind) {
			continue
		}
		list, err := events(v, []item{i})
		if err != nil {
			return nil, err
		}
		if len(list) == 0 { // the member is hidden
			return nil, nil
		}
		data := struct {
			event
			Regain string            `json:"to_regain_usd,omitempty"`
			Until  string            `json:"take_back_until,omitempty"`
			Links  map[string]string `json:"links"`
		}{event: list[0], Links: map[string]string{"member": baseURL(st) + "/api/ring/" + slug, "bid": baseURL(st) + "/api/bid"}}
		if w.lost != nil {
			data.Until, data.Links["return"] = instant(w.lost.Until), data.Links["member"]+"/return"
		}
		if i.kind == outbid && data.By != "" && st.Rank(i.by) > 0 && st.Rank(i.by) < st.Rank(o) {
			if cents, _, ok := st.ToPass(o, i.by); ok {
				data.Regain = string(api.AppendUSD(nil, cents))
			}
		}
		l := &Letter{Webhook: *w, Name: name, ID: slug + "_" + strconv.FormatUint(i.id, 10), news: i.id}
		l.Body, err = json.Marshal(map[string]any{"type": "member." + data.Type, "timestamp": data.At, "data": data})
		return l, err
	}
	return nil, nil
}

// tells says whether a webhook sends news of a kind.
func (w *Webhook) tells(k kind) bool {
	switch k {
	case outbid, fading, asleep, awake:
		return w.lost == nil
	case claimed, moved, left:
		return w.lost != nil
	}
	return false
}

// Sent notes what came of a try to send a letter: status is the answer, 0 for none. after is how
// long the receiver asks to wait. It reports why the webhook is off by this try, "" if it is not.
func Sent(tx *ledger.Tx, l *Letter, status int, after time.Duration) (off string, err error) {
	w, err := readWebhook(tx.View(), l.Name)
	if err != nil || w == nil || w.URL != l.URL || w.Told >= l.news {
		return "", err // it was changed meanwhile
	}
	switch {
	case status/100 == 2:
		w.Told, w.Tries, w.Next, w.Since = l.news, 0, 0, 0
	case status == 410, w.Tries == len(retries):
		if w.Off = failing; status == 410 {
			w.Off = gone
		}
		w.URL, w.Since = "", tx.Stamp()
	default:
		if w.Tries == 0 {
			w.Since = tx.Stamp()
		}
		wait := max(retries[w.Tries], min(after, retries[len(retries)-1]))
		w.Tries, w.Next = w.Tries+1, tx.Stamp()+wait.Milliseconds()
	}
	return w.Off, w.write(tx, l.Name)
}

// Webhooks gives the names of up to n webhooks, in their order, behind a name.
func Webhooks(v *ledger.View, after string, n int) (names []string, err error) {
	rows, err := v.Scan(ledger.News, webhookPrefix, webhookPrefix+after+"\x00", n)
	for _, row := range rows {
		names = append(names, row.Key[len(webhookPrefix):])
	}
	return names, err
}

// WebhooksOf gives the names of the webhooks that may tell the news of a member.
func WebhooksOf(slug string) [2]string { return [2]string{slug, formerly(slug)} }

// batchesAtOnce is how many batches of news one view reads.
const batchesAtOnce = 64

// LatestBatch is the number of the latest batch of news.
func LatestBatch(v *ledger.View) (uint64, error) {
	s, err := readStatus(v)
	if err != nil || s == nil {
		return 0, err
	}
	return s.batch, nil
}

// ToldOf gives the members of the news in some batches after the one with the number since, and the
// number to go on with, which is since at the end. It leaves out batches that are no longer kept.
func ToldOf(v *ledger.View, since uint64) (slugs []string, next uint64, err error) {
	latest, err := LatestBatch(v)
	if err != nil {
		return nil, since, err
	}
	if latest > Batches {
		since = max(since, latest-Batches)
	}
	for next = since; next < min(latest, since+batchesAtOnce); next++ {
		items, err := itemsAt(v, batchKey(next+1))
		if err != nil {
			return nil, since, err
		}
		for _, i := range items {
			if slug, some := shown(v.State(), i.member); some {
				slugs = append(slugs, slug)
			}
		}
	}
	return slugs, next, nil
}

// webhookState is what a member's news say of its webhook, which anyone may read.
type webhookState struct {
	Key   string `json:"key"`
	State string `json:"state"` // on, retrying, or why it is off
	Since string `json:"since,omitempty"`
}

func (w *Webhook) state() *webhookState {
	if w == nil {
		return nil
	}
	s := &webhookState{Key: w.WebhookKey(), State: "on"}
	if w.Tries > 0 {
		s.State = "retrying"
	}
	if w.Off != "" {
		s.State = w.Off
	}
	if w.Since != 0 {
		s.Since = instant(w.Since)
	}
	return s
}
