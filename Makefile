# UnWeaver. `make help` lists the targets.
GO    ?= go
BIN   := $(CURDIR)/bin
TOOLS := $(CURDIR)/.tools

GOLANGCI      := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
WORKFLOWCHECK := go.temporal.io/sdk/contrib/tools/workflowcheck@v0.6.0
GOTESTSUM     := gotest.tools/gotestsum@v1.13.0
GOVULNCHECK   := golang.org/x/vuln/cmd/govulncheck@v1.8.0
GITLEAKS      := github.com/zricethezav/gitleaks/v8@v8.30.1
GORELEASER    := github.com/goreleaser/goreleaser/v2@v2.15.1
SYFT          := github.com/anchore/syft/cmd/syft@v1.57.1
SCHEMATHESIS  := 4.32.5
MKDOCS        := 9.8.1

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
	@$(GO) build -trimpath -ldflags "-s -w" -o $(TOOLS)/engine-pull ./infra/embedded/devserver/pull
	@$(TOOLS)/engine-pull >/dev/null &

demo: build-embedded ## index the sample corpus on the embedded stack and answer two questions
	@echo "starting the demo: it takes less than half a minute"
	@$(BIN)/unweaver demo

nights: build-embedded ## play five nights of an index on the embedded stack, with the report of one
	@UNWEAVER=$(BIN)/unweaver infra/nights.sh

dev: build-embedded ## run the embedded stack until Ctrl-C
	@$(BIN)/unweaver dev

page: browser ## build the web page's files anew from query-api/page/src (needs node); they are committed
	@cd query-api/page && node node_modules/typescript/bin/tsc --noEmit && node build.mjs && ls -l dist

browser: ## node packages and Chromium for the tests of the web page; what cannot be had is said and skipped
	@infra/browser.sh

# The lists of packages that suites of tests need; infra/test.sh runs them, docs/testing.md says what each is for.
export GO BIN TOOLS
export PIPELINE := infra/embedded
export PROGRAMS := ./infra/programs
export RACED    := ./internal/pipeline/... ./internal/ledger/... ./internal/model/limits/... ./internal/store/... ./internal/stream/... ./query-api/api/... ./query-api/served/...
SERVERS = [ -f .servers/env ] || { trap 'infra/servers/servers.sh down' EXIT; infra/servers/servers.sh up; }

test: $(TOOLS)/gotestsum build-embedded ## vet, unit and property tests, the built programs end to end: needs Go and nothing else
	@echo "== vet"
	@$(GO) vet ./...
	@echo "== unit tests, then the built programs"
	@TMPDIR=$$(infra/tmpdir.sh) infra/test.sh unit programs

test-servers: $(TOOLS)/gotestsum build browser clients ## the suites and the pipeline on real servers, clients of other people, a browser
	@$(SERVERS); infra/test.sh servers

nightly: $(TOOLS)/gotestsum build browser clients vulnerabilities ## everything at its full size: hours; before a release
	@$(SERVERS); TMPDIR=$$(infra/tmpdir.sh) infra/test.sh race long clients
	@$(MAKE) --no-print-directory fuzz

check: $(TOOLS)/golangci-lint $(TOOLS)/workflowcheck $(TOOLS)/gitleaks ## format, vet, lint, workflowcheck, secrets
	@$(MAKE) --no-print-directory -j2 --output-sync=target check-vet check-lint check-client secrets

# What cannot be had is said, and what would ask with it is skipped.
clients:
	@infra/clients/clients.sh $(TOOLS)/clients
	@$(TOOLS)/schemathesis/bin/schemathesis --version 2>/dev/null | grep -qF '$(SCHEMATHESIS)' || { \
	  rm -rf $(TOOLS)/schemathesis; mkdir -p $(TOOLS); echo "installing schemathesis $(SCHEMATHESIS)"; \
	  python3 -m venv $(TOOLS)/schemathesis >/dev/null 2>&1 && \
	  $(TOOLS)/schemathesis/bin/pip install -q 'schemathesis==$(SCHEMATHESIS)' >/dev/null 2>&1; } || { \
	  rm -rf $(TOOLS)/schemathesis; \
	  echo "SKIPPED: schemathesis cannot be installed here (python3 with venv, and PyPI): the API was not tried with it"; }

