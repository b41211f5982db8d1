// Tests a process that locks, checkpoints and restores another process while that one works on the device.
#include <fcntl.h>
#include <sys/mman.h>

#include "program.h"

struct shared {
	volatile int ready, rounds, stop, wrong;
};

static struct shared *shared;
static CUdeviceptr filler;

// Counts the mappings and descriptors of the simulated node's device files that the process has.
static int count_device_files(pid_t pid)
{
	char path[64], line[1024];
	int count = 0;
	snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
	FILE *file = fopen(path, "r");
	while (file && fgets(line, sizeof line, file))
		count += strstr(line, "/device") && strstr(line, node_directory);
	if (file)
		fclose(file);
	for (int fd = 0; fd < 4096; fd++) {
		char target[512];
		snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)pid, fd);
		ssize_t length = readlink(path, target, sizeof target - 1);
		if (length <= 0)
			continue;
		target[length] = 0;
		count += strstr(target, "/device") && strstr(target, node_directory);
	}
	return count;
}

// Is the process that is checkpointed. Increments a counter in device memory until the parent ends it, and checks every
// result.
static void run_subject(void)
{
	load_kernels();
	CUdeviceptr data = words(32), large;
	int n = 32, by = 1;
	CU(cuMemAlloc_v2(&large, 64 * MIB));
	CU(cuMemsetD8_v2(large, 0x5a, 64 * MIB));
	shared->ready = 1;
	while (!shared->stop) {
		CU(LAUNCH(kernel("add"), 1, 32, 0, NULL, &data, &n, &by));
		int rounds = shared->rounds + 1;
		if (word(data + 124) != rounds || (unsigned)word(large + 63 * MIB) != 0x5a5a5a5a)
			shared->wrong = 1;
		shared->rounds = rounds;
	}
}

static pid_t start_subject(void (*part)(void))
{
	if (!shared)
		shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	memset((void *)shared, 0, sizeof *shared);
	node_start("memory=1G,devices=2");
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		part();
		_exit(0);
	}
	return child;
}

static void wait_for_rounds(int more)
{
	int from = shared->rounds;
	for (int i = 0; i < 2000 && shared->rounds < from + more; i++)
		pause_ms(5);
	if (shared->rounds < from + more)
		FAIL("the subject does not continue");
}

static void end_subject(pid_t child)
{
	shared->stop = 1;
	CHECK_CHILD(child);
	CHECK_INT(shared->wrong, 0);
}

static int get_state(pid_t pid)
{
	CUprocessState state;
	CU(cuCheckpointProcessGetState(pid, &state));
	return state;
}

static void checkpoint_and_restore(pid_t child)
{
	CUcheckpointLockArgs lock = {.timeoutMs = 5000};

	primary(0);
	size_t with = get_used();
	CU(cuCheckpointProcessLock(child, &lock));
	int rounds = shared->rounds;
	pause_ms(50);
	CHECK(shared->rounds <= rounds + 1);
	CU(cuCheckpointProcessCheckpoint(child, NULL));
	CHECK_INT(get_state(child), CU_PROCESS_STATE_CHECKPOINTED);
	CHECK(with - get_used() >= 64 * MIB);
	CHECK_INT(count_device_files(child), 0);
	// Another allocation occupies the memory, so the restore must fail. It must succeed when the memory is free
	// again.
	CU(cuMemAlloc_v2(&filler, 940 * MIB));
	CHECK_INT(cuCheckpointProcessRestore(child, NULL), CUDA_ERROR_OUT_OF_MEMORY);
	CHECK_INT(get_state(child), CU_PROCESS_STATE_CHECKPOINTED);
	CU(cuMemFree_v2(filler));
	CU(cuCheckpointProcessRestore(child, NULL));
	CHECK_INT(get_state(child), CU_PROCESS_STATE_LOCKED);
	CHECK_INT(get_used(), with);
	CU(cuCheckpointProcessUnlock(child, NULL));
	wait_for_rounds(3);
}

