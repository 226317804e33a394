# UnWeaver. `make help` lists the targets.
GO    ?= go
BIN   := $(CURDIR)/bin
TOOLS := $(CURDIR)/.tools

GOLANGCI      := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
WORKFLOWCHECK := go.temporal.io/sdk/contrib/tools/workflowcheck@v0.6.0
GOVULNCHECK   := golang.org/x/vuln/cmd/govulncheck@v1.8.0
GITLEAKS      := github.com/zricethezav/gitleaks/v8@v8.30.1
SCHEMATHESIS  := 4.32.5

# Tests that need none of the programs: the others start the embedded stack.
UNITS = $$($(GO) list ./... | grep -v /infra/embedded)

.DEFAULT_GOAL := help

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-14s %s\n", $$1, $$2}'

build: engine ## every binary into bin/
	@GO=$(GO) infra/build.sh $(BIN)/unweaver $(BIN)/unweaver-worker $(BIN)/unweaver-query-api

# What demo and dev need: nothing for servers.
build-embedded: engine
	@GO=$(GO) infra/build.sh $(BIN)/unweaver

# The engine is fetched while Go compiles the rest; who needs it waits for it.
engine:
	@$(GO) build -trimpath -ldflags "-s -w" -o $(BIN)/engine-pull ./infra/embedded/devserver/pull
	@$(BIN)/engine-pull >/dev/null &

demo: build-embedded ## index the sample corpus on the embedded stack and answer two questions
	@echo "starting the demo: it takes less than half a minute"
	@$(BIN)/unweaver demo

nights: build-embedded ## play five nights of an index on the embedded stack, with the report of each
	@UNWEAVER=$(BIN)/unweaver infra/nights.sh

dev: build-embedded ## run the embedded stack until Ctrl-C
	@$(BIN)/unweaver dev

page: browser ## build the web page's files anew from query-api/page/src (needs node); they are committed
	@cd query-api/page && node node_modules/typescript/bin/tsc --noEmit && node build.mjs && ls -l dist

browser: ## node packages and Chromium for the tests of the web page; what cannot be had is said and skipped
	@infra/browser.sh

test: build browser ## unit tests, conformance suites on embedded adapters and real servers, the pipeline, kill tests
	@if [ -f .servers/env ]; then exec $(MAKE) --no-print-directory test-with-servers; fi; \
	trap 'infra/servers/servers.sh down' EXIT; infra/servers/servers.sh up && $(MAKE) --no-print-directory test-with-servers

test-with-servers:
	@echo "== unit tests and conformance suites"
	set -a; . ./.servers/env; set +a; export TMPDIR=$$(infra/tmpdir.sh); $(GO) test -timeout 20m $(UNITS)
	@echo "== the pipeline, while the API is asked by clients: this prints when each of them has ended"
	@$(MAKE) --no-print-directory -j2 --output-sync=target test-pipeline test-clients
	@{ [ -d query-api/page/node_modules/playwright-core ] && command -v node && { command -v chromium || command -v chromium-browser || command -v google-chrome; }; } >/dev/null || \
	  echo "SKIPPED: the web page was not tested in a browser: it needs node, npm and chromium (make browser)"
	@command -v strace >/dev/null || echo "SKIPPED: the power-loss test needs strace (Debian, Ubuntu: apt-get install strace)"
	@. ./.servers/env; if [ -n "$$UNWEAVER_TEST_MISSING" ]; then echo; echo "SKIPPED: no real $$UNWEAVER_TEST_MISSING could be had here; what needs it was not tested (see the lines 'servers:' above)"; else echo "== all real servers were there: Redis, S3, Milvus, Temporal"; fi

# The pipeline waits more than it works: for kills, beats and restarts. Its files lie on the disk.
test-pipeline:
	@echo "== the pipeline on the embedded stack and on real servers, with kill tests"
	set -a; . ./.servers/env; set +a; UNWEAVER_TEST_BIN=$(BIN) $(GO) test -timeout 60m ./infra/embedded/...

test-clients:
	@echo "== clients of other people: OpenAI's for Python, LangChain, the MCP inspector"
	@infra/clients/clients.sh $(TOOLS)/clients
	UNWEAVER_TEST_CLIENTS=$(TOOLS)/clients $(GO) test -count=1 -v -run 'TestThePythonClient|TestTheInspector' ./query-api/api
	@echo "== the API against its description"
	@$(MAKE) --no-print-directory api-contract

