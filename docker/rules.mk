# rules.mk - images of containers.

.PHONY: image image-cuda image-test
image: ## build the container image with docker, podman or buildah (TARGET=bare leaves models out)
	@docker/image docker/Dockerfile

image-cuda: ## the same with the backend for GPUs
	@IMAGE=acre-cuda docker/image docker/Dockerfile.cuda

image-test: ## build the image in a Debian made by debootstrap, as root, and measure it
	@conf/packages install image
	@$(MAKE) --no-print-directory build/venv-test/ready
	@tests/deploy/image
