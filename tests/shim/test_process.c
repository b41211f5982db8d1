// Tests processes and threads: fork, exec, spawn, killed processes, and many at the same time.
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <time.h>

#include "tenant.h"

#include "fake_driver.h"

extern char **environ;

static uint64_t charged(void)
{
	return vg_ledger_charged(tenant_ledger);
}

static void child_of_tenant(CUdeviceptr address)
{
	CUdeviceptr other;
	size_t free_bytes, total;

	CHECK_INT(cuInit(0), CUDA_ERROR_NOT_INITIALIZED);
	CHECK_INT(cuMemAlloc_v2(&other, MIB), CUDA_ERROR_NOT_INITIALIZED);
	CHECK_INT(cuMemAllocAsync(&other, MIB, NULL), CUDA_ERROR_NOT_INITIALIZED);
	cuMemFree_v2(address); // this call may succeed or fail, but must not change the charge
	cuMemGetInfo_v2(&free_bytes, &total);
	CHECK_INT(charged(), 8 * MIB);
}

static void fork_body(void)
{
	CUdeviceptr address;
	pid_t child;

	CHECK_INT(cuInit(0), CUDA_SUCCESS);
	CHECK_INT(cuMemAlloc_v2(&address, 8 * MIB), CUDA_SUCCESS);
	child = fork();
	if (child == 0) {
		child_of_tenant(address);
		_exit(0);
	}
	CHECK_CHILD(child);
	CHECK_INT(charged(), 8 * MIB);
	CHECK_INT(cuMemFree_v2(address), CUDA_SUCCESS);
	CHECK_INT(charged(), 0);
}

TEST(forked_children_cannot_use_cuda_or_change_charges)
{
	TENANT(64 * MIB, 0, fork_body);
}

static void *allocate_for_ever(void *stop)
{
	CUdeviceptr address;

	while (!__atomic_load_n((bool *)stop, __ATOMIC_RELAXED))
		if (cuMemAlloc_v2(&address, 4096) == CUDA_SUCCESS)
			cuMemFree_v2(address);
	return NULL;
}

// Forks while other threads may have locks. No child may wait for one of these locks.
static void fork_storm_body(void)
{
	pthread_t threads[3];
	bool stop = false;
	CUdeviceptr address;

	alarm(60);
	CHECK_INT(cuInit(0), CUDA_SUCCESS);
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, allocate_for_ever, &stop);
	for (int i = 0; i < 50; i++) {
		pid_t child = fork();
		if (child == 0) {
			alarm(20);
			cuMemAlloc_v2(&address, 4096);
			cuMemFree_v2(0x1000);
			_exit(0);
		}
		CHECK_CHILD(child);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	CHECK_INT(charged(), 0);
}

TEST(forks_under_load_do_not_hang)
{
	TENANT(64 * MIB, 0, fork_storm_body);
}

static void *hammer(void *seed)
{
	unsigned int state = (unsigned int)(uintptr_t)seed;
	CUdeviceptr held[32] = {0};

	for (int i = 0; i < 4000; i++) {
		int at = rand_r(&state) % 32;
		if (held[at])
			cuMemFree_v2(held[at]);
		held[at] = 0;
		if (rand_r(&state) % 3 && cuMemAlloc_v2(&held[at], 1 + rand_r(&state) % (3 * MIB)) != CUDA_SUCCESS)
			held[at] = 0;
		if (charged() > 64 * MIB)
			return "past the limit";
	}
	for (int i = 0; i < 32; i++)
		if (held[i])
			cuMemFree_v2(held[i]);
	return NULL;
}

static void threads_body(void)
{
	pthread_t threads[8];
	void *complaint;

	CHECK_INT(cuInit(0), CUDA_SUCCESS);
	for (int i = 0; i < 8; i++)
		pthread_create(&threads[i], NULL, hammer, (void *)(uintptr_t)(i + 1));
	for (int i = 0; i < 8; i++) {
		pthread_join(threads[i], &complaint);
		CHECK(!complaint);
	}
	CHECK_INT(charged(), 0);
}

TEST(threads_never_exceed_the_limit_and_refund_all)
{
	TENANT(64 * MIB, 0, threads_body);
	CHECK(vg_ledger_refusal_count(tenant_ledger) > 0);
}

