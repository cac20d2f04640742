# Everything a fresh machine with Go, Node and make needs:
#   make run     build, start a development chain, serve ring and payments
#   make test    every test
#   make quick   the tests to run before each commit
# Go modules and npm packages are fetched by the commands that need them.

GO      ?= go
# The go command fetches the release that go.mod names, also where it is set not to.
export GOTOOLCHAIN := auto
BIN     := bin/webring
DEVRING := bin/devring
FUZZ    ?= 30s
CORE    := wasm/module/built/core.wasm

# How many tests of a package run at a time. The longest ones wait for blocks of their
# chains and for balancers, not for a processor.
AT_ONCE ?= 4

# The core as WebAssembly. Two builds of one source are the same bytes, on any
# machine, so nothing of the checkout may get in.
BUILD_CORE = GOOS=wasip1 GOARCH=wasm GOWASM= $(GO) build -buildmode=c-shared -trimpath -buildvcs=false -ldflags="-s -w -buildid=" -o

# What a binary says of its sources: the newest heading of the changelog, the commit and
# its time. Time of the build and names of folders stay out, since builds must repeat.
VERSION  = $(shell awk '/^\#\# /{print $$2; exit}' CHANGELOG.md)
REVISION = $(shell git describe --always --abbrev=40 --exclude='*' --dirty=-modified 2>/dev/null)
DATE     = $(shell TZ=UTC git log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd 2>/dev/null)
STAMP    = -X main.buildVersion=$(VERSION) -X main.buildRevision=$(REVISION) -X main.buildDate=$(DATE)

# A release: one static binary for each platform, what it consists of, and checksums. Two
# builds of one commit with one version of Go are the same bytes, on any machine.
RELEASE   := bin/release
PLATFORMS := linux/amd64 linux/arm64 darwin/arm64
SBOM      := github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0
BUILD_RELEASE = CGO_ENABLED=0 GOFLAGS= GOEXPERIMENT= GOAMD64=v1 GOARM64=v8.0 $(GO) build -trimpath -buildvcs=false -ldflags="-s -w -buildid= $(STAMP)"

.PHONY: all build wasm profile generate verify face run demo worker run-worker bench-worker check-worker check-foreign lighthouse test race plain quick test-wasm bench bench-large check format vet lint fresh reproducible clean-tree fuzz soak release container clean

all: build

# Built each time, which the build cache makes cheap, and written only when it
# differs.
wasm:
	@mkdir -p bin
	@$(BUILD_CORE) bin/core.wasm ./wasm && { cmp -s bin/core.wasm $(CORE) || cp bin/core.wasm $(CORE); }

# Where answers spend their time, natively: by it the compiler decides which calls the
# core has as WebAssembly, where they cost most. Worth making again when that has
# changed; what is committed decides the bytes of the core.
profile:
	@mkdir -p bin
	$(GO) test -trimpath -run '^$$' -bench BenchmarkServe -cpuprofile wasm/default.pgo -o bin/abi.test ./core/abi

build: wasm
	$(GO) build -trimpath -ldflags="$(STAMP)" -o $(BIN) ./server/cmd/webring
	$(GO) build -trimpath -o $(DEVRING) ./server/devchain/devring

# Pages are written in templ; what it generates is committed.
generate:
	$(GO) tool templ generate -path templates -log-level error

# The script of the page /verify, bundled from edge/worker, and the widget, made small from
# static/widget.src.js; both are committed.
verify:
	@cd edge/worker && $(NPM_CI) && node page.mjs ../../static

# The display face of the pages, from the family's package; static/README.md says more.
face:
	@mkdir -p bin/face
	npm pack --silent --pack-destination bin/face @expo-google-fonts/besley@0.4.1
	tar -xzf bin/face/expo-google-fonts-besley-0.4.1.tgz -C bin/face
	python3 static/face.py bin/face/package/500Medium/Besley_500Medium.ttf static/face

run: build
	$(DEVRING) run --webring $(BIN)

demo: build
	$(DEVRING) demo

# The edge for Cloudflare Workers (edge/worker), as it is uploaded.
WORKER := bin/worker
NPM_CI  = { [ node_modules/.package-lock.json -nt package-lock.json ] || npm ci --ignore-scripts --no-audit --no-fund; }

worker: wasm
	@cd edge/worker && $(NPM_CI) && node build.mjs ../../$(CORE) ../../$(WORKER)

