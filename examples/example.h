// Helpers of the examples: error texts, options, sizes, a context. One thread.
#pragma once

#include <cuda.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *program = "example";

__attribute__((noreturn, format(printf, 1, 2))) static inline void give_up(const char *format, ...)
{
	va_list arguments;

	fprintf(stderr, "%s: ", program);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	exit(1);
}

static inline const char *error_text(CUresult result)
{
	static char words[256];
	const char *name = NULL, *text = NULL;

	cuGetErrorName(result, &name);
	cuGetErrorString(result, &text);
	snprintf(words, sizeof words, "%s (%s)", text ? text : "unknown error", name ? name : "?");
	return words;
}

// For driver calls that must succeed: must(cuInit(0), "cannot start the CUDA driver")
#define must(call, ...)                                                \
	do {                                                           \
		CUresult result_ = (call);                             \
		if (result_ != CUDA_SUCCESS) {                         \
			char what_[256];                               \
			snprintf(what_, sizeof what_, __VA_ARGS__);    \
			give_up("%s: %s", what_, error_text(result_)); \
		}                                                      \
	} while (0)

static inline double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

// Returns a text such as "1.50 GiB". The last four results are valid.
static inline const char *size_text(uint64_t bytes)
{
	static char texts[4][32];
	static unsigned next;
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
	char *text = texts[next++ % 4];
	double value = bytes;
	unsigned unit = 0;

	while (value >= 1024 && unit < 4) {
		value /= 1024;
		unit++;
	}
	snprintf(text, sizeof texts[0], unit ? "%.2f %s" : "%.0f %s", value, units[unit]);
	return text;
}

// Parses a size such as "64M", "1.5G" or "4096".
static inline uint64_t read_size(const char *option, const char *text)
{
	char *end;
	double value = strtod(text, &end);
	int shift = 0;

	switch (*end) {
	case 'K':
	case 'k':
		shift = 10;
		end++;
		break;
	case 'M':
	case 'm':
		shift = 20;
		end++;
		break;
	case 'G':
	case 'g':
		shift = 30;
		end++;
		break;
	}
	if (end == text || *end || !(value >= 0) || value > 1e15)
		give_up("%s %s is not a size; write 64M or 1.5G", option, text);
	return (uint64_t)(value * (double)(1ull << shift));
}

static inline double read_number(const char *option, const char *text)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end || !(value >= 0) || value > 1e12)
		give_up("%s %s is not a number", option, text);
	return value;
}

// Returns the value that follows an option.
static inline const char *option_value(int argc, char **argv, int *index)
{
	if (*index + 1 >= argc)
		give_up("%s needs a value", argv[*index]);
	return argv[++*index];
}

// Makes the primary context of a device current.
static inline CUcontext open_device(int ordinal, CUdevice *ret_device)
{
	CUdevice device;
	CUcontext context;

	must(cuInit(0), "cannot start the CUDA driver");
	must(cuDeviceGet(&device, ordinal), "there is no device %d", ordinal);
	must(cuDevicePrimaryCtxRetain(&context, device), "cannot open a context on device %d", ordinal);
	must(cuCtxSetCurrent(context), "cannot use the context");
	if (ret_device)
		*ret_device = device;
	return context;
}

static inline CUfunction load_kernel(const void *image, const char *name)
{
	CUmodule module;
	CUfunction function;
	char log[4096] = "";
	CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
	void *values[] = {log, (void *)(uintptr_t)sizeof log};
	CUresult result = cuModuleLoadDataEx(&module, image, 2, options, values);

	if (result != CUDA_SUCCESS)
		give_up("cannot load the kernels: %s%s%s", error_text(result), *log ? "\n" : "", log);
	must(cuModuleGetFunction(&function, module, name), "there is no kernel %s", name);
	return function;
}
