// Launches a case's kernels through the driver API.
#include "run.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char problem[2048];

const char *corpus_problem(void)
{
	return problem;
}

__attribute__((format(printf, 1, 2))) static int fail(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(problem, sizeof problem, format, arguments);
	va_end(arguments);
	return 1;
}

static int check_driver(CUresult result, const char *what)
{
	const char *name = NULL;

	if (result == CUDA_SUCCESS)
		return 0;
	cuGetErrorName(result, &name);
	return fail("%s: %s (%d)", what, name ? name : "?", (int)result);
}
#define TRY(call)                              \
	do {                                   \
		if (check_driver(call, #call)) \
			return 1;              \
	} while (0)

static char *read_whole(const char *path, size_t *ret_length)
{
	FILE *file = fopen(path, "rb");
	char *text = NULL;

	if (!file)
		return NULL;
	if (fseek(file, 0, SEEK_END) == 0) {
		long length = ftell(file);
		rewind(file);
		text = length >= 0 ? calloc((size_t)length + 1, 1) : NULL;
		if (text && fread(text, 1, (size_t)length, file) == (size_t)length) {
			*ret_length = (size_t)length;
		} else {
			free(text);
			text = NULL;
		}
	}
	fclose(file);
	return text;
}

// The modules that are loaded in the context, one for each file of PTX.
static struct {
	char name[32];
	CUmodule module;
} modules[64];
static unsigned module_count;

static int load_module(const struct corpus_directories *where, const char *name, CUmodule *ret_module)
{
	static char log[4096];
	char path[1024];
	size_t length;

	snprintf(path, sizeof path, "%s/%s.ptx", where->ptx, name);
	for (unsigned i = 0; i < module_count; i++)
		if (strcmp(modules[i].name, name) == 0) {
			*ret_module = modules[i].module;
			return 0;
		}
	char *text = read_whole(path, &length);
	if (!text)
		return fail("%s: %s", path, strerror(errno));
	CUjit_option option[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
	void *value[] = {log, (void *)(uintptr_t)sizeof log};
	log[0] = '\0';
	CUresult result = cuModuleLoadDataEx(ret_module, text, 2, option, value);
	free(text);
	if (result != CUDA_SUCCESS) {
		check_driver(result, path);
		return fail("%.200s: %.1000s", strdupa(problem), log);
	}
	if (module_count == sizeof modules / sizeof *modules)
		return fail("too many modules");
	snprintf(modules[module_count].name, sizeof modules->name, "%s", name);
	modules[module_count++].module = *ret_module;
	return 0;
}

// This structure must have the layout of `struct parameters` in dynamic.cu.
struct parameters {
	CUdeviceptr in, out, work;
	unsigned n, step;
	short table[6];
	double factor;
	struct {
		char letter;
		float weight;
	} inner[3];
};

struct buffers {
	CUdeviceptr in, out, work;
};

static int launch_kernel(const struct corpus_case *one, CUfunction function, const struct buffers *buffers,
			 unsigned step)
{
	unsigned n = one->n;
	struct parameters whole = {buffers->in,	  buffers->out,
				   buffers->work, n,
				   step,	  {3, -5, 70, -900, 11, 13},
				   1.25,	  {{'a', 0.5f}, {'b', -2.0f}, {'c', 8.75f}}};
	void *separate[] = {(void *)&buffers->in, (void *)&buffers->out, (void *)&buffers->work, &n, &step};
	void *together[] = {&whole};
	void **parameters = one->flags & CORPUS_BY_VALUE ? together : separate;
	unsigned grid[3], block[3];

	for (int i = 0; i < 3; i++) {
		grid[i] = one->grid[i] ? one->grid[i] : 1;
		block[i] = one->block[i] ? one->block[i] : 1;
	}
	if (one->flags & CORPUS_COOPERATIVE)
		return check_driver(cuLaunchCooperativeKernel(function, grid[0], grid[1], grid[2], block[0], block[1],
							      block[2], one->shared, NULL, parameters),
				    "cuLaunchCooperativeKernel");
	return check_driver(cuLaunchKernel(function, grid[0], grid[1], grid[2], block[0], block[1], block[2],
					   one->shared, NULL, parameters, NULL),
			    "cuLaunchKernel");
}

static int launch_kernels(const struct corpus_case *one, CUmodule module, const struct buffers *buffers)
{
	for (unsigned step = 0; step < one->steps; step++) {
		char names[128], *rest = names, *name;
		snprintf(names, sizeof names, "%s", one->kernels);
		while ((name = strsep(&rest, " "))) {
			CUfunction function;
			CUresult result = cuModuleGetFunction(&function, module, name);
			if (check_driver(result, name) || launch_kernel(one, function, buffers, step))
				return 1;
		}
	}
	return check_driver(cuCtxSynchronize(), "cuCtxSynchronize");
}

// Redirects standard output to the file `capture` while the kernels run.
static int launch_captured(const struct corpus_case *one, CUmodule module, const struct buffers *buffers, FILE *capture)
{
	fflush(stdout);
	int kept = dup(STDOUT_FILENO);
	if (kept < 0 || dup2(fileno(capture), STDOUT_FILENO) < 0)
		return fail("standard output: %s", strerror(errno));
	int failed = launch_kernels(one, module, buffers);
	fflush(stdout);
	dup2(kept, STDOUT_FILENO);
	close(kept);
	return failed;
}

static int run_prints(const struct corpus_case *one, CUmodule module, const struct buffers *buffers,
		      struct corpus_result *ret_result)
{
	uint32_t text[256] = {0};
	FILE *capture = tmpfile();

	if (!capture)
		return fail("tmpfile: %s", strerror(errno));
	int failed = launch_captured(one, module, buffers, capture);
	rewind(capture);
	size_t length = fread(text, 1, sizeof text, capture);
	fclose(capture);
	if (!failed)
		corpus_result_make(one, text, (length + 3) / 4, ret_result);
	return failed;
}

static int keep_output(const struct corpus_directories *where, const struct corpus_case *one, const uint32_t *host)
{
	char path[1024];

	if (!where->keep)
		return 0;
	snprintf(path, sizeof path, "%s/%s.out", where->keep, one->name);
	FILE *file = fopen(path, "wb");
	if (!file)
		return fail("%s: %s", path, strerror(errno));
	size_t written = fwrite(host, 4, one->out_words, file);
	return fclose(file) || written != one->out_words ? fail("%s: not written whole", path) : 0;
}

static int run_module(const struct corpus_directories *where, const struct corpus_case *one, CUmodule module,
		      const struct buffers *buffers, uint32_t *host, struct corpus_result *ret_result)
{
	size_t in_bytes = 4 * (size_t)one->in_words, out_bytes = 4 * (size_t)one->out_words;

	corpus_fill(one, host);
	TRY(cuMemcpyHtoD(buffers->in, host, in_bytes));
	TRY(cuMemsetD8(buffers->out, 0, out_bytes));
	TRY(cuMemsetD8(buffers->work, 0, 4 * (size_t)one->work_words + 4));
	if (one->flags & CORPUS_PRINTS)
		return run_prints(one, module, buffers, ret_result);
	if (launch_kernels(one, module, buffers))
		return 1;
	TRY(cuMemcpyDtoH(host, buffers->out, out_bytes));
	if (keep_output(where, one, host))
		return 1;
	corpus_result_make(one, host, one->out_words, ret_result);
	return 0;
}

static int run_in_context(const struct corpus_directories *where, const struct corpus_case *one, uint32_t *host,
			  struct corpus_result *ret_result)
{
	struct buffers buffers;
	CUmodule module;

	if (load_module(where, one->file, &module))
		return 1;
	TRY(cuMemAlloc(&buffers.in, 4 * (size_t)one->in_words));
	TRY(cuMemAlloc(&buffers.out, 4 * (size_t)one->out_words));
	TRY(cuMemAlloc(&buffers.work, 4 * (size_t)one->work_words + 4));
	if (run_module(where, one, module, &buffers, host, ret_result))
		return 1; // destroying the context frees its buffers
	TRY(cuMemFree(buffers.in));
	TRY(cuMemFree(buffers.out));
	TRY(cuMemFree(buffers.work));
	return 0;
}

int corpus_run(const struct corpus_case *one, const struct corpus_directories *where, CUdevice device,
	       struct corpus_result *ret_result)
{
	size_t words = one->in_words > one->out_words ? one->in_words : one->out_words;
	uint32_t *host = calloc(words, 4);

	if (!host)
		return fail("out of memory");
	int failed = run_in_context(where, one, host, ret_result);
	free(host);
	if (failed) { // a fault makes the context unusable, so the next case gets a new context
		CUcontext context;
		cuDevicePrimaryCtxReset(device);
		cuDevicePrimaryCtxRelease(device);
		if (cuDevicePrimaryCtxRetain(&context, device) == CUDA_SUCCESS)
			cuCtxSetCurrent(context);
		module_count = 0;
	}
	return failed;
}
