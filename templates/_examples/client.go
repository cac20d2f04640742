package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"
)

const ring = "https://ring.example"

// call sends a request, with a credential if there is one. A 402 is no failure: nothing was
// charged, and the document has the price and the offers to pay it.
func call(method, path string, body any, credential string) (status int, document map[string]any) {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			log.Fatal(err)
		}
	}
	req, err := http.NewRequest(method, ring+path, bytes.NewReader(text))
	if err != nil {
		log.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if credential != "" {
		req.Header.Set("Authorization", "Payment "+credential)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		log.Fatal(err)
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(&document); err != nil {
		log.Fatal(err)
	}
	if res.StatusCode >= 400 && res.StatusCode != http.StatusPaymentRequired {
		log.Fatal(res.Status, ": ", document["code"], ": ", document["detail"])
	}
	return res.StatusCode, document
}

func main() {
	slug := os.Getenv("SLUG")
	draft := map[string]any{"name": os.Getenv("NAME"), "url": os.Getenv("URL"), "kind": "agent"}
	bid := map[string]any{"member": slug, "amount": "1.00"}
	change := map[string]any{"description": "Now with tides."}

	_, next := call("GET", "/api/ring/next?from="+slug, nil, "")
	fmt.Println("next:", next["member"].(map[string]any)["url"])
	_, checked := call("POST", "/api/check", draft, "")
	fmt.Println("the draft can join, for", checked["price_usd"])

	// Send the same request again with the credential of one of the offers.
	_, price := call("POST", "/api/register", draft, "")
	fmt.Println("joining:", price["amount_usd"], price["offers"])
	_, price = call("POST", "/api/bid", bid, "")
	fmt.Println("a bid:", price["amount_usd"], price["offers"])
	_, proof := call("PATCH", "/api/ring/"+slug, change, "")
	fmt.Println("a change:", proof["amount_usd"], proof["offers"])
}