// Runs threads that use growing and shrinking pools, and physical memory that outlives its handles.
static void *hammer_pools(void *seed)
{
	CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
					  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	unsigned int state = (unsigned int)(uintptr_t)seed;
	CUdeviceptr pooled, range = 0x500000000000 + ((uint64_t)(uintptr_t)seed << 32);
	CUmemGenericAllocationHandle handle;

	for (int i = 0; i < 2000; i++) {
		if (cuMemAllocAsync(&pooled, 1 + rand_r(&state) % (24 * MIB), NULL) == CUDA_SUCCESS)
			cuMemFreeAsync(pooled, NULL);
		if (cuMemCreate(&handle, 4 * MIB, &properties, 0) == CUDA_SUCCESS) {
			if (cuMemMap(range, 4 * MIB, 0, handle, 0) != CUDA_SUCCESS)
				return "could not map";
			cuMemRelease(handle);
			if (cuMemUnmap(range, 4 * MIB) != CUDA_SUCCESS)
				return "could not unmap";
		}
		if (charged() > 96 * MIB)
			return "past the limit";
	}
	return NULL;
}

static void pools_body(void)
{
	pthread_t threads[6];
	CUmemoryPool pool;
	void *complaint;

	CHECK_INT(cuInit(0), CUDA_SUCCESS);
	for (int i = 0; i < 6; i++)
		pthread_create(&threads[i], NULL, hammer_pools, (void *)(uintptr_t)(i + 1));
	for (int i = 0; i < 6; i++) {
		pthread_join(threads[i], &complaint);
		CHECK_STR(complaint ? (char *)complaint : "", "");
	}
	CHECK_INT(cuDeviceGetMemPool(&pool, 0), CUDA_SUCCESS);
	CHECK_INT(cuMemPoolTrimTo(pool, 0), CUDA_SUCCESS);
	CHECK_INT(charged(), 0);
}

TEST(threads_refund_pools_and_mappings)
{
	TENANT(96 * MIB, 0, pools_body);
}

