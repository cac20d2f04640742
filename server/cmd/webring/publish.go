package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/url"
	"path/filepath"

	"webring/core/abi"
	"webring/server/publish"
	"webring/wasm/module"
)

// openPublisher prepares what edges follow. The key is made on the first start,
// under the name that the base URL has then, and keeps it.
func openPublisher(o *options, log *slog.Logger) (*publish.Publisher, *publish.Key, error) {
	base, err := url.Parse(o.baseURL)
	if err != nil {
		return nil, nil, err
	}
	core, err := module.Digest()
	if errors.Is(err, module.ErrMissing) {
		log.Warn("checkpoints name no core", "err", err)
	} else if err != nil {
		return nil, nil, err
	}
	key, err := publish.OpenKey(syncKeyPath(o.data), keyName(base))
	if err != nil {
		return nil, nil, err
	}
	p, err := publish.New(publish.Config{Dir: filepath.Join(o.data, "sync"), Key: key, Core: core, ABI: abi.Version, Capacity: o.capacity, Log: log})
	return p, key, err
}

// keyName is how the key of a ring at this URL is named.
func keyName(base *url.URL) string { return base.Host + base.EscapedPath() }

// syncKeyPath is where the key lies that signs for edges.
func syncKeyPath(data string) string { return filepath.Join(data, "sync-key") }

// printVerifier says what edges pin, if the origin on this folder has a key.
func printVerifier(out io.Writer, data string) error {
	key, err := publish.ReadKey(syncKeyPath(data))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "edges follow with --origin-key %s\n", key.Verifier())
	return err
}
