package mpp

import "time"

// Receipt says that a payment was verified and settled. It goes out on 2xx
// answers only, in Payment-Receipt, with Cache-Control: private, and like a
// credential it stays out of logs.
type Receipt struct {
	Method    string    // "tempo"
	Reference string    // the transaction hash, lower-case 0x hex
	Timestamp time.Time // of settlement
}

// Header is the value of the Payment-Receipt field: base64url of canonical
// JSON. Equal receipts have equal headers, so a stored response repeats it
// byte for byte.
func (r Receipt) Header() string {
	text, err := EncodeJSON(struct {
		Method    string `json:"method"`
		Reference string `json:"reference"`
		Status    string `json:"status"`
		Timestamp string `json:"timestamp"`
	}{r.Method, r.Reference, "success", r.Timestamp.UTC().Format("2006-01-02T15:04:05.000Z")})
	if err != nil {
		panic("mpp: a receipt of plain strings does not encode: " + err.Error())
	}
	return text
}
