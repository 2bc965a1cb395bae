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
