package tempo

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"webring/server/pay/mpp"
	"webring/server/pay/paytest"
)

// recorded is what the reference client and viem made;
// server/devchain/README.md says how.
type recorded struct {
	Now                 int64
	Currency, Recipient common.Address
	Memos               []struct {
		ChallengeID, ServerID, ClientID string
		Memo                            common.Hash
	}
	Credentials []recordedCredential
	Proofs      []struct{ Name, Authorization, Account string }
}

type recordedCredential struct {
	Name, Challenge, Authorization, Source, Raw, Hash, Sender, Signature string
	Memo                                                                 common.Hash
	ValidBefore, ValidAfter, Gas                                         uint64
	MaxFeePerGas                                                         int64
}

func readRecorded(t testing.TB) recorded {
	t.Helper()
	raw, err := os.ReadFile("testdata/mppx.json")
	if err != nil {
		t.Fatal(err)
	}
	var r recorded
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Credentials) == 0 {
		t.Fatal("nothing is recorded")
	}
	return r
}

func newMethod(t testing.TB, cfg Config) *Method {
	t.Helper()
	if cfg.RPC == "" {
		cfg.RPC = "http://127.0.0.1:1"
	}
	if cfg.ChainID == 0 {
		cfg.ChainID = 42431
	}
	m, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// oldForm is the recorded signature that the chain takes no longer.
const oldForm = "keychain, first version"

// Credentials of the reference client decode, with every kind of signature
// that viem can make and the chain takes, to the sender, times and hash that viem sees in them.
func TestDecodeReferenceClient(t *testing.T) {
	r := readRecorded(t)
	m := newMethod(t, Config{Currency: r.Currency, Recipient: r.Recipient})
	for _, v := range r.Credentials {
		t.Run(v.Name, func(t *testing.T) {
			cred, found, err := mpp.ParseAuthorization([]string{v.Authorization})
			if err != nil || !found {
				t.Fatalf("found %v, %v", found, err)
			}
			if !strings.Contains(v.Challenge, cred.Challenge.ID) {
				t.Error("the credential echoes another challenge")
			}
			p, err := take(m, cred, time.Unix(r.Now, 0))
			if v.Name == oldForm {
				var no *mpp.Rejection
				if !errors.As(err, &no) {
					t.Errorf("%v, want a rejection: no block takes it", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := "0x" + hex.EncodeToString(p.Raw); got != v.Raw {
				t.Errorf("canonical bytes\n%s, viem's\n%s", got, v.Raw)
			}
			if p.Reference != v.Hash || p.ReplayKey != "tempo:42431:"+v.Hash[2:] {
				t.Errorf("reference %s, replay key %s, viem's hash %s", p.Reference, p.ReplayKey, v.Hash)
			}
			if want := "did:pkh:eip155:42431:" + v.Sender; p.Payer != want || p.Payer != strings.ToLower(v.Source) {
				t.Errorf("payer %s, want %s", p.Payer, want)
			}
			if p.ValidBefore.Unix() != int64(v.ValidBefore) || p.Cents != 100 || p.Method != "tempo" {
				t.Errorf("payment %+v", p)
			}
			tx, err := m.reopen(p)
			if err != nil {
				t.Fatal(err)
			}
			if common.Hash(tx.memo) != v.Memo || tx.ValidAfter != v.ValidAfter || tx.Gas != v.Gas || tx.MaxFee.Int64() != v.MaxFeePerGas || tx.amount != 1_000_000 {
				t.Errorf("transaction %+v", tx)
			}
			if swaps := v.Name == "swap"; swaps != (tx.swap != nil) || swaps && (tx.swap.sold != alpha || tx.swap.approved.Int64() != 1_010_101 || tx.swap.most != 1_010_101) {
				t.Errorf("swap %+v", tx.swap)
			}
			if keychain := v.Signature == "keychain"; keychain != (tx.accessKey != nil) {
				t.Errorf("signed by access key %v, viem's kind %s", tx.accessKey, v.Signature)
			}
			// After a crash the stored form leads to the same.
			stored, err := json.Marshal(p)
			if err != nil {
				t.Fatal(err)
			}
			var again mpp.Payment
			if err := json.Unmarshal(stored, &again); err != nil {
				t.Fatal(err)
			}
			if tx2, err := m.reopen(again); err != nil || tx2.hash != tx.hash || tx2.sender != tx.sender {
				t.Errorf("stored and read again: %v", err)
			}
		})
	}
}

// One flipped bit anywhere in a signed transaction never yields another
// transaction of the same payer and key. (A spoilt secp256k1 signature recovers
// somebody else; under a keychain, an access key that the account lacks.)
func TestNoBitOfAReferenceTransactionIsLoose(t *testing.T) {
	r := readRecorded(t)
	for _, v := range r.Credentials {
		if v.Name == oldForm {
			continue
		}
		raw, err := hex.DecodeString(v.Raw[2:])
		if err != nil {
			t.Fatal(err)
		}
		honest, err := readTransaction(raw)
		if err != nil {
			t.Fatal(err)
		}
		for i := range raw {
			for bit := range 8 {
				raw[i] ^= 1 << bit
				tx, err := readTransaction(raw)
				raw[i] ^= 1 << bit
				if err != nil || tx.hash == honest.hash {
					continue // refused, or another spelling of the same
				}
				if tx.sender == honest.sender && (tx.accessKey == nil || *tx.accessKey == *honest.accessKey) {
					t.Errorf("%s: byte %d, bit %d flipped: another transaction of the same sender", v.Name, i, bit)
				}
			}
		}
	}
}

// What a simulation is told of a key authorization is what viem tells of it.
func TestPermissionsAreWrittenLikeTheReferenceClients(t *testing.T) {
	text, err := os.ReadFile("testdata/simulations.json")
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]any
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, v := range readRecorded(t).Credentials {
		if want[v.Name] == nil {
			continue
		}
		compared++
		tx, err := readTransaction(common.FromHex(v.Raw))
		if err != nil {
			t.Fatal(err)
		}
		ours, err := json.Marshal(envelope(tx)["keyAuthorization"])
		if err != nil {
			t.Fatal(err)
		}
		theirs, _ := json.Marshal(want[v.Name])
		if sorted(t, ours) != sorted(t, theirs) {
			t.Errorf("%s:\n%s, viem's\n%s", v.Name, ours, theirs)
		}
	}
	if compared != 3 {
		t.Errorf("%d compared, want 3", compared)
	}
}

// sorted is JSON with the names of its objects in order.
func sorted(t *testing.T, text []byte) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestMemosAreThoseOfTheReferenceClient(t *testing.T) {
	for _, v := range readRecorded(t).Memos {
		m := memo(v.Memo)
		if !m.ours(v.ServerID) || !m.answers(v.ChallengeID) {
			t.Errorf("memo of %q, %q is not recognised", v.ServerID, v.ChallengeID)
		}
		if m.ours(v.ServerID+"x") || m.answers(v.ChallengeID+"x") {
			t.Errorf("memo of %q, %q fits another", v.ServerID, v.ChallengeID)
		}
		if v.ClientID == "" && paytest.Memo(v.ServerID, v.ChallengeID) != [32]byte(v.Memo) {
			t.Errorf("the test wallet makes another memo of %q, %q", v.ServerID, v.ChallengeID)
		}
	}
}

// The request parameter is byte for byte what the reference client makes of
// the same request, so its echo compares equal.
func TestRequestIsTheReferenceClients(t *testing.T) {
	r := readRecorded(t)
	m := newMethod(t, Config{Currency: r.Currency, Recipient: r.Recipient})
	got, err := m.Request(100)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(r.Credentials[0].Challenge, `request="`+got+`"`) {
		t.Errorf("request %s is not in %s", got, r.Credentials[0].Challenge)
	}
	for _, cents := range []int64{0, -1} {
		if _, err := m.Request(cents); err == nil {
			t.Errorf("a charge of %d cents is asked for", cents)
		}
	}
}
