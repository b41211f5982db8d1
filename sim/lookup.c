// Implements cuGetProcAddress. Finds the newest version of a function up to the requested version, for the requested
// default stream.
#include "graphics.h"
#include "green.h"
#include "lookup.h"
#include "process.h"

static const struct row {
	const char *api;
	int version;
	enum { ROW_plain, ROW_ptds, ROW_ptsz } stream;
} rows[] = {
#define ENTRY(abi, api, version, stream, family, need) {#api, version, ROW_##stream},
#include "abi/entries.def"
};

// Driver functions for which entries.def has no version: those for OpenGL, and those that the toolkit's header lacks.
static const struct {
	const char *api;
	int version;
	void *address;
} others[] = {
	{"cuGraphicsGLRegisterBuffer", 3000, cuGraphicsGLRegisterBuffer},
	{"cuGraphicsGLRegisterImage", 3000, cuGraphicsGLRegisterImage},
	{"cuDevSmResourceSplit", 13010, sim_green_split},
	{"cuStreamGetDevResource", 13010, sim_stream_get_resource},
};

static CUdriverProcAddressQueryResult find_other(const char *symbol, int version, void **ret_address)
{
	for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
		if (strcmp(others[i].api, symbol) != 0 || (unsigned)others[i].version > sim_driver_version())
			continue;
		if (others[i].version > version)
			return CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
		*ret_address = others[i].address;
		return CU_GET_PROC_ADDRESS_SUCCESS;
	}
	return CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
}

// Finds a function and the status of the search, as the driver does. Stores NULL if the function is not found.
static void find_symbol(const char *symbol, void **pfn, int version, cuuint64_t flags,
			CUdriverProcAddressQueryResult *status)
{
	const struct row *best = NULL;
	bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0, known = false;
	unsigned newest = sim_driver_version();

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		if (strcmp(rows[i].api, symbol) != 0 || (unsigned)rows[i].version > newest)
			continue;
		known = true;
		if (rows[i].version > version || (rows[i].stream != ROW_plain && !per_thread))
			continue;
		bool newer = !best || rows[i].version > best->version;
		bool closer = best && rows[i].version == best->version && rows[i].stream != ROW_plain;
		if (newer || closer)
			best = &rows[i];
	}
	*status = best	  ? CU_GET_PROC_ADDRESS_SUCCESS
		  : known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
			  : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	*pfn = best ? sim_entry_address((size_t)(best - rows)) : NULL;
	if (!known)
		*status = find_other(symbol, version, pfn);
}

CUresult CUDAAPI cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
				     CUdriverProcAddressQueryResult *symbolStatus)
{
	CUdriverProcAddressQueryResult status;
	const cuuint64_t known = CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;

	if (!symbol || !pfn || cudaVersion < 0 || (unsigned)cudaVersion > sim_driver_version() || (flags & ~known))
		return CUDA_ERROR_INVALID_VALUE;
	find_symbol(symbol, pfn, cudaVersion, flags, &status);
	if (symbolStatus)
		*symbolStatus = status;
	return CUDA_SUCCESS; // success even if the symbol was not found
}

CUresult CUDAAPI cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags)
{
	CUdriverProcAddressQueryResult status;

	SIM_TRY(cuGetProcAddress_v2(symbol, pfn, cudaVersion, flags, &status));
	return status == CU_GET_PROC_ADDRESS_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