# The same under workerd, on this machine.
LISTEN ?= 127.0.0.1:8787
run-worker: worker
	@[ -n "$(ORIGIN)" ] && [ -n "$(ORIGIN_KEY)" ] || { echo "give ORIGIN=URL ORIGIN_KEY=VERIFIER, and EDGE_SECRET_FILE=PATH to take payments"; exit 1; }
	@mkdir -p $(WORKER)/floor && echo "the Worker listens at http://$(LISTEN)" && \
	EDGE_SECRET="$$(head -n 1 $(or $(EDGE_SECRET_FILE),/dev/null))" ORIGIN="$(ORIGIN)" ORIGIN_KEY="$(ORIGIN_KEY)" RATE_LIMIT="$(or $(RATE_LIMIT),120)" \
	exec edge/worker/node_modules/@cloudflare/workerd-*/bin/workerd serve $(WORKER)/workerd.capnp --socket-addr http=$(LISTEN) --directory-path floor=$(WORKER)/floor

# What a request and a cold start of it cost, compared with an empty Worker and webring edge. It
# needs two processors for itself for some minutes, and taskset.
bench-worker: worker build
	node edge/worker/bench.mjs $(BIN) $(WORKER)

# Types and format of the Worker.
check-worker:
	@cd edge/worker && $(NPM_CI) && npm run --silent check
	@mkdir -p bin && cd edge/worker && node page.mjs ../../bin && cmp ../../bin/verify.js ../../static/verify.js && cmp ../../bin/widget.js ../../static/widget.js || { echo "stale: static/verify.js or static/widget.js; run make verify"; exit 1; }

# Five pages of a ring of 2000, measured by Lighthouse in Chromium. It needs a processor for
# itself for a minute.
lighthouse: build
	node edge/browser/lighthouse.mjs $(BIN)

# Clients made of the OpenAPI document by more generators than the gate has.
check-foreign: wasm
	GENERATORS=../../../edge/describe/generators $(GO) test ./server/cmd/webring -count=1 -run TestMoreGenerators

# Each test runs once: under the race detector in the packages that have goroutines, and
# without it elsewhere. The processes of tests in cmd/webring run under it where
# raced_test.go says so.
test: race plain

# The core has no goroutines, pages are text, forms and credentials are read by functions,
# and the tests of deploy and devchain watch other programs.
SEQUENTIAL = /(core|core/.*|templates|static|deploy|devchain.*|bench|runtest|module|card|content|describe|idn|markup|form|mpp|x402|synthetic|logscan|sharedmem)$$
# Long simulated time, many faults one after the other, many documents and bombs take up to twenty
# times as long under the race detector, and their goroutines are those of other tests. make soak
# runs them under it, too.
LONG = ^(TestAccountsThatHaveBidDoNotHoldAURLByTurns|TestTheOfferIsWithdrawnWhenTheGasBudgetIsWasted|TestIdempotencyKeyRunsOut|TestScanOfABusyRingOnANodeWithAQuota|TestEveryWriteFailsOnce|TestLostPaymentHasItsEffectHoweverLate|TestTheDailyLookGoesOnWhereTheOperatorSays|TestMoneyWithoutAnEventIsAllTold|TestDocumentsTakeABoundedNumberOfBytes|TestHostileAnswers)$$
# The longest packages are named first, because they begin first then.
AT_A_TIME = -timeout 30m -p 3 -parallel $(AT_ONCE)
race: wasm
	$(GO) test -race $(AT_A_TIME) -skip '$(LONG)' ./server/cmd/webring ./server/paid ./edge $$($(GO) list ./... | grep -vE '$(SEQUENTIAL)')

# The race detector allocates, and has another way to read and write sockets, so tests of
# allocations and of the fast path are here, too.
RACED = ^($(shell sed -n 's/^\t"\(Test.*\)",$$/\1/p' server/cmd/webring/raced_test.go | paste -sd '|'))$$
plain: wasm
	$(GO) test $(AT_A_TIME) -skip '$(RACED)' ./server/cmd/webring $$($(GO) list ./... | grep -E '$(SEQUENTIAL)')
	$(GO) test $(AT_A_TIME) -run '$(LONG)|Allocat|CostNothing|PrefersHTML|FastPath|TestManyRequests|TestSlowReaders|TestEvery(Build|Engine)' ./edge ./edge/front ./server/paid ./server/sites/score/local ./wasm/host

# The tests that need no process, browser or chain. It takes about a minute.
PROCESSES = /(cmd/.*|deploy|devchain.*|cluster|etcdtest|runtest)$$
quick: wasm
	$(GO) test -short -timeout 5m $$($(GO) list ./... | grep -vE '$(PROCESSES)')

