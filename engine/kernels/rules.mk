# rules.mk - engine/kernels/vector/ is compiled once per instruction set; the engine chooses at run
# time.

ISAS := sse2 avx2 avx512 avx512bf16 amx
VECTOR_OBJ = $(patsubst engine/kernels/vector/%.c,$B/engine/kernels/$1/%.o, \
               $(wildcard engine/kernels/vector/*.c))

ISA_avx2 := -mavx2 -mfma -mf16c
ISA_avx512 := $(ISA_avx2) -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni \
              -mprefer-vector-width=512
ISA_avx512bf16 := $(ISA_avx512) -mavx512bf16
ISA_amx := $(ISA_avx512) -mamx-tile -mamx-int8 -mamx-bf16
# For tests: the text of the wide ones without their instructions, on any machine.
ISA_wide := $(ISA_avx2) -Wno-psabi -DVECTOR_BYTES=64
ISA_pairs := $(ISA_wide) -DEMULATE_BF16
ISA_tiles := $(ISA_wide) -DEMULATE_TILES

CONTRACT_areas := off # it rounds as the authors' code does

define isa_rule
$B/engine/kernels/$1/%.o: engine/kernels/vector/%.c Makefile engine/kernels/rules.mk
	@mkdir -p $$(@D)
	@echo '  CC   $$@'
	$$(Q)$$(CC) $$(CPPFLAGS) $$(CFLAGS) $$(ISA_$1) -ffp-contract=$$(or $$(CONTRACT_$$*),fast) \
	    -DISA_NAME=$1 -c -o $$@ $$<
endef
$(foreach isa,$(ISAS) wide pairs tiles,$(eval $(call isa_rule,$(isa))))
