# rules.mk - libacre.so, of the objects of libacre.a, and the wheel that carries it.

.PHONY: wheel wheel-file bulk-test

# What acre.h declares, and nothing else, is a symbol of the library.
$B/libacre.map: engine/acre.h
	@mkdir -p $(@D)
	$(Q){ echo '{ global:'; sed -n '/typedef/d; s/.*\b\(acre_[a-z_]*\)(.*/\1;/p' $< | sort -u; \
	    echo 'local: *; };'; } >$@

$B/libacre.so: $B/libacre.a $B/libacre.map
	@echo '  LINK $@'
	$(Q)$(CC) -shared $(LDFLAGS) -Wl,-z,defs -Wl,--version-script=$B/libacre.map \
	    -o $@ -Wl,--whole-archive $< -Wl,--no-whole-archive $(ENGINE_LDLIBS)

wheel: ## the Python package, for any Linux new enough: build/wheel/acre-*.whl
	@conf/packages install build
	@$(MAKE) --no-print-directory wheel-file

test-programs: $(if $(SAN),,wheel-file)

# auditwheel brings the libraries along that are not in every Linux, and names the oldest glibc that
# the wheel runs on. It leaves libstdc++ to the system, as manylinux says.
wheel-file: $B/libacre.so build/venv-wheel/ready
	@rm -rf $B/wheel && mkdir -p $B/wheel/source $B/wheel/own
	cp -r engine/python/. $B/wheel/source
	strip -o $B/wheel/source/acre/libacre.so $B/libacre.so
	cd $B/wheel/source && $(CURDIR)/build/venv-wheel/bin/pip wheel --quiet --no-deps \
	    --disable-pip-version-check --no-build-isolation -w ../plain .
	export PATH=$(CURDIR)/build/venv-wheel/bin:$$PATH && \
	    engine/python/own_protobuf $B/libacre.so $B/wheel/own && \
	    AUDITWHEEL_LD_LIBRARY_PATH=$(CURDIR)/$B/wheel/own \
	    auditwheel repair -w $B/wheel $B/wheel/plain/*.whl
	@rm -rf $B/wheel/source $B/wheel/own $B/wheel/plain
	@ls -l $B/wheel

build/venv-wheel/ready: engine/python/requirements.txt
build/venv-bulk/ready: tests/bulk/requirements.txt

bulk-test: ## the examples for Spark and Ray beside `acre translate` (ARGS=--help)
	@conf/packages install build bulk
	@$(MAKE) --no-print-directory $B/acre wheel-file build/venv-bulk/ready
	@rm -rf $B/bulk && mkdir -p $B/bulk/site
	@python3 -m zipfile -e $B/wheel/*.whl $B/bulk/site
	build/venv-bulk/bin/python tests/bulk/run.py --package $B/bulk/site $(ARGS)