# The tests of what differs as WebAssembly: memory, its layout, and the calls. Random
# histories run in both builds in wasm/host.
test-wasm:
	@mkdir -p bin
	$(GO) build -o bin/runtest ./wasm/runtest
	GOOS=wasip1 GOARCH=wasm $(GO) test -timeout 20m -exec "$(CURDIR)/bin/runtest" ./core ./core/flat ./core/snap ./core/abi

# What answers cost, and everything else that has a figure for a goal. It needs two
# processors for itself for 25 minutes, taskset, Node for those who pay, and, to
# compare with them, nginx and redis-server; the first run makes rings of up to a
# million members and keeps them.
bench: build
	$(GO) build -trimpath -o bin/bench ./server/cmd/bench
	bin/bench -go $(GO)

# The same about ten million members, the last round number that an instance of the
# module has memory for: 410 bytes are set aside for each member of a synthetic ring,
# and 4 GiB are 10.4 million times that. It takes 12 GiB of memory, and up to 10 more
# that the system can take back, for files of the ledger. The first time, the ring is
# made, which takes a quarter of an hour and as many gigabytes of disk; to open it
# takes minutes each time.
bench-large: build
	$(GO) build -trimpath -o bin/bench ./server/cmd/bench
	bin/bench -members 1000,1000000,10000000 -json bin/bench-large.json -go ''

# What the gate checks after make test. It changes nothing and leaves a clean tree.
check: format vet lint check-worker fresh reproducible test-wasm clean-tree

format:
	@out=$$(gofmt -l core wasm edge server templates static); \
	if [ -n "$$out" ]; then echo "gofmt would change:"; echo "$$out"; exit 1; fi

vet: wasm
	$(GO) vet ./...
	GOOS=wasip1 GOARCH=wasm $(GO) vet ./wasm
	$(GO) mod verify >/dev/null
	@$(GO) mod tidy -diff >/dev/null || { echo "go.mod is not tidy: run go mod tidy"; exit 1; }
	@$(GO) -C server/ledger/cluster/etcdtest/server mod tidy -diff >/dev/null || { echo "the go.mod of the tests' etcd is not tidy: run go mod tidy there"; exit 1; }
	@$(GO) -C server/publish/logtest mod tidy -diff >/dev/null || { echo "the go.mod of the tests' readers of logs is not tidy: run go mod tidy there"; exit 1; }

lint:
	$(GO) tool staticcheck ./...

