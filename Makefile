# `make` alone prints this help. Each target says in its comment what it is for; a target that is here does something.

GO      ?= go
PYTHON  ?= python3
FUZZ    ?= 60s
# Packages whose tests need neither a process nor a disk: what `make check` runs beside the house rules.
FAST    := . ./config ./stages ./source ./window ./encode/... ./upload ./commit/... ./lake ./internal/... ./broker/command/... ./broker/kv

.PHONY: help build demo check test race e2e chaos compat fuzz sim catch bench generate

help: ## this list
	@awk -F':.*## ' '/^[a-z0-9]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## bin/queen
	$(GO) build -trimpath -o bin/queen ./cmd/queen

demo: ## broker, sink and an S3 store in one process: three records from push to bucket, 15 seconds (KEEP=1: then orders go on)
	cd demo && $(GO) run . $(if $(KEEP),--keep)

check: ## what to run before a commit: format, vet, the house rules, the tests of the fast packages
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "gofmt: $$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) test -timeout 5m $(FAST)

test: ## every test of the broker and the sink
	$(GO) test -timeout 20m ./...

race: ## the same under the race detector, with fewer rounds of what repeats itself
	$(GO) test -race -short -timeout 40m ./...

e2e: .venv/ready ## real processes against a real S3 store: the guide, crash points, kill -9; two audits of each lake
	cd test && $(GO) vet ./... && $(GO) test -timeout 60m -count=1 -skip TestSimulation -v ./e2e/... ./mutation/...
	QUEEN_DAMAGE_PLACES=40 $(GO) test -timeout 20m -count=1 -run 'TestDamage$$' -v ./broker

chaos: .venv/ready ## three processes in network namespaces, faults of every kind for CHAOS (default 5m) while clients write, then the audits; as root, on Linux (CHAOS_SEED=n repeats the choices)
	$(GO) vet -tags chaosclock ./cmd/queen && $(GO) test -tags chaosclock -count=1 -run 'TestStepped|TestClock' ./cmd/queen
	cd test && $(GO) vet ./chaos && $(GO) test -timeout 24h -count=1 -v ./chaos

compat: .venv/compat ## lakes of every format and compression through DuckDB, ClickHouse (chdb), Polars, pandas, pyarrow, parquet-go, zstd and gzip, compared to the byte
	cd test && $(GO) vet ./compat && $(GO) test -timeout 20m -count=1 -v ./compat

fuzz: ## every fuzz target for FUZZ (default 60s) each, two at a time: 20 minutes
	test/fuzz.sh $(FUZZ)

sim: ## three brokers and their sinks on simulated time, network, disks and bucket, broken by seed; SIM (default 10m) of them, or SEED
	cd test/sim && $(GO) vet ./... && SIM=$(or $(SIM),10m) $(GO) test -count=1 -timeout 60m -run TestSim -v .

catch: ## lines that exactly once rests on are taken out, one at a time, until a simulated world goes red: about 6 minutes
	cd test && $(GO) test -count=1 -timeout 25m -run 'TestSimulation|TestDocTable' -v ./mutation

bench: ## the numbers of the contract against their targets, a quarter of an hour (bench/README.md); FULL=1: at full size, about two hours; BENCH="-only push": its flags
	$(GO) run ./bench $(if $(FULL),-full) $(BENCH)

generate: ## docs/settings.md, from the table of settings
	$(GO) run ./cmd/queen settings --markdown > docs/settings.md.new
	mv docs/settings.md.new docs/settings.md

# The second audit of a lake, and the readers that the suite asks, are Python.
.venv/ready:
	$(PYTHON) -m venv .venv
	.venv/bin/pip install --quiet duckdb zstandard pyarrow
	touch $@

# The readers of `make compat` are over a gigabyte, so only that target installs them.
.venv/compat: .venv/ready test/compat/requirements.txt
	.venv/bin/pip install --quiet -r test/compat/requirements.txt
	touch $@
