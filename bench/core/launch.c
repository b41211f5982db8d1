// Launches empty kernels with arguments of 8 bytes.
#include "cases.h"

#include <stdio.h>
#include <string.h>

// CALLS, the calls of a turn, is large enough that cold caches at the beginning of a turn do not matter. It is small
// enough that the driver, which queues 1024 launches, never waits for the device.
enum { MOST = 512, KERNELS = 5, CALLS = 100 };

static const unsigned counts[KERNELS] = {0, 1, 16, 256, MOST};
static struct vg_context *context;
static struct vg_stream *stream;
static struct vg_object_code *code;
static struct vg_kernel *kernels[KERNELS];
static struct vg_argument_list *lists[KERNELS];
static struct vg_prepared_launch *prepared[KERNELS];
static struct vg_argument arguments[MOST];
static struct vg_variable variables[MOST];
static void *values[MOST];
static unsigned long long data[MOST];
static CUstream stream_handle;
static CUfunction functions[KERNELS];
static const struct vg_launch_config config = {sizeof config, .grid = {1}, .block = {1}};

// Creates the kernels, which have counts[k] parameters and return, and their argument lists and prepared launches.
static void load_kernels(void)
{
	static char ptx[KERNELS * MOST * 48];
	char *end = ptx + sprintf(ptx, ".version 7.0\n.target sm_75\n.address_size 64\n"), name[16];

	for (int k = 0; k < KERNELS; k++) {
		end += sprintf(end, ".visible .entry k%u(", counts[k]);
		for (unsigned i = 0; i < counts[k]; i++)
			end += sprintf(end, "%s.param .u64 p%u_%u", i ? ", " : "", k, i);
		end += sprintf(end, ") { ret; }\n");
	}
	LIBRARY(vg_object_code_create(VG_CODE_PTX, ptx, strlen(ptx), NULL, &code));
	for (int k = 0; k < KERNELS; k++) {
		snprintf(name, sizeof name, "k%u", counts[k]);
		LIBRARY(vg_object_code_kernel(code, name, &kernels[k]));
		functions[k] = (CUfunction)vg_kernel_handle(kernels[k]);
		LIBRARY(vg_argument_list_create(kernels[k], variables, counts[k], &lists[k]));
		LIBRARY(vg_launch_prepare(context, &config, kernels[k], arguments, counts[k], &prepared[k]));
	}
}

static void open_family(void)
{
	for (int i = 0; i < MOST; i++) {
		variables[i] = VG_VARIABLE(data[i]);
		arguments[i] = variables[i].place;
		values[i] = &data[i];
	}
	bench_begin(&context, &stream);
	stream_handle = vg_stream_handle(stream);
	load_kernels();
}

static void close_family(void)
{
	for (int k = 0; k < KERNELS; k++) {
		vg_argument_list_destroy(lists[k]);
		vg_prepared_launch_destroy(prepared[k]);
		vg_kernel_destroy(kernels[k]);
	}
	vg_object_code_destroy(code);
	bench_end(context, stream);
}

static void finish_turn(void)
{
	RAW(cuStreamSynchronize(stream_handle));
}

static void launch_raw(int kernel, unsigned calls)
{
	CUlaunchConfig native = {1, 1, 1, 1, 1, 1, .hStream = stream_handle};

	while (calls--)
		RAW(cuLaunchKernelEx(&native, functions[kernel], values, NULL));
}

static void launch_library(int kernel, unsigned calls)
{
	while (calls--)
		LIBRARY(vg_launch(stream, &config, kernels[kernel], arguments, counts[kernel]));
}

static void launch_list(int kernel, unsigned calls)
{
	while (calls--)
		LIBRARY(vg_launch_list(stream, &config, lists[kernel]));
}

static void launch_prepared(int kernel, unsigned calls)
{
	while (calls--)
		LIBRARY(vg_launch_run(prepared[kernel], stream));
}

#define ROWS(X) X(0) X(1) X(2) X(3) X(4)
#define X(k)                                     \
	static void raw_##k(unsigned calls)      \
	{                                        \
		launch_raw(k, calls);            \
	}                                        \
	static void library_##k(unsigned calls)  \
	{                                        \
		launch_library(k, calls);        \
	}                                        \
	static void list_##k(unsigned calls)     \
	{                                        \
		launch_list(k, calls);           \
	}                                        \
	static void prepared_##k(unsigned calls) \
	{                                        \
		launch_prepared(k, calls);       \
	}
ROWS(X)
#undef X

static const struct bench_case cases[] = {
	{"launch_empty_kernel", 50, CALLS, library_0, raw_0, finish_turn},
	{"launch_small_kernel", 50, CALLS, library_1, raw_1, finish_turn},
	{"launch_16_args", 50, CALLS, library_2, raw_2, finish_turn},
	// This case has no limit: the library checks the size of every argument and copies its address. The argument
	// list below avoids that.
	{"launch_256_args", 0, CALLS, library_3, raw_3, finish_turn},
	{"launch_512_args", 0, CALLS, library_4, raw_4, finish_turn},
	{"launch_empty_kernel, list", 50, CALLS, list_0, raw_0, finish_turn},
	{"launch_small_kernel, list", 50, CALLS, list_1, raw_1, finish_turn},
	{"launch_16_args, list", 50, CALLS, list_2, raw_2, finish_turn},
	{"launch_256_args, list", 50, CALLS, list_3, raw_3, finish_turn},
	{"launch_512_args, list", 50, CALLS, list_4, raw_4, finish_turn},
	{"launch_empty_kernel, prepared", 50, CALLS, prepared_0, raw_0, finish_turn},
	{"launch_small_kernel, prepared", 50, CALLS, prepared_1, raw_1, finish_turn},
	{"launch_16_args, prepared", 50, CALLS, prepared_2, raw_2, finish_turn},
	{"launch_256_args, prepared", 50, CALLS, prepared_3, raw_3, finish_turn},
	{"launch_512_args, prepared", 50, CALLS, prepared_4, raw_4, finish_turn},
};
const struct bench_family bench_launch = {open_family, cases, sizeof cases / sizeof *cases, close_family};
