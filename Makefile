# A thin front to meson: one target a job. Variables: BUILD, PREFIX, DESTDIR, CUDA, FUZZ_SECONDS,
# DEB_ROOTS, JOBS, MESON_FLAGS; SANITIZED: the suites that asan and tsan run; scripts/sanitized-tests says what they
# leave out.
BUILD ?= build
PREFIX ?= /usr/local
CUDA ?= auto
FUZZ_SECONDS ?= 20
SANITIZED ?= unit sim conformance
JOBS ?= $(shell nproc)
MESON_FLAGS ?=
# Since meson 1.7, `all` leaves out what only tests need.
TARGETS = all meson-test-prereq
override MESON_FLAGS += -Dcuda=$(CUDA)

.PHONY: all deps build demo check check-slow check-slurm check-podman check-prometheus check-browser check-deb check-rpm
.PHONY: check-gpu slurm-packages bench install asan asan-build tsan tsan-build fuzz fuzz-build bundle deb rpm reference
.PHONY: clean

all: build

deps:
	@scripts/install-deps

build: deps
	@scripts/configure $(BUILD) $(MESON_FLAGS)
	@ninja -C $(BUILD) -j $(JOBS) $(TARGETS)

# Takes the build that is there. Without one, it compiles in a directory of its own, without optimization and debug
# information: in half the time. What interprets kernels on the simulated GPU is optimized all the same.
demo: DEMO = $(if $(wildcard $(BUILD)/build.ninja),$(BUILD),$(BUILD)-demo)
demo: deps
	@scripts/configure $(DEMO) $(MESON_FLAGS) $(if $(filter %-demo,$(DEMO)),-Doptimization=0 -Ddebug=false)
	@ninja -C $(DEMO) -j $(JOBS) demo
	@scripts/demo.sh $(DEMO)

check: build
	@scripts/check $(BUILD) --no-suite slow --no-suite gpu --no-suite slurm --no-suite prometheus

check-slow: build
	@scripts/stages slow='scripts/check $(BUILD) --suite slow --timeout-multiplier=4' \
		asan='$(MAKE) --no-print-directory asan SANITIZED="$(SANITIZED) slow"' \
		tsan='$(MAKE) --no-print-directory tsan SANITIZED="$(SANITIZED) slow"' \
		fuzz='$(MAKE) --no-print-directory fuzz FUZZ_SECONDS=150'

slurm-packages:
	@OPTIONAL='libslurm-dev munge slurm-client slurmctld slurmd' scripts/install-deps

# Jobs of a real Slurm. The tests are skipped if its packages cannot be installed, or if no Slurm works on this machine.
check-slurm: slurm-packages
	@# A build directory that was set up without the headers of Slurm has no plugin.
	@test -e $(BUILD)/integrations/slurm/virgate-slurm.so || test ! -e /usr/include/slurm/spank.h || \
		test ! -e $(BUILD)/build.ninja || \
		meson setup --reconfigure $(BUILD) >/dev/null
	@$(MAKE) --no-print-directory build
	@scripts/check $(BUILD) --may-skip --suite slurm

# A real Prometheus reads the exporter, and answers every query of the alert rules and the dashboard.
check-prometheus: export PACKAGES = prometheus
check-prometheus: build
	@scripts/check $(BUILD) --suite prometheus

# The page of the exporter in a real browser. `make check` runs these tests, too, where Chromium is installed.
check-browser: export PACKAGES = chromium chromium-driver
check-browser: build
	@scripts/check $(BUILD) --suite browser

check-gpu: build
	@scripts/check $(BUILD) --suite gpu

# Containers with podman, as root; PODMAN_ROOTS=DIRECTORY has roots of debootstrap with other versions of glibc.
check-podman: export PACKAGES = podman runc crun uidmap
check-podman: build
	@scripts/check $(BUILD) --suite podman

bench: build
	@bench/run.sh $(BUILD)

