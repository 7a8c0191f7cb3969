# Everything that a developer or CI runs. It needs Go 1.26, Python 3.11 or
# later, a C compiler for Go's race detector, and make. All else is installed
# from here, pinned, into .bin/ and .venv/, which git ignores.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules
.DEFAULT_GOAL := help

GO ?= go
PYTHON ?= python3
# Assertions are on in every test run. RACE= turns race detection off where there is no C
# compiler.
RACE ?= -race
# Without debug information, which only a debugger needs, the race form of all libraries
# compiles in three quarters of the time; stack traces keep their lines. A program with the
# race detector sleeps for a second before it exits, to detect late races; the tests start
# many programs, and goleak finds goroutines that are left, so a tenth of it is enough.
RACE_FORM := $(if $(RACE),$(RACE) -gcflags=all=-dwarf=false)
# golangci-lint runs all that go vet would, and more: see .golangci.yml.
GOTEST := CGO_ENABLED=$(if $(RACE),1,0) GORACE=atexit_sleep_ms=100 $(GO) test $(RACE_FORM) -tags invariants -vet=off
# The race detector makes tests several times slower, and is compiled and linked apart. test runs
# these packages with it: goroutines that share memory are their work. It runs all others
# without it, and a share of the random cases (the tag share). test-race runs all with it.
RACED := ./cache/... ./flight/frames ./flight/inbound ./flight/limits ./flight/local ./internal/budget ./internal/cores \
	./internal/parquet/charged ./internal/spool ./internal/store ./internal/trace ./joiner/... ./loader/datafile ./loader/fanout ./loader/lane
UNRACED := $(GO) test -tags invariants,share -vet=off
# The race detector alone needs cgo. All else is compiled in one form, that which is
# shipped: arrow, sqlite and the AWS SDK take minutes of CPU for each form.
export CGO_ENABLED := 0
export GOFLAGS := $(strip $(GOFLAGS) -trimpath)
# The product is the module of this folder. Benchmarks and the programs of developers are modules
# of their own, in the same workspace (go.work).
ALL_MODULES := ./... ./benchmarks/... ./tools/...
# check runs what reads sources alone.
TESTED = $(GO) list $(ALL_MODULES) | grep -vE '/internal/(dep|docs|prose|spec)test$$'
# What reads sources and pages alone: imports, fields, examples. The race detector would
# only make it slow.
SOURCE_TESTS := ./internal/deptest ./internal/docstest ./internal/spectest
# All random cases of packages that try a share of them in test and with the race detector.
RANDOM_CASES := $(GO) test -tags invariants -vet=off ./internal/parquet ./joiner/spill ./loader ./loader/stream ./loader/joined ./loader/fanout ./loader/extsort
# Random worlds on real tables, ours and other writers': without the race
# detector, under which there are few. It says how many were refused, and why.
WORLDS := $(GO) test -tags invariants -vet=off -v -run 'Worlds|Lineage' ./internal/scenario/warehouse ./internal/scenario/exchange ./loader/promote
# All states of all fixtures, which are too many for the race detector.
FIXTURES := $(GO) test -tags invariants -vet=off ./internal/scenario/fixtures
# Processes that commit to one table at once, without the race detector, under which they commit less.
COMMITS := $(GO) test -tags invariants -vet=off -run 'CommitsThatRace' ./loader/catalog/icebergcat/commits
# Every Python test but those of penstock.torch.
PYTEST := .venv/test/bin/pytest -c python/pyproject.toml --rootdir .
PYTHON_TESTS := --ignore python/tests/with_torch --ignore python/tests/with_browser --ignore python/tests/with_airflow --ignore python/tests/with_ray --ignore python/tests/with_engines --ignore python/tests/with_spark --ignore python/tests/test_monitoring.py python/tests demo tools/tests tools/fixtures/tests tools/worlds/tests/test_pyiceberg*.py
FUZZTIME ?=

GOLANGCI_VERSION := v2.15.0
GOLANGCI := .bin/golangci-lint-$(GOLANGCI_VERSION)
RUFF := .venv/test/bin/ruff
MYPY := .venv/test/bin/mypy

