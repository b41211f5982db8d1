// What the interposer adds to a call: the same entries called directly in the simulated driver
// and through the interposer, turn by turn in one process, outside and inside a vGPU. Prints
// nanoseconds: the median over the rounds of the difference, and the two medians.
//   bench_shim [INTERPOSER DRIVER [ROUNDS]]
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "abi/cuda_abi.h"
#include "base/clock.h"
#include "ledger/ledger.h"

struct calls {
	VG_PFN(cuLaunchKernel, 4000, plain) launch;
	VG_PFN(cuMemAlloc, 3020, plain) alloc;
	VG_PFN(cuMemFree, 3020, plain) release;
	VG_PFN(cuCtxSynchronize, 2000, plain) synchronize;
	CUfunction function;
};

enum { LAUNCHES = 20000, BATCHES = 4, BATCH = 512 };

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

static void bind(void *library, struct calls *calls)
{
	*(void **)&calls->launch = need(library, "cuLaunchKernel");
	*(void **)&calls->alloc = need(library, "cuMemAlloc_v2");
	*(void **)&calls->release = need(library, "cuMemFree_v2");
	*(void **)&calls->synchronize = need(library, "cuCtxSynchronize");
}

// Through the interposer, so that its records know the context.
static CUfunction set_up(void *library)
{
	VG_PFN(cuInit, 2000, plain) init = (VG_PFN(cuInit, 2000, plain))need(library, "cuInit");
	VG_PFN(cuDevicePrimaryCtxRetain, 7000, plain) retain =
		(VG_PFN(cuDevicePrimaryCtxRetain, 7000, plain))need(library, "cuDevicePrimaryCtxRetain");
	VG_PFN(cuCtxSetCurrent, 4000, plain) set = (VG_PFN(cuCtxSetCurrent, 4000, plain))need(library, "cuCtxSetCurrent");
	VG_PFN(cuModuleLoadData, 2000, plain) load =
		(VG_PFN(cuModuleLoadData, 2000, plain))need(library, "cuModuleLoadData");
	VG_PFN(cuModuleGetFunction, 2000, plain) get =
		(VG_PFN(cuModuleGetFunction, 2000, plain))need(library, "cuModuleGetFunction");
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

static double time_launches(const struct calls *calls)
{
	uint64_t begin = vg_clock_monotonic_ns(), end;

	for (int i = 0; i < LAUNCHES; i++)
		calls->launch(calls->function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
	end = vg_clock_monotonic_ns();
	if (calls->synchronize() != CUDA_SUCCESS)
		give_up("a launch failed");
	return (double)(end - begin) / LAUNCHES;
}

static double time_batches(const struct calls *calls, int wanted)
{
	CUdeviceptr addresses[BATCH];
	uint64_t spent[2] = {0}, begin;

	for (int batch = 0; batch < BATCHES; batch++) {
		begin = vg_clock_monotonic_ns();
		for (int i = 0; i < BATCH; i++)
			if (calls->alloc(&addresses[i], 2 << 20) != CUDA_SUCCESS)
				give_up("an allocation failed");
		spent[0] += vg_clock_monotonic_ns() - begin;
		begin = vg_clock_monotonic_ns();
		for (int i = 0; i < BATCH; i++)
			if (calls->release(addresses[i]) != CUDA_SUCCESS)
				give_up("a free failed");
		spent[1] += vg_clock_monotonic_ns() - begin;
	}
	return (double)spent[wanted] / (BATCHES * BATCH);
}

static double time_allocations(const struct calls *calls)
{
	return time_batches(calls, 0);
}

static double time_frees(const struct calls *calls)
{
	return time_batches(calls, 1);
}

static int by_value(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return a < b ? -1 : a > b;
}

static double median(double *values, int count)
{
	qsort(values, (size_t)count, sizeof *values, by_value);
	return values[count / 2];
}

static void compare(const char *what, double (*run)(const struct calls *), const struct calls *driver,
		    const struct calls *interposer, int rounds)
{
	double *direct = calloc((size_t)rounds, sizeof *direct), *through = calloc((size_t)rounds, sizeof *through);
	double *added = calloc((size_t)rounds, sizeof *added);

	run(driver);
	run(interposer);
	for (int i = 0; i < rounds; i++) {
		direct[i] = run(driver);
		through[i] = run(interposer);
		added[i] = through[i] - direct[i];
	}
	printf("%-34s %7.1f ns added (%.1f direct, %.1f through)\n", what, median(added, rounds), median(direct, rounds),
	       median(through, rounds));
	free(direct);
	free(through);
	free(added);
}

// The device that the ledger has to name, asked in a process of its own.
static void device_uuid(const char *driver, uint8_t uuid[16])
{
	int ends[2];
	pid_t child;

	if (pipe(ends) != 0)
		give_up("no pipe");
	child = fork();
	if (child == 0) {
		void *library = dlopen(driver, RTLD_NOW);
		CUuuid answer = {{0}};
		VG_PFN(cuInit, 2000, plain) init = library ? (VG_PFN(cuInit, 2000, plain))dlsym(library, "cuInit") : NULL;
		VG_PFN(cuDeviceGetUuid, 11040, plain) ask =
			library ? (VG_PFN(cuDeviceGetUuid, 11040, plain))dlsym(library, "cuDeviceGetUuid_v2") : NULL;
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

static void measure(const char *interposer_path, const char *driver_path, const char *where, int rounds)
{
	void *interposer = dlopen(interposer_path, RTLD_NOW), *driver = dlopen(driver_path, RTLD_NOW);
	struct calls direct, through;
	char what[64];

	if (!interposer || !driver)
		give_up(dlerror());
	bind(interposer, &through);
	bind(driver, &direct);
	direct.function = through.function = set_up(interposer);
	snprintf(what, sizeof what, "launch of an empty kernel, %s", where);
	compare(what, time_launches, &direct, &through, rounds);
	snprintf(what, sizeof what, "cuMemAlloc, %s", where);
	compare(what, time_allocations, &direct, &through, rounds);
	snprintf(what, sizeof what, "cuMemFree, %s", where);
	compare(what, time_frees, &direct, &through, rounds);
}

// Beside this program: in the build tree, or in an installation.
static void find(const char *name, const char *installed, char path[4096])
{
	char self[2048], *slash;
	ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);

	if (length < 0)
		give_up("no /proc/self/exe");
	self[length] = '\0';
	slash = strrchr(self, '/');
	*slash = '\0';
	snprintf(path, 4096, "%s/../%s", self, name);
	if (access(path, R_OK) != 0)
		snprintf(path, 4096, "%s/../../../lib/virgate/%s", self, installed);
}

// Both states, each in a process of its own: a vGPU is entered once, at the first call.
static int bench(const char *interposer, const char *driver, int rounds)
{
	struct vg_ledger_options options = {
		.name = "bench", .limit = 4ull << 30, .owner = (uid_t)-1, .group = (gid_t)-1, .flags = VG_LEDGER_SIMULATED};
	char folder[] = "/tmp/virgate-bench-XXXXXX", ledger_path[64], command[64];
	struct vg_ledger *ledger;
	int failed = 0, status;

	if (!mkdtemp(folder))
		give_up("no temporary folder");
	setenv("VIRGATE_SIM", "memory=4G,ctx=16M", 0);
	setenv("VIRGATE_SIM_DIR", folder, 1);
	setenv("VIRGATE_DRIVER", driver, 1);
	device_uuid(driver, options.uuid);
	snprintf(ledger_path, sizeof ledger_path, "%s/ledger", folder);
	if (vg_ledger_create(ledger_path, &options, &ledger) != 0)
		give_up("no ledger");
	for (int inside = 0; inside < 2; inside++) {
		fflush(stdout);
		pid_t child = fork();
		if (child == 0) {
			if (inside)
				setenv("VIRGATE_LEDGER", ledger_path, 1);
			else
				unsetenv("VIRGATE_LEDGER");
			measure(interposer, driver, inside ? "in a vGPU" : "no vGPU", rounds);
			if (inside && vg_ledger_enters(ledger) != 1)
				give_up("the vGPU was not entered");
			exit(0);
		}
		failed |= waitpid(child, &status, 0) != child || status != 0;
	}
	snprintf(command, sizeof command, "rm -rf '%s'", folder);
	return failed | (system(command) != 0);
}

int main(int argc, char **argv)
{
	char interposer[4096], driver[4096];
	int rounds = argc > 3 ? atoi(argv[3]) : 31, failed;

	if (argc > 2)
		return bench(argv[1], argv[2], rounds > 0 ? rounds : 31);
	find("shim/libvirgate-cuda.so", "libvirgate-cuda.so", interposer);
	find("sim/libcuda.so.1", "sim/libcuda.so.1", driver);
	puts("on the simulated driver:");
	failed = bench(interposer, driver, rounds);
	find("tests/shim/libfake-driver.so", "tests/libfake-driver.so", driver);
	if (access(driver, R_OK) == 0) {
		puts("on a driver of empty functions, where the interposer's own time shows:");
		failed |= bench(interposer, driver, rounds);
	}
	return failed;
}
