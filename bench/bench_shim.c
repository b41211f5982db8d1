// Measures how much time the interposer adds to a driver call. The benchmark calls the same functions directly in a
// driver and through the interposer, outside and inside a vGPU. The drivers are the simulated driver and a driver of
// empty functions, which shows the interposer's own time best. A real driver's launch pushes most other code and data
// out of the processor's first caches, so the empty driver is also measured with such caches before each launch. A
// figure is the median, over many pairs of short turns in several processes, of the difference between the two turns of
// a pair. A turn is too short to be interrupted often, and a slow machine slows both turns.
//   bench_shim [--json FILE] [--driver LIBCUDA]   with --driver: only launches, of a real driver
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "abi/cuda_abi.h"
#include "base/clock.h"
#include "figures.h"
#include "ledger/ledger.h"
#include "turn/page.h"

struct calls {
	VG_PFN(cuLaunchKernel, 4000, plain) launch;
	VG_PFN(cuMemAlloc, 3020, plain) alloc;
	VG_PFN(cuMemFree, 3020, plain) release;
	VG_PFN(cuCtxSynchronize, 2000, plain) synchronize;
	CUfunction function;
};

enum { LAUNCHES = 500, CALLS = 16, TURNS = 32, ROUNDS = 4, PAIRS = TURNS * ROUNDS };
// processes that are started for each state: random addresses make some processes faster than others
enum { GENERATIONS = 6 };
// The most ns that the interposer may add to an allocation or a free for its accounting.
#define BOOKKEEPING_LIMIT 200

static const char empty_kernel[] = ".version 7.0\n.target sm_50\n.address_size 64\n.visible .entry empty() { ret; }\n";

__attribute__((noreturn)) static void give_up(const char *what)
{
	fprintf(stderr, "bench_shim: %s\n", what);
	exit(1);
}

static void *need(void *library, const char *name)
{
	void *entry = dlsym(library, name);

	if (!entry)
		give_up(dlerror());
	return entry;
}

static void bind_calls(void *library, struct calls *calls)
{
	*(void **)&calls->launch = need(library, "cuLaunchKernel");
	*(void **)&calls->alloc = need(library, "cuMemAlloc_v2");
	*(void **)&calls->release = need(library, "cuMemFree_v2");
	*(void **)&calls->synchronize = need(library, "cuCtxSynchronize");
}

// Creates a context and loads an empty kernel. `library` is the interposer, which has to know the context. Returns NULL
// on a driver of empty functions.
static CUfunction load_empty_kernel(void *library)
{
	VG_PFN(cuInit, 2000, plain) init = (VG_PFN(cuInit, 2000, plain))need(library, "cuInit");
	VG_PFN(cuDevicePrimaryCtxRetain, 7000, plain)
	retain = (VG_PFN(cuDevicePrimaryCtxRetain, 7000, plain))need(library, "cuDevicePrimaryCtxRetain");
	VG_PFN(cuCtxSetCurrent, 4000, plain)
	set = (VG_PFN(cuCtxSetCurrent, 4000, plain))need(library, "cuCtxSetCurrent");
	VG_PFN(cuModuleLoadData, 2000, plain)
	load = (VG_PFN(cuModuleLoadData, 2000, plain))need(library, "cuModuleLoadData");
	VG_PFN(cuModuleGetFunction, 2000, plain)
	get = (VG_PFN(cuModuleGetFunction, 2000, plain))need(library, "cuModuleGetFunction");
	CUfunction function;
	CUcontext context;
	CUmodule module;

	CUresult result;

	if (init(0) != CUDA_SUCCESS || retain(&context, 0) != CUDA_SUCCESS || set(context) != CUDA_SUCCESS)
		give_up("no context");
	result = load(&module, empty_kernel);
	if (result == CUDA_ERROR_NOT_SUPPORTED) // a driver of empty functions
		return NULL;
	if (result != CUDA_SUCCESS || get(&function, module, "empty") != CUDA_SUCCESS)
		give_up("the driver does not run an empty kernel");
	return function;
}