# A package folder's own tests, demos and benchmarks find the server here.
export PENSTOCK_BIN := $(CURDIR)/bin/penstock
# Tests of S3 start this gateway; without it, each builds one.
export PENSTOCK_S3GATEWAY := $(CURDIR)/.bin/s3gateway
# Tests of the dashboard and the alerts start prometheus and promtool of this folder.
export PENSTOCK_PROMETHEUS := $(CURDIR)/.bin
# Go tests have PyIceberg and Spark write tables for them with these Pythons.
export PENSTOCK_PYTHON := $(CURDIR)/.venv/test/bin/python
export PENSTOCK_SPARK_PYTHON := $(CURDIR)/.venv/spark/bin/python
export PENSTOCK_SPARK_JARS := $(CURDIR)/.bin/spark-jars

.PHONY: help
help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r name text; do printf '  %-12s %s\n' "$$name" "$$text"; done

# ---- product ----------------------------------------------------------------

.PHONY: build
build: ## bin/penstock
	@echo "bin/penstock: building it with $$($(GO) env GOVERSION); the first build downloads modules and compiles Arrow, Iceberg, SQLite and the AWS SDK, which takes one to two minutes"
	@tools/progress.sh bin/penstock $(GO) build -v -o bin/penstock ./cmd/penstock

# The server that Python tests start: with assertions, and with memory that is filled before it is used, as in Go tests.
CHECKED := $(CURDIR)/bin/checked/penstock
.PHONY: build-checked
build-checked:
	@tools/progress.sh bin/checked/penstock $(GO) build -v -tags invariants -o $(CHECKED) ./cmd/penstock

# The server whose clock faults set, which is never shipped.
SHIFTED := $(CURDIR)/bin/chaos/penstock
.PHONY: build-shifted
build-shifted:
	@tools/progress.sh bin/chaos/penstock $(GO) build -v -tags invariants,shiftclock -o $(SHIFTED) ./cmd/penstock

.PHONY: demo
demo: build .venv/demo/.stamp ## real data end to end, compared with DuckDB
	@echo "demo: running demo/run.py, which writes its tables into .demo and starts bin/penstock"
	.venv/demo/bin/python demo/run.py

.PHONY: demo-s3
demo-s3: build .venv/demo/.stamp $(PENSTOCK_S3GATEWAY) ## the demo with tables on S3, behind a REST catalog
	.venv/demo/bin/python demo/run.py --s3

# What users install, in dist/. The same commit gives the same files.
RELEASE = GOWORK=off $(GO) run -C tools/release . -out $(CURDIR)/dist -python $(CURDIR)/.venv/wheel/bin/python
HOST_PLATFORM = $(shell $(GO) env GOHOSTOS)/$(shell $(GO) env GOHOSTARCH)

.PHONY: wheel
wheel: .venv/wheel/.stamp ## the Python package with the server, for this machine, in dist/wheels
	rm -rf dist/wheels
	$(RELEASE) -platforms $(HOST_PLATFORM) wheels

.PHONY: wheels
wheels: .venv/wheel/.stamp ## the same for Linux and macOS, x86-64 and ARM
	rm -rf dist/wheels
	$(RELEASE) wheels

.PHONY: image
image: .venv/wheel/.stamp ## an OCI image layout, in dist/image
	$(RELEASE) image

.PHONY: site
site: .venv/site/.stamp ## the documentation as HTML files with search, in dist/site
	GOWORK=off $(GO) run -C tools/release . -out $(CURDIR)/dist -python $(CURDIR)/.venv/site/bin/python site

.PHONY: release
release: .venv/wheel/.stamp ## all of a release, from a commit: wheels, image, chart, bill of materials, notes, checksums
	rm -rf dist
	$(RELEASE) all

.PHONY: costs
costs: build .venv/bench/.stamp ## what a batch costs, beside engines and floors, cold and warm, into benchmarks/results
	.venv/bench/bin/python benchmarks/costs.py

.PHONY: stages
stages: build .venv/bench/.stamp ## where a joined row's nanoseconds go: benchmarks/stages.md, from CPU profiles
	.venv/bench/bin/python benchmarks/stages.py

.PHONY: scanjoin
scanjoin: .venv/bench/.stamp ## a join of three staging tables beside scanning the same columns
	.venv/bench/bin/python benchmarks/scanjoin_tables.py .bench/scanjoin
	$(GO) run ./benchmarks/scanjoin

.PHONY: commits
commits: build .bin/rest-jars/.stamp ## stage and undo on a table with 4,096 partitions and 40,000 files
	$(GO) run ./benchmarks/commits -penstock $(PENSTOCK_BIN) -rest $(CURDIR)/.bin/rest-jars

.PHONY: promotion
promotion: build spark-needs-java .venv/spark/.stamp .bin/spark-jars/.stamp ## three features become columns: Spark's MERGEs, its one INSERT OVERWRITE, penstock promote
	.venv/spark/bin/python benchmarks/promote.py --binary $(PENSTOCK_BIN)

