#include "driver/math.h"

#include "driver/search.h"

#include <stdio.h>

static const struct tool cublaslt_tool = {"cuBLASLt",
					  "VIRGATE_CUBLASLT",
					  "libcublas-13-0",
					  "of CUDA 12 or later",
					  {"libcublasLt.so.13", "libcublasLt.so.12"}};
static const struct tool cudnn_tool = {
	"cuDNN", "VIRGATE_CUDNN", "libcudnn9-cuda-13", "of version 9", {"libcudnn.so.9"}};

// Fills the table of cuBLASLt. A version is major * 10000 + minor * 100 + patch, in cuBLASLt and in cuDNN from 9 on.
static int fill_cublaslt(void *table_, const char *path, void *library, char *why, size_t capacity)
{
	struct vg_cublaslt *table = table_;

	VG_CUBLASLT_CALLS(TOOL_ENTRY)
	size_t version = table->cublasLtGetVersion();
	table->path = path;
	table->major = (int)(version / 10000);
	table->minor = (int)(version / 100 % 100);
	if (table->major >= 12)
		return 0;
	snprintf(why, capacity, "is of version %d.%d", table->major, table->minor);
	return 1;
}

#define ENTRY(name, ...) TOOL_ENTRY(name)
static int fill_cudnn(void *table_, const char *path, void *library, char *why, size_t capacity)
{
	struct vg_cudnn *table = table_;

	VG_CUDNN_CALLS(ENTRY)
	TOOL_ENTRY(cudnnGetVersion)
	TOOL_ENTRY(cudnnGetErrorString)
	size_t version = table->cudnnGetVersion();
	table->path = path;
	table->major = (int)(version / 10000);
	table->minor = (int)(version / 100 % 100);
	if (table->major == 9)
		return 0;
	snprintf(why, capacity, "is of version %zu", version);
	return 1;
}

TOOL_LOADER(cublaslt)
TOOL_LOADER(cudnn)
