// Runs a function as a tenant: in a child process, with a new ledger. Include once.
#pragma once
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "abi/cuda_abi.h"
#include "ledger/ledger.h"
#include "test.h"

#define MIB (1ull << 20)
#define GIB (1ull << 30)

static char tenant_directory[64];
static char tenant_ledger_path[96];
static struct vg_ledger *tenant_ledger;
static uint32_t tenant_flags; // additional flags of the next ledger
static uint64_t tenant_swap, tenant_fixed;
static uint64_t tenant_ceiling; // the largest limit that the daemon would allow for the vGPU; 0: unknown

static inline void tenant_clean(void)
{
	if (getpid() != test_pid || !tenant_directory[0])
		return;
	char command[160];
	snprintf(command, sizeof command, "rm -rf '%s'", tenant_directory);
	if (system(command) != 0)
		fprintf(stderr, "could not remove %s\n", tenant_directory);
}

// Reads the UUID of the simulated device, for the ledger. A child process reads the UUID, because a driver that was
// used does not survive a fork.
static inline void tenant_read_uuid(uint8_t uuid[16])
{
	int ends[2];
	pid_t child;

	CHECK_INT(pipe(ends), 0);
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		CUuuid answer;
		unsetenv("VIRGATE_LEDGER");
		CHECK_INT(cuInit(0), CUDA_SUCCESS);
		CHECK_INT(cuDeviceGetUuid_v2(&answer, 0), CUDA_SUCCESS);
		_exit(write(ends[1], &answer, sizeof answer) != sizeof answer);
	}
	close(ends[1]);
	CHECK_INT(read(ends[0], uuid, 16), 16);
	close(ends[0]);
	CHECK_INT(waitpid(child, NULL, 0), child);
}

// Creates a ledger with a limit of `limit` bytes. The ledger says that each context is charged with `overhead` bytes.
static inline void tenant_new_ledger(uint64_t limit, uint64_t overhead)
{
	struct vg_ledger_options options = {.name = "train",
					    .limit = limit,
					    .context_overhead = overhead,
					    .flags = VG_LEDGER_SIMULATED | tenant_flags,
					    .swap = tenant_swap,
					    .fixed = tenant_fixed,
					    .owner = (uid_t)-1,
					    .group = (gid_t)-1,
					    .uuid = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}};

	if (!tenant_directory[0]) {
		strcpy(tenant_directory, "/tmp/virgate-test-XXXXXX");
		CHECK(mkdtemp(tenant_directory));
		setenv("VIRGATE_SIM_DIR", tenant_directory, 1);
		atexit(tenant_clean);
	}
	if (getenv("VIRGATE_SIM"))
		tenant_read_uuid(options.uuid);
	snprintf(tenant_ledger_path, sizeof tenant_ledger_path, "%s/train", tenant_directory);
	unlink(tenant_ledger_path);
	vg_ledger_close(tenant_ledger);
	tenant_ledger = NULL;
	CHECK_INT(vg_ledger_create(tenant_ledger_path, &options, &tenant_ledger), 0);
	vg_ledger_set_ceiling(tenant_ledger, tenant_ceiling);
	setenv("VIRGATE_LEDGER", tenant_ledger_path, 1);
}

// Runs `body` as a tenant in a child process. Returns the child's status as waitpid() does.
static inline int tenant_run(void (*body)(void))
{
	int status = -1;
	pid_t child = fork();

	CHECK(child >= 0);
	if (child == 0) {
		alarm(TEST_CHILD_SECONDS);
		body();
		_exit(0);
	}
	CHECK_INT(waitpid(child, &status, 0), child);
	return status;
}

#define TENANT(limit, overhead, body)               \
	do {                                        \
		tenant_new_ledger(limit, overhead); \
		CHECK_INT(tenant_run(body), 0);     \
	} while (0)
