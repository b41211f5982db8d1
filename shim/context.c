// Charges the creation of contexts, and refunds their destruction. Each context is charged a fixed amount. Memory for a
// context's limits (cuCtxSetLimit) is charged by limit.c.
#include <pthread.h>

#include "shim/contexts.h"
#include "shim/evict.h"
#include "shim/graph_charge.h"
#include "shim/local.h"
#include "shim/physical.h"
#include "shim/turn.h"
#include "shim/undeclared.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
// The state of each device's primary context. find_primary() returns the element for the device that the thread has
// selected.
static struct primary {
	bool is_charged;
	uint64_t bytes;
	CUcontext context;
} primaries[SHIM_DEVICES];

static struct primary *find_primary(void)
{
	return &primaries[shim_device()];
}

static uint64_t context_overhead(void)
{
	struct vg_ledger *ledger = shim_session_ledger();

	return ledger ? vg_ledger_context_overhead(ledger) : 0;
}

static void refund_with_context(const struct shim_record *record)
{
	if (record->type == SHIM_GRAPH_EXEC)
		shim_graph_forget(record);
	else if ((record->type == SHIM_POINTER || record->type == SHIM_BLOCK) && shim_record_has_physical(record))
		shim_physical_unref(record->data);
	else
		shim_refund_record(record);
	if (record->origin == SHIM_EVICTABLE)
		shim_evict_forget(record->key);
}

// Refunds the charges of everything that was allocated in a destroyed context.
static void forget_context(CUcontext context)
{
	shim_record_remove_context(context, refund_with_context);
	shim_turn_forget_context(context);
	shim_evict_forget_context(context);
}

// Charges for the primary context before a call that may create it, unless the context exists already.
static CUresult charge_primary(enum vg_entry entry, uint64_t *ret_charged)
{
	bool is_charged;
	uint64_t bytes;
	CUresult result;

	pthread_mutex_lock(&lock);
	is_charged = find_primary()->is_charged;
	pthread_mutex_unlock(&lock);
	if (is_charged) {
		*ret_charged = 0;
		return CUDA_SUCCESS;
	}
	bytes = context_overhead();
	result = shim_charge(entry, VG_LEDGER_CONTEXT, bytes);
	if (result == CUDA_SUCCESS)
		*ret_charged = bytes;
	return result;
}

// Updates the list of contexts (shim/contexts.h) after a primary context was created (`change` is 1) or destroyed (-1;
// `destroyed` is its handle). A process with one device stores its primary context by shim_contexts_set_primary(). In a
// process with several devices, primary contexts are in the list like other contexts. Then shim_only_context, the only
// context of the process, stays NULL.
static void note_primary(const struct primary *primary, int change, CUcontext destroyed)
{
	if (shim_device_count == 1)
		shim_contexts_set_primary(primary->context, primary->is_charged);
	else if (change > 0)
		shim_contexts_add(primary->context);
	else if (change < 0)
		shim_contexts_remove(destroyed);
}

// Sets the primary context's charge according to whether the driver reports the context as active. Call this after a
// call that may have created or destroyed the primary context. `charged`: the bytes that charge_primary() charged
// before that call.
static void reconcile_primary(CUdevice device, uint64_t charged, CUcontext context)
{
	SHIM_ON_DEVICE(device);
	struct primary *primary = find_primary();
	CUcontext destroyed = NULL;
	unsigned int flags;
	uint64_t refund = charged;
	int active = 0, change = 0;

	if (REAL(cuDevicePrimaryCtxGetState)(device, &flags, &active) != CUDA_SUCCESS) {
		shim_refund(VG_LEDGER_CONTEXT, charged);
		return;
	}
	pthread_mutex_lock(&lock);
	if (active && !primary->is_charged && charged) {
		primary->is_charged = true;
		primary->bytes = charged;
		refund = 0;
		change = 1;
		shim_first_context_created();
	} else if (!active && primary->is_charged) {
		refund += primary->bytes;
		destroyed = primary->context;
		change = -1;
		primary->is_charged = false;
		primary->context = NULL;
	}
	if (active && context)
		primary->context = context;
	note_primary(primary, change, destroyed);
	pthread_mutex_unlock(&lock);
	forget_context(destroyed);
	shim_refund(VG_LEDGER_CONTEXT, refund);
	if (change)
		shim_local_note_contexts(change);
}

