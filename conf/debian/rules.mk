# rules.mk - the Debian packages acre and acre-models, made by debhelper out of what `make
# install` installs. Staged in build/deb/tree, so that the tree has no debian/ at its top.

.PHONY: deb deb-test

DEB := $B/deb
UNITS := $(wildcard conf/acre.service conf/acre.socket)

deb: ## the Debian packages: build/deb/*.deb (DEB_VERSION= for another version than the program's)
	@conf/packages install build deb
	@$(MAKE) --no-print-directory $B/acre
	@rm -rf $(DEB) && mkdir -p $(DEB)/tree
	cp -r conf/debian $(DEB)/tree/debian
	$(if $(UNITS),cp $(UNITS) $(DEB)/tree/debian)
	$(if $(DEB_VERSION),sed -i '1s/(.*)/($(DEB_VERSION))/' $(DEB)/tree/debian/changelog)
	cd $(DEB)/tree && env -u MAKEFLAGS ROOT=$(CURDIR) DEB_BUILD_OPTIONS=noautodbgsym \
	    dpkg-buildpackage --build=binary --unsigned-changes --no-check-builddeps >../build.log 2>&1 || \
	    { cat ../build.log; exit 1; }
	@rm -rf $(DEB)/tree
	@ls -l $(DEB)/*.deb

deb-test: ## lintian; install, upgrade under load and purge in a folder made by debootstrap (as root)
	@$(MAKE) --no-print-directory wheel
	@$(MAKE) --no-print-directory deb
	@$(MAKE) --no-print-directory deb DEB=$B/deb-next DEB_VERSION=$(VERSION)+1
	lintian --allow-root --fail-on error,warning $B/deb/*.changes
	tests/deb/lifecycle.py $B
