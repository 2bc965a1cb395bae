# rules.mk - the fuzz targets, by clang: each tests/fuzz/*.c but FUZZ_SUPPORT is one.
#
# All are linked with one library of all sources, built with libFuzzer's counters and the sanitizers.
# The linker takes from it what a target calls, so no list says what that is.

FUZZ_SUPPORT := input tokens
FUZZ_TARGETS := $(filter-out $(FUZZ_SUPPORT),$(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/*.c)))
# Where clang is missing, `make test` does without, and says so.
FUZZ_PROGRAMS := $(if $(SAN),,$(if $(shell command -v clang),$(FUZZ_TARGETS:%=$B/fuzz/%)))

FUZZ_SAN := -fsanitize=address,undefined
FUZZ_FLAGS := -g -O1 -fsanitize=fuzzer-no-link $(FUZZ_SAN) -fno-sanitize-recover=all -w -Itests/fuzz
FUZZ_OBJ := $(patsubst $B/%,$B/fuzz/%,$(filter $B/%.c.o $B/%.cc.o $B/llhttp/%, \
              $(filter-out $B/server/cli/%,$(ENGINE_OBJ) $(SERVER_OBJ))))
FUZZ_KERNELS := $(foreach isa,$(ISAS),$(call VECTOR_OBJ,$(isa)))

$B/fuzz/%.c.o: %.c tests/fuzz/rules.mk
	@mkdir -p $(@D)
	@echo '  CC   $@'
	$(Q)clang -std=c11 $(CPPFLAGS) $(FUZZ_FLAGS) -c -o $@ $<

$B/fuzz/llhttp/%.o: $(LLHTTP)/% tests/fuzz/rules.mk
	@mkdir -p $(@D)
	@echo '  CC   $@'
	$(Q)clang -std=c11 $(CPPFLAGS) $(FUZZ_FLAGS) -c -o $@ $<

$B/fuzz/%.cc.o: %.cc tests/fuzz/rules.mk
	@mkdir -p $(@D)
	@echo '  CXX  $@'
	$(Q)clang++ -std=c++17 $(CPPFLAGS) $(FUZZ_FLAGS) -fno-sanitize=vptr,function -c -o $@ $<

$B/fuzz/libacre.a: $(FUZZ_OBJ) $(FUZZ_KERNELS)
	@rm -f $@
	@echo '  AR   $@'
	$(Q)ar rcs $@ $^

$(FUZZ_TARGETS:%=$B/fuzz/%): $B/fuzz/%: $B/fuzz/tests/fuzz/%.c.o \
    $(FUZZ_SUPPORT:%=$B/fuzz/tests/fuzz/%.c.o) $B/fuzz/libacre.a
	@echo '  LINK $@'
	$(Q)clang -fsanitize=fuzzer $(FUZZ_SAN) -o $@ $^ $(SERVER_LDLIBS) $(ENGINE_LDLIBS)

.PHONY: fuzz
fuzz: ## fuzz every reader of outside input, FUZZ_SECONDS= each (60), or only TARGET=spm
	@conf/packages install build fuzz
	tests/fuzz/run $(or $(FUZZ_SECONDS),60) $(TARGET)

.PHONY: fuzz-targets
fuzz-targets:
	@echo $(FUZZ_TARGETS)
