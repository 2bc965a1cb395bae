# rules.mk - what the tests behind load balancers need built.
#
#   load         sends translations at a rate and checks each answer
#   acre-losing  the server, on a device that is lost after a while

DEPLOY_PROGRAMS := $B/tests/deploy/load $B/tests/deploy/acre-losing

$B/tests/deploy/load: $B/tests/deploy/load.c.o $B/tests/deploy/exchange.c.o $(LLHTTP_OBJ)
	@echo '  LINK $@'
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(SERVER_LDLIBS) $(ENGINE_LDLIBS)

$B/tests/deploy/acre-losing: $B/tests/deploy/lost_device.c.o $(SERVER_OBJ) $B/libacre.a
	@echo '  LINK $@'
	$(Q)$(CC) $(LDFLAGS) -Wl,--wrap=device_open -o $@ $^ $(SERVER_LDLIBS) $(ENGINE_LDLIBS)

.PHONY: deploy-test
deploy-test: ## replicas behind HAProxy and nginx, disturbed under load; writes tests/deploy/results
	@conf/packages install build test
	@$(MAKE) --no-print-directory $B/acre $(DEPLOY_PROGRAMS) build/venv-test/ready
	@BUILD=$B build/venv-test/bin/python tests/deploy/run $(ARGS)
