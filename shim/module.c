// Modules and libraries: what loading them took from the device is overhead, charged as
// measured. A load for which the quota has no room is undone.
#include "shim/module.h"
#include "shim/undeclared.h"

enum { MEASURE_NONE = -1 };

// Free device memory plus what the vGPU has charged: allocations of other tenants of this
// vGPU do not move it.
static int64_t level(void)
{
	SHIM_RELAXED;
	struct vg_ledger *ledger = shim_session_ledger();
	size_t free, total;

	if (!ledger || REAL(cuMemGetInfo_v2)(&free, &total) != CUDA_SUCCESS)
		return MEASURE_NONE;
	return (int64_t)(free + vg_ledger_charged(ledger));
}

static bool fits(uint64_t bytes)
{
	uint64_t limit, charged;

	vg_ledger_read(shim_session_ledger(), &limit, &charged);
	return limit >= charged && bytes <= limit - charged;
}

// Another vGPU's allocation in between looks like ours. What is too much to let pass, or would be
// refused, is therefore held against the daemon's figure for this process; where it does not answer,
// against what a module may plausibly take.
static const uint64_t let_pass = 4ull << 20, plausible = 256ull << 20;

static uint64_t taken_since(int64_t before)
{
	int64_t after = before == MEASURE_NONE ? MEASURE_NONE : level();
	uint64_t bytes = after == MEASURE_NONE || after >= before ? 0 : (uint64_t)(before - after), most;

	if (bytes <= let_pass && fits(bytes))
		return bytes;
	if (!shim_undeclared_measure(shim_session_ledger(), &most))
		most = plausible;
	return bytes < most ? bytes : most;
}

// What was just charged, or unloaded, is undeclared no more.
static void settle_undeclared(uint64_t bytes)
{
	if (bytes > let_pass && shim_undeclared_measure(shim_session_ledger(), &bytes))
		shim_undeclared_settle(shim_session_ledger());
}

int64_t shim_load_begin(void)
{
	return level();
}

// A module lives in a context; a library may be in several, and is known by itself as well.
static struct shim_record part_of(enum shim_what what, void *handle, uint64_t bytes)
{
	struct shim_record record = {.key = (uintptr_t)handle,
				     .bytes = bytes,
				     .what = (uint8_t)what,
				     .kind = VG_LEDGER_MODULE,
				     .context = shim_current_context()};

	if (what == SHIM_LIBRARY) {
		record.what = SHIM_LOADED;
		record.key ^= (uintptr_t)record.context << 8;
		record.data = handle;
	}
	return record;
}