// Restores the process on another device of the simulated node.
static void move_to_other_device(pid_t child)
{
	CUcheckpointLockArgs lock = {.timeoutMs = 5000};
	CUcheckpointGpuPair pairs[2];
	CUcheckpointRestoreArgs restore = {.gpuPairs = pairs, .gpuPairsCount = 2};
	CUuuid first, second;

	primary(0);
	CU(cuDeviceGetUuid_v2(&first, 0));
	CU(cuDeviceGetUuid_v2(&second, 1));
	pairs[0] = (CUcheckpointGpuPair){first, second};
	pairs[1] = (CUcheckpointGpuPair){second, first};
	CU(cuCheckpointProcessLock(child, &lock));
	CU(cuCheckpointProcessCheckpoint(child, NULL));
	size_t before = get_used();
	restore.gpuPairsCount = 1;
	CHECK_INT(cuCheckpointProcessRestore(child, &restore),
		  CUDA_ERROR_INVALID_VALUE); // gpuPairs must have a pair (old and new device) for each device
	restore.gpuPairsCount = 2;
	CU(cuCheckpointProcessRestore(child, &restore));
	CU(cuCheckpointProcessUnlock(child, NULL));
	// the process's memory is now on the other device, so the restore used no memory of this device
	CHECK_INT(get_used(), before);
	wait_for_rounds(3);
}

static int wait_for_child(void (*part)(pid_t argument), pid_t argument)
{
	int status;

	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		part(argument);
		_exit(0);
	}
	waitpid(child, &status, 0);
	return status;
}

// Runs a part of the test in a child. This process must not use the driver, because it forks further processes that use
// it.
static void run_in_child(void (*part)(pid_t argument), pid_t argument)
{
	CHECK_INT(wait_for_child(part, argument), 0);
}

static void run_with_subject(void (*part)(pid_t child))
{
	pid_t child = start_subject(run_subject);

	for (int i = 0; i < 2000 && !shared->ready; i++)
		pause_ms(5);
	wait_for_rounds(3);
	int status = wait_for_child(part, child);
	if (status != 0)
		kill(child, SIGKILL);
	CHECK_INT(status, 0);
	end_subject(child);
}

TEST(a_process_is_checkpointed_and_restored)
{
	run_with_subject(checkpoint_and_restore);
}
TEST(a_restore_can_move_to_another_device)
{
	run_with_subject(move_to_other_device);
}

static void fail_to_lock(pid_t child)
{
	CUcheckpointLockArgs lock = {.timeoutMs = 100};

	primary(0);
	CHECK_INT(cuCheckpointProcessLock(child, &lock), CUDA_ERROR_NOT_READY);
	CHECK_INT(get_state(child), CU_PROCESS_STATE_RUNNING);
	CHECK_INT(cuCheckpointProcessLock(1 << 22, &lock), CUDA_ERROR_OPERATING_SYSTEM);
}

static void run_endless_kernel(void)
{
	load_kernels();
	int *flag;
	CUdeviceptr seen;
	CU(cuMemHostAlloc((void **)&flag, 4, CU_MEMHOSTALLOC_DEVICEMAP));
	*flag = 0;
	CU(cuMemHostGetDevicePointer_v2(&seen, flag, 0));
	CU(LAUNCH(kernel("wait_for"), 1, 1, 0, NULL, &seen));
	shared->ready = 1;
	while (!shared->stop)
		pause_ms(5);
	*(volatile int *)flag = 1;
	CU(cuCtxSynchronize());
}

TEST(a_process_with_running_work_cannot_be_locked)
{
	pid_t child = start_subject(run_endless_kernel);

	for (int i = 0; i < 2000 && !shared->ready; i++)
		pause_ms(5);
	run_in_child(fail_to_lock, child);
	end_subject(child);
}

// ---- the bytes that a checkpoint copies ---------------------------------------------------------

static CUdeviceptr reserved;

static CUmemGenericAllocationHandle map_new(size_t size)
{
	CUmemAllocationProp wanted = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemGenericAllocationHandle handle;

	CU(cuMemCreate(&handle, size, &wanted, 0));
	CU(cuMemMap(reserved, size, 0, handle, 0));
	return handle;
}

