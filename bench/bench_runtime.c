// Measures the speed of Virgate's CUDA runtime library beside NVIDIA's, in one process and on one context: launches,
// records of an event, and copies of 8 bytes. A figure is the median, over many pairs of short turns, of the difference
// between the two turns of a pair. Each library goes first equally often. The limit is 50 ns or 2 % of NVIDIA's time,
// whichever is larger. Needs an NVIDIA GPU; exits with 77 if there is no GPU.
//   bench_runtime [--against LIBRARY] [--json FILE]
// Virgate's library is compared with LIBRARY, by default $NVIDIAS/libcudart.so.13 (/usr/local/cuda/lib64). On the
// simulated GPU, LIBRARY can only be a copy of Virgate's library.
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cuda_runtime_api.h>

#include "base/clock.h"
#include "figures.h"

enum { SKIPPED = 77, TURNS = 400, WARM_UP = 20 };
enum side { OURS, OTHER, SIDES };
static const char *const side_names[SIDES] = {"ours", "other"};

// The wrapper of a fat binary. The driver also accepts PTX as its data.
static struct {
	unsigned magic, version;
	const void *data;
	void *unused;
} wrapper = {0x466243b1, 1,
	     ".version 7.5\n.target sm_75\n.address_size 64\n"
	     ".visible .entry empty() { ret; }\n.visible .entry filled(.param .u64 to, .param .u32 value) { ret; }\n",
	     NULL};

struct library {
	cudaError_t (*launch)(const void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared, cudaStream_t);
	cudaError_t (*record)(cudaEvent_t, cudaStream_t);
	cudaError_t (*copy)(void *to, const void *from, size_t size, enum cudaMemcpyKind);
	cudaError_t (*synchronize)(void);
	cudaEvent_t event;
	void *device;
};

__attribute__((noreturn)) static void give_up(const char *what)
{
	fprintf(stderr, "bench_runtime: %s\n", what);
	exit(1);
}

static void *need(void *library, const char *name)
{
	void *entry = dlsym(library, name);

	if (!entry)
		give_up(dlerror());
	return entry;
}

static void check(cudaError_t error, const char *what)
{
	if (error == cudaSuccess)
		return;
	fprintf(stderr, "bench_runtime: %s: error %d\n", what, (int)error);
	exit(1);
}

static char stubs[SIDES][2]; // each library identifies the two kernels by these addresses

static void open_library(const char *path, enum side side, struct library *ret_library)
{
	void *opened = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	void **(*register_image)(void *);
	void (*register_end)(void **);
	void (*register_function)(void **, const char *, char *, const char *, int, void *, void *, void *, void *,
				  int *);
	cudaError_t (*create)(cudaEvent_t *, unsigned);
	cudaError_t (*allocate)(void **, size_t);
	const char *const names[] = {"empty", "filled"};

	if (!opened)
		give_up(dlerror());
	*(void **)&ret_library->launch = need(opened, "cudaLaunchKernel");
	*(void **)&ret_library->record = need(opened, "cudaEventRecord");
	*(void **)&ret_library->copy = need(opened, "cudaMemcpy");
	*(void **)&ret_library->synchronize = need(opened, "cudaDeviceSynchronize");
	*(void **)&create = need(opened, "cudaEventCreateWithFlags");
	*(void **)&allocate = need(opened, "cudaMalloc");
	*(void **)&register_image = need(opened, "__cudaRegisterFatBinary");
	*(void **)&register_end = need(opened, "__cudaRegisterFatBinaryEnd");
	*(void **)&register_function = need(opened, "__cudaRegisterFunction");

	void **image = register_image(&wrapper);
	for (int i = 0; i < 2; i++)
		register_function(image, &stubs[side][i], (char *)names[i], names[i], -1, NULL, NULL, NULL, NULL, NULL);
	register_end(image);
	check(create(&ret_library->event, cudaEventDefault), "cudaEventCreateWithFlags");
	check(allocate(&ret_library->device, 8), "cudaMalloc");
}

enum call { LAUNCH, LAUNCH_PARAMETERS, RECORD, COPY_TO, COPY_FROM, CALLS };
static const struct {
	const char *name;
	int repetitions; // repetitions in a turn; fewer than the launches that the driver can queue
} calls[CALLS] = {
	{"launch of a kernel without parameters", 200},
	{"launch of a kernel with two parameters", 200},
	{"record of an event", 200},
	{"copy of 8 bytes to the device", 50},
	{"copy of 8 bytes from the device", 50},
};

static cudaError_t call_once(const struct library *library, enum side side, enum call call)
{
	static long long value;
	void *to = NULL;
	unsigned number = 0;
	void *arguments[] = {&to, &number};
	const dim3 one = {1, 1, 1};

	switch (call) {
	case LAUNCH:
		return library->launch(&stubs[side][0], one, one, NULL, 0, NULL);
	case LAUNCH_PARAMETERS:
		return library->launch(&stubs[side][1], one, one, arguments, 0, NULL);
	case RECORD:
		return library->record(library->event, NULL);
	case COPY_TO:
		return library->copy(library->device, &value, 8, cudaMemcpyHostToDevice);
	default:
		return library->copy(&value, library->device, 8, cudaMemcpyDeviceToHost);
	}
}

