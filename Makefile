# Makefile - every entry point of Acre; `make help` lists them.
# SAN=address|undefined|thread builds with that sanitizer, in a folder of its own.

.DEFAULT_GOAL := build
SHELL := /bin/bash
Q := $(if $(V),,@)# V=1 prints whole commands
MAKEFLAGS += --no-builtin-rules
PORT ?= 5000
PREFIX ?= /usr/local
GOLDEN ?= tests/golden/area-attention
$(if $(word 2,$(CURDIR)$(DESTDIR)$(PREFIX)),$(error expected no blank in the paths of the \
    checkout, DESTDIR and PREFIX, found '$(CURDIR)', '$(DESTDIR)' and '$(PREFIX)'))

VERSION := $(shell sed -n 's/.*ACRE_VERSION "\(.*\)"/\1/p' engine/acre.h)
B := build$(if $(SAN),/$(SAN))

# ---- Compiler --------------------------------------------------------------------------------

CC := gcc
CXX := g++
WARNINGS := -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wvla -Wundef -Wpointer-arith
PIC := -fPIC -fno-semantic-interposition# the same objects serve libacre.so, see engine/python
SAN_FLAGS := -fsanitize=$(SAN) -fno-sanitize-recover=all
OPTIMISE := $(if $(SAN),-O1 -fno-omit-frame-pointer $(SAN_FLAGS),-O3 -D_FORTIFY_SOURCE=2)
ENGINE_LIBS := jansson icu-i18n icu-uc sentencepiece
SERVER_LIBS := libuv openssl sqlite3 hiredis
PKG_FLAGS := $(shell pkg-config --cflags $(ENGINE_LIBS) $(SERVER_LIBS) 2>/dev/null)
ENGINE_LDLIBS := $(shell pkg-config --libs $(ENGINE_LIBS) 2>/dev/null) -lstdc++ -lm -lpthread
SERVER_LDLIBS := $(shell pkg-config --libs $(SERVER_LIBS) 2>/dev/null) -lcld2
LLHTTP := /usr/share/llhttp# Debian has this parser as source
override CPPFLAGS += -D_GNU_SOURCE -Iengine -Iserver -MMD -MP $(PKG_FLAGS) \
            -isystem /usr/share/include/llhttp -DLLHTTP_STRICT_MODE=1
override CFLAGS += -std=c11 -g $(PIC) $(OPTIMISE) $(WARNINGS) -fno-math-errno
override CXXFLAGS += -std=c++17 -g $(PIC) $(OPTIMISE) -Wall -Wextra
override LDFLAGS += $(if $(SAN),-fsanitize=$(SAN),-Wl,-z,now)

# ---- Sources ---------------------------------------------------------------------------------
include engine/kernels/rules.mk engine/python/rules.mk conf/debian/rules.mk server/assets/rules.mk
ENGINE_SRC := $(wildcard engine/*.c engine/*/*.c engine/*/*.cc engine/device/cpu/*.c)
ENGINE_OBJ := $(ENGINE_SRC:%=$B/%.o) $(foreach isa,$(ISAS),$(call VECTOR_OBJ,$(isa)))
LLHTTP_OBJ := $(patsubst $(LLHTTP)/%,$B/llhttp/%.o,$(wildcard $(LLHTTP)/*.c))
SERVER_OBJ := $(patsubst %,$B/%.o,$(wildcard server/*/*.c server/*/*.cc)) $(LLHTTP_OBJ) \
              $B/server/assets/assets.S.o
SUPPORT_OBJ := $(patsubst %,$B/%.o,$(wildcard tests/support/*.c))
UNIT_TESTS := $(patsubst tests/%.c,$B/tests/%,$(wildcard tests/unit/test_*.c))

# ---- Building --------------------------------------------------------------------------------

.PHONY: build serve test test-programs golden parity bench bench-kernels bench-split profile train \
        eval lint install clean help

build: ## build build/acre, for GPUs too where nvcc is (CUDA=0|1); installs nothing
	@report=$$(conf/packages check build) || { echo "$$report"; exit 1; }
	@$(MAKE) --no-print-directory $B/acre $(CUDA_GOAL)

$B/acre: $(SERVER_OBJ) $B/libacre.a $(wildcard server/*/)
	@echo '  LINK $@'
	$(Q)$(CC) $(LDFLAGS) -o $@ $(SERVER_OBJ) $B/libacre.a $(SERVER_LDLIBS) $(ENGINE_LDLIBS)