static void one_of_many(void)
{
	CUdeviceptr address;
	CUcontext context;

	CHECK_INT(cuInit(0), CUDA_SUCCESS);
	CHECK_INT(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
	CHECK_INT(cuMemAlloc_v2(&address, 2 * MIB), CUDA_SUCCESS);
	CHECK_INT(cuMemFree_v2(address), CUDA_SUCCESS);
	CHECK_INT(cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
}

TEST(sixty_four_processes_start_at_once)
{
	enum { MANY = 64 };
	pid_t children[MANY];
	int gate[2];
	char byte;

	tenant_new_ledger(MANY * 18 * MIB, 16 * MIB);
	CHECK_INT(pipe(gate), 0);
	for (int i = 0; i < MANY; i++) {
		children[i] = fork();
		CHECK(children[i] >= 0);
		if (children[i] == 0) {
			close(gate[1]);
			if (read(gate[0], &byte, 1) != 0)
				_exit(2);
			one_of_many();
			_exit(0);
		}
	}
	close(gate[0]);
	close(gate[1]); // all processes start at the same time
	for (int i = 0; i < MANY; i++)
		CHECK_CHILD(children[i]);
	CHECK_INT(charged(), 0);
	CHECK_INT(vg_ledger_enters(tenant_ledger), MANY);
}

static void killed_body(void)
{
	CUdeviceptr address;

	CHECK_INT(cuInit(0), CUDA_SUCCESS);
	CHECK_INT(cuMemAlloc_v2(&address, 8 * MIB), CUDA_SUCCESS);
	raise(SIGKILL);
}

TEST(killed_processes_stay_charged_until_reaped)
{
	struct vg_ledger_tenant tenant;
	unsigned int cursor = 0;

	tenant_new_ledger(64 * MIB, 0);
	CHECK_INT(tenant_run(killed_body), SIGKILL);
	// The memory stays charged until the daemon reaps the process, after the driver has freed the memory.
	CHECK_INT(charged(), 8 * MIB);
	CHECK(vg_ledger_next_tenant(tenant_ledger, &cursor, &tenant));
	CHECK_INT(tenant.used, 8 * MIB);
	CHECK_INT(tenant.by_kind[VG_LEDGER_DEVICE], 8 * MIB);
}

static void exec_body(void)
{
	CUdeviceptr address;
	char *const arguments[] = {"true", NULL};

	CHECK_INT(cuInit(0), CUDA_SUCCESS);
	CHECK_INT(cuMemAlloc_v2(&address, 8 * MIB), CUDA_SUCCESS);
	execv("/bin/true", arguments);
	_exit(3);
}

static void spawn_body(void)
{
	char *const arguments[] = {"true", NULL};
	CUdeviceptr address;
	pid_t child;

	CHECK_INT(cuInit(0), CUDA_SUCCESS);
	CHECK_INT(cuMemAlloc_v2(&address, 8 * MIB), CUDA_SUCCESS);
	CHECK_INT(posix_spawn(&child, "/bin/true", NULL, NULL, arguments, environ), 0);
	CHECK_CHILD(child);
	CHECK_INT(charged(), 8 * MIB);
	CHECK_INT(cuMemFree_v2(address), CUDA_SUCCESS);
	CHECK_INT(charged(), 0);
}

TEST(exec_and_spawn_work)
{
	tenant_new_ledger(64 * MIB, 0);
	CHECK_INT(tenant_run(exec_body), 0);
	TENANT(64 * MIB, 0, spawn_body);
}

static void descriptors_body(void)
{
	int lowest = dup(0), after;

	close(lowest);
	CHECK_INT(cuInit(0), CUDA_SUCCESS);
	after = dup(0);
	// The interposer has opened no descriptor with a low number.
	CHECK_INT(after, lowest);
}

TEST(the_interposer_uses_no_low_descriptors)
{
	TENANT(64 * MIB, 0, descriptors_body);
}

static void visible(const char *before, const char *after)
{
	if (before)
		setenv("CUDA_VISIBLE_DEVICES", before, 1);
	else
		unsetenv("CUDA_VISIBLE_DEVICES");
	CHECK_INT(cuInit(0), CUDA_SUCCESS);
	CHECK_STR(getenv("CUDA_VISIBLE_DEVICES"), after);
	_exit(0);
}

#define OUR_UUID "GPU-01020304-0506-0708-090a-0b0c0d0e0f10"
#define VISIBLE(name, before, after)    \
	static void name(void)          \
	{                               \
		visible(before, after); \
	}
VISIBLE(visible_unset, NULL, OUR_UUID)
VISIBLE(visible_ours, OUR_UUID, OUR_UUID)
VISIBLE(visible_prefix, "gpu-0102", OUR_UUID)
VISIBLE(visible_index, "0,1", OUR_UUID)
VISIBLE(visible_other_index, "1", "-1")
VISIBLE(visible_other_uuid, "GPU-ffffffff-0506-0708-090a-0b0c0d0e0f10", "-1")
VISIBLE(visible_none, "", "")

TEST(only_the_vgpus_device_is_visible)
{
	TENANT(64 * MIB, 0, visible_unset);
	TENANT(64 * MIB, 0, visible_ours);
	TENANT(64 * MIB, 0, visible_prefix);
	TENANT(64 * MIB, 0, visible_index);
	TENANT(64 * MIB, 0, visible_other_index);
	TENANT(64 * MIB, 0, visible_other_uuid);
	TENANT(64 * MIB, 0, visible_none);
}

static void refused_thrice_body(void)
{
	CUdeviceptr address;

	CHECK(freopen(getenv("SHIM_TEST_STDERR"), "w", stderr));
	for (int i = 0; i < 3; i++)
		CHECK_INT(cuMemAlloc_v2(&address, 2 * GIB), CUDA_ERROR_OUT_OF_MEMORY);
}

static void refused_a_little_body(void)
{
	CUdeviceptr address;

	CHECK(freopen(getenv("SHIM_TEST_STDERR"), "w", stderr));
	CHECK_INT(cuMemAlloc_v2(&address, 960 * MIB), CUDA_SUCCESS);
	CHECK_INT(cuMemAlloc_v2(&address, 96 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
}

// Returns what a tenant with a limit of 1 GiB prints on standard error.
static const char *words_of(void (*body)(void))
{
	static char text[1024];
	char path[128];
	FILE *file;

	tenant_new_ledger(GIB, 0);
	snprintf(path, sizeof path, "%s/stderr", tenant_directory);
	setenv("SHIM_TEST_STDERR", path, 1);
	CHECK_INT(tenant_run(body), 0);
	file = fopen(path, "r");
	CHECK(file);
	text[fread(text, 1, sizeof text - 1, file)] = '\0';
	fclose(file);
	return text;
}

TEST(refusals_are_reported_once_a_second)
{
	CHECK_STR(words_of(refused_thrice_body), "vGPU train: asked 2.0 GiB, 0.0 of 1.0 GiB used (0.0 overhead); "
						 "raise with `virgate set train --memory 2G`\n");
	CHECK_INT(vg_ledger_refusal_count(tenant_ledger), 3);
}

static void removed_body(void)
{
	CUdeviceptr address;
	uint64_t charged;

	CHECK(freopen(getenv("SHIM_TEST_STDERR"), "w", stderr));
	CHECK_INT(cuInit(0), CUDA_SUCCESS);
	// The daemon sets the limit of a closed vGPU to 0.
	CHECK_INT(vg_ledger_set_limit(tenant_ledger, 0, &charged), 0);
	CHECK_INT(cuMemAlloc_v2(&address, MIB), CUDA_ERROR_OUT_OF_MEMORY);
}

// A message about a removed vGPU must not contain "0 of 0 B used".
TEST(messages_name_a_removed_vgpu)
{
	CHECK_STR(words_of(removed_body),
		  "virgate: vGPU train was removed: it grants no memory any more; run the program in another one\n");
}

// A message must not contain "1.0 of 1.0 GiB" when 64 MiB are left.
TEST(messages_have_enough_digits_for_the_request)
{
	CHECK_STR(words_of(refused_a_little_body),
		  "vGPU train: asked 96.0 MiB, 960.0 of 1024.0 MiB used (0.0 overhead); "
		  "raise with `virgate set train --memory 1536M`\n");
}

// The message must name a command for the running program, and another one for the next start.
TEST(messages_suggest_options_of_run_for_ephemeral_vgpus)
{
	tenant_flags = VG_LEDGER_EPHEMERAL;
	CHECK_STR(words_of(refused_a_little_body),
		  "vGPU train: asked 96.0 MiB, 960.0 of 1024.0 MiB used (0.0 overhead); give it more with "
		  "`virgate run --memory 1536M`, or while it runs `virgate set train --memory 1536M`\n");
	tenant_flags = 0;
}

static void refused_on_the_simulator_body(void)
{
	setenv("VIRGATE_SIM", "memory=4G", 1);
	refused_a_little_body();
}

// The suggested command must name the same simulated GPU, so that users can paste it.
TEST(suggested_commands_name_the_simulator)
{
	CHECK_STR(words_of(refused_on_the_simulator_body),
		  "vGPU train: asked 96.0 MiB, 960.0 of 1024.0 MiB used (0.0 overhead); "
		  "raise with `virgate set --sim=memory=4G train --memory 1536M`\n");
}

// Tests a refusal after the daemon has written into the ledger the largest limit that it would give the vGPU.
static void refused_under_ceiling(uint64_t ceiling, const char *advice)
{
	char expected[512];

	tenant_ceiling = ceiling;
	snprintf(expected, sizeof expected, "vGPU train: asked 96.0 MiB, 960.0 of 1024.0 MiB used (0.0 overhead); %s\n",
		 advice);
	CHECK_STR(words_of(refused_a_little_body), expected);
	tenant_ceiling = 0;
}

TEST(suggested_limits_fit_the_gpu)
{
	refused_under_ceiling(4 * GIB, "raise with `virgate set train --memory 1536M`");
	refused_under_ceiling(1100 * MIB + 5, "raise with `virgate set train --memory 1100M`");
	refused_under_ceiling(1040 * MIB,
			      "a larger limit does not help: the GPU has room for a limit of 1.0 GiB at most");
	refused_under_ceiling(GIB, "a larger limit does not help: the GPU has room for a limit of 1.0 GiB at most");
}

static void closed_pipe_body(void)
{
	CUdeviceptr address;
	int ends[2];

	CHECK_INT(pipe(ends), 0);
	close(ends[0]);
	dup2(ends[1], STDERR_FILENO);
	if (cuMemAlloc_v2(&address, 2 * GIB) != CUDA_ERROR_OUT_OF_MEMORY)
		_exit(1);
}

TEST(messages_to_a_closed_pipe_kill_no_program)
{
	TENANT(GIB, 0, closed_pipe_body);
}
