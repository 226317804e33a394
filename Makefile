# UnWeaver. `make help` lists the targets.
GO       ?= go
BIN      := $(CURDIR)/bin
TOOLS    := $(CURDIR)/.tools
EMBEDDED := infra/embedded

GOLANGCI      := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
WORKFLOWCHECK := go.temporal.io/sdk/contrib/tools/workflowcheck@v0.6.0

.DEFAULT_GOAL := help

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-14s %s\n", $$1, $$2}'

build: ## every binary into bin/ (the embedded stack takes some minutes the first time)
	@mkdir -p $(BIN)
	@echo "building unweaver"; $(GO) build -o $(BIN)/unweaver ./starter
	@echo "building unweaver-worker"; $(GO) build -o $(BIN)/unweaver-worker ./worker
	@echo "building unweaver-query-api"; $(GO) build -o $(BIN)/unweaver-query-api ./query-api
	@echo "building unweaver-dev: Temporal's server is compiled in, which takes minutes the first time"
	@cd $(EMBEDDED) && ( $(GO) build -o $(BIN)/unweaver-dev . & pid=$$!; n=0; while kill -0 $$pid 2>/dev/null; do sleep 1; n=$$((n+1)); [ $$((n % 30)) -eq 0 ] && echo "  still compiling ($$n s)"; done; wait $$pid )

demo: build ## index the sample corpus on the embedded stack and answer two questions
	@$(BIN)/unweaver demo

dev: build ## run the embedded stack until Ctrl-C
	@$(BIN)/unweaver dev

test: ## unit tests, conformance suites, and the pipeline on the embedded stack
	@echo "== unit tests and conformance suites"
	$(GO) test ./...
	@$(MAKE) --no-print-directory build
	@echo "== the pipeline on the embedded stack, with kill tests"
	cd $(EMBEDDED) && UNWEAVER_TEST_BIN=$(BIN) $(GO) test -timeout 20m ./...

check: $(TOOLS)/golangci-lint $(TOOLS)/workflowcheck ## format, vet, lint, workflowcheck, tests with -race
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { echo "not gofmt-ed:"; gofmt -l $$(git ls-files '*.go'); exit 1; }
	$(GO) vet ./...
	cd $(EMBEDDED) && $(GO) vet ./...
	$(TOOLS)/golangci-lint run ./...
	$(TOOLS)/workflowcheck -config .workflowcheck.yaml ./workflows/...
	$(GO) test -race ./...

$(TOOLS)/golangci-lint:
	@mkdir -p $(TOOLS); echo "installing golangci-lint (some minutes)"; GOBIN=$(TOOLS) $(GO) install $(GOLANGCI)

$(TOOLS)/workflowcheck:
	@mkdir -p $(TOOLS); GOBIN=$(TOOLS) $(GO) install $(WORKFLOWCHECK)

bench: build ## the figures of docs/benchmarks.md, as ratios in one run
	$(GO) build -o $(BIN)/modelserver ./internal/llm/llmtest/modelserver
	cd $(EMBEDDED) && $(GO) run ./bench -bin $(BIN) $(BENCH)

servers: ## real servers on loopback (none yet: the distributed adapters are not built)
	@echo "no real servers yet: this tree has the embedded adapters only (README, What is missing)"

servers-down: ## end what servers started
	@true

clean: ## remove what was built
	rm -rf $(BIN) $(TOOLS)

.PHONY: help build demo dev test check bench servers servers-down clean
