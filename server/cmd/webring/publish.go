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
func openPublisher(o *options, until publish.Until, log *slog.Logger) (*publish.Publisher, error) {
	base, err := url.Parse(o.baseURL)
	if err != nil {
		return nil, err
	}
	core, err := module.Digest()
	if errors.Is(err, module.ErrMissing) {
		log.Warn("checkpoints name no core", "err", err)
	} else if err != nil {
		return nil, err
	}
	return publish.New(publish.Config{Dir: syncPath(o.data), KeyPath: syncKeyPath(o.data), NextPath: nextKeyPath(o.data), Name: keyName(base),
		Core: core, ABI: abi.Version, Capacity: o.capacity, SnapshotEvery: o.snapshotEvery, Until: until, Now: o.clock, Log: log})
}

// keyName is how the key of a ring at this URL is named.
func keyName(base *url.URL) string { return base.Host + base.EscapedPath() }

// syncPath is the folder of the snapshots for edges.
func syncPath(data string) string { return filepath.Join(data, "sync") }

// syncKeyPath is where the key lies that signs for edges.
func syncKeyPath(data string) string { return filepath.Join(data, "sync-key") }

// nextKeyPath is where the key lies that is announced and not yet alone.
func nextKeyPath(data string) string { return filepath.Join(data, "sync-key-next") }

// printVerifier says what edges pin, if the origin on this folder has a key.
func printVerifier(out io.Writer, data string) error {
	key, err := publish.ReadKey(syncKeyPath(data))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	next, err := publish.ReadNext(nextKeyPath(data))
	if err != nil {
		return err
	}
	announced := ""
	if next != nil {
		announced = next.Verifier()
	}
	return printKeys(out, key.Verifier(), announced)
}

// printKeys says which key edges pin, and which one after it.
func printKeys(out io.Writer, current, next string) error {
	_, err := fmt.Fprintf(out, "edges follow with --origin-key %s\n", current)
	if next != "" && err == nil {
		_, err = fmt.Fprintf(out, "announced as the next key: %s\n", next)
	}
	return err
}
