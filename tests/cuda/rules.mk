# rules.mk - the kernels of engine/device/cuda on the emulator: one test program, built three times.
#
#   test_plain       as it is
#   test_sanitized   with the address and undefined behaviour sanitizers
#   test_race        kernels report every access (hooks.cc) through -fsanitize=thread, whose run
#                    time is not linked
#
# With SAN= none is built: they bring their own.

CUDA_BUILDS := plain sanitized race
CUDA_SAN := -fsanitize=address,undefined -fno-sanitize-recover=all
CUDA_KERNEL_plain := -O2
CUDA_OTHER_plain := -O2
CUDA_KERNEL_sanitized := -O1 $(CUDA_SAN)
CUDA_OTHER_sanitized := -O1 $(CUDA_SAN)
CUDA_KERNEL_race := -O1 -fsanitize=thread
CUDA_OTHER_race := -O2
CUDA_LINK_sanitized := $(CUDA_SAN)
CUDA_FLAGS := -std=c++17 -g -fno-pie -Wall -Wextra -Wno-unknown-pragmas -ffp-contract=off \
              -Itests/cuda -Iengine -D_GNU_SOURCE -MMD -MP

CUDA_KERNELS := $(wildcard engine/device/cuda/*.cu tests/cuda/*.cu)
CUDA_SUPPORT := $(filter-out tests/cuda/hooks.cc,$(wildcard tests/cuda/*.cc))
CUDA_PLAIN_C := tests/support/random tests/support/area_reference
CUDA_TESTS := $(if $(SAN),,$(CUDA_BUILDS:%=$B/tests/cuda/test_%))

define cuda_rules
$B/tests/cuda/$1/%.cu.o: %.cu Makefile tests/cuda/rules.mk
	@mkdir -p $$(@D)
	@echo '  CXX  $$@'
	$$(Q)$$(CXX) $$(CUDA_FLAGS) $$(CUDA_KERNEL_$1) -x c++ -c -o $$@ $$<

$B/tests/cuda/$1/%.cc.o: %.cc Makefile tests/cuda/rules.mk
	@mkdir -p $$(@D)
	@echo '  CXX  $$@'
	$$(Q)$$(CXX) $$(CUDA_FLAGS) $$(CUDA_OTHER_$1) -c -o $$@ $$<

$B/tests/cuda/test_$1: $(CUDA_KERNELS:%=$B/tests/cuda/$1/%.o) \
    $(CUDA_SUPPORT:%=$B/tests/cuda/$1/%.o) $(CUDA_PLAIN_C:%=$B/%.c.o) $B/libacre.a \
    $(if $(filter race,$1),$B/tests/cuda/race/tests/cuda/hooks.cc.o)
	@echo '  LINK $$@'
	$$(Q)$$(CXX) -no-pie $$(CUDA_LINK_$1) -o $$@ $$^ -lcmocka $$(ENGINE_LDLIBS)
endef
$(foreach build,$(CUDA_BUILDS),$(eval $(call cuda_rules,$(build))))

# ---- The whole program on the emulator: `--device cuda` is the backend, linked in -------------

EMULATOR := $(addprefix tests/cuda/,emulate.cc fibre.cc matrices.cc memory.cc runtime.cc)
BACKEND := $(wildcard engine/device/cuda/*.cu)

.PHONY: emulated
emulated: ## build build/emulated/acre, whose `--device cuda` is the CUDA backend on an emulator
	@report=$$(conf/packages check build) || { echo "$$report"; exit 1; }
	@$(MAKE) --no-print-directory $B/emulated/acre

# build/emulated/sanitized and build/emulated/race have the same programs of the other two builds.
EMULATED_DIRS := $(addprefix $B/emulated,/ /sanitized/ /race/)
EMULATED := $(if $(SAN),,$(foreach dir,$(EMULATED_DIRS),$(addprefix $(dir),acre cuda/shapes golden/area)))

define emulated_rules
EMULATED_OBJ_$1 := $(BACKEND:%=$B/tests/cuda/$1/%.o) $(EMULATOR:%=$B/tests/cuda/$1/%.o) \
                   $(if $(filter race,$1),$B/tests/cuda/race/tests/cuda/hooks.cc.o)

$2acre: $(SERVER_OBJ) $$(EMULATED_OBJ_$1) $B/libacre.a
	@mkdir -p $$(@D)
	@echo '  LINK $$@'
	$$(Q)$$(CXX) -no-pie $$(CUDA_LINK_$1) $(LDFLAGS) -o $$@ $$^ $$(SERVER_LDLIBS) $$(ENGINE_LDLIBS)

$2%: $B/tests/%.c.o $$(EMULATED_OBJ_$1) $(SUPPORT_OBJ) $B/libacre.a
	@mkdir -p $$(@D)
	@echo '  LINK $$@'
	$$(Q)$$(CXX) -no-pie $$(CUDA_LINK_$1) $(LDFLAGS) -o $$@ $$^ -lcmocka $$(ENGINE_LDLIBS)
endef
$(foreach build,$(CUDA_BUILDS),$(eval $(call emulated_rules,$(build),$B/emulated/$(build:plain=)$(if $(build:plain=),/))))

# What gpu-run measures with, to try it.
$B/emulated/speed/%: $B/tests/cuda/plain/tests/cuda/speed/%.cu.o $(EMULATED_OBJ_plain) $B/libacre.a
	@mkdir -p $(@D)
	@echo '  LINK $@'
	$(Q)$(CXX) -no-pie $(LDFLAGS) -o $@ $^ $(ENGINE_LDLIBS)

emulated-test: ## the emulated backend: every golden run, random shapes, sanitizers, races (an hour)
	@conf/packages install build test
	@$(MAKE) --no-print-directory $B/acre $(CUDA_TESTS) $(EMULATED) build/venv-test/ready
	EMULATED=all BUILD=$B tests/run python tests/cuda/test_emulated.py

NVCC := $(firstword $(shell command -v nvcc) $(wildcard $(CUDA_HOME)/bin/nvcc /usr/local/cuda/bin/nvcc))

# ---- acre_cuda.so: the backend for GPUs, which acre opens when it is asked for -----------------

# Those of them that nvcc knows: 100 and 120 came with CUDA 12.8.
CUDA_WANTED := 75 80 90 100 120
ifndef CUDA_ARCHS
CUDA_KNOWN := $(if $(NVCC),$(patsubst compute_%,%,$(shell $(NVCC) --list-gpu-arch 2>/dev/null)))
CUDA_ARCHS := $(or $(filter $(CUDA_KNOWN),$(CUDA_WANTED)),$(CUDA_WANTED))
endif
CUDA_PTX := $(if $(filter 90,$(CUDA_ARCHS)),90,$(lastword $(CUDA_ARCHS)))
empty :=
CUDA_DIR := $B/cuda/$(subst $(empty) $(empty),-,$(strip $(CUDA_ARCHS)))
LIBRARY_C := base/error device/area_constants device/positions search/search tensor/area tensor/tensor
LIBRARY_OBJ := $(BACKEND:%=$(CUDA_DIR)/%.o) $(CUDA_DIR)/engine/device/cuda/host.cc.o \
               $(LIBRARY_C:%=$(CUDA_DIR)/engine/%.c.o)
NVCC_FLAGS := -std=c++17 -O3 -Iengine -Xcompiler -fPIC,-fvisibility=hidden,-Wall -MMD -MP
NVCC_TARGETS := $(foreach arch,$(CUDA_ARCHS),-gencode arch=compute_$(arch),code=sm_$(arch)) \
                -gencode arch=compute_$(CUDA_PTX),code=compute_$(CUDA_PTX) -Xfatbin -compress-all \
                -Xptxas -v
# The others have no kernels: the host's code is the same for all.
CUDA_GATED := $(patsubst %,$(CUDA_DIR)/%.o,$(shell grep -l __global__ engine/device/cuda/*.cu))
$(CUDA_GATED): NVCC_FLAGS += $(NVCC_TARGETS)

.PHONY: cuda emulated-test
cuda: ## build build/acre_cuda.so with nvcc (CUDA_ARCHS=90 for one architecture only)
	@$(if $(NVCC),,echo 'cuda: expected nvcc of CUDA 12.3 or newer in PATH, CUDA_HOME or' \
	    '/usr/local/cuda, found none' >&2; exit 1)
	@$(MAKE) --no-print-directory $B/acre_cuda.so

# `make` and `make install` have it too where nvcc is new enough; CUDA=0 and CUDA=1 say so.
NVCC_IS_NEW = $(shell $(NVCC) --version | sed -n 's/.*release \([0-9]*\)\.\([0-9]*\).*/\1 \2/p' \
                | awk '$$1 > 12 || ($$1 == 12 && $$2 >= 3)')
CUDA ?= $(if $(if $(SAN),,$(if $(NVCC),$(NVCC_IS_NEW))),1,0)
ifeq ($(CUDA),1)
build: CUDA_GOAL := cuda
install: install-cuda
endif

.PHONY: install-cuda
install-cuda: build
	install -D -m 755 $B/acre_cuda.so $(DESTDIR)$(PREFIX)/lib/acre/acre_cuda.so

$B/acre_cuda.so: $(LIBRARY_OBJ)
	@echo '  NVCC $@'
	$(Q)$(NVCC) -shared -cudart static -Xlinker --exclude-libs,ALL -o $@ $^

# What gpu-run measures with.
SPEED := $(addprefix $B/cuda/speed/,copy products attention)

$B/cuda/speed/%: $(CUDA_DIR)/tests/cuda/speed/%.cu.o $(BACKEND:%=$(CUDA_DIR)/%.o) $B/libacre_device.a
	@mkdir -p $(@D)
	@echo '  NVCC $@'
	$(Q)$(NVCC) -cudart static -o $@ $^ -ldl

.PHONY: gpu-pack
gpu-pack: cuda ## what tests/cuda/gpu-run needs on a machine with a GPU: build/gpu-run.tar.xz
	@$(MAKE) --no-print-directory $(SPEED) $B/acre $B/tests/golden/area $B/tests/cuda/shapes
	tests/cuda/gpu-run --pack

# What ptxas tells of kernels is kept beside the object, for the gate; what else is told, is shown.
$(CUDA_DIR)/%.cu.o: %.cu tests/cuda/rules.mk
	@mkdir -p $(@D)
	@echo '  NVCC $@'
	$(Q)$(NVCC) $(NVCC_FLAGS) -c -o $@ $< 2>$(@:.o=.ptxas) || { cat $(@:.o=.ptxas); exit 1; }
	@grep -v -e '^ptxas info' -e '^    [0-9]* bytes stack frame' $(@:.o=.ptxas) || true

$(CUDA_DIR)/%.cc.o: %.cc tests/cuda/rules.mk
	@mkdir -p $(@D)
	@echo '  CXX  $@'
	$(Q)$(CXX) $(CPPFLAGS) $(CXXFLAGS) -fPIC -fvisibility=hidden -c -o $@ $<

$(CUDA_DIR)/%.c.o: %.c tests/cuda/rules.mk
	@mkdir -p $(@D)
	@echo '  CC   $@'
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -fPIC -fvisibility=hidden -c -o $@ $<

# ---- The static gate: what nvcc says of every kernel, for every architecture -------------------

# With a disassembler also which instructions it chose; the tests' Python brings one.
CUDA_GATE := tests/cuda/gate.py $(ARGS) $B/tests/cuda/test_plain tests/cuda/limits.txt
CUOBJDUMP = $(firstword $(shell command -v cuobjdump) $(wildcard \
    $(CUDA_HOME)/bin/cuobjdump /usr/local/cuda/bin/cuobjdump \
    build/venv-test/lib/python3*/site-packages/nvidia/cu*/bin/cuobjdump))

.PHONY: cuda-gate
cuda-gate: $(if $(NVCC),$(CUDA_GATED) $B/tests/cuda/test_plain) ## kernels as nvcc compiles them: stack, registers, blocks, instructions (ARGS=--write)
ifeq ($(NVCC),)
	@echo 'cuda-gate: skipped, there is no nvcc'
else
	@$(CUDA_GATE) $(CUDA_GATED:.o=.ptxas)
	@$(if $(CUOBJDUMP),tests/cuda/instructions.py $(CUOBJDUMP) $(CUDA_GATED),echo \
	    'cuda-gate: no instructions are looked at, there is no cuobjdump')
endif