// Goes through three stages when the parent requests them: all memory is mapped; only an unmapped handle is left; no
// memory is left.
static void free_in_stages(void)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr linear;

	primary(0);
	CU(cuMemAddressReserve(&reserved, 1 << 30, 0, 0, 0));
	CU(cuMemAlloc_v2(&linear, 6 * MIB));
	handle = map_new(32 * MIB);
	for (int stage = 1; stage <= 3; stage++) {
		if (stage == 2) {
			CU(cuMemUnmap(reserved, 32 * MIB));
			CU(cuMemFree_v2(linear));
		} else if (stage == 3) {
			CU(cuMemRelease(handle));
		}
		shared->ready = stage;
		for (int i = 0; i < 4000 && shared->rounds < stage; i++)
			pause_ms(5);
	}
	map_new(32 * MIB); // the reserved range of addresses can still be used
}

static void checkpoint_stages(pid_t child)
{
	CUcheckpointLockArgs lock = {.timeoutMs = 5000};

	CU(cuInit(0));
	for (int stage = 1; stage <= 3; stage++) {
		for (int i = 0; i < 4000 && shared->ready < stage; i++)
			pause_ms(5);
		CU(cuCheckpointProcessLock(child, &lock));
		CU(cuCheckpointProcessCheckpoint(child, NULL));
		CU(cuCheckpointProcessRestore(child, NULL));
		CU(cuCheckpointProcessUnlock(child, NULL));
		shared->rounds = stage;
	}
}

TEST(a_checkpoint_reports_the_copied_bytes)
{
	char output[1024] = "";
	FILE *file = tmpfile();
	int before = dup(2);

	setenv("VIRGATE_SIM_LOG", "1", 1);
	dup2(fileno(file), 2);
	pid_t child = start_subject(free_in_stages);
	dup2(before, 2);
	unsetenv("VIRGATE_SIM_LOG");
	run_in_child(checkpoint_stages, child);
	end_subject(child);
	rewind(file);
	output[fread(output, 1, sizeof output - 1, file)] = 0;
	fclose(file);
	close(before);
	CHECK_STR(output, "virgate sim: checkpoint: copied 39845888 bytes of device memory\n" // 38 MiB
			  // in the second stage, only the 32 MiB of the unmapped handle are left
			  "virgate sim: checkpoint: copied 33554432 bytes of device memory\n"
			  "virgate sim: checkpoint: copied 0 bytes of device memory\n");
}

// ---- a restore that fails for good --------------------------------------------------------------

static void alloc_and_wait(void)
{
	CUdeviceptr large;

	primary(0);
	CU(cuMemAlloc_v2(&large, 64 * MIB));
	shared->ready = 1;
	for (;;)
		pause_ms(100);
}

static void fail_to_restore(pid_t child)
{
	CUcheckpointLockArgs lock = {.timeoutMs = 5000};

	primary(0);
	CU(cuCheckpointProcessLock(child, &lock));
	CU(cuCheckpointProcessCheckpoint(child, NULL));
	CU(cuMemAlloc_v2(&filler, 940 * MIB));
	CHECK_INT(cuCheckpointProcessRestore(child, NULL), CUDA_ERROR_OUT_OF_MEMORY);
	CU(cuMemFree_v2(filler));
	// a restore that failed for good fails again, although the memory is free now
	CHECK_INT(cuCheckpointProcessRestore(child, NULL), CUDA_ERROR_OUT_OF_MEMORY);
	CHECK_INT(get_state(child), CU_PROCESS_STATE_CHECKPOINTED);
}

TEST(an_injected_fault_fails_restores_for_good)
{
	setenv("VIRGATE_SIM_FAULT", "stuck@restore", 1);
	pid_t child = start_subject(alloc_and_wait);
	unsetenv("VIRGATE_SIM_FAULT");
	for (int i = 0; i < 2000 && !shared->ready; i++)
		pause_ms(5);
	run_in_child(fail_to_restore, child);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}