SHIM_EXPORT CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	SHIM_ON_DEVICE(device);
	uint64_t charged;
	CUresult result;

	if (!shim_enforcing())
		return REAL(cuDevicePrimaryCtxRetain)(context, device);
	result = charge_primary(VG_ENTRY_cuDevicePrimaryCtxRetain, &charged);
	if (result != CUDA_SUCCESS)
		return result;
	result = REAL(cuDevicePrimaryCtxRetain)(context, device);
	reconcile_primary(device, charged, result == CUDA_SUCCESS ? *context : NULL);
	return result;
}

static CUresult reconcile_after(CUresult result, CUdevice device)
{
	if (shim_counting())
		reconcile_primary(device, 0, NULL);
	return result;
}

// Makes a driver call that may destroy a context. Before the call, tells the daemon not to derive the size of a context
// from the memory of this process any more.
#define MAY_DESTROY(call, device) (shim_first_context_ended(), reconcile_after(call, device))

#define RELEASE_PRIMARY(abi)                                   \
	SHIM_EXPORT CUresult CUDAAPI abi(CUdevice device)      \
	{                                                      \
		return MAY_DESTROY(REAL(abi)(device), device); \
	}
RELEASE_PRIMARY(cuDevicePrimaryCtxRelease)
RELEASE_PRIMARY(cuDevicePrimaryCtxRelease_v2)
RELEASE_PRIMARY(cuDevicePrimaryCtxReset)
RELEASE_PRIMARY(cuDevicePrimaryCtxReset_v2)

// The memory of a green context stays allocated after its destruction, until the primary context is destroyed
// (docs/hardware.md). So that memory is charged with the primary context.
static const uint64_t green_bytes = 4ull << 20;

static CUresult charge_green(enum vg_entry entry, uint64_t *ret_charged)
{
	CUresult result = charge_primary(entry, ret_charged);

	if (result != CUDA_SUCCESS)
		return result;
	result = shim_charge(entry, VG_LEDGER_CONTEXT, green_bytes);
	if (result != CUDA_SUCCESS)
		shim_refund(VG_LEDGER_CONTEXT, *ret_charged);
	return result;
}

static void keep_green_charge(void)
{
	bool is_kept;

	pthread_mutex_lock(&lock);
	is_kept = find_primary()->is_charged;
	find_primary()->bytes += is_kept ? green_bytes : 0;
	pthread_mutex_unlock(&lock);
	if (!is_kept)
		shim_refund(VG_LEDGER_CONTEXT, green_bytes);
}

// Green contexts are parts of the primary context. The call that creates a green context also creates the primary one
// if necessary.
SHIM_EXPORT CUresult CUDAAPI cuGreenCtxCreate(CUgreenCtx *green, CUdevResourceDesc resources, CUdevice device,
					      unsigned int flags)
{
	SHIM_ON_DEVICE(device);
	uint64_t charged;
	CUresult result;

	if (!shim_enforcing())
		return REAL(cuGreenCtxCreate)(green, resources, device, flags);
	shim_first_context_ended();
	result = charge_green(VG_ENTRY_cuGreenCtxCreate, &charged);
	if (result != CUDA_SUCCESS)
		return result;
	result = REAL(cuGreenCtxCreate)(green, resources, device, flags);
	reconcile_primary(device, charged, NULL);
	if (result == CUDA_SUCCESS)
		keep_green_charge();
	else
		shim_refund(VG_LEDGER_CONTEXT, green_bytes);
	return result;
}

SHIM_EXPORT CUresult CUDAAPI cuGreenCtxDestroy(CUgreenCtx green)
{
	return MAY_DESTROY(REAL(cuGreenCtxDestroy)(green), (CUdevice)shim_device());
}