check-vet:
	@echo "== format, vet"
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { echo "not gofmt-ed:"; gofmt -l $$(git ls-files '*.go'); exit 1; }
	$(GO) vet ./...

# The committed client is what its generator makes of the description of the API.
check-client:
	@echo "== generated client"
	@if command -v python3 >/dev/null; then python3 -B infra/clients/python/generate.py --check; \
	  else echo "SKIPPED: no python3: the client was not compared with openapi.json"; fi

check-lint:
	@echo "== lint, workflowcheck"
	$(TOOLS)/golangci-lint run --allow-parallel-runners ./...
	$(TOOLS)/workflowcheck -config .workflowcheck.yaml ./workflows/...

APISECONDS ?= 60
api-contract: clients ## send requests made from openapi.json, good and bad, to query-api on loopback (APISECONDS=60)
	UNWEAVER_TEST_SCHEMATHESIS=$(TOOLS)/schemathesis/bin/schemathesis UNWEAVER_TEST_SCHEMATHESIS_SECONDS=$(APISECONDS) \
	  $(GO) test -count=1 -run TestSchemathesisFindsNothing ./query-api/api

histories: engine ## record the histories of workflows/testdata anew, with the engine
	UNWEAVER_TEMPORAL=$$($(TOOLS)/engine-pull) UNWEAVER_RECORD_HISTORIES=1 $(GO) test -count=1 -timeout 15m -run '^TestRecordHistories$$' -v ./workflows

fuzz: ## every fuzz target, two at a time: FUZZTIME=60 seconds each at most, FUZZTOTAL=720 for all
	@GO=$(GO) infra/fuzz.sh

# The rules of gitleaks and one for our own keys (.gitleaks.toml); what is a made-up secret of a test is named there.
secrets: $(TOOLS)/gitleaks ## search the sources and their history for secrets
	@$(TOOLS)/gitleaks git --no-banner --redact --config .gitleaks.toml --log-opts=HEAD .
	@d=$$(mktemp -d) && trap 'rm -rf "$$d"' EXIT && git ls-files -z --cached --others --exclude-standard | \
	  xargs -0 cp --parents -t "$$d" && $(TOOLS)/gitleaks dir --no-banner --redact --config .gitleaks.toml "$$d"

MODELS ?= e5 e5-en-pt minilm
RELEASE ?= --snapshot --skip=docker,sign
release: $(TOOLS)/goreleaser $(TOOLS)/syft ## archives for Linux and macOS into dist/, with bills of materials and SHA256SUMS; RELEASE= releases, with images and signatures (RELEASES.md)
	PATH=$(TOOLS):$$PATH $(TOOLS)/goreleaser release --clean $(RELEASE)

release-check: $(TOOLS)/goreleaser ## check .goreleaser.yaml, compile everything for macOS (some minutes the first time)
	$(TOOLS)/goreleaser check
	CGO_ENABLED=0 GOOS=darwin GOARCH=arm64 $(GO) vet ./...

# The data base of vulnerabilities is asked over the network: where it cannot be reached, that is said, and no failure.
vulnerabilities: $(TOOLS)/govulncheck
	@out=$$($(TOOLS)/govulncheck ./... 2>&1); code=$$?; \
	if echo "$$out" | grep -q 'fetching vulnerabilities'; then echo "SKIPPED: the vulnerability data base cannot be reached from here"; \
	else echo "$$out"; exit $$code; fi

$(TOOLS)/gotestsum:
	@mkdir -p $(TOOLS); GOBIN=$(TOOLS) $(GO) install $(GOTESTSUM)

$(TOOLS)/govulncheck:
	@mkdir -p $(TOOLS); GOBIN=$(TOOLS) $(GO) install $(GOVULNCHECK)

$(TOOLS)/gitleaks:
	@mkdir -p $(TOOLS); GOBIN=$(TOOLS) $(GO) install $(GITLEAKS)

