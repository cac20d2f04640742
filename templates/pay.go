package templates

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strconv"
	"strings"

	qr "github.com/piglig/go-qr"
)

// Wallet is what the parts of pages in which a person pays need to know of the ring.
type Wallet struct {
	Base     string   // the ring's URL, without a slash at its end
	Script   string   // path of the script that asks wallets
	Networks []string // on which the ring takes payments, such as "eip155:8453"
	Methods  []string // by which it takes them, such as "evm"
}

// Pays says whether a browser's wallet can pay here. It can sign for the networks of the
// method evm, and cannot make the transactions of others.
func (w Wallet) Pays() bool {
	return slices.Contains(w.Methods, "evm")
}

// request is the HTTP request to the ring that a form has a wallet pay for or prove. Its body
// has fixed fields and the fields of the form.
type request struct {
	ID     string // of the form; its fields' ids begin with it
	Method string
	Path   string // without a leading slash
	Fixed  string // JSON object, or "" for a request without a body; its only_if_rank counts while a box is on
	What   string // what is wanted, in one word that the script knows
	Name   string // of the member, or ""
	Price  string // that the page shows, or ""
	Owner  string // account that has to sign, or "" for any
	Claim  bool   // the request first names the wallet's account, and gets a token
}

// way is how a payment goes on without a wallet in this browser.
type way struct {
	Command, Prompt string
	Amount          string // in dollars
	Kept            string // what the address keeps, in a word
	Address         string // of the page that goes on with it
}

// opens says what a phone shows at the address.
func (t way) opens() string {
	if t.Kept == "page" {
		return "It opens this page there."
	}
	return "It opens this " + t.Kept + " there, one tap from paying."
}

// metaMask and coinbase open the address in the browser of a wallet app, as their makers
// document it.
func (t way) metaMask() string {
	_, rest, _ := strings.Cut(t.Address, "://")
	return "https://metamask.app.link/dapp/" + rest
}

func (t way) coinbase() string {
	return "https://go.cb-w.com/dapp?cb_url=" + url.QueryEscape(t.Address)
}

// tokens are the names of what networks that browser wallets know are paid in.
var tokens = map[string]string{"eip155:8453": "USDC on Base", "eip155:84532": "test USDC on Base Sepolia", "eip155:1": "USDC on Ethereum", "eip155:11155111": "test USDC on Ethereum Sepolia"}

// token says what a wallet has to hold.
func (w Wallet) token() string {
	for _, n := range w.Networks {
		if t := tokens[n]; t != "" {
			return t
		}
	}
	return "the dollar token that this ring takes on " + strings.Join(w.Networks, " or ")
}

// draft is the join page with a draft, as a whole URL.
func (w Wallet) draft(body string) string {
	return w.Base + "/" + DraftAddress(body)
}

// DraftAddress is the address of a draft, a JSON text, from the folder of the join page.
func DraftAddress(body string) string {
	return "join?draft=" + base64.RawURLEncoding.EncodeToString([]byte(body))
}

// member is the page of a member, as a whole URL.
func (w Wallet) member(slug string) string { return w.Base + "/members/" + slug }

// prompt is what a person tells an agent that has a wallet. It holds none of the members'
// words.
func (w Wallet) prompt(what, path, body string) string {
	return what + " Read " + w.Base + "/llms.txt first. Send POST " + w.Base + path + " with exactly this JSON body: " + body + "\n" + payingOnce +
		" If the answer is 409 rank_taken, the rank is gone and nothing was charged: tell me the new price."
}

// payingOnce tells an agent how to pay.
const payingOnce = "The answer is 402 with an amount (Machine Payments Protocol). Pay one offer, once, and send the identical request again with the credential." +
	" If the answer is 503, the payment is pending: do not pay again. Send the same request with the same credential until you get another answer."

// code is a QR code of a text, as the path of an SVG and the length of its side with the
// quiet zone around it.
func code(text string) (path string, side int) {
	q, err := qr.EncodeText(text, qr.Low)
	if err != nil {
		return "", 0 // the text is too long
	}
	const zone = 4
	side = q.Size() + 2*zone
	var b strings.Builder
	for y := range q.Size() {
		for x := 0; x < q.Size(); x++ {
			length := 0
			for x+length < q.Size() && q.Module(x+length, y) {
				length++
			}
			if length > 0 {
				b.WriteString("M" + strconv.Itoa(x+zone) + " " + strconv.Itoa(y+zone) + ".5h" + strconv.Itoa(length))
				x += length
			}
		}
	}
	return b.String(), side
}

// codeWidth is the width of a QR code in pixels of the page: whole ones for each module, and enough for
// a camera.
func codeWidth(side int) string { return strconv.Itoa(side * max(3, (176+side-1)/side)) }
