package devchain

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
)

// ErrNoNode says that Node or npm is missing.
var ErrNoNode = errors.New("devchain: node and npm are not installed: get Node 20 or newer from your system's packages (apt install nodejs npm) or from nodejs.org")

// marker is the file that Install writes last; it holds the digest of the
// lock file that node_modules was made from.
const marker = "node_modules/.installed-from"

// FindNode fails with [ErrNoNode] where Node or npm is missing.
func FindNode() error {
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			return ErrNoNode
		}
	}
	return nil
}

// Install is [InstallIn] for the chain and the client.
func Install(ctx context.Context) error {
	dir, err := Dir()
	if err != nil {
		return err
	}
	return InstallIn(ctx, dir)
}

// InstallIn makes sure that what package.json in a folder lists is there, and
// runs "npm ci" if it is not or belongs to another lock file. Test packages run
// at the same time, so the work is done under a file lock, and the second finds it
// done.
func InstallIn(ctx context.Context, dir string) error {
	if err := FindNode(); err != nil {
		return err
	}
	// npm reads package.json and never replaces it, so the file itself can
	// carry the lock.
	f, err := os.Open(filepath.Join(dir, "package.json"))
	if err != nil {
		return fmt.Errorf("devchain: install: %w", err)
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("devchain: install: lock: %w", err)
	}
	lock, err := os.ReadFile(filepath.Join(dir, "package-lock.json"))
	if err != nil {
		return fmt.Errorf("devchain: install: %w", err)
	}
	sum := sha256.Sum256(lock)
	want := []byte(hex.EncodeToString(sum[:]))
	if have, err := os.ReadFile(filepath.Join(dir, marker)); err == nil && bytes.Equal(have, want) {
		return nil
	}
	// The packages need no install scripts: the prebuilt chain is a package.
	npm := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	npm.Dir = dir
	if out, err := npm.CombinedOutput(); err != nil {
		return fmt.Errorf("devchain: npm ci in %s: %w\n%s", dir, err, bytes.TrimSpace(out))
	}
	if err := os.WriteFile(filepath.Join(dir, marker), want, 0o644); err != nil {
		return fmt.Errorf("devchain: install: %w", err)
	}
	return nil
}

// Dir is the folder of this package in the source tree, found from the working
// directory upwards: tests run in their package, make in the root.
func Dir() (string, error) {
	at, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("devchain: %w", err)
	}
	for {
		dir := filepath.Join(at, "server", "devchain")
		if _, err := os.Stat(filepath.Join(dir, "pay.mjs")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(at)
		if up == at {
			return "", errors.New("devchain: run this inside the source tree")
		}
		at = up
	}
}

// programs says where npm has programs for this system, and what it calls processors
// that Go calls otherwise.
var programs = map[string]struct {
	where      string
	processors map[string]string
}{
	"workerd": {"@cloudflare/workerd-%s-%s/bin/workerd", map[string]string{"amd64": "64", "arm64": "arm64"}},
	"deno":    {"@deno/%s-%s-glibc/deno", map[string]string{"amd64": "x64", "arm64": "arm64"}},
}

// Program gives the path of workerd or deno, as [InstallIn] has brought it into a folder. It
// fails where npm has none for this system.
func Program(dir, name string) (string, error) {
	p := programs[name]
	path, err := filepath.Abs(filepath.Join(dir, "node_modules", fmt.Sprintf(p.where, runtime.GOOS, p.processors[runtime.GOARCH])))
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		return "", fmt.Errorf("devchain: npm has no %s for this system: %w", name, err)
	}
	return path, nil
}
