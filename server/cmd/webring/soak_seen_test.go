package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/mod/sumdb/note"

	"webring/server/devchain"
	"webring/server/devchain/faults"
	"webring/server/ledger"
	"webring/server/ledger/ledgertest"
	"webring/server/pay/mpp"
	"webring/server/pay/node"
)

// seen is what can be seen of a cluster from outside while it runs.
type seen struct {
	stop context.CancelFunc
	ctx  context.Context
	all  sync.WaitGroup

	reading  context.Context // of what reads from processes
	endReads context.CancelFunc

	mu sync.Mutex
	ledgertest.History
	at      ledger.Position     // of Log
	leader  func() string       // who leads now
	commits []commit            // as Log
	granted []time.Time         // when payments were answered with 2xx
	signed  map[string]string   // payments by what is in the transaction that moves their money
	failed  map[string][]string // reads that failed, by source
	reads   int
	ended   error    // why the log is not followed any more
	strange []string // broadcasts of no known payment
	unsure  int      // broadcasts during which etcd could not be asked
}

// commit is when a group was seen in the log, and who led then.
type commit struct {
	at time.Time
	by string
}

func newSeen() *seen {
	s := &seen{signed: map[string]string{}, failed: map[string][]string{}}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.reading, s.endReads = context.WithCancel(s.ctx)
	return s
}

// close ends all watching.
func (s *seen) close() {
	s.stop()
	s.all.Wait()
}

func (s *seen) with(fn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn()
}

// Position and Apply have the log be followed into this history.
func (s *seen) Position() (p ledger.Position) {
	s.with(func() { p = s.at })
	return p
}

// Apply notes a group.
func (s *seen) Apply(b ledger.Batch) error {
	p, err := b.Position()
	if err == nil {
		by := commit{time.Now(), s.leader()}
		s.with(func() {
			s.at = p
			s.commits = append(s.commits, by)
			s.Log = append(s.Log, ledgertest.Entry{Serial: p.Serial, Rows: b})
		})
	}
	return err
}

// writes watches the keys of the log as they are written.
func (s *seen) writes(client *clientv3.Client, ring string) {
	prefix := "/ring/" + ring + "/tail/"
	s.all.Go(func() {
		for r := range client.Watch(s.ctx, prefix, clientv3.WithPrefix(), clientv3.WithFilterDelete()) {
			for _, e := range r.Events {
				serial, err := strconv.ParseUint(strings.TrimPrefix(string(e.Kv.Key), prefix), 16, 64)
				if err != nil {
					continue // which nothing writes
				}
				s.with(func() { s.Writes = append(s.Writes, ledgertest.Write{Serial: serial, Value: string(e.Kv.Value)}) })
			}
		}
	})
}