$(TOOLS)/golangci-lint:
	@mkdir -p $(TOOLS); echo "installing golangci-lint (some minutes)"; GOBIN=$(TOOLS) $(GO) install $(GOLANGCI)

$(TOOLS)/goreleaser:
	@mkdir -p $(TOOLS); echo "installing goreleaser (ten minutes)"; GOBIN=$(TOOLS) $(GO) install $(GORELEASER)

$(TOOLS)/syft:
	@mkdir -p $(TOOLS); echo "installing syft (some minutes)"; GOBIN=$(TOOLS) $(GO) install $(SYFT)

$(TOOLS)/workflowcheck:
	@mkdir -p $(TOOLS); GOBIN=$(TOOLS) $(GO) install $(WORKFLOWCHECK)

bench: build ## the figures of docs/benchmarks.md, as ratios in one run; DATASETS="dir ..." adds recall
	UNWEAVER_TEST_BIN=$(BIN) $(GO) test -timeout 120m -run '^$$' -bench Build -benchtime 1x ./infra/embedded/e2e $(if $(BENCH),-args $(BENCH))
	$(GO) test -run '^$$' -bench . -benchtime 200x ./internal/retrieve/...
	$(GO) test -run '^$$' -bench . ./internal/model/neural/...
	@for d in $(DATASETS); do $(BIN)/unweaver eval --dataset $$d --workers 1 --data-dir $(BIN)/eval-data --out $(BIN)/eval-$$(basename $$d) || exit 1; done

models: ## fetch and check the weights of embedders inside (MODELS="e5 minilm", into the user's folder of caches)
	@for m in $(MODELS); do $(GO) run ./starter models pull $$m || exit 1; done

servers: build ## install and start Redis, S3, Milvus and Temporal on loopback, for tests
	@infra/servers/servers.sh up
	@echo "addresses and keys are in .servers/env; they end with make servers-down, or by themselves after three hours"

servers-down: ## end what servers started
	@infra/servers/servers.sh down

KILLS ?= 200
storm: build ## 200 kills of builds on the embedded stack (KILLS=n)
	@UNWEAVER_TEST_NIGHTLY=1 UNWEAVER_TEST_BIN=$(BIN) UNWEAVER_STORM=$(KILLS) $(GO) test -count=1 -timeout 120m -v \
	  -run 'TestKilledInEveryStage' ./infra/embedded/e2e

references: ## write the generated pages and descriptions: commands, settings, API, metrics, errors
	@$(GO) test -count=1 ./internal/config ./internal/fault ./internal/telemetry ./starter/cli ./query-api/api \
	  -run '^TestTheReference|^TestTheDescriptionIsTheOne' -update

docs: $(TOOLS)/mkdocs-$(MKDOCS) ## the documentation as a website into site/ (needs python3 with venv); broken links fail
	@infra/docs.sh $</bin/mkdocs $(CURDIR)/site && echo "open site/index.html"

$(TOOLS)/mkdocs-$(MKDOCS):
	@echo "installing mkdocs-material $(MKDOCS)"; rm -rf $@; mkdir -p $(TOOLS); python3 -m venv $@ && \
	  $@/bin/pip install -q --disable-pip-version-check 'mkdocs==1.6.1' 'mkdocs-material==$(MKDOCS)' || { rm -rf $@; exit 1; }

size: ## lines of each room against its budget, lines of tests, words of the docs
	@infra/size.sh

compose-check: ## validate docker-compose.yml, its configuration and the images' Dockerfile
	$(GO) test -count=1 ./infra
	@if docker compose version >/dev/null 2>&1; then \
	  env=$$(mktemp) && trap 'rm -f "$$env"' EXIT && sed 's/=$$/=made-up-secret-of-a-check/' infra/env.example >"$$env" && \
	  docker compose --env-file "$$env" config -q && echo "docker compose accepts it"; \
	else echo "docker compose is not here: its own check was left out"; fi

clean: ## remove what was built
	rm -rf $(BIN) $(TOOLS) dist

.PHONY: size help build build-embedded engine demo nights dev page browser test test-servers nightly clients api-contract check check-vet check-lint fuzz secrets release release-check vulnerabilities docs histories bench storm servers servers-down compose-check clean
