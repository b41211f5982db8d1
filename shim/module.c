// Modules and libraries: what loading them took from the device is overhead, charged as
// measured.
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

// Another vGPU's allocation in between looks like ours. What is too much to let pass is
// therefore held against the daemon's figure for this process; where it does not answer,
// against what a module may plausibly take.
static const uint64_t let_pass = 4ull << 20, plausible = 256ull << 20;

static uint64_t taken_since(int64_t before)
{
	int64_t after = before == MEASURE_NONE ? MEASURE_NONE : level();
	uint64_t bytes = after == MEASURE_NONE || after >= before ? 0 : (uint64_t)(before - after), most;

	if (bytes <= let_pass)
		return bytes;
	if (!shim_undeclared_measure(shim_session_ledger(), &most))
		most = plausible;
	return bytes < most ? bytes : most;
}

static CUresult keep(enum vg_entry entry, enum shim_what what, uint64_t handle, uint64_t bytes)
{
	struct shim_record record = {.key = handle, .bytes = bytes, .what = (uint8_t)what, .kind = VG_LEDGER_MODULE};
	CUresult result = shim_charge_measured(entry, VG_LEDGER_MODULE, bytes);

	if (result != CUDA_SUCCESS || !bytes)
		return result;
	record.context = what == SHIM_MODULE ? shim_current_context() : NULL;
	if (shim_record_put(&record) == 0)
		return CUDA_SUCCESS;
	shim_refund_record(&record);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

// What was just charged, or unloaded, is undeclared no more.
static void settle_undeclared(uint64_t bytes)
{
	if (bytes > let_pass && shim_undeclared_measure(shim_session_ledger(), &bytes))
		shim_undeclared_settle(shim_session_ledger());
}

static CUresult finish_module(enum vg_entry entry, CUresult result, CUmodule *module, int64_t before)
{
	uint64_t bytes;

	if (result != CUDA_SUCCESS || !shim_counting())
		return result;
	bytes = taken_since(before);
	result = keep(entry, SHIM_MODULE, (uintptr_t)*module, bytes);
	if (result != CUDA_SUCCESS)
		REAL(cuModuleUnload)(*module);
	settle_undeclared(bytes);
	return result;
}

#define LOAD_MODULE(abi, module, ...)                                                              \
	do {                                                                                       \
		int64_t before = shim_enforcing() ? level() : MEASURE_NONE;                        \
		return finish_module(VG_ENTRY_##abi, REAL(abi)(module, __VA_ARGS__), module, before); \
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

SHIM_EXPORT CUresult CUDAAPI cuModuleUnload(CUmodule module)
{
	struct shim_record record;
	CUresult result;

	if (!shim_counting() || !shim_record_take(SHIM_MODULE, (uintptr_t)module, &record))
		return REAL(cuModuleUnload)(module);
	result = REAL(cuModuleUnload)(module);
	if (result != CUDA_SUCCESS) {
		shim_record_put(&record);
		return result;
	}
	shim_refund_record(&record);
	settle_undeclared(record.bytes);
	return result;
}

// A library takes memory when it is loaded, or, loaded lazily, with the first of its kernels
// or variables that is asked for. That comes too late to be refused; the next library is.
static CUresult finish_library(enum vg_entry entry, CUresult result, CUlibrary *library, int64_t before)
{
	uint64_t bytes;

	if (result != CUDA_SUCCESS || !shim_counting())
		return result;
	bytes = taken_since(before);
	result = keep(entry, SHIM_LIBRARY, (uintptr_t)*library, bytes);
	if (result != CUDA_SUCCESS)
		REAL(cuLibraryUnload)(*library);
	settle_undeclared(bytes);
	return result;
}

#define LOAD_LIBRARY(abi, library, ...)                                                            \
	do {                                                                                       \
		CUresult room = shim_enforcing() ? shim_undeclared_gate(VG_ENTRY_##abi) : CUDA_SUCCESS; \
		int64_t before;                                                                    \
		if (room != CUDA_SUCCESS)                                                          \
			return room;                                                               \
		before = shim_enforcing() ? level() : MEASURE_NONE;                                \
		return finish_library(VG_ENTRY_##abi, REAL(abi)(library, __VA_ARGS__), library, before); \
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
	struct shim_record record;
	CUresult result;

	if (!shim_counting() || !shim_record_take(SHIM_LIBRARY, (uintptr_t)library, &record))
		return REAL(cuLibraryUnload)(library);
	result = REAL(cuLibraryUnload)(library);
	if (result != CUDA_SUCCESS) {
		shim_record_put(&record);
		return result;
	}
	shim_refund_record(&record);
	settle_undeclared(record.bytes);
	return result;
}
