// run_tenant LIMIT_MIB OVERHEAD_MIB COMMAND...: runs a command inside a new vGPU of the first
// device of $VIRGATE_DRIVER, without a daemon. At its end the vGPU must hold nothing that the
// dead did not leave behind. Exit: the command's; 99 if the ledger does not add up.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "abi/cuda_abi.h"
#include "ledger/ledger.h"

static int first_uuid(uint8_t uuid[16])
{
	int ends[2], status;
	pid_t child;

	if (pipe(ends) != 0)
		return -1;
	child = fork();
	if (child == 0) { // the driver may not be used again after a fork: ask in a process of its own
		void *driver = dlopen(getenv("VIRGATE_DRIVER"), RTLD_NOW);
		CUresult (*init)(unsigned int) = driver ? (CUresult(*)(unsigned int))dlsym(driver, "cuInit") : NULL;
		CUresult (*ask)(CUuuid *, CUdevice) =
			driver ? (CUresult(*)(CUuuid *, CUdevice))dlsym(driver, "cuDeviceGetUuid_v2") : NULL;
		CUuuid answer;
		if (!init || !ask || init(0) != CUDA_SUCCESS || ask(&answer, 0) != CUDA_SUCCESS)
			_exit(1);
		_exit(write(ends[1], &answer, sizeof answer) != sizeof answer);
	}
	close(ends[1]);
	status = read(ends[0], uuid, 16) == 16 ? 0 : -1;
	close(ends[0]);
	waitpid(child, NULL, 0);
	return status;
}

int main(int argc, char **argv)
{
	struct vg_ledger_options options = {.name = "test", .owner = (uid_t)-1, .group = (gid_t)-1};
	char folder[] = "/tmp/virgate-tenant-XXXXXX", path[64];
	struct vg_ledger_tenant tenant;
	struct vg_ledger *ledger;
	uint64_t held = 0, limit, charged;
	unsigned int cursor = 0;
	int status;

	if (argc < 4 || !getenv("VIRGATE_DRIVER") || !getenv("SHIM_PRELOAD")) {
		fprintf(stderr, "usage: VIRGATE_DRIVER=… SHIM_PRELOAD=… run_tenant LIMIT_MIB OVERHEAD_MIB COMMAND…\n");
		return 98;
	}
	options.limit = strtoull(argv[1], NULL, 10) << 20;
	options.context_overhead = strtoull(argv[2], NULL, 10) << 20;
	if (first_uuid(options.uuid) != 0 || !mkdtemp(folder)) {
		fprintf(stderr, "run_tenant: no device\n");
		return 98;
	}
	snprintf(path, sizeof path, "%s/ledger", folder);
	if (vg_ledger_create(path, &options, &ledger) != 0)
		return 98;
	pid_t child = fork();
	if (child == 0) {
		setenv("VIRGATE_LEDGER", path, 1);
		setenv("LD_PRELOAD", getenv("SHIM_PRELOAD"), 1);
		execvp(argv[3], argv + 3);
		_exit(127);
	}
	waitpid(child, &status, 0);
	while (vg_ledger_next_tenant(ledger, &cursor, &tenant))
		held += tenant.used;
	vg_ledger_read(ledger, &limit, &charged);
	unlink(path);
	rmdir(folder);
	if (held != charged || charged > limit) {
		fprintf(stderr, "run_tenant: charged %llu of %llu, but the slots hold %llu\n", (unsigned long long)charged,
			(unsigned long long)limit, (unsigned long long)held);
		return 99;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