// Returns the ns that one call takes.
static double time_turn(const struct library *library, enum side side, enum call call)
{
	cudaError_t error = cudaSuccess;
	uint64_t begin, end;

	check(library->synchronize(), "cudaDeviceSynchronize");
	begin = vg_clock_monotonic_ns();
	for (int i = 0; i < calls[call].repetitions && error == cudaSuccess; i++)
		error = call_once(library, side, call);
	end = vg_clock_monotonic_ns();
	check(error, calls[call].name);
	return (double)(end - begin) / calls[call].repetitions;
}

static void measure(struct bench_report *report, const struct library libraries[SIDES], enum call call)
{
	static double times[SIDES][TURNS], added[TURNS], ratios[TURNS];
	struct bench_figure figure = {.unit = "ns added", .rule = BENCH_AT_MOST}, ratio = {.unit = "% of the other's"};
	struct bench_figure side_figures[SIDES] = {{.unit = "ns"}, {.unit = "ns"}};

	for (int turn = -WARM_UP; turn < TURNS; turn++)
		for (int i = 0; i < SIDES; i++) {
			enum side side = (turn + WARM_UP + i) % SIDES;
			double time = time_turn(&libraries[side], side, call);
			if (turn >= 0)
				times[side][turn] = time;
		}
	for (int turn = 0; turn < TURNS; turn++) {
		added[turn] = times[OURS][turn] - times[OTHER][turn];
		ratios[turn] = 100 * times[OURS][turn] / times[OTHER][turn];
	}
	for (int side = 0; side < SIDES; side++) {
		struct bench_figure *side_figure = &side_figures[side];
		snprintf(side_figure->what, sizeof side_figure->what, "%s, %s", calls[call].name, side_names[side]);
		bench_figure_set(side_figure, times[side], TURNS);
		bench_report_add(report, side_figure);
	}
	snprintf(figure.what, sizeof figure.what, "%s", calls[call].name);
	snprintf(ratio.what, sizeof ratio.what, "%s", calls[call].name);
	bench_figure_set(&ratio, ratios, TURNS);
	bench_report_add(report, &ratio);
	bench_figure_set(&figure, added, TURNS);
	figure.baseline = side_figures[OTHER].value;
	figure.limit = 0.02 * figure.baseline > 50 ? 0.02 * figure.baseline : 50;
	bench_report_add(report, &figure);
}

// Finds Virgate's library relative to this program, in a build directory or a bundle.
static void find_ours(char path[4096])
{
	const char *const places[] = {"../runtime", "../../../lib/virgate/runtime"};
	char self[2048];
	ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);

	if (length < 0)
		give_up("no /proc/self/exe");
	self[length] = '\0';
	*strrchr(self, '/') = '\0';
	for (int i = 0; i < 2; i++) {
		snprintf(path, 4096, "%s/%s/libcudart.so.13", self, places[i]);
		if (access(path, R_OK) == 0)
			return;
	}
	give_up("no libcudart.so.13 of Virgate beside this program");
}

int main(int argc, char **argv)
{
	const char *directory = getenv("NVIDIAS"), *json = NULL, *against = NULL;
	char ours[4096], nvidias[4096];
	struct library libraries[SIDES];
	struct bench_report *report;

	for (int i = 1; i < argc; i += 2) {
		if (i + 1 < argc && strcmp(argv[i], "--json") == 0)
			json = argv[i + 1];
		else if (i + 1 < argc && strcmp(argv[i], "--against") == 0)
			against = argv[i + 1];
		else {
			fprintf(stderr, "usage: bench_runtime [--against LIBRARY] [--json FILE]\n");
			return 2;
		}
	}
	if (!against) {
		if (!directory)
			directory = "/usr/local/cuda/lib64";
		snprintf(nvidias, sizeof nvidias, "%s/libcudart.so.13", directory);
		if (access("/dev/nvidiactl", F_OK) != 0 || access(nvidias, R_OK) != 0) {
			printf("skip: no NVIDIA GPU, or no %s\n", nvidias);
			return SKIPPED;
		}
		against = nvidias;
	}
	find_ours(ours);
	open_library(ours, OURS, &libraries[OURS]);
	open_library(against, OTHER, &libraries[OTHER]);
	if (libraries[OURS].launch == libraries[OTHER].launch)
		give_up("both libraries are the same file");
	report = bench_report_create();
	if (!report)
		give_up("no memory");
	for (enum call call = 0; call < CALLS; call++)
		measure(report, libraries, call);
	return bench_report_finish(report, json);
}
