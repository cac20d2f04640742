package main

import (
	"errors"
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
func openPublisher(o *options, until publish.Until, log *slog.Logger) (*publish.Publisher, *publish.Rotation, error) {
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
	next, err := publish.ReadNext(nextKeyPath(o.data))
	if err != nil {
		return nil, nil, err
	}
	p, err := publish.New(publish.Config{Dir: syncPath(o.data), Key: key, Next: next, Core: core, ABI: abi.Version, Capacity: o.capacity, SnapshotEvery: o.snapshotEvery, Until: until, Now: o.clock, Log: log})
	if err != nil {
		return nil, nil, err
	}
	return p, publish.NewRotation(p, syncKeyPath(o.data), nextKeyPath(o.data)), nil
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
