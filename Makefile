# Everything that a checkout can do. 'make' alone lists it.
#
# The package is built into .build/lib of the checkout, never into the user's library (but by
# 'make install'). What the parts do is in tools/ and tests/c/.

SHELL := /bin/bash
R ?= R
RSCRIPT ?= Rscript
CORES := $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
# the portable build of 'make test-portable' has a folder of its own
BUILD := .build$(if $(CLUTCH_PORTABLE),/portable)
BUILT := $(BUILD)/installed
RESULTS := $(BUILD)/results
# Runs a command with the package found first
WITH_LIB := R_LIBS="$(CURDIR)/$(BUILD)/lib$(if $(R_LIBS),:$(R_LIBS))"
SOURCES := $(wildcard DESCRIPTION NAMESPACE LICENSE NEWS.md configure cleanup) \
  $(shell find R src man inst data -not -name '*.o' -not -name '*.so' 2>/dev/null)

.PHONY: help deps deps-tests deps-newer deps-adapters deps-bench deps-models deps-vignettes deps-site build install demo test lint format test-c test-fuzz test-tools fuzz chaos test-r check bench report readme test-adapters test-portable test-newer-r check-newer-r test-windows test-architectures test-checkers doc site clean
.NOTPARALLEL:

help:
	@echo "make demo          a bootstrap on all cores, base R beside clutch: table and plot"
	@echo "make test          lint, C unit tests, fuzzing, testthat, R CMD check; 'make lint', 'test-c', 'test-r', 'check' do one"
	@echo "                   (test-c: T=frame ARGS=-v    test-r: FILTER=cores)"
	@echo "make format        lays out the C files as .clang-format says"
	@echo "make fuzz          10 minutes of fuzzing a decoder (T=frames SECONDS=600 SEED=1)"
	@echo "make chaos         deaths, stops, interrupts, load and cut connections while maps run, an hour and more (EVENTS=10000 SEED=1)"
	@echo "make bench         all measurements in bench/; lab/README.md has settled experiments"
	@echo "make report        the same, written to bench/report/README.md (QUICK=1 in minutes, ONLY=startup,tasks)"
	@echo "make readme        the table of figures in README.md, from the tables of the report"
	@echo "make build         builds into .build/lib; use it with R_LIBS=.build/lib"
	@echo "make install       installs into R's library"
	@echo "make deps          installs what is missing (all of the above do it first)"
	@echo "make deps-models   installs tidymodels and mlr3 for bench/models.R, in minutes"
	@echo "make test-adapters other packages' own test suites, with their default and with clutch (T='foreach furrr')"
	@echo "make test-portable the tests on a build that uses nothing of Linux's own, as on macOS and the BSDs"
	@echo "make test-newer-r  the tests on R 4.5 and 4.6 in Debian folders made by debootstrap (root)"
	@echo "make check-newer-r R CMD check --as-cran on these"
	@echo "make test-windows  C tests built by mingw-w64, under wine, and the library for Windows (installs them: root, Debian)"
	@echo "make test-architectures  the C tests with 32 bits, the other byte order, musl and clang (root, Debian)"
	@echo "make test-checkers sanitizers in R, valgrind, gctorture, link-time optimization, more warnings: an hour (CHECKERS='lto asan')"
	@echo "make site          the site: reference, articles, measurements, news; open docs/index.html"
	@echo "make doc           help pages and NAMESPACE from the comments (needs roxygen2)"
	@echo "make clean         removes what was built"

deps:
	@tools/deps.sh

deps-tests: deps
	@tools/deps.sh tests

deps-newer: deps-tests
	@tools/deps.sh newer

deps-adapters: deps-newer
	@tools/deps.sh adapters

deps-bench: deps
	@tools/deps.sh peers

# For bench/models.R, which is left out without: ten minutes to compile
deps-models: deps-newer
	@tools/deps.sh models

deps-vignettes: deps
	@tools/deps.sh vignettes

deps-site: deps-vignettes
	@tools/deps.sh site

build: deps $(BUILT)

$(BUILT): $(SOURCES) tools/build.sh
	@CLUTCH_BUILD=$(BUILD) tools/build.sh

install: deps
	@tools/build.sh --user

demo: build
	@$(WITH_LIB) $(RSCRIPT) bench/demo.R

