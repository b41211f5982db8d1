#include "shim/load_charge.h"

#include <string.h>

#include "shim/contexts.h"
#include "shim/undeclared.h"

// Returns the free device memory plus what the vGPU is charged. When code is loaded, this sum falls by the size of the
// code. Allocations of other tenants of this vGPU do not change the sum: they lower the free memory, and raise the
// charge as much.
static int64_t measure_level(void)
{
	SHIM_RELAXED;
	struct vg_ledger *ledger = shim_session_ledger();
	size_t free, total;

	if (!ledger || REAL(cuMemGetInfo_v2)(&free, &total) != CUDA_SUCCESS)
		return SHIM_LOAD_UNMEASURED;
	return (int64_t)(free + vg_ledger_charged(ledger));
}

static bool has_room(uint64_t bytes)
{
	uint64_t limit, charged;

	vg_ledger_read(shim_session_ledger(), &limit, &charged);
	return limit >= charged && bytes <= limit - charged;
}

// Bounds for the charge of loaded code. Its measured size is too large if another vGPU allocates during the
// measurement. A size of at most `trusted` bytes that fits into the limit is charged as measured. Any other size is
// charged up to the memory that the daemon measures for this process and that is not charged yet. If the daemon does
// not answer, it is charged up to `plausible` bytes.
static const uint64_t trusted = 4ull << 20, plausible = 256ull << 20;

// Returns how much memory was allocated since measure_level() returned `before`.
static uint64_t measure_since(int64_t before)
{
	int64_t after = before == SHIM_LOAD_UNMEASURED ? SHIM_LOAD_UNMEASURED : measure_level();
	uint64_t bytes = after == SHIM_LOAD_UNMEASURED || after >= before ? 0 : (uint64_t)(before - after), most;

	if (bytes <= trusted && has_room(bytes))
		return bytes;
	if (!shim_undeclared_measure(shim_session_ledger(), &most))
		most = plausible;
	return bytes < most ? bytes : most;
}

// Makes the daemon measure the undeclared memory of this process again, and charges the new figure. Call it after code
// of `bytes` was loaded and charged, or unloaded and refunded: the older figure does not take that into account. Does
// nothing if `bytes` is at most `trusted`.
static void refresh_undeclared(uint64_t bytes)
{
	if (bytes > trusted && shim_undeclared_measure(shim_session_ledger(), &bytes))
		shim_undeclared_charge(shim_session_ledger());
}

int64_t shim_load_begin(void)
{
	return measure_level();
}

// Makes the record of a charge. A module belongs to one context. A library may be loaded in several contexts: it has a
// record for each of them, and one for itself.
static struct shim_record make_record(enum shim_record_type type, void *handle, uint64_t bytes)
{
	struct shim_record record = {.key = (uintptr_t)handle,
				     .bytes = bytes,
				     .type = (uint8_t)type,
				     .kind = VG_LEDGER_MODULE,
				     .context = shim_current_context()};

	if (type == SHIM_LIBRARY) {
		record.type = SHIM_LOADED;
		record.key ^= (uintptr_t)record.context << 8;
		record.data = handle;
	}
	return record;
}

