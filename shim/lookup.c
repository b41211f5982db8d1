// Lookups by name. The real driver is asked first, so that a name or a version it lacks stays
// "not found"; the pointer it gives is turned back into a row of entries.def, and the answer
// is our export of that same row: the same version and the same stream flavour.
#include <stdbool.h>
#include <string.h>

#include "shim/entries.h"
#include "shim/log.h"
#include "shim/session.h"

static bool wants_per_thread(cuuint64_t flags)
{
	return (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
}

// Among rows of one api: the flavour asked for, then the newest version not above `version`.
static bool is_better(const struct shim_entry *candidate, const struct shim_entry *best, int version, bool per_thread)
{
	bool candidate_flavour = (candidate->stream != 'p') == per_thread, best_flavour;

	if (!best)
		return true;
	best_flavour = (best->stream != 'p') == per_thread;
	if (candidate_flavour != best_flavour)
		return candidate_flavour;
	if ((candidate->version <= version) != (best->version <= version))
		return candidate->version <= version;
	return candidate->version > best->version;
}

static bool row_by_address(const char *api, const void *address, int version, bool per_thread, unsigned int *ret_row)
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

// For a driver whose lookups answer with other addresses than its symbols have.
static bool row_by_rule(const char *api, int version, bool per_thread, unsigned int *ret_row)
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

// An entry that hands out device memory in a way we cannot count would be a hole in the quota.
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

// Decides about a pointer that belongs to no row. True: pass it on.
static bool unknown_may_pass(const char *api, int version)
{
	static _Atomic unsigned int said;
	bool passes = !shim_enforcing() || !may_take_memory(api);

	if (said++ < 16)
		shim_log(passes ? SHIM_INFO : SHIM_ERROR, "%s (version %d) is newer than this build of Virgate: %s",
			 api, version,
			 passes ? "passed through" : "answered as not found, since it could pass the quota");
	return passes;
}

// Above our list's version the rule must not guess: an entry with a new version is another
// function. The real driver says whether it is: asked for our version, it answers the same.
static bool is_within_our_list(const char *api, const void *address, int version, cuuint64_t flags)
{
	void *ours = NULL;

	if (version <= CUDA_VERSION)
		return true;
	return REAL(cuGetProcAddress_v2)(api, &ours, CUDA_VERSION, flags, NULL) == CUDA_SUCCESS && ours == address;
}

// The answer for a pointer that the real driver gave; NULL: treat as not found.
static void *translate(const char *api, void *address, int version, cuuint64_t flags)
{
	unsigned int row;

	if (row_by_address(api, address, version, wants_per_thread(flags), &row))
		return shim_export(row);
	if (is_within_our_list(api, address, version, flags) &&
	    row_by_rule(api, version, wants_per_thread(flags), &row))
		return shim_export(row);
	return unknown_may_pass(api, version) ? address : NULL;
}

// A name no driver has: what the real lookup answers for it is what we answer for a refusal.
static const char no_such_entry[] = "cuVirgateHasNoSuchEntry";

SHIM_EXPORT CUresult CUDAAPI cuGetProcAddress(const char *symbol, void **pfn, int version, cuuint64_t flags)
{
	CUresult result = REAL(cuGetProcAddress)(symbol, pfn, version, flags);

	if (result != CUDA_SUCCESS || !symbol || !pfn || !*pfn)
		return result;
	*pfn = translate(symbol, *pfn, version, flags);
	return *pfn ? CUDA_SUCCESS : REAL(cuGetProcAddress)(no_such_entry, pfn, version, flags);
}

SHIM_EXPORT CUresult CUDAAPI cuGetProcAddress_v2(const char *symbol, void **pfn, int version, cuuint64_t flags,
						 CUdriverProcAddressQueryResult *status)
{
	CUresult result = REAL(cuGetProcAddress_v2)(symbol, pfn, version, flags, status);

	if (result != CUDA_SUCCESS || !symbol || !pfn || !*pfn)
		return result;
	*pfn = translate(symbol, *pfn, version, flags);
	return *pfn ? CUDA_SUCCESS : REAL(cuGetProcAddress_v2)(no_such_entry, pfn, version, flags, status);
}