static CUresult charge(enum vg_entry entry, enum shim_what what, void *handle, uint64_t bytes)
{
	struct shim_record record = part_of(what, handle, bytes);
	CUresult result = shim_charge_measured(entry, VG_LEDGER_MODULE, bytes);

	if (result != CUDA_SUCCESS || !bytes)
		return result;
	if (shim_record_grow(&record) == 0)
		return CUDA_SUCCESS;
	shim_refund_record(&record);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static void give_back(uint64_t bytes)
{
	shim_refund(VG_LEDGER_MODULE, bytes);
	settle_undeclared(bytes);
}

static _Thread_local uint64_t collected;

static void collect(const struct shim_record *record)
{
	collected += record->bytes;
}

// The records go before the driver's call, since the handle is reused at once; the charge after it.
static CUresult unload(enum shim_what what, void *handle, uint64_t bytes)
{
	struct shim_record again = part_of(what, handle, 0);
	CUresult result;

	collected = bytes;
	if (what == SHIM_LIBRARY)
		shim_record_sweep_data(SHIM_LOADED, handle, collect);
	again.bytes = collected;
	result = what == SHIM_LIBRARY ? REAL(cuLibraryUnload)((CUlibrary)handle)
				      : REAL(cuModuleUnload)((CUmodule)handle);
	if (result == CUDA_SUCCESS)
		give_back(again.bytes);
	else if (again.bytes)
		shim_record_grow(&again);
	return result;
}

// Something that does not fit is loaded.
static _Atomic bool overran;

// If nothing of it was handed out but its own handle, that stands for nothing from now on.
static void undo(enum shim_what what, void *handle)
{
	struct shim_record record = {.key = (uintptr_t)handle, .what = (uint8_t)what, .kind = VG_LEDGER_MODULE};

	if (shim_record_take(what, record.key, &record) && record.references > 0) {
		shim_record_put(&record);
		overran = true;
		return;
	}
	if (unload(what, handle, record.bytes) != CUDA_SUCCESS) {
		overran = true;
		return;
	}
	record.bytes = 0;
	record.origin = SHIM_UNDONE;
	shim_record_put(&record);
}

CUresult shim_load_end(enum vg_entry entry, enum shim_what what, void *handle, int64_t before)
{
	uint64_t bytes;
	CUresult result;

	if (!shim_counting())
		return CUDA_SUCCESS;
	bytes = taken_since(before);
	result = charge(entry, what, handle, bytes);
	if (result != CUDA_SUCCESS)
		undo(what, handle);
	settle_undeclared(bytes);
	return result;
}

void shim_load_used(enum shim_what what, void *handle)
{
	struct shim_record record = {.key = (uintptr_t)handle, .what = (uint8_t)what, .kind = VG_LEDGER_MODULE,
				     .references = 1};

	record.context = what == SHIM_MODULE ? shim_current_context() : NULL;
	if (!shim_record_count(what, record.key, 1, &record))
		shim_record_put(&record);
}

CUresult shim_load_check(enum vg_entry entry, enum shim_what what, void *handle)
{
	struct shim_record record;

	if (!shim_counting())
		return CUDA_SUCCESS;
	if (overran && shim_undeclared_gate(entry) != CUDA_SUCCESS)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!shim_record_find(what, (uintptr_t)handle, &record))
		return CUDA_SUCCESS;
	return record.origin == SHIM_UNDONE ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

// The handle is new: what was known of an earlier one is not true of it.
static CUresult finish(enum vg_entry entry, enum shim_what what, CUresult result, void *handle, int64_t before)
{
	struct shim_record old;

	if (result != CUDA_SUCCESS || !shim_counting())
		return result;
	shim_record_take(what, (uintptr_t)handle, &old);
	result = shim_load_end(entry, what, handle, before);
	if (result != CUDA_SUCCESS) // and nobody will ask for it
		shim_record_take(what, (uintptr_t)handle, &old);
	return result;
}

#define LOAD_MODULE(abi, module, ...)                                                              \
	do {                                                                                       \
		int64_t before = shim_enforcing() ? level() : MEASURE_NONE;                        \
		CUresult loaded = REAL(abi)(module, __VA_ARGS__);                                  \
		return finish(VG_ENTRY_##abi, SHIM_MODULE, loaded, loaded == CUDA_SUCCESS ? *module : NULL, before); \
	} while (0)

SHIM_EXPORT CUresult CUDAAPI cuModuleLoad(CUmodule *module, const char *file)
{
	LOAD_MODULE(cuModuleLoad, module, file);
}

SHIM_EXPORT CUresult CUDAAPI cuModuleLoadData(CUmodule *module, const void *image)
{
	LOAD_MODULE(cuModuleLoadData, module, image);
}

SHIM_EXPORT CUresult CUDAAPI cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int count,
						CUjit_option *options, void **values)
{
	LOAD_MODULE(cuModuleLoadDataEx, module, image, count, options, values);
}

SHIM_EXPORT CUresult CUDAAPI cuModuleLoadFatBinary(CUmodule *module, const void *image)
{
	LOAD_MODULE(cuModuleLoadFatBinary, module, image);
}

// One that was undone is there in name only.
static CUresult unload_known(enum shim_what what, void *handle)
{
	struct shim_record record = {0};
	bool known = shim_record_take(what, (uintptr_t)handle, &record);
	CUresult result = record.origin == SHIM_UNDONE ? CUDA_SUCCESS : unload(what, handle, record.bytes);

	record.bytes = 0; // which the other record has
	if (result != CUDA_SUCCESS && known)
		shim_record_grow(&record);
	return result;
}

SHIM_EXPORT CUresult CUDAAPI cuModuleUnload(CUmodule module)
{
	return shim_counting() ? unload_known(SHIM_MODULE, module) : REAL(cuModuleUnload)(module);
}

#define LOAD_LIBRARY(abi, library, ...)                                                            \
	do {                                                                                       \
		CUresult room = shim_enforcing() ? shim_undeclared_gate(VG_ENTRY_##abi) : CUDA_SUCCESS; \
		int64_t before;                                                                    \
		if (room != CUDA_SUCCESS)                                                          \
			return room;                                                               \
		before = shim_enforcing() ? level() : MEASURE_NONE;                                \
		CUresult loaded = REAL(abi)(library, __VA_ARGS__);                                 \
		return finish(VG_ENTRY_##abi, SHIM_LIBRARY, loaded, loaded == CUDA_SUCCESS ? *library : NULL, before); \
	} while (0)

SHIM_EXPORT CUresult CUDAAPI cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jit_options,
					       void **jit_values, unsigned int jit_count, CUlibraryOption *options,
					       void **values, unsigned int count)
{
	LOAD_LIBRARY(cuLibraryLoadData, library, code, jit_options, jit_values, jit_count, options, values, count);
}

SHIM_EXPORT CUresult CUDAAPI cuLibraryLoadFromFile(CUlibrary *library, const char *file, CUjit_option *jit_options,
						   void **jit_values, unsigned int jit_count,
						   CUlibraryOption *options, void **values, unsigned int count)
{
	LOAD_LIBRARY(cuLibraryLoadFromFile, library, file, jit_options, jit_values, jit_count, options, values, count);
}

SHIM_EXPORT CUresult CUDAAPI cuLibraryUnload(CUlibrary library)
{
	return shim_counting() ? unload_known(SHIM_LIBRARY, library) : REAL(cuLibraryUnload)(library);
}