# All steps run, whatever one of them finds; tally.sh sums up and decides. The R tests wait for much of
# their time, so three parts of them run at the same time, and the other steps take what these leave of
# the processors: C tests and fuzzing one after another, R CMD check and lint beside them. Steps that
# only compute have the lowest priority; those with tests of their own are not to stand still.
test: deps-adapters build deps-vignettes
	@rm -rf $(RESULTS); mkdir -p $(RESULTS)
	@export CLUTCH_DEPS_DONE=1; \
	  { nice -n 19 $(MAKE) --no-print-directory compile-c; \
	    for step in test-c test-fuzz test-tools test-portable-brief; do nice -n 5 $(MAKE) --no-print-directory $$step; done; \
	  } > $(RESULTS)/c.txt 2>&1 & \
	  { nice -n 5 $(MAKE) --no-print-directory check BRIEF=1; nice -n 19 $(MAKE) --no-print-directory lint; \
	  } > $(RESULTS)/check.txt 2>&1 & \
	  $(MAKE) --no-print-directory test-r || true; wait; \
	  cat $(RESULTS)/c.txt $(RESULTS)/check.txt; tools/tally.sh

# What does not compile is said by the step that does it again.
.PHONY: compile-c
compile-c: deps
	@$(MAKE) -s -C tests/c all > /dev/null 2>&1; $(MAKE) -s -C tests/fuzz all > /dev/null 2>&1 || true

lint: build deps-tests
	@echo; echo "== lint"
	@mkdir -p $(RESULTS); rm -f $(RESULTS)/lint
	@CLUTCH_BUILD=$(BUILD) tools/lint.sh $(RESULTS)/lint

# Lays out all C files as .clang-format says.
format: deps-tests
	@tools/format.sh

test-c: deps
	@echo; echo "== C unit tests, plain and with sanitizers"
	@mkdir -p $(RESULTS); rm -f $(RESULTS)/test-c
	@$(MAKE) --no-print-directory -C tests/c -j$(CORES) test RESULT="$(CURDIR)/$(RESULTS)/test-c" $(if $(CLUTCH_PORTABLE),PORTABLE=1)

# A few seconds of what 'make fuzz' does for longer.
test-fuzz: deps
	@echo; echo "== fuzzing of what reads bytes from others"
	@mkdir -p $(RESULTS); rm -f $(RESULTS)/test-fuzz
	@$(MAKE) --no-print-directory -C tests/fuzz -j$(CORES) run SECONDS=3 RESULT="$(CURDIR)/$(RESULTS)/test-fuzz"

# What ends a test that hangs, and what repairs a library
test-tools: deps
	@echo; echo "== tools"
	@mkdir -p $(RESULTS); rm -f $(RESULTS)/test-tools
	@tools/test-tools.sh $(RESULTS)/test-tools

fuzz: deps
	@$(MAKE) --no-print-directory -C tests/fuzz -j$(CORES) run SECONDS=$(or $(SECONDS),600) $(if $(T),T=$(T)) $(if $(SEED),SEED=$(SEED))

# What goes wrong at random, and what goes on for long, for many minutes: EVENTS=10000 SEED=1
# One test of these may take half an hour until its next expectation.
chaos: build
	@$(MAKE) --no-print-directory -C tests/c -j$(CORES) all
	@CLUTCH_STEPS=10000000 $(if $(SEED),CLUTCH_SEED=$(SEED)) tests/c/build/plain/test-scheduler-random -v
	@CLUTCH_STEPS=4000000 $(if $(SEED),CLUTCH_SEED=$(SEED)) tests/c/build/plain/test-engine-random -v
	@CLUTCH_KILLS=100000 CLUTCH_TEST_SECONDS=1800 tests/c/build/plain/test-state -v nobody_gets
	@CLUTCH_EVENTS=$(or $(EVENTS),10000) $(if $(SEED),CLUTCH_SEED=$(SEED)) $(WITH_LIB) CLUTCH_TREES=1000 CLUTCH_TEST_SECONDS=$${CLUTCH_TEST_SECONDS:-3600} tools/run-tests.sh /dev/null "chaos|cuts|soak|slow-host|terminal|budget|hosts-tree|launch-tcp|kills|detach"

test-r: build deps-newer
	@echo; echo "== testthat"
	@mkdir -p $(RESULTS); rm -f $(RESULTS)/test-r
	@$(WITH_LIB) tools/run-tests$(if $(FILTER),,-in-parts).sh $(RESULTS)/test-r $(if $(FILTER),'$(value FILTER)')