.PHONY: planning
planning: ## plans of thousands of data and delete files, from their manifests
	$(GO) run ./benchmarks/planning

.PHONY: deletes
deletes: build .venv/bench/.stamp ## T with one row in ten deleted, in three ways, beside T without deletes
	.venv/bench/bin/python benchmarks/tables.py .bench/full
	$(GO) run ./benchmarks/deletes

.PHONY: ordering
ordering: build .venv/bench/.stamp ## T with rows and requests permuted, beside its splits permuted; exact counts beside epochs
	.venv/bench/bin/python benchmarks/tables.py .bench/full
	$(GO) run ./benchmarks/ordering
	$(GO) run ./benchmarks/counting

.PHONY: onestream
onestream: build .venv/bench/.stamp ## one stream of T from a server with 1, 2, 4, 8 and 16 cores
	.venv/bench/bin/python benchmarks/tables.py .bench/full
	$(GO) run ./benchmarks/onestream

.PHONY: mixing
mixing: build .venv/bench/.stamp ## how well rows are mixed: batches of shuffled epochs beside independent draws
	PYTHONPATH=python/src .venv/bench/bin/python benchmarks/mixing.py

.PHONY: s3
s3: .venv/bench/.stamp $(PENSTOCK_S3GATEWAY) ## T from an S3 gateway, with a delay added to every request, beside T without
	.venv/bench/bin/python benchmarks/tables.py .bench/full
	$(GO) run ./benchmarks/s3

.PHONY: requests
requests: build .venv/bench/.stamp ## columns of a request, sent once and with every row
	.venv/bench/bin/python benchmarks/requests_tables.py .bench/requests
	$(GO) run ./benchmarks/requests

.PHONY: floors
floors: .venv/bench/.stamp ## what delivering ready batches costs: gRPC, sockets, mapped memory
	$(GO) run ./benchmarks/floors -results benchmarks/results

.PHONY: sweep
sweep: build .venv/bench/.stamp ## equal jobs that share one scan and join, beside one job and ready batches
	.venv/bench/bin/python benchmarks/tables.py .bench/full
	$(GO) run ./benchmarks/sweep

.PHONY: sweep-s3
sweep-s3: build .venv/bench/.stamp $(PENSTOCK_S3GATEWAY) ## eight jobs at one server beside eight servers, tables on S3 with 20 ms
	PYTHONPATH=python/src .venv/bench/bin/python benchmarks/s3_sweep.py

.PHONY: mapped
mapped: build .venv/bench/.stamp ## batches in mapped memory beside the same over TCP: one job and eight
	.venv/bench/bin/python benchmarks/tables.py .bench/full
	PYTHONPATH=python/src .venv/bench/bin/python benchmarks/mapped.py

.PHONY: rings
rings: build .venv/torch/.stamp .venv/bench/.stamp ## tensors that the server assembles, beside those that the training process makes
	.venv/bench/bin/python benchmarks/tables.py .bench/full
	PYTHONPATH=python/src .venv/torch/bin/python benchmarks/rings.py

.PHONY: gpu
gpu: build .venv/torch/.stamp ## a model on a GPU that is fed from T, beside steps on batches that stay there
	benchmarks/gpu.sh

.PHONY: bench-torch
bench-torch: build .venv/torch/.stamp .venv/bench/.stamp .venv/ray/.stamp ## the way into torch, beside DuckDB, Polars and Ray Data
	.venv/bench/bin/python benchmarks/tables.py .bench/full
	PYTHONPATH=$(CURDIR)/.venv/ray .venv/torch/bin/python benchmarks/costs.py --torch --name into-torch

.PHONY: encrypted
encrypted: build .venv/bench/.stamp ## what TLS costs a stream
	.venv/bench/bin/python benchmarks/tables.py .bench/full
	.venv/bench/bin/python benchmarks/encrypted.py

.PHONY: computed
computed: build .venv/bench/.stamp ## what ten computed columns cost a stream
	.venv/bench/bin/python benchmarks/tables.py .bench/full
	.venv/bench/bin/python benchmarks/computed.py

.PHONY: guarded
guarded: build .venv/bench/.stamp .demo/tables/penstock.yaml ## what a token, a policy and an audit log add to a call
	.venv/bench/bin/python benchmarks/guarded.py