// The states of a vGPU's gate: the word that the arbiter has written, and the most time that a launch may take then.
static const struct state {
	const char *name;
	enum vgpu { NONE, PLAIN, EVICTABLE, VGPUS } vgpu;
	uint32_t word;
	double limit; // the most ns that the interposer may add to a launch
} states[] = {
	{"no vGPU", NONE, 0, 10},
	{"vGPU", PLAIN, 0, 10},
	{"vGPU beside sleeping ones", PLAIN, TURN_OPEN << 4 | TURN_COUNT, 10},
	{"vGPU that has the turn", PLAIN, TURN_HELD << 4 | TURN_WANTED, 40},
	{"evictable vGPU", EVICTABLE, 0, 11.5},
};
enum { STATES = sizeof states / sizeof *states };

// A driver to measure with.
struct driver {
	const char *name, *path;
	bool is_real, is_cold; // is_cold: with other code and data in the first caches
};

enum side { DIRECT, THROUGH, SIDES };
enum call { LAUNCH, ALLOC, FREE, KINDS };
static const struct {
	const char *name;
	double limit;
} kinds[KINDS] = {
	{"launch of an empty kernel", 0},
	{"cuMemAlloc", BOOKKEEPING_LIMIT},
	{"cuMemFree", BOOKKEEPING_LIMIT},
};

// The turns of all processes of one state, in memory that is shared with them.
struct turns {
	size_t count;				      // pairs
	double ns[KINDS][SIDES][GENERATIONS * PAIRS]; // for one call
};

// Fills the first caches of data and code: reads 64 KiB of data, and executes a jump in each cache line of 64 KiB.
static void fill_caches(void)
{
	static volatile unsigned char data[64 << 10] = {1}; // not 0, or else all of it could be one page of zeroes

	for (size_t i = 0; i < sizeof data; i += 64)
		(void)data[i];
	__asm__ volatile(".rept 1024\n\t"
			 "jmp 1f\n\t"
			 ".balign 64\n"
			 "1:\n\t"
			 ".endr");
}