static CUresult charge_load(enum vg_entry entry, enum shim_record_type type, void *handle, uint64_t bytes)
{
	struct shim_record record = make_record(type, handle, bytes);
	CUresult result = shim_charge_measured(entry, VG_LEDGER_MODULE, bytes);

	if (result != CUDA_SUCCESS || !bytes)
		return result;
	if (shim_record_add_bytes(&record) == 0)
		return CUDA_SUCCESS;
	shim_refund_record(&record);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static void refund_load(uint64_t bytes)
{
	shim_refund(VG_LEDGER_MODULE, bytes);
	refresh_undeclared(bytes);
}

// For each device: the bytes that are charged for the code which this thread unloads now. collect_bytes() adds the
// charge of one removed record to them.
static _Thread_local uint64_t collected[SHIM_DEVICES];

static void collect_bytes(const struct shim_record *record)
{
	collected[record->device - 1] += record->bytes;
}

// Unloads a module or library. Removes its records before the driver call, because the driver may reuse the handle at
// once. Refunds the charges after the call. `bytes` are charged on `device`.
static CUresult unload_code(enum shim_record_type type, void *handle, unsigned int device, uint64_t bytes)
{
	struct shim_record again = make_record(type, handle, 0);
	CUresult result;

	memset(collected, 0, sizeof collected);
	collected[device] = bytes;
	if (type == SHIM_LIBRARY)
		shim_record_remove_data(SHIM_LOADED, handle, collect_bytes);
	result = type == SHIM_LIBRARY ? REAL(cuLibraryUnload)((CUlibrary)handle)
				      : REAL(cuModuleUnload)((CUmodule)handle);
	for (unsigned int i = 0; i < shim_device_count; i++) {
		SHIM_ON_DEVICE(i);
		again.bytes = collected[i];
		again.device = (uint8_t)(i + 1);
		if (result == CUDA_SUCCESS)
			refund_load(again.bytes);
		else if (again.bytes)
			shim_record_add_bytes(&again);
	}
	return result;
}

// True if code is loaded for which the limit has no room, and which cannot be unloaded.
static _Atomic bool has_overrun;

// Unloads code that does not fit, unless the program has already taken functions or variables out of the module or
// library. After it was unloaded, calls with its handle return CUDA_ERROR_OUT_OF_MEMORY.
static void undo_load(enum shim_record_type type, void *handle)
{
	struct shim_record record = {.key = (uintptr_t)handle, .type = (uint8_t)type, .kind = VG_LEDGER_MODULE};

	if (shim_record_remove(type, record.key, &record) && record.references > 0) {
		shim_record_put(&record);
		has_overrun = true;
		return;
	}
	if (unload_code(type, handle, record.device ? record.device - 1u : shim_device(), record.bytes) !=
	    CUDA_SUCCESS) {
		has_overrun = true;
		return;
	}
	record.bytes = 0;
	record.origin = SHIM_UNDONE;
	shim_record_put(&record);
}

CUresult shim_load_end(enum vg_entry entry, enum shim_record_type type, void *handle, int64_t before)
{
	uint64_t bytes;
	CUresult result;

	if (!shim_counting())
		return CUDA_SUCCESS;
	bytes = measure_since(before);
	result = charge_load(entry, type, handle, bytes);
	if (result != CUDA_SUCCESS)
		undo_load(type, handle);
	refresh_undeclared(bytes);
	return result;
}

void shim_load_note_use(enum shim_record_type type, void *handle)
{
	struct shim_record record = {
		.key = (uintptr_t)handle, .type = (uint8_t)type, .kind = VG_LEDGER_MODULE, .references = 1};

	record.context = type == SHIM_MODULE ? shim_current_context() : NULL;
	if (!shim_record_add_references(type, record.key, 1, &record))
		shim_record_put(&record);
}

CUresult shim_load_check_room(enum vg_entry entry)
{
	struct vg_ledger *ledger = shim_session_ledger();
	uint64_t bytes;

	return ledger && shim_undeclared_exceeds(ledger, &bytes) ? shim_refuse(entry, bytes) : CUDA_SUCCESS;
}

CUresult shim_load_check(enum vg_entry entry, enum shim_record_type type, void *handle)
{
	struct shim_record record;

	if (!shim_counting())
		return CUDA_SUCCESS;
	if (has_overrun && shim_load_check_room(entry) != CUDA_SUCCESS)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!shim_record_find(type, (uintptr_t)handle, &record))
		return CUDA_SUCCESS;
	return record.origin == SHIM_UNDONE ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

// Removes the record of an earlier module that had the same handle, and charges the new one.
CUresult shim_load_finish(enum vg_entry entry, enum shim_record_type type, CUresult result, void *handle,
			  int64_t before)
{
	struct shim_record old;

	if (result != CUDA_SUCCESS || !shim_counting())
		return result;
	shim_record_remove(type, (uintptr_t)handle, &old);
	result = shim_load_end(entry, type, handle, before);
	if (result != CUDA_SUCCESS) // the call fails, so the program does not get the handle
		shim_record_remove(type, (uintptr_t)handle, &old);
	return result;
}

// Unloads the module or library, and removes its record. If undo_load() has unloaded it already, removes only the
// record.
CUresult shim_load_unload(enum shim_record_type type, void *handle)
{
	struct shim_record record = {0};
	bool is_known = shim_record_remove(type, (uintptr_t)handle, &record);
	unsigned int device = record.device ? record.device - 1u : shim_device();
	CUresult result = record.origin == SHIM_UNDONE ? CUDA_SUCCESS : unload_code(type, handle, device, record.bytes);

	// unload_code() has refunded the charge, or, if the driver call has failed, stored it in a new record.
	record.bytes = 0;
	if (result != CUDA_SUCCESS && is_known)
		shim_record_add_bytes(&record);
	return result;
}
