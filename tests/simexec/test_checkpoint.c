// One process locks, evicts and restores another while that one works.
#include <fcntl.h>
#include <sys/mman.h>

#include "program.h"

struct shared {
	volatile int ready, rounds, stop, wrong;
};

static struct shared *shared;
static CUdeviceptr filler;

// Counts what the process holds of the node's device files.
static int device_files(pid_t pid)
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

// Adds to its memory for ever, and checks that every round counted.
static void subject(void)
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

static void await_rounds(int more)
{
	int from = shared->rounds;
	for (int i = 0; i < 2000 && shared->rounds < from + more; i++)
		nap_ms(5);
	if (shared->rounds < from + more)
		FAIL("the subject does not go on");
}

static void end_subject(pid_t child)
{
	int status;
	shared->stop = 1;
	waitpid(child, &status, 0);
	CHECK_INT(status, 0);
	CHECK_INT(shared->wrong, 0);
}

static size_t used(void)
{
	size_t free, total;
	CU(cuMemGetInfo_v2(&free, &total));
	return total - free;
}

static int state_of(pid_t pid)
{
	CUprocessState state;
	CU(cuCheckpointProcessGetState(pid, &state));
	return state;
}

static void observer(pid_t child)
{
	CUcheckpointLockArgs lock = {.timeoutMs = 5000};

	primary(0);
	size_t with = used();
	CU(cuCheckpointProcessLock(child, &lock));
	int rounds = shared->rounds;
	nap_ms(50);
	CHECK(shared->rounds <= rounds + 1);
	CU(cuCheckpointProcessCheckpoint(child, NULL));
	CHECK_INT(state_of(child), CU_PROCESS_STATE_CHECKPOINTED);
	CHECK(with - used() >= 64 * MIB);
	CHECK_INT(device_files(child), 0);
	// Somebody takes the room: the restore is refused, and can be tried again.
	CU(cuMemAlloc_v2(&filler, 940 * MIB));
	CHECK_INT(cuCheckpointProcessRestore(child, NULL), CUDA_ERROR_OUT_OF_MEMORY);
	CHECK_INT(state_of(child), CU_PROCESS_STATE_CHECKPOINTED);
	CU(cuMemFree_v2(filler));
	CU(cuCheckpointProcessRestore(child, NULL));
	CHECK_INT(state_of(child), CU_PROCESS_STATE_LOCKED);
	CHECK_INT(used(), with);
	CU(cuCheckpointProcessUnlock(child, NULL));
	await_rounds(3);
}

// Between the devices of the node.
static void mover(pid_t child)
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
	size_t before = used();
	restore.gpuPairsCount = 1;
	CHECK_INT(cuCheckpointProcessRestore(child, &restore), CUDA_ERROR_INVALID_VALUE); // every device must be named
	restore.gpuPairsCount = 2;
	CU(cuCheckpointProcessRestore(child, &restore));
	CU(cuCheckpointProcessUnlock(child, NULL));
	CHECK_INT(used(), before); // it is on the other one
	await_rounds(3);
}

static void run(void (*part)(pid_t child))
{
	pid_t child = start_subject(subject), watcher;
	int status;

	for (int i = 0; i < 2000 && !shared->ready; i++)
		nap_ms(5);
	await_rounds(3);
	fflush(stdout);
	watcher = fork(); // so that this process stays without a driver, for the next subject
	if (watcher == 0) {
		part(child);
		_exit(0);
	}
	waitpid(watcher, &status, 0);
	if (status != 0)
		kill(child, SIGKILL);
	CHECK_INT(status, 0);
	end_subject(child);
}

TEST(evicted_and_restored) { run(observer); }
TEST(moved_to_another_device) { run(mover); }

static void busy(pid_t child)
{
	CUcheckpointLockArgs lock = {.timeoutMs = 100};

	primary(0);
	CHECK_INT(cuCheckpointProcessLock(child, &lock), CUDA_ERROR_NOT_READY);
	CHECK_INT(state_of(child), CU_PROCESS_STATE_RUNNING);
	CHECK_INT(cuCheckpointProcessLock(1 << 22, &lock), CUDA_ERROR_OPERATING_SYSTEM);
}