# Generated files must be what their sources generate, and the module what any
# other checkout of the same sources gives.
fresh: wasm
	@tmp=$$(mktemp -d) && trap 'rm -rf "$$tmp"' EXIT && cp -r go.mod go.sum core wasm "$$tmp" && rm "$$tmp/$(CORE)" && \
	(cd "$$tmp" && $(BUILD_CORE) again.wasm ./wasm) && \
	cmp "$$tmp/again.wasm" $(CORE) || { echo "$(CORE) does not build again to the same bytes"; exit 1; }
	@tmp=$$(mktemp -d) && trap 'rm -rf "$$tmp"' EXIT && cp templates/*.templ "$$tmp" && \
	$(GO) tool templ generate -path "$$tmp" -log-level error && \
	for f in "$$tmp"/*_templ.go; do \
	  diff -q "$$f" "templates/$$(basename "$$f")" >/dev/null || { echo "stale: templates/$$(basename "$$f"); run make generate"; exit 1; }; \
	done

# A release built here and one built in another folder are the same bytes.
reproducible: wasm
	@tmp=$$(mktemp -d) && trap 'rm -rf "$$tmp"' EXIT && mkdir "$$tmp/tree" && \
	tar -c --exclude=node_modules go.mod go.sum core edge server static templates wasm | tar -x -C "$$tmp/tree" && \
	GOOS=linux GOARCH=amd64 $(BUILD_RELEASE) -o "$$tmp/here" ./server/cmd/webring && \
	(cd "$$tmp/tree" && GOOS=linux GOARCH=amd64 $(BUILD_RELEASE) -o "$$tmp/there" ./server/cmd/webring) && \
	cmp "$$tmp/here" "$$tmp/there" || { echo "a release does not build again to the same bytes"; exit 1; }

clean-tree:
	@if git rev-parse --git-dir >/dev/null 2>&1 && [ -n "$$(git status --porcelain)" ]; then echo "the tree is not clean:"; git status --short; exit 1; fi

# What make test does a little of: every cell of the crash matrix twice, half an
# hour of payments through a faulty chain with an origin that keeps dying, half
# an hour of payments at a cluster whose machines and links fail, 201 payments through
# three edges, all histories, also in the interpreter, ten minutes of transactions
# while etcd, nodes and links fail, and pages in both colour schemes, and payments and the
# page /verify in Firefox, too. A node is added to
# a ring of a million members. Tools of other people read a log of 70 000 events, with a tile of level 2.
soak: wasm
	$(GO) test -count=1 -timeout 100m -run 'TestPowerFailsOnThePaidPath' -v ./server/cmd/webring -crash.runs 330 -crash.workers 8
	$(GO) test -count=1 -timeout 60m -run 'TestChaos' -v ./server/cmd/webring -chaos.time 30m
	$(GO) test -count=1 -timeout 60m -run '^(TestSoak|TestARingOutlives)' -v ./server/cmd/webring -soak.time 30m
	$(GO) test -count=1 -timeout 20m -run 'TestOtherToolsReadTheLog' -v ./server/publish -log.events 70000
	$(GO) test -count=1 -timeout 60m -run 'TestANodeIsAddedWhileBidsArePaid' -v ./server/cmd/webring -added.members 999000
	$(GO) test -count=1 -timeout 20m -run 'TestPayersReadTheirOwnWritesAtEveryEdge' -v ./server/cmd/webring -edge-payments 67
	$(GO) test -count=1 -timeout 60m -run 'TestEvery(Build|Engine)AnswersTheSame' -v ./wasm/host -scripts 1000 -interpreted 1000
	$(GO) test -count=1 -timeout 60m -v ./core/coretest -histories 1000
	$(GO) test -count=1 -timeout 60m -run 'TestHistories' -v ./server/paid -histories 200
	$(GO) test -race -count=1 -timeout 60m -run '$(LONG)' -v ./edge ./edge/front ./server/paid ./server/sites/score/local
	$(GO) test -count=1 -timeout 60m -run '^(TestPagesInABrowser|TestTheWidgetOnOtherSites|TestAReaderVerifiesTheLeaderboard|TestAWorkerReadsLogsAsEdgesDo|TestAWalletPaysInABrowser)$$' -v ./server/cmd/webring -browser.whole
	$(GO) test -count=1 -timeout 20m -run 'TestForeignWitnesses' -v ./server/publish -litewitness
	$(GO) test -count=1 -timeout 60m -run 'TestCluster/histories' -v ./server/ledger/cluster -history.time 10m

# Every fuzz target for $(FUZZ) each.
fuzz: wasm
	@for p in $$($(GO) list ./...); do \
	  list=$$($(GO) test -list '^Fuzz' $$p) || { echo "$$list"; exit 1; }; \
	  for t in $$(echo "$$list" | grep '^Fuzz'); do \
	    echo "fuzz $$p $$t"; $(GO) test -run '^$$' -fuzz "^$$t$$" -fuzztime $(FUZZ) $$p || exit 1; \
	  done; \
	done

# All in bin/release: webring_VERSION_OS_ARCH, each with its bill of materials
# (CycloneDX), the handbook with what it has operators copy, as committed, and SHA256SUMS.
release: wasm
	@case "$(VERSION)" in [0-9]*.[0-9]*.[0-9]*) ;; *) echo "name the version in the newest heading of CHANGELOG.md, which is $(VERSION)"; exit 1;; esac
	@mkdir -p bin && GOBIN="$(CURDIR)/bin" $(GO) install -trimpath $(SBOM)
	@rm -rf $(RELEASE) && mkdir $(RELEASE)
	@set -e; for platform in $(PLATFORMS); do \
	  export GOOS=$${platform%/*} GOARCH=$${platform#*/}; file=$(RELEASE)/webring_$(VERSION)_$${GOOS}_$${GOARCH}; \
	  echo "$$file"; \
	  $(BUILD_RELEASE) -o "$$file" ./server/cmd/webring; \
	  bin/cyclonedx-gomod bin -json -std -noserial -notimestamp -version $(VERSION) -output "$$file.cdx.json" "$$file"; \
	done
	@git archive --format=tar --prefix=webring_$(VERSION)/ HEAD server/HANDBOOK.md edge/README.md CHANGELOG.md LICENSE server/deploy ':!*.go' ':!*/rehearse' | gzip -n >$(RELEASE)/webring_$(VERSION)_deploy.tar.gz
	@cd $(RELEASE) && sha256sum webring_* >SHA256SUMS

# What server/deploy/Containerfile is built from, for both processors:
#   podman build --tag webring bin/container
container: release
	@rm -rf bin/container && mkdir -p bin/container/data
	@cp server/deploy/Containerfile bin/container
	@for arch in amd64 arm64; do cp $(RELEASE)/webring_$(VERSION)_linux_$$arch bin/container/webring_$$arch; done
	@cp /etc/ssl/certs/ca-certificates.crt bin/container

clean:
	rm -rf bin $(CORE)
