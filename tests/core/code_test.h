// Helpers that the tests of code and launches share: they find kernels that the build compiled, allocate device memory,
// and launch kernels.
#pragma once
#include "core_test.h"

#include <dlfcn.h>

// Returns the path of a file that was built for the tests. It is in the directory of this program, in a build and in a
// bundle (the archive of `make bundle`).
__attribute__((unused)) static const char *built_path(const char *name)
{
	static char path[4096];

	ssize_t length = readlink("/proc/self/exe", path, sizeof path - 64);
	CHECK(length > 0);
	path[length] = '\0';
	strcpy(strrchr(path, '/') + 1, name);
	return path;
}

__attribute__((unused)) static char *read_built_file(const char *name, size_t *ret_size)
{
	const char *path = built_path(name);
	FILE *file = fopen(path, "r");

	if (!file)
		NO_BUILT_FILE(name);
	char *data = calloc(1, 1 << 20);
	*ret_size = fread(data, 1, (1 << 20) - 1, file);
	fclose(file);
	return data;
}

__attribute__((unused)) static struct vg_object_code *built_code(enum vg_code_type type, const char *name)
{
	struct vg_object_code *code;
	size_t size;
	char *data = read_built_file(name, &size);

	OK(vg_object_code_create(type, data, size, NULL, &code));
	free(data);
	return code;
}

// Returns a function of the driver that the library loaded.
__attribute__((unused)) static void *driver_entry(const char *name)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	void *entry = driver ? dlsym(driver, name) : NULL;

	if (!entry)
		FAIL("the driver has no %s", name);
	return entry;
}

#define DRIVER(name, types, ...)                                                          \
	do {                                                                              \
		int result_ = ((int(*) types)driver_entry(#name))(__VA_ARGS__);           \
		if (result_)                                                              \
			FAIL("%s:%d: %s answers %d", __FILE__, __LINE__, #name, result_); \
	} while (0)

// Allocates zeroed device memory of a context. The current context stays the same.
__attribute__((unused)) static vg_address words(struct vg_context *context, size_t bytes)
{
	struct CUctx_st *before;
	vg_address address;

	DRIVER(cuCtxPushCurrent_v2, (struct CUctx_st *), vg_context_handle(context));
	DRIVER(cuMemAlloc_v2, (vg_address *, size_t), &address, bytes);
	DRIVER(cuMemsetD8_v2, (vg_address, unsigned char, size_t), address, 0, bytes);
	DRIVER(cuCtxPopCurrent_v2, (struct CUctx_st **), &before);
	return address;
}

__attribute__((unused)) static void read_words(struct vg_context *context, void *ret, vg_address address, size_t bytes)
{
	struct CUctx_st *before;

	DRIVER(cuCtxPushCurrent_v2, (struct CUctx_st *), vg_context_handle(context));
	DRIVER(cuMemcpyDtoH_v2, (void *, vg_address, size_t), ret, address, bytes);
	DRIVER(cuCtxPopCurrent_v2, (struct CUctx_st **), &before);
}

__attribute__((unused)) static void free_words(struct vg_context *context, vg_address address)
{
	struct CUctx_st *before;

	DRIVER(cuCtxPushCurrent_v2, (struct CUctx_st *), vg_context_handle(context));
	DRIVER(cuMemFree_v2, (vg_address), address);
	DRIVER(cuCtxPopCurrent_v2, (struct CUctx_st **), &before);
}

// A launch configuration with a grid of `blocks` and a block of `threads`. Values of further fields may follow.
#define CONFIG(blocks, threads, ...)                                                                       \
	&(struct vg_launch_config)                                                                         \
	{                                                                                                  \
		.size = sizeof(struct vg_launch_config), .grid = {blocks}, .block = {threads}, __VA_ARGS__ \
	}

// Launches NAME(int *where, int argument) once, and returns what it stored.
__attribute__((unused)) static int run_kernel_once(struct vg_object_code *code, const char *name, int argument)
{
	struct vg_context *context = first_context();
	vg_address where = words(context, sizeof(int));
	struct vg_stream *stream;
	struct vg_kernel *kernel;
	int got;

	OK(vg_stream_create(context, NULL, &stream));
	OK(vg_object_code_kernel(code, name, &kernel));
	OK(vg_launch(stream, CONFIG(1, 1), kernel, VG_ARGUMENTS(where, argument)));
	OK(vg_stream_sync(stream));
	read_words(context, &got, where, sizeof got);
	free_words(context, where);
	vg_kernel_destroy(kernel);
	vg_stream_destroy(stream);
	vg_context_destroy(context);
	return got;
}

// Checks the arguments that the library would pass to a tool, such as a compiler; `expected` ends with NULL.
__attribute__((unused)) static void check_arguments(const char *const *arguments, size_t count,
						    const char *const *expected)
{
	size_t i = 0;

	for (; expected[i]; i++) {
		CHECK(i < count);
		CHECK_STR(arguments[i], expected[i]);
	}
	CHECK_INT(count, i);
}