.PHONY: attack
attack: build ## harm to a server from outside: rows, memory and times hold; QUICK=1: the short form
	$(GO) run ./benchmarks/attack $(if $(QUICK),-quick)

.PHONY: churn
churn: build .venv/bench/.stamp ## ten minutes of clients that come and go beside a small cache and a server that is killed
	PYTHONPATH=python/src .venv/bench/bin/python benchmarks/churn.py

.PHONY: pages
pages: build .venv/bench/.stamp ## the page of 500 streams in Chromium, and what it costs the server
	tools/chromium.sh
	.venv/bench/bin/python benchmarks/ui.py

.PHONY: restarts
restarts: build release-before .venv/bench/.stamp ## 100 rolling restarts of three servers below sixteen streams; every other round starts the release before
	.venv/bench/bin/python benchmarks/restarts.py --old "$$(tools/release_before.sh)/penstock"

.PHONY: replicas
replicas: build .venv/bench/.stamp ## a shuffled epoch from 1, 2, 4 and 8 replicas, each with a link of 100 Mbit/s; needs root
	.venv/bench/bin/python benchmarks/replicas.py

.PHONY: swept-replicas
swept-replicas: build .venv/bench/.stamp $(PENSTOCK_S3GATEWAY) ## eight jobs of a sweep at four replicas, beside one job: requests to S3
	.venv/bench/bin/python benchmarks/swept_replicas.py

.PHONY: losses
losses: build .venv/bench/.stamp ## half an hour in which one of eight replicas is killed, or falls silent, every ten seconds; needs root
	.venv/bench/bin/python benchmarks/losses.py --timed

CHAOS := PYTHONPATH=benchmarks:python/src:python/tests PENSTOCK_BIN=$(SHIFTED) .venv/test/bin/python -m chaos
.PHONY: chaos
chaos: build-shifted .venv/test/.stamp $(PENSTOCK_S3GATEWAY) ## an hour of faults of everything below trainers and writers; SEED=2: other faults; FLAGS="--for 600 --faults 100": shorter
	$(CHAOS) --seed $(or $(SEED),1) $(FLAGS)

.PHONY: agree
agree: build .venv/bench/.stamp ## TPC-H and T whole: DuckDB and Polars give the same rows
	.venv/bench/bin/python benchmarks/agree.py --full

# ---- tests ------------------------------------------------------------------

# Python's tests mostly wait for servers, and Go's need all cores, so they run together.
.PHONY: test
test: check ## lint, Go, with the race detector where goroutines share memory, Python: ten to fifteen minutes on two cores
	$(MAKE) -j2 --output-sync=target test-go test-python

# What test leaves out for the sake of its time. CI runs it after test. Python's tests marked
# "more" wait for servers most of the time, and run beside Go's with the race detector.
.PHONY: test-more
test-more: ## Go with the race detector; all random cases, worlds and fixtures; long Python tests; torch; Airflow; Ray; DuckDB and Polars; README, quickstart, packages, attacks, fuzzing
	$(MAKE) -j2 --output-sync=target test-race test-python-more
	$(MAKE) -j4 --output-sync=target test-random test-torch test-monitoring test-airflow test-engines test-chaos
	$(MAKE) test-attack test-ray test-docs test-packages test-browser test-fuzz

# mypy uses one core, so the linters of Go run beside it.
.PHONY: check
check: ## lint alone
	$(MAKE) -j2 --output-sync=target check-go check-python

.PHONY: check-go
# The workspace hides sums that a go.mod of its own lacks; releases are built without it.
check-go: $(GOLANGCI)
	$(GO) test -vet=off $(SOURCE_TESTS)
	for module in . benchmarks tools; do GOWORK=off $(GO) list -C $$module -deps -test ./... >/dev/null || exit 1; done
	$(GOLANGCI) config verify
	failed=0; $(GOLANGCI) fmt --diff || failed=1; $(GOLANGCI) run $(ALL_MODULES) || failed=1; exit $$failed

.PHONY: check-python
check-python: .venv/test/.stamp
	$(RUFF) check --config python/pyproject.toml python $(wildcard demo benchmarks tools deploy)
	$(RUFF) format --check --config python/pyproject.toml python $(wildcard demo benchmarks tools deploy)
	for folder in python demo tools; do (cd $$folder && $(CURDIR)/$(MYPY) --cache-dir $(CURDIR)/.mypy_cache --config-file $(CURDIR)/python/pyproject.toml .); done
	cd benchmarks && MYPYPATH=$(CURDIR)/python/tests:$(CURDIR)/python/tests/with_browser $(CURDIR)/$(MYPY) --cache-dir $(CURDIR)/.mypy_cache --config-file $(CURDIR)/python/pyproject.toml .

