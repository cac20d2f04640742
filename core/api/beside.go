package api

// Document is an answer from what the origin keeps outside the ledger, which no core has.
type Document struct {
	Status int
	Media  string // Content-Type
	Body   []byte // it never changes
	MaxAge int    // for how many seconds it may be kept
	Seq    uint64 // ledger position of the members' words in it, 0 if it has none
}

// Refusal is a Document with a problem. rest goes into it as [AppendProblem] says.
func Refusal(baseURL string, code Code, detail, rest string) Document {
	return Document{Status: code.Status(), Media: "application/problem+json", Body: AppendProblem(nil, baseURL, code, detail, []byte(rest))}
}
