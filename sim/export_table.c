// Implements cuGetExportTable. The simulator does not have the driver's private tables. For a program that needs them,
// it prints the reason for the failure.
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

#include "sim.h"

// Returns whether the program is a compiler or linker of the toolkit, which works without the tables.
static bool is_tool(const char *name)
{
	static const char *const tools[] = {"libnvrtc", "libnvJitLink", "libnvvm"};

	for (size_t i = 0; i < sizeof tools / sizeof *tools; i++)
		if (strncmp(name, tools[i], strlen(tools[i])) == 0)
			return true;
	return false;
}

// Returns the file name of the program or library that contains an address. NULL: it is unknown, or it is the
// interposer, which only passes on a call of the program.
static const char *find_object(const void *address)
{
	Dl_info info;

	if (!dladdr(address, &info) || !info.dli_fname)
		return NULL;
	const char *slash = strrchr(info.dli_fname, '/');
	const char *name = slash ? slash + 1 : info.dli_fname;
	return strncmp(name, "libvirgate-", 11) == 0 ? NULL : name;
}

// Prints once why a program fails. NVIDIA's runtime library requests its tables when the program first uses CUDA.
// Without them, it fails with an error that does not give the reason.
static void print_reason(const void *caller)
{
	static atomic_flag explained = ATOMIC_FLAG_INIT;
	const char *name = find_object(caller);
	char text[512];

	if ((name && is_tool(name)) || atomic_flag_test_and_set(&explained))
		return;
	int length = snprintf(text, sizeof text,
			      "virgate: %.200s contains NVIDIA's CUDA runtime library, which cannot run on the "
			      "simulated GPU: build the program with \"nvcc -cudart shared\" and start it with "
			      "\"virgate run --sim\" (other ways: docs/runtime.md)\n",
			      name ? name : "the program");
	ssize_t written = write(STDERR_FILENO, text, (size_t)length);
	(void)written;
}

CUresult CUDAAPI cuGetExportTable(const void **ppExportTable, const CUuuid *pExportTableId)
{
	if (!ppExportTable || !pExportTableId)
		return CUDA_ERROR_INVALID_VALUE;
	print_reason(__builtin_return_address(0));
	*ppExportTable = NULL;
	return CUDA_ERROR_NOT_FOUND;
}
