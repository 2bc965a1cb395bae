# rules.mk - `make engine`: the engine's devices, the CUDA backend and their tests on a machine that
# has gcc, make and perhaps nvcc, and nothing else. `BUILD=build/alone tests/run unit` runs them.
#
# cmocka.h is that of this folder. Left out are tests that need what such a machine lacks: OpenBLAS
# as an oracle, model directories, which jansson reads, and tokenizers.

ALONE_UNITS := $(addprefix test_,area attention constraint positions search tensor)
ALONE_TESTS := $(ALONE_UNITS:%=$B/alone/tests/unit/%) $B/alone/tests/cuda/test_plain \
               $B/alone/tests/cuda/shapes
ALONE_SUPPORT := $(addprefix $B/alone/tests/,alone/cmocka.c.o support/random.c.o \
                   support/area_reference.c.o)
ALONE_KERNELS := $(CUDA_KERNELS:%=$B/tests/cuda/plain/%.o) $(EMULATOR:%=$B/tests/cuda/plain/%.o)
ALONE_SUITES := $(filter-out $(EMULATOR) tests/cuda/test_replays.cc,$(CUDA_SUPPORT))
ALONE_LDLIBS := -lstdc++ -lm -lpthread

.PHONY: engine
engine: $(if $(NVCC),$B/acre_cuda.so) $B/libacre_device.a $(ALONE_TESTS) ## engine's devices, CUDA backend and tests, by gcc and nvcc alone

# `make test` builds two, or nobody would see that the lists here have become too short.
test-programs: $(if $(SAN),,$B/alone/tests/unit/test_area $B/alone/tests/cuda/test_plain)

$B/libacre_device.a: $(filter $(addprefix $B/engine/,$(addsuffix /%,search tensor kernels device)), \
                       $(ENGINE_OBJ)) $(addprefix $B/engine/base/,$(addsuffix .c.o, \
                       arena control_groups cpu error file mem processors room)) \
                       tests/alone/rules.mk
	@rm -f $@
	@echo '  AR   $@'
	$(Q)ar rcs $@ $(filter %.o,$^)

$B/alone/%.c.o: %.c Makefile tests/alone/rules.mk
	@mkdir -p $(@D)
	@echo '  CC   $@'
	$(Q)$(CC) -Itests/alone $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

$B/alone/%.cc.o: %.cc Makefile tests/alone/rules.mk tests/cuda/rules.mk
	@mkdir -p $(@D)
	@echo '  CXX  $@'
	$(Q)$(CXX) -Itests/alone $(CUDA_FLAGS) $(CUDA_OTHER_plain) -c -o $@ $<

# With all of the library, so that it shows if it needs something that is not in it.
$B/alone/tests/unit/%: $B/alone/tests/unit/%.c.o $(ALONE_SUPPORT) $B/libacre_device.a
	@echo '  LINK $@'
	$(Q)$(CC) $(LDFLAGS) -o $@ -Wl,--whole-archive $^ -Wl,--no-whole-archive $(ALONE_LDLIBS)

$B/alone/tests/cuda/test_plain: $(ALONE_SUITES:%=$B/alone/%.o) $(ALONE_KERNELS) $(ALONE_SUPPORT) \
    $B/libacre_device.a
	@echo '  LINK $@'
	$(Q)$(CXX) -no-pie $(LDFLAGS) -o $@ $^ $(ALONE_LDLIBS)

$B/alone/tests/cuda/shapes: $B/alone/tests/cuda/shapes.c.o $(ALONE_SUPPORT) $B/libacre_device.a
	@echo '  LINK $@'
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(ALONE_LDLIBS)
