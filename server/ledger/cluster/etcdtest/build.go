package etcdtest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// Binary gives the path of etcd's server. The first test that asks builds it, which takes
// half a minute; it stays in the cache folder of the user.
func Binary(t testing.TB) string {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatalf("etcd cannot be built: %v", err)
	}
	return path
}

var binary = sync.OnceValues(func() (string, error) {
	source, err := exec.Command("go", "list", "-f", "{{.Dir}}", "webring/server/ledger/cluster/etcdtest").Output()
	if err != nil {
		return "", fmt.Errorf("go list: %w", err)
	}
	module := filepath.Join(strings.TrimSpace(string(source)), "server")
	sum := sha256.New()
	for _, name := range []string{"go.mod", "go.sum", "main.go"} {
		b, err := os.ReadFile(filepath.Join(module, name))
		if err != nil {
			return "", err
		}
		sum.Write(b)
	}
	fmt.Fprint(sum, runtime.Version(), runtime.GOARCH)
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	cache = filepath.Join(cache, "webring-tests")
	if err := os.MkdirAll(cache, 0o700); err != nil {
		return "", err
	}
	return build(module, filepath.Join(cache, fmt.Sprintf("etcd-%x", sum.Sum(nil)[:8])))
})

// build makes the binary, unless it is there. Only one process builds at a time.
func build(module, path string) (string, error) {
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		return path, err
	}
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", path+".new", ".")
	cmd.Dir = module
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, os.Rename(path+".new", path)
}
