package devchain

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

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
