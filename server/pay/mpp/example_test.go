package mpp_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"webring/server/pay/mpp"
)

// A service offers to be paid with a challenge, a client answers with a
// credential that echoes it, and the service confirms with a receipt. What the
// payload means is the payment method's to say: see packages tempo and evm.
func Example() {
	keys := mpp.Keys{Current: []byte("a secret of at least 32 bytes, kept in a file")}
	body := []byte(`{"member":"ada","amount":"2.00"}`)
	now := time.Date(2026, 1, 2, 8, 0, 0, 0, time.UTC)

	// The service: a 402 with WWW-Authenticate.
	request, err := mpp.EncodeJSON(map[string]string{"amount": "2000000", "currency": "0x20c0…", "recipient": "0x1111…"})
	if err != nil {
		panic(err)
	}
	challenge := mpp.Challenge{Realm: "ring.example.org", Method: "tempo", Intent: mpp.Charge, Request: request,
		Expires: now.Add(5 * time.Minute).Format(time.RFC3339), Digest: mpp.Digest(body)}
	keys.Sign(&challenge)
	scheme, _, _ := strings.Cut(challenge.Header(), " ")
	fmt.Println("WWW-Authenticate:", scheme)

	// The client: the same request again, with Authorization.
	credential := mpp.Credential{Challenge: challenge, Payload: json.RawMessage(`{"type":"transaction","signature":"0x76…"}`)}
	authorization, err := credential.Header()
	if err != nil {
		panic(err)
	}

	// The service: cheap checks first.
	got, found, err := mpp.ParseAuthorization([]string{authorization})
	if err != nil || !found {
		panic(err)
	}
	expires, err := got.Challenge.ExpiresAt()
	if err != nil {
		panic(err)
	}
	fmt.Println("ours:", keys.Verify(got.Challenge))
	fmt.Println("the same body:", got.Challenge.Digest == mpp.Digest(body))
	fmt.Println("in time:", now.Before(expires))
	changed := got.Challenge
	changed.Request = "eyJhbW91bnQiOiIxIn0" // another amount
	fmt.Println("with another amount:", keys.Verify(changed))

	// Settled: a 2xx with Payment-Receipt.
	receipt := mpp.Receipt{Method: "tempo", Reference: "0xabcd…", Timestamp: now}
	var shown struct {
		Status string `json:"status"`
	}
	if err := mpp.DecodeJSON(receipt.Header(), &shown); err != nil {
		panic(err)
	}
	fmt.Println("receipt:", shown.Status)
	// Output:
	// WWW-Authenticate: Payment
	// ours: true
	// the same body: true
	// in time: true
	// with another amount: false
	// receipt: success
}
