# Everything a fresh machine with Go, Node and make needs:
#   make run     build, start a development chain, serve ring and payments
#   make test    every test
# Go modules and npm packages are fetched by the commands that need them.

GO      ?= go
BIN     := bin/webring
DEVRING := bin/devring
FUZZ    ?= 30s

.PHONY: all build generate run demo test check format vet lint fresh clean-tree race fuzz clean

all: build

build:
	@mkdir -p bin
	$(GO) build -trimpath -o $(BIN) ./server/cmd/webring
	$(GO) build -trimpath -o $(DEVRING) ./server/devchain/devring

# Pages are written in templ; what it generates is committed.
generate:
	$(GO) tool templ generate -path templates -log-level error

run: build
	$(DEVRING) run --webring $(BIN)

demo: build
	$(DEVRING) demo

test:
	$(GO) test -timeout 20m ./...

# The gate. It changes nothing and leaves a clean tree.
check: format vet lint fresh race clean-tree

format:
	@out=$$(gofmt -l core wasm edge server templates static); \
	if [ -n "$$out" ]; then echo "gofmt would change:"; echo "$$out"; exit 1; fi

vet:
	$(GO) vet ./...
	$(GO) mod verify >/dev/null
	@$(GO) mod tidy -diff >/dev/null || { echo "go.mod is not tidy: run go mod tidy"; exit 1; }

lint:
	$(GO) tool staticcheck ./...

# Generated files must be what their sources generate.
fresh:
	@tmp=$$(mktemp -d) && trap 'rm -rf "$$tmp"' EXIT && cp templates/*.templ "$$tmp" && \
	$(GO) tool templ generate -path "$$tmp" -log-level error && \
	for f in "$$tmp"/*_templ.go; do \
	  diff -q "$$f" "templates/$$(basename "$$f")" >/dev/null || { echo "stale: templates/$$(basename "$$f"); run make generate"; exit 1; }; \
	done

race:
	$(GO) test -race -timeout 30m ./...

clean-tree:
	@if git rev-parse --git-dir >/dev/null 2>&1 && [ -n "$$(git status --porcelain)" ]; then echo "the tree is not clean:"; git status --short; exit 1; fi

# Every fuzz target for $(FUZZ) each.
fuzz:
	@for p in $$($(GO) list ./...); do \
	  list=$$($(GO) test -list '^Fuzz' $$p) || { echo "$$list"; exit 1; }; \
	  for t in $$(echo "$$list" | grep '^Fuzz'); do \
	    echo "fuzz $$p $$t"; $(GO) test -run '^$$' -fuzz "^$$t$$" -fuzztime $(FUZZ) $$p || exit 1; \
	  done; \
	done

clean:
	rm -rf bin
