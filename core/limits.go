package core

// Limits of the ring. They are part of the fold: a ledger that holds an event
// beyond one of them does not load.
const (
	// MaxAmount is the highest single amount in cents: USD 1,000,000.00.
	MaxAmount = 100_000_000
	// MaxTotal is the highest total of one member in cents. It leaves the
	// product of a total and a decay span well inside 128 bits.
	MaxTotal = 1<<36 - 1
	// MaxWindow is the longest grace period or decay span in seconds,
	// a hundred years.
	MaxWindow = 100 * 365 * 24 * 3600
	// MaxStamp is the last millisecond that RFC 3339 can write, the end of
	// the year 9999.
	MaxStamp = 253402300799999

	// MaxName and MaxDescription count Unicode code points.
	MaxName        = 80
	MaxDescription = 300
	// MaxURL counts the characters of a canonical URL.
	MaxURL = 300
	// MaxReport counts the bytes of a report link.
	MaxReport = 2048
	// MaxSlug and MaxCategory count bytes.
	MaxSlug     = 48
	MaxCategory = 32

	// MaxCategories is how many categories may be in use before a new one is
	// refused, ahead of any payment.
	MaxCategories = 1024
	// maxCategoriesFold is where the fold itself stops. It lies above
	// MaxCategories because a challenge that was issued under the limit is a
	// promise, and several of them may be outstanding when the limit is met.
	maxCategoriesFold = 4 * MaxCategories

	// ReturnSpan is for how many milliseconds an owner can take back that its member has
	// [Departed]: seven days. The fold does not ask: those who append events do.
	ReturnSpan = 7 * 24 * 3600 * 1000

	// MaxEvent is the longest encoding of an event in bytes, and MaxTexts
	// that of the texts of one.
	MaxEvent = 8 << 10
	MaxTexts = 8 << 10
	// MaxLogo bounds the drawing of the ring's logo in bytes.
	MaxLogo = 2048
	// maxNetworks is how many payment networks the rules may name.
	maxNetworks = 16
	// MaxNote bounds the free words of the operator and the names of
	// services, methods and accounts, in bytes.
	MaxNote = 1024
)

// Kind says what a member is.
type Kind uint8

// The kinds of members. The zero Kind is none of them; [State.Select]
// takes it for all.
const (
	Agent Kind = 1 + iota
	MCP
	Website
)

var kindNames = [...]string{Agent: "agent", MCP: "mcp", Website: "website"}

// String gives the kind's name in documents, or "" for no kind.
func (k Kind) String() string {
	if int(k) >= len(kindNames) {
		return ""
	}
	return kindNames[k]
}

// ParseKind reads the name of a kind, exactly as documents spell it.
func ParseKind[S ~string | ~[]byte](name S) (Kind, bool) {
	for k := Agent; k <= Website; k++ {
		if kindNames[k] == string(name) {
			return k, true
		}
	}
	return 0, false
}

// ValidCategory says whether name is a category: ^[a-z0-9][a-z0-9-]{0,31}$.
func ValidCategory(name string) bool {
	if len(name) == 0 || len(name) > MaxCategory || name[0] == '-' {
		return false
	}
	return slugBytes(name)
}

// validSlug says whether name has the form of a slug. Unlike a category it
// does not end in a hyphen.
func validSlug(name string) bool {
	if len(name) == 0 || len(name) > MaxSlug || name[0] == '-' || name[len(name)-1] == '-' {
		return false
	}
	return slugBytes(name)
}

func slugBytes(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-') {
			return false
		}
	}
	return true
}
