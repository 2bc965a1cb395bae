# rules.mk - the pages, each one file with its style and script, as data of the program.

PAGE_FILES := $(filter-out %.mk %.h %.S,$(wildcard server/assets/*))

$B/server/assets/policy: $(PAGE_FILES) server/assets/rules.mk
	@mkdir -p $(@D)
	@echo '  PAGE $@'
	$(Q)server/assets/bundle $(CURDIR)/$(@D)

$B/server/assets/assets.S.o: server/assets/assets.S server/assets/openapi.json server/assets/spec.json $B/server/assets/policy
	@echo '  AS   $@'
	$(Q)$(CC) -c -g -Wa,-I$B/server/assets,-Iserver/assets -o $@ $<

.PHONY: check-api
check-api: ## ten minutes of schemathesis: the server against its own description (SECONDS=, SAN=)
	@conf/packages install build test
	@$(MAKE) --no-print-directory $B/acre build/venv-test/ready
	SCHEMATHESIS_SECONDS=$(or $(SECONDS),600) SCHEMATHESIS_SEED=$$RANDOM ACRE=$B/acre \
	    build/venv-test/bin/python -m pytest -q -p no:cacheprovider tests/http/test_openapi.py

.PHONY: html-test
html-test: ## 500 real pages as HTML; installs packages of documentation
	@conf/packages install build test html
	@$(MAKE) --no-print-directory $B/acre build/venv-test/ready
	build/venv-test/bin/python tests/http/real_pages.py $(ARGS)
