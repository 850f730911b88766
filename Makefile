# Everything a developer types. `make help` lists it. Needs Go, g++, make and pip; set-up gets CMake and ninja where they are missing.
GO        ?= go
DEMO_ARGS ?=
TESTFLAGS ?=
BENCH     ?= .
FUZZTIME  ?= 60s
DATA      ?= $(or $(GOSPML_TESTDATA),../shared)
# Python with bench/peers/requirements.txt; made in the cache folder unless another is named.
PEERS        = $(or $(GOSPML_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/gospml)/peers
PEER_PYTHON ?= $(PEERS)/bin/python
# The same with the inference engines of bench/peers/requirements-infer.txt.
ENGINES      = $(PEERS)-infer
INFER_PYTHON ?= $(ENGINES)/bin/python
STATICCHECK  = honnef.co/go/tools/cmd/staticcheck@v0.8.2
APIDIFF      = golang.org/x/exp/cmd/apidiff@v0.0.0-20261014143641-f0251eb4aa3e

.PHONY: reference install help setup cuda gpu-check build test ci nightly sanitize compat torchrun features demo bench bench-peers bench-images bench-losses bench-lac bench-train bench-infer bench-folder race fuzz soak lint vet format staticcheck api api-record clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 22

setup: ## fetch libtorch (once per user) and build the native libraries
	$(GO) run ./cmd/spml setup

cuda: ## compile the CUDA libraries for sm_75, sm_80, sm_90 and newer cards (PTX); needs no GPU
	$(GO) run ./cmd/spml setup --cuda
	$(GO) test -count 1 -tags cudalibs -run TestCUDALibraries -v ./third_party/native

.PHONY: kernel-instructions
kernel-instructions: ## count the loss kernels' instructions an element in what make cuda built (results/kernel_instructions.csv)
	.ci/kernel-instructions "$$($(GO) run ./cmd/spml setup --cuda 2>&1 | sed -n 's/^libraries: //p')/libgospml-ops-cuda.so" results/kernel_instructions.csv

gpu-check: ## bundle libraries and tests for a machine with a GPU (build/gpu-check.tar.xz)
	.ci/gpu-check

.PHONY: site
site: build ## the pages as one static site that opens from disk (build/site/index.html)
	.ci/site

build: ## bin/spml and the other commands
	$(GO) build -o bin/ ./cmd/...

# Without go test's own vet, because lint's is a larger one.
test: setup ## every test; flags for go test: TESTFLAGS=
	$(GO) test -vet=off -timeout 30m $(TESTFLAGS) ./...

ci: ## what is proven for every change (docs/testing.md)
	.ci/run

nightly: ## the long forms: NIGHTLY_SCALE=0.1 for a short one; results/nightly.md
	.ci/nightly

sanitize: setup ## the image library with the address and undefined-behaviour sanitizers, driven by its Go tests
	.ci/sanitize

compat: ## build against other libtorch versions (internal/compat) and run the binding's tests there; COMPAT_ARGS="-only 2.15.0"
	$(GO) run ./internal/compat $(COMPAT_ARGS)

torchrun: setup $(PEER_PYTHON) ## torch/dist under the real torchrun, one worker killed
	GOSPML_TORCHRUN=$(dir $(PEER_PYTHON))torchrun $(GO) test -count 1 -tags torchrun -run TestTorchrun -v ./torch/dist

reference: ## docs/reference, docs/papers.md and docs/methods.md from the program
	$(GO) run ./internal/reference docs/reference
	$(GO) generate ./spml/reproduce ./spml/loss/...

PREFIX ?= $(HOME)/.local
install: setup ## the command with its manual pages and completions into PREFIX=~/.local
	$(GO) build -o $(PREFIX)/bin/spml ./cmd/spml
	$(GO) run ./internal/reference -man $(PREFIX)/share/man/man1
	mkdir -p $(PREFIX)/share/bash-completion/completions $(PREFIX)/share/zsh/site-functions $(PREFIX)/share/fish/vendor_completions.d
	$(PREFIX)/bin/spml completion bash > $(PREFIX)/share/bash-completion/completions/spml
	$(PREFIX)/bin/spml completion zsh > $(PREFIX)/share/zsh/site-functions/_spml
	$(PREFIX)/bin/spml completion fish > $(PREFIX)/share/fish/vendor_completions.d/spml.fish

features: setup ## the test behind each row of docs/features.tsv and docs/ecosystem.tsv, counted
	$(GO) run ./internal/features
	$(GO) run ./internal/features -table docs/ecosystem.tsv -want 46

demo: setup build ## compare eight methods on drawn pictures: table, report.html, attention; DEMO_ARGS=--quick for a short one
	bin/spml demo --run build/demo $(DEMO_ARGS)

bench: setup ## Go benchmarks; one of them: BENCH=Add
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem ./...

bench-peers: setup $(PEER_PYTHON) ## our side and PyTorch's, alternating; BENCH_ARGS="--only add"
	$(GO) build -o bin/ ./bench/side
	$(PEER_PYTHON) bench/peers/compare.py bin/side $(DATA) results/peers_cpu.csv $(BENCH_ARGS)

bench-images: setup $(PEER_PYTHON) ## pictures, the loader and mAP beside Pillow, torchvision, scikit-learn
	$(GO) build -o bin/ ./bench/side
	$(PEER_PYTHON) bench/peers/images.py bin/side $(DATA) results/images_cpu.csv results/metric_cpu.csv $(BENCH_ARGS)

bench-losses: setup $(PEER_PYTHON) ## our losses and PyTorch's, alternating; BENCH_ARGS="--only em --shapes 128x80"
	$(GO) build -o bin/ ./bench/side
	$(PEER_PYTHON) bench/peers/losses.py bin/side results/losses_cpu.csv $(BENCH_ARGS)

bench-train: setup $(PEER_PYTHON) ## steps of the trainer and of PyTorch's loops; BENCH_ARGS="--only probe"
	$(GO) build -o bin/ ./bench/side
	$(PEER_PYTHON) bench/peers/train.py bin/side $(DATA) results/train_cpu.csv $(BENCH_ARGS)

bench-lac: setup $(PEER_PYTHON) ## a training step of LAC at full size beside PyTorch's, time and memory, alternating
	$(GO) build -o bin/ ./bench/side
	$(PEER_PYTHON) bench/peers/lac.py bin/side results/lac_cpu.csv $(BENCH_ARGS)

bench-infer: setup $(INFER_PYTHON) ## whole networks beside PyTorch's forms, ONNX Runtime and OpenVINO; BENCH_ARGS="--networks resnet50 --batches 1"
	$(GO) build -o bin/ ./bench/side
	mkdir -p build/onnx && GOSPML_ONNX=$$PWD/build/onnx $(INFER_PYTHON) bench/peers/infer.py bin/side results/infer_cpu.csv $(BENCH_ARGS)

bench-folder: setup $(INFER_PYTHON) ## a folder of JPEG files to labels beside PyTorch's DataLoader and ONNX Runtime behind Pillow
	$(GO) build -o bin/ ./bench/side
	mkdir -p build/onnx && GOSPML_ONNX=$$PWD/build/onnx $(INFER_PYTHON) bench/peers/folder.py bin/side $(DATA)/data/miml/images results/folder_cpu.csv $(BENCH_ARGS)

$(ENGINES)/bin/python:
	python3 -m venv $(ENGINES) && $(ENGINES)/bin/pip install -q -r bench/peers/requirements-infer.txt || { rm -rf $(ENGINES); exit 1; }

$(PEERS)/bin/python:
	python3 -m venv $(PEERS) && $(PEERS)/bin/pip install -q -r bench/peers/requirements.txt || { rm -rf $(PEERS); exit 1; }

race: setup ## concurrency tests under the race detector
	$(GO) test -vet=off -race -timeout 20m -run Concurren $$(grep -rl --include='*_test.go' 'func Test.*Concurren' . | xargs -n1 dirname | sort -u)

# A target whose time ends within an execution fails with "context deadline exceeded" and nothing else (golang.org/issue/48591): that is no finding.
fuzz: setup ## every fuzz target for FUZZTIME=60s
	@bin=$$(mktemp -d); trap 'rm -rf '$$bin EXIT; failed=0; \
	for dir in $$(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u); do \
	  $(GO) test -vet=off -c -fuzz . -o $$bin/fuzz.test $$dir || { failed=1; continue; }; \
	  cache=$$($(GO) env GOCACHE)/fuzz/$$($(GO) list $$dir); \
	  for target in $$(cd $$dir && $$bin/fuzz.test -test.list '^Fuzz' | grep '^Fuzz'); do \
	    echo "$$dir $$target"; \
	    if ! out=$$(cd $$dir && $$bin/fuzz.test -test.run '^$$' -test.fuzz "^$$target\$$" -test.fuzztime $(FUZZTIME) -test.fuzzminimizetime 1x -test.fuzzcachedir "$$cache" 2>&1); then \
	      echo "$$out"; \
	      if echo "$$out" | grep -q '^ *context deadline exceeded' && ! echo "$$out" | grep -q 'Failing input'; then echo "the time ended within an execution: no finding"; else failed=1; fi; \
	    fi; \
	  done; \
	done; exit $$failed

SOAK     ?= 10m
# A short soak is a check; only a long one is a result.
SOAK_OUT ?= $(if $(filter %s,$(SOAK)),build/soak.md,results/soak.md)
soak: setup ## kills, full disks, changed bytes, swaps, memory and operators for SOAK=10m, and a summary
	$(GO) build -o bin/ ./examples/service ./internal/soak
	bin/soak -time $(SOAK) -out $(SOAK_OUT) -service bin/service

lint: vet format staticcheck format-others api ## go vet, gofmt, staticcheck, clang-format, ruff, exported names beside the last release's

vet:
	$(GO) vet ./...

format:
	@bad=$$(gofmt -l .); test -z "$$bad" || { echo "run gofmt -w on: $$bad"; exit 1; }

# The formatters' wheels, unpacked: no virtual environment is needed to run what is in them.
FORMATTERS   = $(dir $(PEERS))formatters-$(shell cksum .ci/requirements-format.txt | cut -d' ' -f1)
CLANG_FORMAT = $(FORMATTERS)/clang_format/data/bin/clang-format
NATIVE_CODE  = git ls-files '*.cpp' '*.h' '*.c' '*.cu' '*.cuh' ':!third_party'

$(FORMATTERS)/done: .ci/requirements-format.txt
	@rm -rf $(@D) && python3 -m pip install -q --no-deps --target $(@D) -r $< && touch $@

.PHONY: format-others format-native
format-others: $(FORMATTERS)/done
	@$(NATIVE_CODE) | xargs $(CLANG_FORMAT) --dry-run -Werror || { echo "run make format-native"; exit 1; }
	@$(FORMATTERS)/bin/ruff check -q .

format-native: $(FORMATTERS)/done ## C, C++ and CUDA as .clang-format says
	@$(NATIVE_CODE) | xargs $(CLANG_FORMAT) -i

staticcheck:
	$(GO) run $(STATICCHECK) ./...

api:
	@APIDIFF=$(APIDIFF) .ci/apidiff

api-record: ## the exported names of the release that is being made (docs/releases.md)
	@APIDIFF=$(APIDIFF) .ci/apidiff record

clean: ## what was built here; the per-user cache stays
	rm -rf bin build
