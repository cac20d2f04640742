package main

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// What each package of the project may import, direct imports only. A package
// that is not listed fails the test, as does a row without a package, and an entry that
// the package does not use. A trailing slash admits everything below; "std" admits the
// standard library, which otherwise is listed import by import.
var importLaw = map[string][]string{
	"webring/core":          append([]string{"webring/core/flat"}, pureStd...),
	"webring/core/abi":      append([]string{"webring/core", "webring/core/api", "webring/core/flat", "webring/core/snap"}, pureStd...),
	"webring/core/api":      append([]string{"webring/core", "webring/core/flat"}, pureStd...),
	"webring/core/coretest": {"std", "webring/core"},
	"webring/core/flat":     append([]string{"unsafe"}, pureStd...),
	"webring/core/snap":     append([]string{"webring/core", "crypto/sha256", "encoding/base64", "encoding/hex"}, pureStd...),

	"webring/wasm":                {},
	"webring/wasm/host":           {"std", "webring/core/abi", "webring/wasm/host/sharedmem", "github.com/tetratelabs/wazero", "github.com/tetratelabs/wazero/"},
	"webring/wasm/host/sharedmem": {"std", "golang.org/x/sys/unix"},
	"webring/wasm/module":         {"std"},
	"webring/wasm/runtest":        {"std", "github.com/tetratelabs/wazero", "github.com/tetratelabs/wazero/"},

	"webring/edge":          {"std", "webring/edge/cache", "webring/edge/content", "webring/edge/fastpath", "webring/edge/hops", "webring/edge/pages", "webring/edge/voucher", "webring/edge/describe", "webring/edge/mcp", "webring/core/api", "webring/templates", "webring/static", "github.com/valyala/fasthttp", "github.com/fasthttp/router", "github.com/savsgio/gotils/strconv", "github.com/klauspost/compress/zstd", "github.com/prometheus/client_golang/prometheus", "webring/edge/front", "webring/edge/share"},
	"webring/edge/cache":    {"std", "golang.org/x/sync/singleflight", "webring/core/api"},
	"webring/edge/card":     {"std", "webring/static", "golang.org/x/image/font", "golang.org/x/image/font/sfnt", "golang.org/x/image/math/fixed", "golang.org/x/image/vector"},
	"webring/edge/content":  {"std", "webring/core/api", "github.com/valyala/fasthttp", "github.com/andybalholm/brotli", "github.com/klauspost/compress/zstd"},
	"webring/edge/describe": {"std", "webring/core/api", "github.com/gowebpki/jcs", "github.com/google/jsonschema-go/jsonschema"},
	"webring/edge/durable":  {"std"},
	"webring/edge/fastpath": {"std", "webring/edge/voucher", "github.com/valyala/fasthttp", "webring/edge/front"},
	"webring/edge/follow":   {"std", "github.com/klauspost/compress/zstd", "golang.org/x/mod/sumdb/note", "golang.org/x/mod/sumdb/tlog", "golang.org/x/time/rate", "webring/core", "webring/core/api", "webring/core/snap", "webring/edge/durable", "webring/edge/tlog"},
	"webring/edge/edgetest": {"std", "webring/core", "webring/core/api", "webring/core/coretest", "webring/edge/front", "webring/edge/voucher", "webring/wasm/host", "github.com/klauspost/compress/zstd"},
	"webring/edge/forward":  {"std", "webring/edge/voucher", "webring/core/api", "github.com/valyala/fasthttp", "golang.org/x/net/http/httpguts", "golang.org/x/sync/singleflight", "webring/edge/front", "webring/edge/share", "webring/edge/follow"},
	"webring/edge/front":    {"std", "github.com/savsgio/gotils/strconv", "github.com/valyala/fasthttp", "golang.org/x/crypto/acme", "golang.org/x/crypto/acme/autocert", "golang.org/x/net/http/httpguts", "webring/edge/durable", "webring/edge/idn"},
	"webring/edge/hops":     {"std", "webring/edge/front"},
	"webring/edge/idn":      {"std", "golang.org/x/net/idna"},
	"webring/edge/mcp":      {"std", "webring/core/api", "webring/edge/describe", "github.com/gowebpki/jcs", "github.com/modelcontextprotocol/go-sdk/"},
	"webring/edge/monitor":  {"std", "golang.org/x/mod/sumdb/note", "webring/core", "webring/core/api", "webring/core/snap", "webring/edge/durable", "webring/edge/follow", "webring/edge/tlog"},
	"webring/edge/pages":    {"std", "webring/core/api", "webring/edge/cache", "webring/edge/card", "webring/edge/content", "webring/edge/describe", "webring/static", "webring/templates", "webring/wasm/module", "github.com/a-h/templ", "github.com/valyala/fasthttp", "golang.org/x/text/unicode/norm", "github.com/JohannesKaufmann/html-to-markdown/v2/converter", "github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base", "github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark", "github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table", "golang.org/x/net/html", "webring/edge/front"},
	"webring/edge/share":    {"std", "webring/edge/front"},
	"webring/edge/tlog":     {"webring/core", "webring/core/snap", "std", "golang.org/x/mod/sumdb/note", "golang.org/x/mod/sumdb/tlog"},
	"webring/edge/voucher":  {"std", "webring/edge/front"},
	"webring/edge/witness":  {"std", "golang.org/x/mod/sumdb/note", "golang.org/x/mod/sumdb/tlog", "webring/edge/durable", "webring/edge/tlog"},

	"webring/static":    {"std"},
	"webring/templates": {"std", "webring/core/api", "webring/edge/describe", "github.com/piglig/go-qr", "github.com/a-h/templ", "github.com/a-h/templ/"},

	"webring/server":                         {"std", "github.com/jellydator/ttlcache/v3", "webring/server/", "webring/core", "webring/core/api", "webring/templates", "webring/static", "github.com/valyala/fasthttp", "golang.org/x/mod/sumdb/tlog", "github.com/prometheus/client_golang/prometheus", "webring/core/abi", "webring/core/snap", "webring/edge", "webring/edge/describe", "webring/edge/follow", "webring/edge/forward", "webring/edge/hops", "webring/edge/tlog", "webring/edge/voucher", "webring/edge/share", "webring/wasm/module"},
	"webring/server/admin":                   {"std", "webring/server/ledger", "webring/server/paid", "webring/server/sites/score", "webring/server/sites/visits", "webring/edge/follow", "webring/edge/forward", "github.com/prometheus/client_golang/"},
	"webring/server/aside":                   {"std", "golang.org/x/net/idna", "golang.org/x/text/cases", "golang.org/x/text/unicode/norm", "webring/core", "webring/core/api", "webring/edge/hops", "webring/server/ledger"},
	"webring/server/backup":                  {"std", "webring/server/aside", "webring/server/ledger", "webring/server/ledger/badgerstore", "webring/core/snap", "webring/edge/durable", "webring/edge/follow", "webring/edge/tlog"},
	"webring/server/cmd/bench":               {"std", "github.com/valyala/fasthttp"},
	"webring/server/cmd/webring":             {"std", "webring/", "github.com/valyala/fasthttp", "github.com/ethereum/go-ethereum/", "github.com/pelletier/go-toml/v2", "golang.org/x/crypto/acme", "github.com/coreos/go-systemd/v22/activation", "github.com/coreos/go-systemd/v22/daemon"},
	"webring/server/deploy":                  {},
	"webring/server/devchain":                {"std", "webring/edge/durable", "github.com/ethereum/go-ethereum/"},
	"webring/server/devchain/devring":        {"std", "webring/server/devchain", "webring/server/sites/score/exemplar", "webring/templates"},
	"webring/server/devchain/faults":         {"std", "golang.org/x/sys/unix"},
	"webring/server/ledger":                  {"std", "webring/edge/durable", "webring/core", "webring/core/snap", "golang.org/x/mod/sumdb/tlog", "github.com/go-json-experiment/"},
	"webring/server/ledger/badgerstore":      {"std", "webring/server/ledger", "github.com/dgraph-io/badger/v4", "github.com/dgraph-io/badger/v4/", "golang.org/x/sys/unix", "google.golang.org/protobuf/proto"},
	"webring/server/ledger/cluster":          {"std", "github.com/klauspost/compress/zstd", "go.etcd.io/etcd/api/v3/etcdserverpb", "go.etcd.io/etcd/api/v3/mvccpb", "go.etcd.io/etcd/api/v3/v3rpc/rpctypes", "go.etcd.io/etcd/client/v3", "go.uber.org/zap", "google.golang.org/grpc", "google.golang.org/grpc/backoff", "google.golang.org/grpc/codes", "google.golang.org/grpc/status", "webring/edge/durable", "webring/server/ledger"},
	"webring/server/ledger/cluster/etcdtest": {"std", "webring/server/devchain/faults"},
	"webring/server/ledger/ledgertest":       {"std", "webring/core", "webring/core/api", "webring/core/snap", "webring/server/ledger", "webring/server/pay/mpp"},
	"webring/server/ledger/synthetic":        {"std", "webring/core", "webring/edge/durable", "webring/server/ledger", "webring/server/ledger/badgerstore"},
	"webring/server/logging":                 {"std"},
	"webring/server/logging/logscan":         {"std"},
	"webring/server/paid":                    {"std", "webring/server/aside", "webring/server/ledger", "webring/server/pay/mpp", "webring/server/sites/score", "webring/server/pay/x402", "webring/core", "webring/core/api", "github.com/mozillazg/go-unidecode", "golang.org/x/text/", "webring/server/paid/form", "webring/server/paid/risk", "webring/server/sites/siteproof"},
	"webring/server/paid/form":               {"std", "github.com/go-json-experiment/json/jsontext", "github.com/mozillazg/go-unidecode", "github.com/mtibben/confusables", "github.com/shopspring/decimal", "golang.org/x/net/idna", "golang.org/x/text/cases", "golang.org/x/text/unicode/norm", "webring/core", "webring/core/api", "webring/server/sites/fetch", "webring/edge/idn"},
	"webring/server/paid/risk":               {"std", "webring/core", "webring/core/api", "webring/server/ledger", "webring/server/paid/form", "webring/server/sites/fetch", "webring/edge/share", "webring/edge/idn"},
	"webring/server/pay/evm":                 {"std", "webring/server/pay/mpp", "webring/server/pay/node", "webring/server/pay/x402", "github.com/ethereum/go-ethereum/"},
	"webring/server/pay/match":               {"std", "webring/core", "webring/server/pay/mpp", "webring/server/pay/node"},
	"webring/server/pay/mpp":                 {"std", "github.com/go-json-experiment/", "github.com/gowebpki/jcs"},
	"webring/server/pay/node":                {"std", "webring/server/pay/mpp", "github.com/ethereum/go-ethereum/"},
	"webring/server/pay/paytest":             {"std", "github.com/ethereum/go-ethereum/common", "github.com/ethereum/go-ethereum/common/hexutil", "github.com/ethereum/go-ethereum/crypto", "github.com/ethereum/go-ethereum/rlp", "webring/server/pay/mpp"},
	"webring/server/pay/paytest/file":        {"std", "webring/server/pay/mpp", "webring/server/pay/x402"},
	"webring/server/pay/tempo":               {"std", "github.com/go-json-experiment/", "webring/server/pay/mpp", "webring/server/pay/node", "webring/server/pay/x402", "github.com/ethereum/go-ethereum/"},
	"webring/server/pay/x402":                {"std", "webring/server/pay/mpp"},
	"webring/server/publish":                 {"std", "webring/edge/durable", "webring/server/ledger", "webring/core", "webring/core/api", "webring/core/snap", "github.com/valyala/fasthttp", "golang.org/x/mod/sumdb/note", "golang.org/x/mod/sumdb/tlog", "github.com/klauspost/compress/zstd", "webring/edge/follow", "webring/edge/share", "webring/edge/tlog", "webring/edge/witness"},
	"webring/server/sites/fetch":             {"std", "code.dny.dev/ssrf", "golang.org/x/net/publicsuffix", "golang.org/x/sync/semaphore", "webring/server/sites/markup", "webring/edge/share", "webring/edge/idn"},
	"webring/server/sites/icon":              {"std", "golang.org/x/image/bmp", "golang.org/x/image/draw", "golang.org/x/image/webp"},
	"webring/server/sites/markup":            {"std", "golang.org/x/net/html", "golang.org/x/net/html/", "golang.org/x/text/"},
	"webring/server/sites/score":             {"std", "github.com/cenkalti/backoff/v5", "github.com/jellydator/ttlcache/v3", "golang.org/x/sync/singleflight", "golang.org/x/net/http/httpguts", "github.com/shopspring/decimal", "github.com/go-json-experiment/json/jsontext", "webring/edge/share"},
	"webring/server/sites/score/exemplar":    {"std"},
	"webring/server/sites/score/local":       {"std", "webring/server/sites/fetch", "webring/server/sites/markup", "webring/server/sites/score", "github.com/santhosh-tekuri/jsonschema/v6", "github.com/jellydator/ttlcache/v3", "golang.org/x/sync/errgroup", "webring/server/ledger", "webring/edge/share"},
	"webring/server/sites/siteproof":         {"std", "webring/core", "webring/server/sites/fetch", "webring/server/sites/markup"},
	"webring/server/sites/visits":            {"std", "webring/core", "webring/core/api", "webring/server/sites/fetch", "webring/server/ledger", "webring/server/sites/icon", "webring/server/sites/markup", "webring/server/sites/siteproof"},
	"webring/server/sites/webhooks":          {"std", "golang.org/x/sync/errgroup", "webring/server/aside", "webring/server/ledger", "webring/server/sites/fetch"},
}