// checkpoints follows a node as an edge does.
func (s *seen) checkpoints(n *process, key string) {
	verifier, err := note.NewVerifier(key)
	if err != nil {
		n.t.Fatal(err)
	}
	s.all.Go(func() {
		for s.reading.Err() == nil {
			s.stream(n, verifier)
			select {
			case <-s.reading.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	})
}

// stream reads one stream of checkpoints to its end.
func (s *seen) stream(n *process, verifier note.Verifier) {
	source := n.source()
	req, err := http.NewRequestWithContext(s.reading, http.MethodGet, n.base+"/sync/checkpoint", nil)
	if err != nil {
		return
	}
	req.Header.Set("Accept", "text/event-stream")
	res, err := n.stranger.Do(req)
	if err != nil {
		return
	}
	defer res.Body.Close()
	if n.source() != source {
		return // it was started again meanwhile, and either may have answered
	}
	var data []string
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		line := lines.Text()
		if text, ok := strings.CutPrefix(line, "data:"); ok {
			data = append(data, strings.TrimPrefix(text, " "))
			continue
		}
		if line != "" || data == nil {
			continue
		}
		signed := strings.Join(data, "\n") + "\n"
		data = nil
		opened, err := note.Open([]byte(signed), note.VerifierList(verifier))
		if err != nil {
			n.t.Errorf("%s gives a checkpoint that is not signed: %v\n%s", source, err, signed)
			return
		}
		s.with(func() {
			s.Checkpoints = append(s.Checkpoints, ledgertest.Checkpoint{Source: source, Text: opened.Text})
		})
	}
}

// positions reads where a node is, again and again.
func (s *seen) positions(n *process) {
	s.all.Go(func() {
		for s.reading.Err() == nil {
			source := n.source()
			at, err := n.where(s.reading)
			after := n.source()
			s.with(func() {
				switch s.reads++; {
				case s.reading.Err() != nil || source != after:
				case err != nil:
					s.failed[n.name] = append(s.failed[n.name], err.Error())
				default:
					s.Reads = append(s.Reads, ledgertest.Read{Source: source, Position: at})
				}
			})
			select {
			case <-s.reading.Done():
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
}

// failures are the reads that failed at a node, and how many there were at all.
func (s *seen) failures(name string) (failed []string, reads int) {
	s.with(func() { failed, reads = s.failed[name], s.reads })
	return failed, reads
}

// sign notes the transaction of a credential, before it is presented. It gives the id of the
// payment and the hash of the transaction that the client has signed, if it signs a whole one.
func (s *seen) sign(credential string) (id, transaction string, err error) {
	c, found, err := mpp.ParseAuthorization([]string{credential})
	if err != nil || !found {
		return "", "", fmt.Errorf("a credential that cannot be read: %v", err)
	}
	var payload struct{ Signature, Nonce string }
	if err := json.Unmarshal(c.Payload, &payload); err != nil {
		return "", "", err
	}
	mark := strings.TrimPrefix(payload.Nonce, "0x")
	if mark == "" {
		raw, err := hex.DecodeString(strings.TrimPrefix(payload.Signature, "0x"))
		if err != nil {
			return "", "", err
		}
		mark = hex.EncodeToString(crypto.Keccak256(raw))
		transaction = "0x" + mark
	}
	s.with(func() { s.signed[strings.ToLower(mark)] = c.Challenge.ID })
	return c.Challenge.ID, transaction, nil
}

// broadcasts notes what a node sends to a payment network, and how far the log was
// committed then.
func (s *seen) broadcasts(name string, proxy *faults.Proxy, head func(context.Context) (ledger.Position, error)) {
	proxy.Tell(func(method string, params json.RawMessage) {
		if !strings.HasPrefix(method, faults.Sends) {
			return
		}
		var raw []hexutil.Bytes
		if json.Unmarshal(params, &raw) != nil || len(raw) == 0 {
			return
		}
		ctx, cancel := context.WithTimeout(s.ctx, 3*time.Second)
		defer cancel()
		at, err := head(ctx)
		if err != nil {
			at.Serial = math.MaxUint64
		}
		s.with(func() {
			if err != nil {
				s.unsure++
			}
			id, known := s.paymentOf(raw[0])
			if !known {
				s.strange = append(s.strange, name)
				return
			}
			s.Broadcasts = append(s.Broadcasts, ledgertest.Broadcast{Node: name, Payment: id, Head: at.Serial})
		})
	})
}

// paymentOf finds the payment that a transaction carries: it is the client's own, or has
// the nonce of its authorisation in it.
func (s *seen) paymentOf(raw []byte) (id string, known bool) {
	if id, known = s.signed[hex.EncodeToString(crypto.Keccak256(raw))]; known {
		return id, true
	}
	text := hex.EncodeToString(raw)
	for mark, id := range s.signed {
		if strings.Contains(text, mark) {
			return id, true
		}
	}
	return "", false
}

// transfers reads from a chain what an account has received.
func transfers(ctx context.Context, c *devchain.Chain, network string, token, recipient common.Address) ([]ledgertest.Transfer, error) {
	var logs []struct {
		TransactionHash common.Hash
		Data            hexutil.Bytes
	}
	filter := map[string]any{"fromBlock": "0x0", "toBlock": "latest", "address": token,
		"topics": []any{node.TransferTopic, nil, common.BytesToHash(recipient[:])}}
	if err := c.Call(ctx, &logs, "eth_getLogs", filter); err != nil {
		return nil, err
	}
	cents := map[common.Hash]int64{}
	var order []common.Hash
	for _, l := range logs {
		if _, again := cents[l.TransactionHash]; !again {
			order = append(order, l.TransactionHash)
		}
		cents[l.TransactionHash] += new(big.Int).Div(new(big.Int).SetBytes(l.Data), big.NewInt(10_000)).Int64()
	}
	all := []ledgertest.Transfer{}
	for _, hash := range order {
		all = append(all, ledgertest.Transfer{Network: network, Transaction: hash.Hex(), Cents: cents[hash]})
	}
	return all, nil
}
