# rules.mk - the long forms of what tests of the server do for seconds.

.PHONY: soak
soak: ## minutes of everything a server may be sent, under the address sanitizer; its memory (ARGS=--seconds 60)
	@conf/packages install build test
	@$(MAKE) --no-print-directory build/acre build/venv-test/ready
	@$(MAKE) --no-print-directory SAN=address build
	ACRE=build/address/acre build/venv-test/bin/python tests/http/soak.py $(ARGS)
	build/venv-test/bin/python tests/http/soak.py --memory
