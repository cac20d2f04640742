package devchain

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"webring/edge/durable"
)

// ErrSaved says that a chain cannot go on from the file that it was saved in.
var ErrSaved = errors.New("devchain: the saved chain does not load; its file is damaged, or written by another release of anvil")

// unpack writes the chain that was saved in a file where anvil can load it, if there
// is one. anvil gives its state compressed and loads it plain.
func unpack(file, to string) (found bool, err error) {
	packed, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("devchain: %w", err)
	}
	defer packed.Close()
	plain, err := os.Create(to)
	if err != nil {
		return false, fmt.Errorf("devchain: %w", err)
	}
	defer plain.Close()
	unzip, err := gzip.NewReader(packed)
	if err == nil {
		_, err = io.Copy(plain, unzip)
	}
	if err != nil {
		return false, fmt.Errorf("%w: %s: %w", ErrSaved, file, err)
	}
	return true, nil
}

// saver is a proxy in front of a chain that is saved in a file. It lets no answer out
// before everything mined by then is on disk, because a real chain loses no block when
// a machine fails: a payment that a client has seen is on the next chain, whatever
// ended this one. anvil's own state file is written now and then, in place, and a kill
// would lose blocks or the file.
type saver struct {
	chain  *Chain
	file   string
	server *http.Server

	mu    sync.Mutex
	saved uint64 // no transaction up to this block is missing from the file
}

// saveTo puts a saver in front of the chain. All blocks up to head are in the file.
func (c *Chain) saveTo(file string, head uint64) error {
	node, err := url.Parse(c.RPC)
	if err != nil {
		return fmt.Errorf("devchain: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("devchain: %w", err)
	}
	k := &saver{chain: c, file: file, saved: head}
	k.server = &http.Server{Handler: &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(node) },
		ModifyResponse: func(r *http.Response) error { return k.save(r.Request.Context()) },
	}}
	c.saver, c.RPC = k, "http://"+listener.Addr().String()
	go k.server.Serve(listener)
	go k.follow()
	return nil
}

// follow saves the chain once a second, so that a call never has many blocks to look
// through.
func (k *saver) follow() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			// The next answer that cannot be saved says so.
			_ = k.save(context.Background())
		case <-k.chain.gone:
			return
		}
	}
}

// save writes the chain if anything was mined since it last was. Empty blocks are
// not worth it: without them, the next chain has fewer.
func (k *saver) save(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	var head hexutil.Uint64
	if err := k.chain.Call(ctx, &head, "eth_blockNumber"); err != nil {
		return fmt.Errorf("devchain: save the chain: %w", err)
	}
	var mined hexutil.Uint64
	for n := k.saved + 1; n <= uint64(head) && mined == 0; n++ {
		if err := k.chain.Call(ctx, &mined, "eth_getBlockTransactionCountByNumber", hexutil.Uint64(n)); err != nil {
			return fmt.Errorf("devchain: save the chain: %w", err)
		}
	}
	if mined > 0 {
		var state hexutil.Bytes
		if err := k.chain.Call(ctx, &state, "anvil_dumpState"); err != nil {
			return fmt.Errorf("devchain: save the chain: %w", err)
		}
		if err := os.MkdirAll(filepath.Dir(k.file), 0o700); err != nil {
			return fmt.Errorf("devchain: save the chain: %w", err)
		}
		if err := durable.Write(k.file, state, 0o600); err != nil {
			return fmt.Errorf("devchain: save the chain: %w", err)
		}
	}
	k.saved = uint64(head)
	return nil
}