check: $(TOOLS)/golangci-lint $(TOOLS)/workflowcheck $(TOOLS)/govulncheck $(TOOLS)/gitleaks ## format, vet, lint, workflowcheck, known vulnerabilities, secrets, tests with -race, fuzzing
	@$(MAKE) --no-print-directory -j2 --output-sync=target check-vet check-lint check-network
	@echo "== tests with the race detector"
	TMPDIR=$$(infra/tmpdir.sh) $(GO) test -race -timeout 20m $(UNITS)
	@echo "== fuzzing"
	@$(MAKE) --no-print-directory fuzz

check-vet:
	@echo "== format, vet"
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { echo "not gofmt-ed:"; gofmt -l $$(git ls-files '*.go'); exit 1; }
	$(GO) vet ./...

check-lint:
	@echo "== lint, workflowcheck"
	$(TOOLS)/golangci-lint run --allow-parallel-runners ./...
	$(TOOLS)/workflowcheck -config .workflowcheck.yaml ./workflows/...

check-network:
	@echo "== known vulnerabilities"
	@$(MAKE) --no-print-directory vulnerabilities
	@echo "== secrets in the sources and in their history"
	@$(MAKE) --no-print-directory secrets

# schemathesis is a Python program: it is installed into .tools, where that can be had.
APISECONDS ?= 60
api-contract: ## send requests made from openapi.json, good and bad, to query-api on loopback (APISECONDS=60)
	@venv=$(TOOLS)/schemathesis; program=$$venv/bin/schemathesis; \
	if ! $$program --version 2>/dev/null | grep -qF '$(SCHEMATHESIS)'; then \
	  rm -rf $$venv; mkdir -p $(TOOLS); echo "installing schemathesis $(SCHEMATHESIS)"; \
	  python3 -m venv $$venv >/dev/null 2>&1 && $$venv/bin/pip install -q 'schemathesis==$(SCHEMATHESIS)' >/dev/null 2>&1 || \
	  { echo "SKIPPED: schemathesis cannot be installed here (python3 with venv, and PyPI): the API was not tried with it"; exit 0; }; \
	fi; \
	UNWEAVER_TEST_SCHEMATHESIS=$$program UNWEAVER_TEST_SCHEMATHESIS_SECONDS=$(APISECONDS) \
	  $(GO) test -count=1 -run TestSchemathesisFindsNothing ./query-api/api

histories: engine ## record the histories of workflows/testdata anew, with the engine
	UNWEAVER_TEMPORAL=$$($(BIN)/engine-pull) UNWEAVER_RECORD_HISTORIES=1 $(GO) test -count=1 -timeout 15m -run '^TestRecordHistories$$' -v ./workflows

fuzz: ## every fuzz target, two at a time: FUZZTIME=60 seconds each at most, FUZZTOTAL=720 for all
	@GO=$(GO) infra/fuzz.sh

# The rules of gitleaks and one for our own keys (.gitleaks.toml); what is a made-up secret of a test is named there.
secrets: $(TOOLS)/gitleaks ## search the sources and their history for secrets
	@$(TOOLS)/gitleaks git --no-banner --redact --config .gitleaks.toml --log-opts=HEAD .
	@d=$$(mktemp -d) && trap 'rm -rf "$$d"' EXIT && git ls-files -z --cached --others --exclude-standard | \
	  xargs -0 cp --parents -t "$$d" && $(TOOLS)/gitleaks dir --no-banner --redact --config .gitleaks.toml "$$d"

MODELS ?= e5 e5-en-pt minilm
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
release: ## archives for Linux and macOS into dist/, equal wherever they are made, with bills of materials and SHA256SUMS
	@echo "three programs for four systems and processors: some minutes of two cores for each of the four, the first time"
	$(GO) run ./infra/release -version $(VERSION) -out dist $(if $(TARGETS),-targets $(TARGETS))

release-check: ## compile everything for macOS, as far as that goes without running it (some minutes the first time)
	CGO_ENABLED=0 GOOS=darwin GOARCH=arm64 $(GO) vet ./...