// Returns the ns that one call takes, with the time to fill the caches before it if `is_cold`.
static double time_launch_turn(const struct calls *calls, bool is_cold)
{
	uint64_t begin = vg_clock_monotonic_ns(), end;

	for (int i = 0; i < LAUNCHES; i++) {
		if (is_cold)
			fill_caches();
		calls->launch(calls->function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
	}
	end = vg_clock_monotonic_ns();
	if (calls->synchronize() != CUDA_SUCCESS)
		give_up("a launch failed");
	return (double)(end - begin) / LAUNCHES;
}

static double time_alloc_turn(const struct calls *calls, CUdeviceptr addresses[CALLS])
{
	uint64_t begin = vg_clock_monotonic_ns();

	for (int i = 0; i < CALLS; i++)
		if (calls->alloc(&addresses[i], 2 << 20) != CUDA_SUCCESS)
			give_up("an allocation failed");
	return (double)(vg_clock_monotonic_ns() - begin) / CALLS;
}

static double time_free_turn(const struct calls *calls, const CUdeviceptr addresses[CALLS])
{
	uint64_t begin = vg_clock_monotonic_ns();

	for (int i = 0; i < CALLS; i++)
		if (calls->release(addresses[i]) != CUDA_SUCCESS)
			give_up("a free failed");
	return (double)(vg_clock_monotonic_ns() - begin) / CALLS;
}

static void time_launches(const struct calls calls[SIDES], bool is_cold, struct turns *turns)
{
	for (int pair = 0; pair < PAIRS; pair++)
		for (int turn = 0; turn < SIDES; turn++) {
			enum side side = (pair + turn) % SIDES; // each side goes first equally often

			turns->ns[LAUNCH][side][turns->count + (size_t)pair] = time_launch_turn(&calls[side], is_cold);
		}
}

// Times allocations and frees: each side allocates in TURNS turns, then everything is freed.
static void time_memory(const struct calls calls[SIDES], struct turns *turns)
{
	static CUdeviceptr addresses[TURNS][SIDES][CALLS];

	for (int i = 0; i < ROUNDS * 2 * TURNS * SIDES; i++) {
		int pair = i / SIDES % TURNS, round = i / (2 * TURNS * SIDES);
		bool freeing = i / (TURNS * SIDES) % 2;
		enum side side = (pair + i) % SIDES;
		CUdeviceptr *mine = addresses[pair][side];

		turns->ns[freeing ? FREE : ALLOC][side][turns->count + (size_t)(round * TURNS + pair)] =
			freeing ? time_free_turn(&calls[side], mine) : time_alloc_turn(&calls[side], mine);
	}
}

static void report_differences(struct bench_report *report, const struct state *state, const struct driver *driver,
			       struct turns *turns)
{
	static double differences[GENERATIONS * PAIRS];

	for (enum call kind = 0; kind < KINDS; kind++) {
		struct bench_figure added = {.unit = "ns added",
					     .limit = kind == LAUNCH ? state->limit : kinds[kind].limit,
					     .rule = driver->is_cold ? BENCH_NO_LIMIT : BENCH_AT_MOST};
		struct bench_figure direct;

		// The gate's word does not matter for memory. An evictable vGPU allocates by other calls.
		if (kind != LAUNCH && (state->word || state->vgpu == EVICTABLE || driver->is_real || driver->is_cold))
			continue;

		for (size_t i = 0; i < turns->count; i++)
			differences[i] = turns->ns[kind][THROUGH][i] - turns->ns[kind][DIRECT][i];
		bench_figure_set(&added, differences, turns->count);
		bench_figure_set(&direct, turns->ns[kind][DIRECT], turns->count);
		added.baseline = direct.value;
		snprintf(added.what, sizeof added.what, "%s, %s, %s", kinds[kind].name, state->name, driver->name);
		bench_report_add(report, &added);
	}
}

// Gets the UUID of the device, which must be in the ledger. Calls the driver in a child process.
static void get_device_uuid(const char *driver, uint8_t uuid[16])
{
	int ends[2];
	pid_t child;

	if (pipe(ends) != 0)
		give_up("no pipe");
	child = fork();
	if (child == 0) {
		void *library = dlopen(driver, RTLD_NOW);
		CUuuid answer = {{0}};
		VG_PFN(cuInit, 2000, plain)
		init = library ? (VG_PFN(cuInit, 2000, plain))dlsym(library, "cuInit") : NULL;
		VG_PFN(cuDeviceGetUuid, 11040, plain)
		ask = library ? (VG_PFN(cuDeviceGetUuid, 11040, plain))dlsym(library, "cuDeviceGetUuid_v2") : NULL;
		if (!init || !ask || init(0) != CUDA_SUCCESS || ask(&answer, 0) != CUDA_SUCCESS)
			_exit(1);
		_exit(write(ends[1], &answer, sizeof answer) != sizeof answer);
	}
	close(ends[1]);
	if (read(ends[0], uuid, 16) != 16)
		give_up("no device");
	close(ends[0]);
	waitpid(child, NULL, 0);
}

static void measure(struct turns *turns, const struct state *state, const char *interposer_path,
		    const struct driver *of)
{
	void *interposer = dlopen(interposer_path, RTLD_NOW), *driver = dlopen(of->path, RTLD_NOW);
	struct calls calls[SIDES];

	if (!interposer || !driver)
		give_up(dlerror());
	bind_calls(driver, &calls[DIRECT]);
	bind_calls(interposer, &calls[THROUGH]);
	calls[DIRECT].function = calls[THROUGH].function = load_empty_kernel(interposer);
	for (int warm = 0; warm < 2; warm++) { // the second run overwrites the first, which warms up
		time_launches(calls, of->is_cold, turns);
		if (state->vgpu != EVICTABLE && !of->is_real && !of->is_cold)
			time_memory(calls, turns);
	}
	turns->count += PAIRS;
}

// Finds a library relative to this program: at `built`, in a build directory or a bundle, or at `installed` (may be
// NULL), below the bundle's lib/virgate.
static void find_library(const char *built, const char *installed, char path[4096])
{
	char self[2048];
	ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);

	if (length < 0)
		give_up("no /proc/self/exe");
	self[length] = '\0';
	*strrchr(self, '/') = '\0';
	snprintf(path, 4096, "%s/../%s", self, built);
	if (access(path, R_OK) != 0 && installed)
		snprintf(path, 4096, "%s/../../../lib/virgate/%s", self, installed);
	if (access(path, R_OK) != 0) {
		fprintf(stderr, "bench_shim: there is no %s\n", path);
		exit(1);
	}
}

// The ledger of one of the vGPUs.
struct vgpu_ledger {
	struct vg_ledger *ledger;
	char path[64];
	uint64_t entered; // how many processes have entered the vGPU
};