# For whichever GPU and processor it is installed on.
install: MESON_FLAGS += -Dvariants=all
install: build
	@meson configure $(BUILD) -Dprefix=$(PREFIX)
	@meson install -C $(BUILD) $(if $(DESTDIR),--destdir $(abspath $(DESTDIR)))

# Optimized less, as the other builds with sanitizers: it takes two thirds of the time to compile.
asan-build: deps
	@scripts/configure $(BUILD)-asan $(MESON_FLAGS) -Db_sanitize=address,undefined -Doptimization=1
	@files=$$(scripts/sanitized-tests $(BUILD)-asan --targets $(SANITIZED)) && \
		ninja -C $(BUILD)-asan -j $(JOBS) $$files

asan: asan-build
	@names=$$(scripts/sanitized-tests $(BUILD)-asan) && \
		scripts/check $(BUILD)-asan $(SANITIZED:%=--suite %) --timeout-multiplier=4 $$names

tsan-build: deps
	@scripts/configure $(BUILD)-tsan $(MESON_FLAGS) -Db_sanitize=thread -Doptimization=1
	@files=$$(scripts/sanitized-tests $(BUILD)-tsan --targets $(SANITIZED)) && \
		ninja -C $(BUILD)-tsan -j $(JOBS) $$files

tsan: tsan-build
	@names=$$(scripts/sanitized-tests $(BUILD)-tsan) && \
		scripts/check $(BUILD)-tsan $(SANITIZED:%=--suite %) --timeout-multiplier=6 $$names

fuzz-build: deps
	@CC=clang scripts/configure $(BUILD)-fuzz $(MESON_FLAGS) -Dfuzz=true -Db_sanitize=address,undefined
	@ninja -C $(BUILD)-fuzz -j $(JOBS) fuzzers

fuzz: fuzz-build
	@scripts/fuzz $(BUILD)-fuzz $(FUZZ_SECONDS)

bundle: deps
	@scripts/configure $(BUILD)-bundle $(MESON_FLAGS) -Dbundle=true -Dvariants=all -Dbuildtype=release \
		-Dprefix=/opt/virgate -Dlibdir=lib -Dpkgconfig.relocatable=true
	@ninja -C $(BUILD)-bundle -j $(JOBS) $(TARGETS)
	@scripts/bundle $(BUILD)-bundle

deb: export PACKAGES = debhelper dpkg-dev fakeroot libslurm-dev pkgconf
deb:
	@CUDA=none scripts/install-deps
	@scripts/deb $(BUILD)-deb

# Builds the packages, and installs, upgrades and removes them in fresh roots of Debian 12 and 13. As root; needs the
# package archive of Debian. DEB_ROOTS=DIRECTORY keeps the roots for the next call.
check-deb: DEB_ROOTS = $(BUILD)-deb/roots
check-deb: export PACKAGES = debhelper dpkg-dev fakeroot libslurm-dev pkgconf debootstrap lintian
check-deb:
	@CUDA=none scripts/install-deps
	@scripts/check-deb $(BUILD)-deb $(DEB_ROOTS)

rpm: export PACKAGES = libslurm-dev rpm
rpm:
	@CUDA=none scripts/install-deps
	@scripts/rpm $(BUILD)-rpm

# Builds the RPM packages, and installs and removes them in a root of Debian 12, as root: dependencies are not tested.
check-rpm: DEB_ROOTS = $(BUILD)-deb/roots
check-rpm: export PACKAGES = debootstrap libslurm-dev rpm
check-rpm:
	@CUDA=none scripts/install-deps
	@scripts/check-rpm $(BUILD)-rpm $(DEB_ROOTS)

reference: deps
	@scripts/configure $(BUILD) $(MESON_FLAGS)
	@ninja -C $(BUILD) docs/reference.md

clean:
	rm -rf $(BUILD) $(BUILD)-demo $(BUILD)-asan $(BUILD)-tsan $(BUILD)-fuzz $(BUILD)-bundle $(BUILD)-deb $(BUILD)-rpm
