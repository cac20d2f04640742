package templates

// Docs is the page about the API.
type Docs struct {
	Page
	Base     string
	Groups   []OperationGroup
	Files    []Operation // what is published for programs
	Steps    []Step      // how something is paid for
	Payments string      // how to pay
	Networks []string
	Fee      string
	MinBid   string
	Rule     string    // what the score has to be
	Any      []Problem // that every request can meet
	Reasons  []Reason  // why payments are refused
}

// OperationGroup are the operations on one subject.
type OperationGroup struct {
	ID, Title, Words string
	Operations       []Operation
}

// Operation is what the service does at an address.
type Operation struct {
	ID, Method, Path string
	About, More      string
	Parameters       []Parameter
	Request          string
	Status           int    // of the answer
	Answer           string // that was given to the request, or ""
	Returns          []Parameter
	Problems         []Problem // beyond those of every request
}

// Parameter is one thing that a request takes, or an answer has.
type Parameter struct {
	Name, In, Type, About string
	Required              bool
}

// Step is one message of a dialogue.
type Step struct{ Title, Words, Message string }

// Reason is one value of a problem's member reason.
type Reason struct{ Name, Meaning string }

// Problems is the page of all problem codes.
type Problems struct {
	Page
	All []Problem
}

func (v Docs) examples() string {
	return "curl " + quotedURL(v.Base+"/api/leaderboard?limit=3") + "\n" +
		"curl " + quotedURL(v.Base+"/api/ring/next") + "\n" +
		joinCommand(v.Base)
}