static void endless(void)
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
		nap_ms(5);
	*(volatile int *)flag = 1;
	CU(cuCtxSynchronize());
}

TEST(work_in_flight_keeps_the_lock_away)
{
	pid_t watcher, child;
	int status;

	if (!shared)
		shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	memset((void *)shared, 0, sizeof *shared);
	node_start("memory=1G,devices=2");
	fflush(stdout);
	child = fork();
	if (child == 0) {
		endless();
		_exit(0);
	}
	for (int i = 0; i < 2000 && !shared->ready; i++)
		nap_ms(5);
	fflush(stdout);
	watcher = fork();
	if (watcher == 0) {
		busy(child);
		_exit(0);
	}
	waitpid(watcher, &status, 0);
	CHECK_INT(status, 0);
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

// Goes through the stages as the parent counts them up: with everything, with an unmapped handle, with nothing.
static void hold_less_and_less(void)
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
			nap_ms(5);
	}
	map_new(32 * MIB); // the address is still reserved
}

static void count_stages(pid_t child)
{
	CUcheckpointLockArgs lock = {.timeoutMs = 5000};

	CU(cuInit(0));
	for (int stage = 1; stage <= 3; stage++) {
		for (int i = 0; i < 4000 && shared->ready < stage; i++)
			nap_ms(5);
		CU(cuCheckpointProcessLock(child, &lock));
		CU(cuCheckpointProcessCheckpoint(child, NULL));
		CU(cuCheckpointProcessRestore(child, NULL));
		CU(cuCheckpointProcessUnlock(child, NULL));
		shared->rounds = stage;
	}
}

static void run_in_child(void (*part)(pid_t argument), pid_t argument)
{
	int status;

	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		part(argument);
		_exit(0);
	}
	waitpid(child, &status, 0);
	CHECK_INT(status, 0);
}

TEST(a_checkpoint_counts_what_it_copies)
{
	char said[1024] = "";
	FILE *file = tmpfile();
	int before = dup(2);

	setenv("VIRGATE_SIM_LOG", "1", 1);
	dup2(fileno(file), 2);
	pid_t child = start_subject(hold_less_and_less);
	dup2(before, 2);
	unsetenv("VIRGATE_SIM_LOG");
	run_in_child(count_stages, child);
	end_subject(child);
	rewind(file);
	said[fread(said, 1, sizeof said - 1, file)] = 0;
	fclose(file);
	close(before);
	CHECK_STR(said, "virgate sim: checkpoint: copied 39845888 bytes of device memory\n" // 38 MiB
			"virgate sim: checkpoint: copied 33554432 bytes of device memory\n" // an unmapped handle's
			"virgate sim: checkpoint: copied 0 bytes of device memory\n");
}

// ---- a restore that fails for good --------------------------------------------------------------

static void hold_and_wait(void)
{
	CUdeviceptr large;

	primary(0);
	CU(cuMemAlloc_v2(&large, 64 * MIB));
	shared->ready = 1;
	for (;;)
		nap_ms(100);
}

static void find_it_stuck(pid_t child)
{
	CUcheckpointLockArgs lock = {.timeoutMs = 5000};

	primary(0);
	CU(cuCheckpointProcessLock(child, &lock));
	CU(cuCheckpointProcessCheckpoint(child, NULL));
	CU(cuMemAlloc_v2(&filler, 940 * MIB));
	CHECK_INT(cuCheckpointProcessRestore(child, NULL), CUDA_ERROR_OUT_OF_MEMORY);
	CU(cuMemFree_v2(filler));
	CHECK_INT(cuCheckpointProcessRestore(child, NULL), CUDA_ERROR_OUT_OF_MEMORY); // although there is room
	CHECK_INT(state_of(child), CU_PROCESS_STATE_CHECKPOINTED);
}

TEST(a_restore_may_stick)
{
	setenv("VIRGATE_SIM_FAULT", "stuck@restore", 1);
	pid_t child = start_subject(hold_and_wait);
	unsetenv("VIRGATE_SIM_FAULT");
	for (int i = 0; i < 2000 && !shared->ready; i++)
		nap_ms(5);
	run_in_child(find_it_stuck, child);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}