.PHONY: test-go
test-go: race-needs-cc .venv/test/.stamp $(PENSTOCK_S3GATEWAY)
	$(UNRACED) -timeout 15m $$($(TESTED) | grep -vxFf <($(GO) list $(RACED)))
	$(GOTEST) -timeout 30m $(RACED)

# After test, Go has the results of the packages in RACED.
.PHONY: test-race
test-race: race-needs-cc .venv/test/.stamp $(PENSTOCK_S3GATEWAY) ## all Go packages with the race detector
	$(GOTEST) -timeout 30m $$($(TESTED))

# The cases of which test-go and test-race try a share.
.PHONY: test-random
test-random: .venv/test/.stamp $(PENSTOCK_S3GATEWAY) ## all random cases, worlds and fixtures, without the race detector
	$(RANDOM_CASES) -timeout 15m
	$(WORLDS) -timeout 15m
	$(FIXTURES) -timeout 15m
	$(COMMITS) -timeout 15m

.PHONY: test-python
test-python: build build-checked .venv/test/.stamp $(PENSTOCK_S3GATEWAY)
	PENSTOCK_BIN=$(CHECKED) $(PYTEST) -m "not more" $(PYTHON_TESTS)

# The release before this one, which some of these tests use with this one. A shallow clone does not have it.
.PHONY: release-before
release-before: ## the release before this one, in .bin, for tests of both
	@tools/release_before.sh >/dev/null || [ $$? = 3 ]

.PHONY: test-python-more
test-python-more: build build-checked release-before .venv/test/.stamp $(PENSTOCK_S3GATEWAY) ## Python tests that take long and test no basic promise: those marked "more"
	PENSTOCK_BIN=$(CHECKED) $(PYTEST) -m more $(PYTHON_TESTS)

# Each test slows one thing down, and expects its name as the cause. Other work on the machine is a cause, too.
.PHONY: test-slowness
test-slowness: build build-checked .venv/test/.stamp $(PENSTOCK_S3GATEWAY) ## causes of slowness made on purpose, and what the status calls them
	PENSTOCK_LONG=1 PENSTOCK_BIN=$(CHECKED) $(PYTEST) python/tests/test_slowness.py

# Each test waits for a Prometheus that scrapes once a second.
.PHONY: test-monitoring
test-monitoring: build .venv/test/.stamp $(PENSTOCK_S3GATEWAY) .bin/prometheus ## the queries of the dashboard and the alerts, on a real Prometheus
	$(PYTEST) python/tests/test_monitoring.py

# No container runs there: KWOK simulates nodes and pods.
.PHONY: test-kubernetes
test-kubernetes: .bin/kubernetes .bin/prometheus ## the chart and the training jobs for Kubernetes, on its API server, controllers and scheduler
	cd tools/kubernetes && GOWORK=off PENSTOCK_CLUSTER=$(CURDIR)/.bin/kubernetes PENSTOCK_PROMTOOL=$(CURDIR)/.bin/promtool $(GO) test -vet=off -count=1 .

# The example DAG, in an environment of its own: Airflow brings 130 packages.
.PHONY: test-airflow
test-airflow: build .venv/airflow/.stamp ## the example DAG for Airflow, run by Airflow, with commands that fail
	.venv/airflow/bin/pytest -c python/pyproject.toml --rootdir . python/tests/with_airflow

# penstock.ray, with Ray beside what is in the environment of torch.
RAY_PATH := $(CURDIR)/.venv/ray:$(CURDIR)/python/src
.PHONY: test-ray
test-ray: build build-checked .venv/ray/.stamp ## Ray Data and Ray Train, with workers, nodes and servers that are killed
	PYTHONPATH=$(RAY_PATH) PENSTOCK_BIN=$(CHECKED) .venv/torch/bin/python -m pytest -c python/pyproject.toml --rootdir . python/tests/with_ray

# Engines that read streams, in an environment of their own.
.PHONY: test-engines
test-engines: build build-checked .venv/engines/.stamp ## streams in DuckDB, Polars and Daft, with random predicates and connections that break
	PENSTOCK_BIN=$(CHECKED) .venv/engines/bin/python -m pytest -c python/pyproject.toml --rootdir . python/tests/with_engines

