// Hooks cuGetProcAddress. It queries the driver first, so that names and versions that the driver does not have are not
// found. It then finds the row of entries.def that has the returned pointer, and returns the interposer's export of
// that row: the same version and stream variant.
#include <stdbool.h>
#include <string.h>

#include "shim/entries.h"
#include "shim/log.h"
#include "shim/session.h"

static bool wants_per_thread(cuuint64_t flags)
{
	return (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
}

// Returns whether `candidate` fits better than `best`, another row of the same API function. The requested stream
// variant is preferred, then the newest version up to `version`.
static bool is_better(const struct shim_entry *candidate, const struct shim_entry *best, int version, bool per_thread)
{
	bool candidate_matches = (candidate->stream != 'p') == per_thread, best_matches;

	if (!best)
		return true;
	best_matches = (best->stream != 'p') == per_thread;
	if (candidate_matches != best_matches)
		return candidate_matches;
	if ((candidate->version <= version) != (best->version <= version))
		return candidate->version <= version;
	return candidate->version > best->version;
}

static bool find_row_by_address(const char *api, const void *address, int version, bool per_thread,
				unsigned int *ret_row)
{
	const struct shim_entry *best = NULL;
	unsigned int cursor = 0, row, any = 0;
	bool found = false;

	while (shim_next_row_at(address, &cursor, &row)) {
		found = true;
		any = row;
		if (row >= VG_ENTRY_COUNT || strcmp(shim_entry(row)->api, api) != 0)
			continue;
		if (is_better(shim_entry(row), best, version, per_thread))
			best = shim_entry(row);
	}
	if (best)
		*ret_row = (unsigned int)(best - shim_entry(0));
	else if (found)
		*ret_row = any;
	return found;
}

// Finds a row of entries.def by name and version. In some drivers, the address that cuGetProcAddress() returns is not
// that of an exported symbol, so a search by address fails.
static bool find_row_by_version(const char *api, int version, bool per_thread, unsigned int *ret_row)
{
	const struct shim_entry *best = NULL;

	for (unsigned int row = 0; row < VG_ENTRY_COUNT; row++) {
		const struct shim_entry *candidate = shim_entry(row);
		if (strcmp(candidate->api, api) == 0 && candidate->version <= version && shim_driver_has(row) &&
		    is_better(candidate, best, version, per_thread))
			best = candidate;
	}
	if (!best)
		return false;
	*ret_row = (unsigned int)(best - shim_entry(0));
	return true;
}

// Returns true if the name of an unknown function suggests that it allocates device memory, which would not be charged.
static bool may_take_memory(const char *api)
{
	static const char *const verbs[] = {"Alloc",	   "MemCreate",	       "ArrayCreate", "Import",
					    "IpcOpenMem",  "MemMap",	       "PoolCreate",  "GraphInstantiate",
					    "CtxCreate",   "PrimaryCtxRetain", "ModuleLoad",  "LibraryLoad",
					    "CtxSetLimit", "MulticastBind"};

	for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
		if (strstr(api, verbs[i]))
			return true;
	return false;
}

// Decides whether the program may get a driver function that has no row in entries.def.
static bool may_pass_unknown(const char *api, int version)
{
	static _Atomic unsigned int message_count;
	bool passes = !shim_enforcing() || !may_take_memory(api);

	if (message_count++ < 16)
		shim_log(passes ? SHIM_INFO : SHIM_ERROR, "%s (version %d) is newer than this build of Virgate: %s",
			 api, version,
			 passes ? "passed through" : "answered as not found, since it could pass the quota");
	return passes;
}

// Returns true unless the driver function at `address` is newer than entries.def, which lists versions up to
// CUDA_VERSION. For a newer `version`, asks the driver for the address of version CUDA_VERSION. If that address is the
// same, the function has not changed since.
static bool is_in_our_list(const char *api, const void *address, int version, cuuint64_t flags)
{
	void *ours = NULL;

	if (version <= CUDA_VERSION)
		return true;
	return REAL(cuGetProcAddress_v2)(api, &ours, CUDA_VERSION, flags, NULL) == CUDA_SUCCESS && ours == address;
}

// Returns the pointer that the program gets in place of the driver's pointer `address`. NULL: the program must not find
// the function.
static void *translate_pointer(const char *api, void *address, int version, cuuint64_t flags)
{
	unsigned int row;

	if (find_row_by_address(api, address, version, wants_per_thread(flags), &row))
		return shim_export(row);
	if (is_in_our_list(api, address, version, flags) &&
	    find_row_by_version(api, version, wants_per_thread(flags), &row))
		return shim_export(row);
	return may_pass_unknown(api, version) ? address : NULL;
}

// A name that no driver has. If the program must not find a function, this name is looked up instead, so that the
// driver itself reports the error.
static const char no_such_entry[] = "cuVirgateHasNoSuchEntry";

SHIM_EXPORT CUresult CUDAAPI cuGetProcAddress(const char *symbol, void **pfn, int version, cuuint64_t flags)
{
	CUresult result = REAL(cuGetProcAddress)(symbol, pfn, version, flags);

	if (result != CUDA_SUCCESS || !symbol || !pfn || !*pfn)
		return result;
	*pfn = translate_pointer(symbol, *pfn, version, flags);
	return *pfn ? CUDA_SUCCESS : REAL(cuGetProcAddress)(no_such_entry, pfn, version, flags);
}

SHIM_EXPORT CUresult CUDAAPI cuGetProcAddress_v2(const char *symbol, void **pfn, int version, cuuint64_t flags,
						 CUdriverProcAddressQueryResult *status)
{
	CUresult result = REAL(cuGetProcAddress_v2)(symbol, pfn, version, flags, status);

	if (result != CUDA_SUCCESS || !symbol || !pfn || !*pfn)
		return result;
	*pfn = translate_pointer(symbol, *pfn, version, flags);
	return *pfn ? CUDA_SUCCESS : REAL(cuGetProcAddress_v2)(no_such_entry, pfn, version, flags, status);
}