# BRIEF=1: without the test files that take long, where they have been run outside ('make test')
check: deps-vignettes
	@echo; echo "== R CMD check"
	@mkdir -p $(RESULTS); rm -f $(RESULTS)/check
	@$(RSCRIPT) tools/check.R $(RESULTS)/check $(if $(BRIEF),brief)

# Every script in bench/ but those whose name begins with _, which are for the others, and the one that runs them for the report.
bench: build deps-bench
	@rc=0; for f in $$(ls bench/*.R | grep -vE '/(_|(report|compare)[.])'); do \
	  echo; echo "== $$f"; $(WITH_LIB) $(RSCRIPT) $$f || rc=1; done; exit $$rc

# To be committed with what it found: 25 minutes on two cores that do nothing else, without the
# scripts that are measured by name (by_name in bench/report.R).
# The others are measured in their newer versions, where Debian's are years old.
report: build deps-bench deps-newer
	@R_LIBS="$(CURDIR)/$(BUILD)/lib:$$(tools/deps.sh newer-library)$(if $(R_LIBS),:$(R_LIBS))" $(RSCRIPT) bench/report.R $(if $(ONLY),--only=$(ONLY))

# The table of figures in README.md, from the tables of vignettes/report/; 'make report' does it, too.
readme:
	@$(RSCRIPT) tools/readme-figures.R

# Other packages' own test suites, with their default and with us: T='foreach furrr', VERBOSE=1
test-adapters: build deps-adapters
	@mkdir -p $(RESULTS)
	@$(WITH_LIB) tools/test-adapters.sh $(RESULTS)/test-adapters $(T)

# As built for a Unix that has none of Linux's own means: what macOS and the BSDs would do.
test-portable:
	@rm -rf .build/portable/results
	@for step in test-c test-r; do CLUTCH_PORTABLE=1 $(MAKE) --no-print-directory $$step; done; \
	  CLUTCH_PORTABLE=1 tools/tally.sh

# Its part of 'make test': the C tests without sanitizers, and R tests of starts, maps, failures and sockets.
.PHONY: test-portable-brief
test-portable-brief: deps
	@echo; echo "== the build without Linux's own means: C tests, some R tests"
	@mkdir -p $(RESULTS) .build/portable/results; rm -f $(RESULTS)/test-portable* .build/portable/results/*
	@rc=0; export CLUTCH_PORTABLE=1; \
	  $(MAKE) --no-print-directory test-c VARIANTS=plain || rc=1; \
	  $(MAKE) --no-print-directory test-r FILTER='^(errors|failures|map|sockets|start)$$' || rc=1; \
	  tools/tally.sh --line | tail -n 1 | tr -dc '0-9 \n' > $(RESULTS)/test-portable; \
	  cat .build/portable/results/*.failed > $(RESULTS)/test-portable.failed 2>/dev/null; exit $$rc

test-newer-r:
	@tools/newer-r.sh $(if $(FILTER),'$(value FILTER)')

# R CMD check --as-cran there, as of 'make check BRIEF=1'
check-newer-r:
	@tools/newer-r.sh --check

# Not part of 'make test': to install mingw-w64 and wine takes minutes and 1.2 GB.
test-windows:
	@tools/test-windows.sh

# Not part of 'make test' either, for the same reason. T=frame as for test-c.
test-architectures:
	@T="$(T)" tools/test-architectures.sh

# Nor is this: it takes long. CHECKERS='lto valgrind' for some of it, FILTER for other test files than those of the sanitizers.
test-checkers: deps-newer
	@$(if $(FILTER),FILTER='$(value FILTER)') tools/test-checkers.sh $(CHECKERS)

doc:
	@$(RSCRIPT) -e 'if (!nzchar(system.file(package = "roxygen2"))) stop("make doc needs the R package roxygen2", call. = FALSE)' \
	  -e 'roxygen2::roxygenise(load_code = "source")'

# Some minutes, since all articles are run. Nothing is asked from the network.
site: build deps-site
	@$(WITH_LIB) $(RSCRIPT) tools/site.R > $(BUILD)/site.log 2>&1 || { cat $(BUILD)/site.log; exit 1; }
	@$(RSCRIPT) tools/check-links.R docs
	@echo "the site is in docs/: open docs/index.html"

clean:
	rm -rf docs .build tests/c/build tests/fuzz/build src/Makevars src/*.o src/*.so src/*/*.o src/*/*/*.o