static CUresult finish_create(CUresult result, CUcontext *context, uint64_t bytes)
{
	struct shim_record record = {.bytes = bytes, .type = SHIM_CONTEXT, .kind = VG_LEDGER_CONTEXT, .references = 1};

	if (result != CUDA_SUCCESS) {
		shim_refund(VG_LEDGER_CONTEXT, bytes);
		return result;
	}
	record.key = (uintptr_t)*context;
	if (shim_record_put(&record) == 0) {
		shim_contexts_add(*context);
		shim_local_note_contexts(1);
		return CUDA_SUCCESS;
	}
	REAL(cuCtxDestroy_v2)(*context);
	shim_refund(VG_LEDGER_CONTEXT, bytes);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

#define CREATE_CONTEXT(abi, context, ...)                                              \
	do {                                                                           \
		SHIM_ON_DEVICE(device);                                                \
		uint64_t bytes;                                                        \
		CUresult result;                                                       \
		if (!shim_enforcing())                                                 \
			return REAL(abi)(context, __VA_ARGS__);                        \
		shim_first_context_ended();                                            \
		bytes = context_overhead();                                            \
		result = shim_charge(VG_ENTRY_##abi, VG_LEDGER_CONTEXT, bytes);        \
		if (result != CUDA_SUCCESS)                                            \
			return result;                                                 \
		return finish_create(REAL(abi)(context, __VA_ARGS__), context, bytes); \
	} while (0)

SHIM_EXPORT CUresult CUDAAPI cuCtxCreate(CUcontext *context, unsigned int flags, CUdevice device)
{
	CREATE_CONTEXT(cuCtxCreate, context, flags, device);
}

SHIM_EXPORT CUresult CUDAAPI cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device)
{
	CREATE_CONTEXT(cuCtxCreate_v2, context, flags, device);
}

SHIM_EXPORT CUresult CUDAAPI cuCtxCreate_v3(CUcontext *context, CUexecAffinityParam *affinity, int count,
					    unsigned int flags, CUdevice device)
{
	CREATE_CONTEXT(cuCtxCreate_v3, context, affinity, count, flags, device);
}

SHIM_EXPORT CUresult CUDAAPI cuCtxCreate_v4(CUcontext *context, CUctxCreateParams *parameters, unsigned int flags,
					    CUdevice device)
{
	CREATE_CONTEXT(cuCtxCreate_v4, context, parameters, flags, device);
}

static CUresult finish_destroy(CUresult result, struct shim_record *record)
{
	if (result != CUDA_SUCCESS) {
		record->references = 1;
		shim_record_put(record);
		return result;
	}
	forget_context((CUcontext)(uintptr_t)record->key);
	shim_contexts_remove((CUcontext)(uintptr_t)record->key);
	shim_local_note_contexts(-1);
	shim_refund_record(record);
	return result;
}

#define DESTROY_CONTEXT(abi)                                                                            \
	SHIM_EXPORT CUresult CUDAAPI abi(CUcontext context)                                             \
	{                                                                                               \
		struct shim_record record;                                                              \
		if (!shim_counting() || !shim_record_remove(SHIM_CONTEXT, (uintptr_t)context, &record)) \
			return REAL(abi)(context);                                                      \
		return finish_destroy(REAL(abi)(context), &record);                                     \
	}
DESTROY_CONTEXT(cuCtxDestroy)
DESTROY_CONTEXT(cuCtxDestroy_v2)

SHIM_EXPORT CUresult CUDAAPI cuCtxAttach(CUcontext *context, unsigned int flags)
{
	CUresult result = REAL(cuCtxAttach)(context, flags);
	struct shim_record record;

	if (result == CUDA_SUCCESS && shim_counting())
		shim_record_add_references(SHIM_CONTEXT, (uintptr_t)*context, 1, &record);
	return result;
}

SHIM_EXPORT CUresult CUDAAPI cuCtxDetach(CUcontext context)
{
	struct shim_record record;
	CUresult result;

	if (!shim_counting() || !shim_record_add_references(SHIM_CONTEXT, (uintptr_t)context, -1, &record))
		return REAL(cuCtxDetach)(context);
	result = REAL(cuCtxDetach)(context);
	if (record.references == 0)
		return finish_destroy(result, &record);
	if (result != CUDA_SUCCESS)
		shim_record_add_references(SHIM_CONTEXT, (uintptr_t)context, 1, &record);
	return result;
}
