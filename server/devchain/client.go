package devchain

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"github.com/ethereum/go-ethereum/common"
)

// Client is the reference client, and those of x402, running. It is safe for concurrent use, and
// made for it: payments under way do not wait for each other.
type Client struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser

	mu      sync.Mutex
	next    int
	waiting map[int]chan answer
	ended   error // set once, when the process has ended
}

// Request is an HTTP request that may cost something.
type Request struct {
	By     []string        // how the wallet can pay: "tempo", "swap" (Tempo, by selling another token), "evm", or alone "x402" or "axios", the clients of x402; nil: Tempo alone
	As     *common.Address // the smart account that pays, for which the key signs; nil: the key's own
	Method string
	URL    string
	Header map[string]string
	Body   []byte
}

// Exchange is one request that the client sent, and its answer.
type Exchange struct {
	Authorization string // as sent, or PAYMENT-SIGNATURE; empty on the unpaid request
	Status        int
	Header        http.Header
	Body          []byte
}

// Payment is all that happened for one request: the answer the client ended
// with, and everything before it. Earlier[0] is the 402 when there was one.
type Payment struct {
	Exchange
	Earlier []Exchange
}

type answer struct {
	ID            int    `json:"id"`
	Error         string `json:"error"`
	Authorization string `json:"authorization"`
	Exchanges     []struct {
		Authorization string      `json:"authorization"`
		Status        int         `json:"status"`
		Headers       [][2]string `json:"headers"`
		Body          []byte      `json:"body"`
	} `json:"exchanges"`
}

// StartClient installs what is needed and runs the reference client against
// the node at rpc, with more in its environment: NODE_EXTRA_CA_CERTS=FILE has it trust
// another authority.
func StartClient(ctx context.Context, rpc string, env ...string) (*Client, error) {
	if err := Install(ctx); err != nil {
		return nil, err
	}
	dir, err := Dir()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("node", filepath.Join(dir, "pay.mjs"), rpc)
	cmd.Env = append(os.Environ(), env...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("devchain: %w", err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("devchain: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("devchain: start the client: %w", err)
	}
	c := &Client{cmd: cmd, stdin: stdin, waiting: make(map[int]chan answer)}
	go c.read(stdout)
	return c, nil
}

// Close ends the client. Calls under way fail.
func (c *Client) Close() {
	c.stdin.Close()
	c.cmd.Process.Kill()
	c.cmd.Wait()
}

// Pay sends r with the wallet of key (0x and 64 hex digits), paying when asked
// to. An error means that the client itself gave up; what it saw until then is
// in the Payment all the same.
func (c *Client) Pay(ctx context.Context, key string, r Request) (Payment, error) {
	a, err := c.ask(ctx, map[string]any{
		"op": "pay", "key": key, "as": r.As, "by": ways(r.By), "url": r.URL, "method": r.Method, "headers": r.Header, "body": r.Body,
	})
	if err != nil {
		return Payment{}, err
	}
	var p Payment
	for _, e := range a.Exchanges {
		header := make(http.Header)
		for _, h := range e.Headers {
			header.Add(h[0], h[1])
		}
		p.Earlier = append(p.Earlier, Exchange{e.Authorization, e.Status, header, e.Body})
	}
	if n := len(p.Earlier); n > 0 {
		p.Exchange, p.Earlier = p.Earlier[n-1], p.Earlier[:n-1]
	}
	if a.Error != "" {
		return p, errors.New("devchain: the client gave up: " + a.Error)
	}
	return p, nil
}

// ways are the names of the payment methods a wallet has.
func ways(by []string) []string {
	if len(by) == 0 {
		return []string{"tempo"}
	}
	return by
}

// Sign answers a challenge, the value of a WWW-Authenticate field, and returns
// the value of the Authorization field. Nothing is sent to the server. The
// wallet can pay by the methods named; without any, by Tempo alone.
func (c *Client) Sign(ctx context.Context, key, challenge string, by ...string) (string, error) {
	a, err := c.ask(ctx, map[string]any{"op": "sign", "key": key, "by": ways(by), "challenge": challenge})
	if err != nil {
		return "", err
	}
	if a.Error != "" {
		return "", errors.New("devchain: the client does not sign: " + a.Error)
	}
	return a.Authorization, nil
}

func (c *Client) ask(ctx context.Context, request map[string]any) (answer, error) {
	reply := make(chan answer, 1)
	c.mu.Lock()
	if c.ended != nil {
		defer c.mu.Unlock()
		return answer{}, c.ended
	}
	c.next++
	id := c.next
	request["id"] = id
	c.waiting[id] = reply
	line, err := json.Marshal(request)
	if err == nil {
		_, err = c.stdin.Write(append(line, '\n'))
	}
	c.mu.Unlock()
	if err != nil {
		return answer{}, fmt.Errorf("devchain: ask the client: %w", err)
	}
	select {
	case a, ok := <-reply:
		if !ok {
			return answer{}, errEnded
		}
		return a, nil
	case <-ctx.Done():
		c.mu.Lock()
		delete(c.waiting, id)
		c.mu.Unlock()
		return answer{}, ctx.Err()
	}
}

var errEnded = errors.New("devchain: the client process has ended")

// read hands each answer to the call that waits for it, until the process ends.
func (c *Client) read(stdout io.Reader) {
	lines := bufio.NewReader(stdout)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break
		}
		var a answer
		if json.Unmarshal(line, &a) != nil {
			continue
		}
		c.mu.Lock()
		if reply := c.waiting[a.ID]; reply != nil {
			delete(c.waiting, a.ID)
			reply <- a
		}
		c.mu.Unlock()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = errEnded
	for id, reply := range c.waiting {
		delete(c.waiting, id)
		close(reply)
	}
}