# penstock.torch, in an environment of its own: torch and the frameworks take 6 GB. check-python
# knows nothing of torch's types; here mypy does.
.PHONY: test-torch
test-torch: build build-checked .venv/torch/.stamp ## batches as tensors, with torch and TorchRec; the loops of training frameworks
	cd python && ../.venv/torch/bin/mypy --config-file pyproject.toml .
	PENSTOCK_BIN=$(CHECKED) .venv/torch/bin/pytest -c python/pyproject.toml --rootdir . python/tests/with_torch

# Tables as Spark writes them, and its own answers. Spark leaves its sockets to
# Python's collector, which says so in the middle of other tests.
.PHONY: test-spark
test-spark: build spark-needs-java .venv/test/.stamp .venv/spark/.stamp .bin/spark-jars/.stamp .bin/rest-jars/.stamp ## worlds that Spark writes, and its answers; Iceberg's own REST catalog
	PENSTOCK_REST_JARS=$(CURDIR)/.bin/rest-jars $(GO) test -tags invariants -count=1 -run JavaREST ./loader/catalog/icebergcat
	PENSTOCK_SPARK_TESTS=1 $(GO) test -tags invariants -count=1 -run Spark ./internal/expr/...
	.venv/spark/bin/pytest -c python/pyproject.toml --rootdir . -W ignore::pytest.PytestUnraisableExceptionWarning tools/worlds/tests/test_spark*.py
	.venv/spark/bin/python -m pytest -c python/pyproject.toml --rootdir . -W ignore::pytest.PytestUnraisableExceptionWarning --timeout 600 python/tests/with_spark

# The README's tour, block by block as it stands there, which begins with the demo; the
# first hour of a new user; the recipes, and pages of commands; and what these rest on.
.PHONY: test-docs
test-docs: build .venv/demo/.stamp .venv/torch/.stamp $(PENSTOCK_S3GATEWAY) ## the README's tour, the quickstart, recipes and other pages of commands, the demo on S3
	$(PYTHON) tools/tour.py README.md --section "A tour in five minutes" --python .venv/demo/bin/python
	$(PYTHON) tools/tour.py docs/quickstart.md --environment .venv/torch
	for page in compare rows runs; do $(PYTHON) tools/tour.py docs/recipes/README.md docs/recipes/$$page.md --environment .venv/torch || exit 1; done
	$(PYTHON) tools/tour.py docs/nulls.md --environment .venv/torch
	$(PYTHON) tools/tour.py docs/layout.md --environment .venv/torch
	$(PYTHON) tools/tour.py docs/writing.md --environment .venv/torch
	$(PYTHON) tools/tour.py docs/migrate.md --environment .venv/torch
	$(PYTHON) tools/tour.py docs/space.md --environment .venv/torch
	.venv/demo/bin/python demo/run.py --s3

# What users install, on this machine: the wheel in a new environment without Go, the image as a container has it, the chart.
.PHONY: test-packages
test-packages: build wheel site .demo/tables/penstock.yaml ## the wheel, the image, the chart, the site and what makes them
	$(PYTHON) tools/tour.py docs/quickstart.md --wheel dist/wheels/penstock-*.whl --section "1. Install" --section "2. Tables" --section "3. Config" --section "4. Read in Python" --commands 6
	$(RELEASE) -platforms linux/$(shell $(GO) env GOHOSTARCH) image
	cd tools/release && PENSTOCK_IMAGE=$(CURDIR)/dist/image PENSTOCK_WHEELS=$(CURDIR)/dist/wheels PENSTOCK_DEMO=$(CURDIR)/.demo/tables $(GO) test -vet=off -count=1 ./...

.demo/tables/penstock.yaml:
	$(MAKE) demo