static void create_ledger(struct vgpu_ledger *of, enum vgpu vgpu, const char *directory, const struct driver *driver)
{
	struct vg_ledger_options options = {.name = "bench",
					    .limit = 4ull << 30,
					    .owner = (uid_t)-1,
					    .group = (gid_t)-1,
					    .flags = driver->is_real ? 0 : VG_LEDGER_SIMULATED};

	if (vgpu == EVICTABLE)
		options.flags |= VG_LEDGER_EVICTABLE;
	get_device_uuid(driver->path, options.uuid);
	snprintf(of->path, sizeof of->path, "%s/ledger%d", directory, vgpu);
	if (vg_ledger_create(of->path, &options, &of->ledger) != 0)
		give_up("no ledger");
}

// Measures a state in a process of its own, because a process enters a vGPU once, at its first call. Returns whether
// it failed.
static bool measure_state(const struct state *state, struct turns *turns, struct vgpu_ledger *of,
			  const char *interposer, const struct driver *driver)
{
	int status;

	if (of->ledger) {
		struct turn_page *page = vg_ledger_turn_page(of->ledger);
		page->window_us = 1500; // as in a turn: the window decides how many events there are
		page->ahead_ns = vg_clock_monotonic_ns() + 3600000000000; // but no launch waits for it
		page->patience_us = 20000;
		page->until_ns = UINT64_MAX;
		page->word = state->word;
		of->entered++;
	}
	pid_t child = fork();
	if (child == 0) {
		if (of->ledger)
			setenv("VIRGATE_LEDGER", of->path, 1);
		else
			unsetenv("VIRGATE_LEDGER");
		measure(turns, state, interposer, driver);
		if (of->ledger && vg_ledger_enters(of->ledger) != of->entered)
			give_up("the vGPU was not entered");
		exit(0);
	}
	return waitpid(child, &status, 0) != child || status != 0;
}

static int measure_driver(struct bench_report *report, const char *interposer, const struct driver *driver)
{
	char directory[] = "/tmp/virgate-bench-XXXXXX", command[64];
	struct turns *turns =
		mmap(NULL, STATES * sizeof *turns, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct vgpu_ledger ledgers[VGPUS] = {0};
	int failed = 0;

	if (turns == MAP_FAILED || !mkdtemp(directory))
		give_up("no memory or no temporary directory");
	setenv("VIRGATE_SIM", "memory=4G,ctx=16M", 0);
	setenv("VIRGATE_SIM_DIR", directory, 1);
	setenv("VIRGATE_DRIVER", driver->path, 1);
	for (enum vgpu vgpu = PLAIN; vgpu < VGPUS; vgpu++)
		create_ledger(&ledgers[vgpu], vgpu, directory, driver);
	for (int i = 0; i < STATES * GENERATIONS && !failed; i++) {
		const struct state *state = &states[i % STATES];
		failed |= measure_state(state, &turns[i % STATES], &ledgers[state->vgpu], interposer, driver);
	}
	for (int i = 0; i < STATES && !failed; i++)
		report_differences(report, &states[i], driver, &turns[i]);
	munmap(turns, STATES * sizeof *turns);
	snprintf(command, sizeof command, "rm -rf '%s'", directory);
	return failed | (system(command) != 0);
}

int main(int argc, char **argv)
{
	char interposer[4096], simulated[4096], empty[4096];
	struct bench_report *report = bench_report_create();
	const char *json = NULL, *real = NULL;
	int failed;

	for (int i = 1; i < argc; i += 2) {
		const char **value = strcmp(argv[i], "--json") == 0	? &json
				     : strcmp(argv[i], "--driver") == 0 ? &real
									: NULL;
		if (!value || i + 1 == argc) {
			fprintf(stderr, "usage: bench_shim [--json FILE] [--driver LIBCUDA]\n");
			return 2;
		}
		*value = argv[i + 1];
	}
	if (!report)
		give_up("no memory");
	find_library("shim/libvirgate-cuda.so", "libvirgate-cuda.so", interposer);
	if (real) {
		failed = measure_driver(report, interposer, &(struct driver){"GPU", real, true, false});
		return bench_report_finish(report, json) | failed;
	}
	find_library("sim/libcuda.so.1", "sim/libcuda.so.1", simulated);
	find_library("tests/shim/libfake-driver.so", NULL, empty);
	failed = measure_driver(report, interposer, &(struct driver){"simulator", simulated, false, false});
	failed |= measure_driver(report, interposer, &(struct driver){"empty driver", empty, false, false});
	failed |= measure_driver(report, interposer, &(struct driver){"cold caches", empty, false, true});
	return bench_report_finish(report, json) | failed;
}
