import json, os, urllib.error, urllib.request

RING = "https://ring.example"


def call(method, path, body=None, credential=None):
    """Sends a request, with a credential if there is one. A 402 is no failure: nothing was
    charged, and the document has the price and the offers to pay it."""
    headers = {"Content-Type": "application/json"}
    if credential:
        headers["Authorization"] = "Payment " + credential
    data = None if body is None else json.dumps(body).encode()
    try:
        answer = urllib.request.urlopen(urllib.request.Request(RING + path, data, headers, method=method))
    except urllib.error.HTTPError as error:
        answer = error
    document = json.load(answer)
    if answer.status >= 400 and answer.status != 402:
        raise SystemExit(f"{answer.status} {document['code']}: {document['detail']}")
    return document


slug, draft = os.environ["SLUG"], {"name": os.environ["NAME"], "url": os.environ["URL"], "kind": "agent"}

print("next:", call("GET", "/api/ring/next?from=" + slug)["member"]["url"])
print("the draft can join, for", call("POST", "/api/check", draft)["price_usd"])

# Send the same request again with the credential of one of the offers.
join = call("POST", "/api/register", draft)
print("joining:", join["amount_usd"], join["offers"])
bid = call("POST", "/api/bid", {"member": slug, "amount": "1.00"})
print("a bid:", bid["amount_usd"], bid["offers"])
change = call("PATCH", "/api/ring/" + slug, {"description": "Now with tides."})
print("a change:", change["amount_usd"], change["offers"])