# The data base of vulnerabilities is asked over the network: where it cannot be reached, that is said, and no failure.
vulnerabilities: $(TOOLS)/govulncheck
	@out=$$($(TOOLS)/govulncheck ./... 2>&1); code=$$?; \
	if echo "$$out" | grep -q 'fetching vulnerabilities'; then echo "SKIPPED: the vulnerability data base cannot be reached from here"; \
	else echo "$$out"; exit $$code; fi

$(TOOLS)/govulncheck:
	@mkdir -p $(TOOLS); GOBIN=$(TOOLS) $(GO) install $(GOVULNCHECK)

$(TOOLS)/gitleaks:
	@mkdir -p $(TOOLS); GOBIN=$(TOOLS) $(GO) install $(GITLEAKS)

$(TOOLS)/golangci-lint:
	@mkdir -p $(TOOLS); echo "installing golangci-lint (some minutes)"; GOBIN=$(TOOLS) $(GO) install $(GOLANGCI)

$(TOOLS)/workflowcheck:
	@mkdir -p $(TOOLS); GOBIN=$(TOOLS) $(GO) install $(WORKFLOWCHECK)

bench: build ## the figures of docs/benchmarks.md, as ratios in one run; DATASETS="dir ..." adds recall, make servers adds real servers
	$(GO) build -o $(BIN)/modelserver ./internal/testkit/modeltest/modelserver
	$(GO) build -o $(BIN)/queryload ./query-api/load
	$(GO) run ./infra/embedded/bench -bin $(BIN) $(BENCH)
	$(GO) test -run '^$$' -bench . -benchtime 200x ./internal/retrieve/...
	$(GO) test -run '^$$' -bench Distance -benchtime 1x ./internal/pipeline
	$(GO) test -run '^$$' -bench . ./internal/model/neural/...
	@for d in $(DATASETS); do $(BIN)/unweaver eval --dataset $$d --workers 1 --data-dir $(BIN)/eval-data --out $(BIN)/eval-$$(basename $$d) || exit 1; done
	@if [ -f .servers/env ]; then set -a; . ./.servers/env; set +a; UNWEAVER_TEST_BIN=$(BIN) $(GO) test -timeout 60m -run '^$$' -bench . -benchtime 1x ./infra/embedded/e2e; \
	else echo "no real servers: make servers adds their figures"; fi

models: ## fetch and check the weights of embedders inside (MODELS="e5 minilm", into the user's folder of caches)
	@for m in $(MODELS); do $(GO) run ./starter models pull $$m || exit 1; done

servers: build ## install and start Redis, S3, Milvus and Temporal on loopback, for tests and benchmarks
	@infra/servers/servers.sh up
	@echo "addresses and keys are in .servers/env; they end with make servers-down, or by themselves after three hours"

servers-down: ## end what servers started
	@infra/servers/servers.sh down

KILLS ?= 200
storm: build ## 200 kills of builds on the embedded stack, 60 on the servers of make servers; tables in bin/storm (KILLS=n)
	@if [ -f .servers/env ]; then set -a; . ./.servers/env; set +a; else echo "no real servers: make servers adds their storms"; fi; \
	UNWEAVER_TEST_BIN=$(BIN) UNWEAVER_STORM=$(KILLS) UNWEAVER_STORM_OUT=$(BIN)/storm $(GO) test -count=1 -timeout 120m -v \
	  -run 'TestKilledInEveryStage|TestEveryPartOfAClusterIsKilledInTurn|TestAWorkerThatWasFrozen|TestBadConnections' ./infra/embedded/e2e

compose-check: ## validate docker-compose.yml, its configuration and the images' Dockerfile
	$(GO) test -count=1 ./infra/composecheck
	@if docker compose version >/dev/null 2>&1; then \
	  docker compose --env-file infra/composecheck/env config -q && echo "docker compose accepts it"; \
	else echo "docker compose is not here: its own check was left out"; fi

clean: ## remove what was built
	rm -rf $(BIN) $(TOOLS) dist

.PHONY: help build build-embedded engine demo nights dev page browser test test-with-servers test-pipeline test-clients api-contract check check-vet check-lint check-network fuzz secrets release release-check vulnerabilities docs histories bench storm servers servers-down compose-check clean
