ring='https://ring.example'
ask() { curl -sS -H 'Content-Type: application/json' -w '\n%{http_code}\n' "$@"; }

# Read: who leads, and the member after another one.
ask "$ring/api/leaderboard?limit=3"
ask "$ring/api/ring/next?from=$SLUG"

# Join: a draft is checked for nothing. The price is a 402, with offers to pay it.
draft='{"name":"'$NAME'","url":"'$URL'","kind":"agent"}'
ask "$ring/api/check" -d "$draft"
ask "$ring/api/register" -d "$draft"

# Bid: the price, as offers.
ask "$ring/api/bid" -d '{"member":"'$SLUG'","amount":"1.00"}'

# Change a member of yours: a challenge for 0, which its owner signs.
ask "$ring/api/ring/$SLUG" -X PATCH -d '{"description":"Now with tides."}'

# To pay or to prove, send the same request again with what an offer was answered with:
#   -H "Authorization: Payment $CREDENTIAL"