$B/libacre.a: $(ENGINE_OBJ) $(wildcard engine/ engine/*/ engine/*/*/)# folders, newer if a file went
	@rm -f $@
	@echo '  AR   $@'
	$(Q)ar rcs $@ $(ENGINE_OBJ)

$B/%.c.o: %.c Makefile
	@mkdir -p $(@D)
	@echo '  CC   $@'
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

$B/llhttp/%.o: $(LLHTTP)/% Makefile
	@mkdir -p $(@D)
	@echo '  CC   $@'
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -w -c -o $@ $<

$B/%.cc.o: %.cc Makefile
	@mkdir -p $(@D)
	@echo '  CXX  $@'
	$(Q)$(CXX) $(CPPFLAGS) $(CXXFLAGS) -c -o $@ $<

$B/tests/%: $B/tests/%.c.o $(SUPPORT_OBJ) $B/libacre.a
	@echo '  LINK $@'
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ -lcmocka -lopenblas $(ENGINE_LDLIBS)

$B/tests/unit/test_kernels: $(foreach isa,wide pairs tiles,$(call VECTOR_OBJ,$(isa)))
$B/tests/bench/products: $B/tests/bench/limit.c.o
LOOP_TESTS := $(addprefix $B/tests/unit/test_,spool store translator turns)
$(LOOP_TESTS): ENGINE_LDLIBS += $(SERVER_LDLIBS)
$(LOOP_TESTS): $(patsubst %,$B/%.o,$(wildcard server/store/*.c server/common/*.c) \
    server/serve/turns.c)
$B/tests/unit/test_translator: $B/server/serve/translator.c.o
$(addprefix $B/tests/unit/test_,linear_time html grow): $(patsubst %,$B/%.o, \
    $(wildcard server/content/*.c) $(addprefix server/common/,error.c grow.c hash.c unicode.c))

include tests/cuda/rules.mk tests/alone/rules.mk tests/fuzz/rules.mk
include tests/deploy/rules.mk tests/http/rules.mk docker/rules.mk
.SECONDARY:# or objects of tests are deleted, and made again each time
# A Debian that was made in there has files of this name that are none of make's.
-include $(shell find $B -name deb-root -prune -o -name '*.d' -type f -print 2>/dev/null)

# ---- Running ---------------------------------------------------------------------------------

serve: ## install what is missing, build, serve the shipped models on port 5000 (PORT= ARGS=)
	@conf/packages install build
	@$(MAKE) --no-print-directory $B/acre
	$B/acre serve --config conf/acre.json --models models --listen 0.0.0.0:$(PORT) $(ARGS)

test: ## install what is missing, build, run every test (SAN= with a sanitizer)
	@conf/packages install build test
	@$(MAKE) --no-print-directory $B/acre test-programs build/venv-test/ready
	@BUILD=$B tests/run

test-programs: $(UNIT_TESTS) $(CUDA_TESTS) $(EMULATED) $(DEPLOY_PROGRAMS) $(FUZZ_PROGRAMS) \
    $B/tests/golden/area

build/venv-test/ready: tests/requirements.txt
build/venv-bench/ready: tests/bench/requirements.txt
build/venv-parity/ready: tests/parity/requirements.txt models/train/requirements.txt
build/venv-train/ready: models/train/requirements.txt
$(patsubst %,build/venv-%/ready,test bench parity train wheel bulk):
	python3 -m venv --clear $(@D)
	$(@D)/bin/pip install --quiet --disable-pip-version-check -r $<
	@touch $@

golden: ## run the golden cases under GOLDEN=DIR, one line each
	@conf/packages install build test
	@$(MAKE) --no-print-directory $B/tests/golden/area
	@$B/tests/golden/area $(GOLDEN)

parity: ## compare random models with transformers itself (installs PyTorch)
	@conf/packages install build test
	@$(MAKE) --no-print-directory $B/acre build/venv-parity/ready
	build/venv-parity/bin/python tests/parity/random_models.py --acre $B/acre $(ARGS)

# ---- Elsewhere -------------------------------------------------------------------------------

train: $B/acre build/venv-train/ready ## train MODEL=en-de-token from CORPORA=DIR and EVAL=DIR
	@test -n "$(MODEL)" && test -n "$(CORPORA)" && test -n "$(EVAL)" || \
	    { echo "usage: make train MODEL=NAME CORPORA=DIR EVAL=DIR [ARGS=...]"; exit 2; }
	build/venv-train/bin/python -m models.train all $(MODEL) \
	    --corpora $(CORPORA) --eval $(EVAL) --acre $B/acre $(ARGS)

eval: ## score the shipped models, and write it down (EVAL=DIR CORPORA=DIR MODEL=en-de-token)
	@conf/packages install build test
	@$(MAKE) --no-print-directory $B/acre build/venv-test/ready
	build/venv-test/bin/python -m models.evaluate $(MODEL) --acre $B/acre \
	    $(if $(EVAL),--eval $(EVAL)) $(if $(CORPORA),--corpora $(CORPORA)) $(ARGS)

bench: ## measure Acre and its peer; writes tests/bench/results (EVAL=DIR for BLEU, ARGS=--help)
	@conf/packages install build test
	@$(MAKE) --no-print-directory $B/acre build/venv-test/ready build/venv-bench/ready
	tests/bench/run $(if $(EVAL),--eval $(EVAL)) $(ARGS)

profile: ## in which functions the time goes (MODEL=DIR TYPE=int8 BEAM=4)
	@conf/packages install build test profile
	@$(MAKE) --no-print-directory $B/acre build/venv-bench/ready
	@tests/bench/profile $(if $(MODEL),--model $(MODEL)) $(if $(TYPE),--type $(TYPE)) \
	    $(if $(BEAM),--beam $(BEAM)) $(ARGS)

bench-kernels: ## the packed products against OpenBLAS and the processor's limit
	@conf/packages install build test
	@$(MAKE) --no-print-directory $B/tests/bench/products
	@OPENBLAS_NUM_THREADS=1 $B/tests/bench/products

bench-split: ## how long texts of many kinds take to be split into sentences and tokens
	@conf/packages install build test
	@$(MAKE) --no-print-directory $B/tests/bench/split
	@$B/tests/bench/split

lint: ## layering, formatting, sizes
	@conf/packages install lint
	tests/lint

install: TO = $(DESTDIR)$(PREFIX)
install: build ## install command, manual, library, headers, models, systemd units under PREFIX
	install -D -m 755 $B/acre $(TO)/bin/acre
	conf/library $B/libacre.a $(TO)/lib/libacre.a
	install -D -m 644 -t $(TO)/include engine/acre.h engine/acre_result.h engine/acre_bench.h
	conf/manual $B/acre $B
	install -D -m 644 -t $(TO)/share/man/man1 $B/acre.1
	install -D -m 644 -t $(TO)/share/man/man5 $B/acre.json.5
	install -d $(addprefix $(TO)/,share/acre lib/pkgconfig lib/systemd/system)
	@settings=$(TO)/share/acre/acre.json; if [ -e $$settings ]; then \
	    echo "kept $$settings as it is; this version's is conf/acre.json"; else \
	    sed 's|"models": "models"|"models": "$(PREFIX)/share/acre/models"|' conf/acre.json \
	        >$$settings && chmod 644 $$settings; fi
	printf '%s\n' 'Name: acre' 'Description: Machine translation engine' 'Version: $(VERSION)' \
	    'Requires.private: $(ENGINE_LIBS)' 'Cflags: -I$(PREFIX)/include' \
	    'Libs: -L$(PREFIX)/lib -lacre $(ENGINE_LDLIBS)' >$(TO)/lib/pkgconfig/acre.pc
	sed 's|/usr/bin/acre|$(PREFIX)/bin/acre|; s|/etc/acre/|$(PREFIX)/share/acre/|' \
	    conf/acre.service >$(TO)/lib/systemd/system/acre.service
	chmod 644 $(addprefix $(TO)/lib/,pkgconfig/acre.pc systemd/system/acre.service)
	install -m 644 conf/acre.socket $(TO)/lib/systemd/system
	for dir in $(patsubst %/config.json,%,$(wildcard models/*/config.json)); do find -L $$dir \
	    -maxdepth 1 ! -type d -exec install -Dm644 -t $(TO)/share/acre/$$dir {} + || exit; done

clean: ## remove what was built, not the virtual environments
	find build -mindepth 1 -maxdepth 1 ! -name 'venv-*' -exec rm -rf {} +

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 15