// pureStd is the part of the standard library that the core is made of: none of
// it knows of clocks, randomness, files, networks or goroutines.
var pureStd = []string{"errors", "cmp", "slices", "bytes", "strings", "strconv", "math/bits", "unicode/utf8", "encoding/binary"}

// guestLaw is what the guest may import. It needs core/flat to say where its
// buffers lie, and random bits to seed its indexes.
var guestLaw = []string{"webring/core/abi", "webring/core/flat", "math/rand/v2", "runtime", "runtime/debug"}

func TestTheGuestImportsTheEntryAlone(t *testing.T) {
	cmd := exec.Command("go", "list", "-f", `{{join .Imports "\n"}}`, "webring/wasm")
	cmd.Env = append(cmd.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range strings.Fields(string(out)) {
		if !slices.Contains(guestLaw, i) {
			t.Errorf("the guest may not import %s", i)
		}
	}
}

// unsafe is for the flat region of the core, for mapping it where instances of the
// guest have it, and for system calls that the scheduler is not told of.
var unsafePackages = []string{"webring/core/flat", "webring/wasm/host/sharedmem", "webring/edge/fastpath"}

func TestImportLaw(t *testing.T) {
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,Standard", "webring/...")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		seen[p.ImportPath] = true
		allowed, listed := importLaw[p.ImportPath]
		if !listed {
			t.Errorf("%s has no row in the import law", p.ImportPath)
			continue
		}
		for _, i := range p.Imports {
			if !admits(p.ImportPath, allowed, i) {
				t.Errorf("%s may not import %s", p.ImportPath, i)
			}
		}
		for _, a := range allowed {
			if !slices.Contains(pureStd, a) && !slices.ContainsFunc(p.Imports, func(i string) bool { return admits(p.ImportPath, []string{a}, i) }) {
				t.Errorf("%s does not import %s: take it out of its row", p.ImportPath, a)
			}
		}
	}
	for p := range importLaw {
		if !seen[p] {
			t.Errorf("the import law has a row for %s, which does not exist", p)
		}
	}
}

func admits(pkg string, allowed []string, path string) bool {
	if path == "unsafe" {
		return slices.Contains(unsafePackages, pkg)
	}
	std := !strings.Contains(strings.Split(path, "/")[0], ".") && !strings.HasPrefix(path, "webring/")
	return slices.ContainsFunc(allowed, func(a string) bool {
		return a == path || a == "std" && std || strings.HasSuffix(a, "/") && strings.HasPrefix(path, a)
	})
}