# Tables of every history that Spark can give them. Two folders hold them: the
# one that is committed, and one that is made anew, on whatever Spark is pinned.
.PHONY: fixtures
fixtures: spark-needs-java .venv/test/.stamp .venv/spark/.stamp .bin/spark-jars/.stamp ## Spark's fixtures anew, in /fixtures, and into the tests' folder
	.venv/spark/bin/python tools/fixtures/make.py /fixtures
	find internal/scenario/fixtures/testdata -mindepth 1 -type d -exec rm -rf {} +
	cp -r /fixtures/packed/* internal/scenario/fixtures/testdata/

.PHONY: test-fixtures
test-fixtures: spark-needs-java .venv/test/.stamp .venv/spark/.stamp .bin/spark-jars/.stamp ## fixtures that Spark has just made, read in all ways
	.venv/spark/bin/python tools/fixtures/make.py $(CURDIR)/.bench/fixtures
	PENSTOCK_LONG=1 PENSTOCK_FIXTURES=$(CURDIR)/.bench/fixtures/packed $(FIXTURES) -timeout 30m -count=1 -run 'Fixtures|Filters'

# The pages of penstock ui, in Chromium.
.PHONY: test-browser
test-browser: build build-checked .venv/test/.stamp ## web pages in Chromium, which it installs from Debian's packages if it may
	tools/chromium.sh
	PENSTOCK_BIN=$(CHECKED) $(PYTEST) python/tests/with_browser

# Harm to a server from outside, in its short form: rows, memory and ends.
.PHONY: test-attack
test-attack: build
	$(GO) run ./benchmarks/attack -quick -untimed

# Faults of everything, without network namespaces, small disks and memory limits if the user is not root.
.PHONY: test-chaos
test-chaos: build-shifted .venv/test/.stamp $(PENSTOCK_S3GATEWAY)
	$(CHAOS) --seed 1 --faults 30 --for 60 --pause 0.05 --between 1

# What is accepted of a client's messages is decoded within its charge.
.PHONY: test-fuzz
test-fuzz:
	FUZZTIME=20s GO=$(GO) tools/fuzz.sh FuzzMessages FuzzDamagedMessages

# Everything above, and what takes long; make -j2 fuzzes beside the rest.
.PHONY: test-long
test-long: test test-more long test-kubernetes fuzz ## test, test-more, long cases, release build, Kubernetes, fuzzing

# The tests again in the form that is shipped (no assertions, no race detector),
# thrice more in other orders with both, the long cases, other engines' answers,
# and peak memory. The long cases run without the race detector: on ten thousand
# small ones it is busy with itself, and takes 5 GB.
.PHONY: long
long: test test-more wheels test-spark test-fixtures .venv/torch/.stamp .venv/bench/.stamp
	$(GO) test -timeout 30m $(ALL_MODULES)
	$(GOTEST) -shuffle=on -count=3 -timeout 30m $(ALL_MODULES)
	PENSTOCK_LONG=1 $(GO) test -tags invariants -shuffle=on -timeout 60m $$($(GO) list $(ALL_MODULES) | grep -vE '/scenario/(warehouse|exchange|fixtures)$$')
	PENSTOCK_LONG=1 $(WORLDS) -timeout 90m
	PENSTOCK_LONG=1 $(FIXTURES) -timeout 90m
	PENSTOCK_LONG=1 $(PYTEST) $(PYTHON_TESTS)
	PENSTOCK_LONG=1 .venv/torch/bin/pytest -c python/pyproject.toml --rootdir . python/tests/with_torch
	PENSTOCK_TEST_MAPPED=1 $(PYTEST) --ignore python/tests/with_torch --ignore python/tests/with_browser --ignore python/tests/with_airflow --ignore python/tests/with_ray --ignore python/tests/with_engines --ignore python/tests/with_spark python/tests
	PENSTOCK_TEST_MAPPED=1 .venv/torch/bin/pytest -c python/pyproject.toml --rootdir . python/tests/with_torch
	cd benchmarks && ../.venv/bench/bin/python -m unittest
	cd benchmarks && PYTHONPATH=$(CURDIR)/python/src ../.venv/torch/bin/python -m unittest tests.torch_gpu
	.venv/bench/bin/python benchmarks/agree.py
	.venv/bench/bin/python benchmarks/agree.py --memory 6MiB
	.venv/bench/bin/python benchmarks/memory.py --quick --memory 10

.PHONY: fuzz
fuzz: ## half an hour over all targets; FUZZTIME=30s: so much for each
	FUZZTIME=$(FUZZTIME) GO=$(GO) tools/fuzz.sh

.PHONY: memory
memory: build .venv/bench/.stamp ## peak memory for tables of 1 GB each
	.venv/bench/bin/python benchmarks/memory.py

# CI runs a twentieth of the mutants, another one after each commit.
.PHONY: mutants
mutants: .venv/test/.stamp $(PENSTOCK_S3GATEWAY) ## broken rules, one at a time; the test that names each must fail; PART=3/20: some of them
	$(GO) run ./tools/mutants -part $(or $(PART),0/1)

# Packages whose tests take -rewrite, themselves or through internal/scenario;
# the others would refuse the flag.
.PHONY: rewrite
rewrite: .venv/test/.stamp ## write golden files anew
	$(GO) test -tags invariants $$(grep -rlE --include='*_test.go' '"rewrite"|/internal/scenario"' . | xargs -n1 dirname | sort -u) -rewrite

.PHONY: race-needs-cc
race-needs-cc:
	@if [ -n "$(RACE)" ] && ! command -v "$$($(GO) env CC | cut -d' ' -f1)" >/dev/null; then \
	  echo "make: Go's race detector needs a C compiler and there is none." >&2; \
	  echo "Install one (Debian: apt-get install gcc libc6-dev), or leave races unlooked for: make $(MAKECMDGOALS) RACE=" >&2; \
	  exit 1; \
	fi

.PHONY: spark-needs-java
spark-needs-java:
	@for program in java mvn; do command -v $$program >/dev/null || { \
	  echo "make: Spark needs $$program, and there is none." >&2; \
	  echo "Install Java 17 and Maven (Debian: apt-get install openjdk-17-jre-headless maven); make test does without." >&2; \
	  exit 1; \
	}; done

# ---- tools, pinned ----------------------------------------------------------

$(GOLANGCI):
	@echo "$@: compiling golangci-lint from source, which takes minutes"
	mkdir -p .bin
	@GOBIN=$(CURDIR)/.bin tools/progress.sh $@ $(GO) install -v github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	mv .bin/golangci-lint $@

# An S3 gateway, of a module of its own.
$(PENSTOCK_S3GATEWAY): $(wildcard tools/s3gateway/*)
	@echo "$@: building the S3 gateway of the tests"
	@tools/progress.sh $@ $(GO) build -C tools/s3gateway -v -o $@ .

# Prometheus and promtool, of a module of their own, without the plugins that discover targets.
.bin/prometheus: tools/prometheus/go.mod
	@echo "$@: compiling Prometheus from source, which takes minutes"
	@tools/progress.sh $@ $(GO) build -C tools/prometheus -v -tags remove_all_sd -ldflags '-s -w' -o $(CURDIR)/.bin/ github.com/prometheus/prometheus/cmd/prometheus github.com/prometheus/prometheus/cmd/promtool

# The control plane of Kubernetes with etcd and KWOK, of a module of their own.
.bin/kubernetes: $(wildcard tools/kubernetes/cluster/*)
	@echo "$@: compiling Kubernetes from source, which takes minutes"
	@GOWORK=off tools/progress.sh $@ $(GO) build -C tools/kubernetes/cluster -v -ldflags '-s -w' -o $(CURDIR)/$@ .

# A stamp is newer than all that its environment was made from; when a pin
# changes, the environment is made anew, so that nothing of the old one stays.
.venv/test/.stamp: python/requirements-test.txt
.venv/torch/.stamp: python/requirements-test.txt python/requirements-torch.txt python/requirements-frameworks.txt python/requirements-torchrec.no-deps.txt
.venv/demo/.stamp: demo/requirements.txt
.venv/airflow/.stamp: python/requirements-airflow.txt
.venv/engines/.stamp: python/requirements-engines.txt
.venv/bench/.stamp: benchmarks/requirements.txt
.venv/spark/.stamp: tools/worlds/requirements-spark.txt
.venv/wheel/.stamp: # pip alone
.venv/site/.stamp: tools/site/requirements.txt
# Beside torch, which is too large to have twice.
.venv/ray/.stamp: benchmarks/requirements-ray.txt .venv/torch/.stamp
	rm -rf .venv/ray
	.venv/torch/bin/python -m pip install --quiet --disable-pip-version-check --target .venv/ray --requirement $<
	touch $@
.venv/%/.stamp: python/pyproject.toml tools/venv.sh
	PYTHON="$(PYTHON)" tools/venv.sh .venv/$* $(filter %.txt,$^)
	touch $@

# Spark's libraries, by the names in a POM; where they come from is a setting of
# Maven's own.
.bin/spark-jars/.stamp: tools/worlds/pom.xml
	rm -rf $(@D)
	mvn --quiet --batch-mode -f $< dependency:copy-dependencies -DincludeScope=runtime -DexcludeTransitive -DoutputDirectory=$(CURDIR)/$(@D)
	touch $@

# Iceberg's own REST catalog, likewise.
.bin/rest-jars/.stamp: tools/rest/pom.xml
	rm -rf $(@D)
	mvn --quiet --batch-mode -f $< dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory=$(CURDIR)/$(@D)
	touch $@

.PHONY: clean
clean: ## remove what was built; pinned tools stay
	rm -rf bin dist .demo .bench

.PHONY: distclean
distclean: clean ## remove the pinned tools too
	rm -rf .bin .venv
