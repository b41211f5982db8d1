#include <pthread.h>

#include "shim/context.h"
#include "shim/evict.h"
#include "shim/graph.h"
#include "shim/local.h"
#include "shim/turn.h"
#include "shim/undeclared.h"
#include "shim/vmm.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	bool charged;
	uint64_t bytes;
	CUcontext context;
} primary; // of the vGPU's one device

_Atomic(CUcontext) shim_only_context;
static unsigned int others; // contexts that are not the primary one
enum { LIVE = 64 };
static CUcontext live[LIVE]; // of these, the first ones

// With the lock held.
static void find_only_context(void)
{
	shim_only_context = primary.charged && others == 0 ? primary.context : NULL;
}

static void replace_live(CUcontext before, CUcontext after)
{
	for (size_t i = 0; i < LIVE; i++)
		if (live[i] == before) {
			live[i] = after;
			return;
		}
}

size_t shim_contexts(CUcontext *contexts, size_t most)
{
	size_t count = 0;

	pthread_mutex_lock(&lock);
	if (primary.context && most)
		contexts[count++] = primary.context;
	for (size_t i = 0; i < LIVE && count < most; i++)
		if (live[i])
			contexts[count++] = live[i];
	pthread_mutex_unlock(&lock);
	return count;
}

static void count_other(CUcontext context, int change)
{
	pthread_mutex_lock(&lock);
	others += (unsigned int)change;
	replace_live(change > 0 ? NULL : context, change > 0 ? context : NULL);
	find_only_context();
	pthread_mutex_unlock(&lock);
	shim_local_contexts(change);
}

static uint64_t overhead(void)
{
	struct vg_ledger *ledger = shim_session_ledger();

	return ledger ? vg_ledger_context_overhead(ledger) : 0;
}

static void take(const struct shim_record *record)
{
	if (record->what == SHIM_GRAPH_EXEC)
		shim_graph_forget(record);
	else if ((record->what == SHIM_POINTER || record->what == SHIM_BLOCK) && shim_record_is_held(record))
		shim_physical_drop(record->data);
	else
		shim_refund_record(record);
	if (record->origin == SHIM_EVICTABLE)
		shim_evict_forget(record->key);
}

void shim_context_gone(CUcontext context)
{
	shim_record_sweep(context, take);
	shim_turn_context_gone(context);
	shim_evict_context_gone(context);
}

// Before a call that may bring the primary context up: reserves for it, unless it is up.
static CUresult reserve_primary(enum vg_entry entry, uint64_t *ret_held)
{
	bool charged;
	uint64_t bytes;
	CUresult result;

	pthread_mutex_lock(&lock);
	charged = primary.charged;
	pthread_mutex_unlock(&lock);
	if (charged) {
		*ret_held = 0;
		return CUDA_SUCCESS;
	}
	bytes = overhead();
	result = shim_charge(entry, VG_LEDGER_CONTEXT, bytes);
	if (result == CUDA_SUCCESS)
		*ret_held = bytes;
	return result;
}

// After such a call, or one that may have brought it down: makes the charge follow what the
// driver says.
static void settle_primary(CUdevice device, uint64_t held, CUcontext context)
{
	CUcontext gone = NULL;
	unsigned int flags;
	uint64_t refund = held;
	int active = 0, made = 0;

	if (REAL(cuDevicePrimaryCtxGetState)(device, &flags, &active) != CUDA_SUCCESS) {
		shim_refund(VG_LEDGER_CONTEXT, held);
		return;
	}
	pthread_mutex_lock(&lock);
	if (active && !primary.charged && held) {
		primary.charged = true;
		primary.bytes = held;
		refund = 0;
		made = 1;
		shim_first_context_stands();
	} else if (!active && primary.charged) {
		refund += primary.bytes;
		gone = primary.context;
		made = -1;
		primary.charged = false;
		primary.context = NULL;
	}
	if (active && context)
		primary.context = context;
	find_only_context();
	pthread_mutex_unlock(&lock);
	shim_context_gone(gone);
	shim_refund(VG_LEDGER_CONTEXT, refund);
	if (made)
		shim_local_contexts(made);
}

SHIM_EXPORT CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	uint64_t held;
	CUresult result;

	if (!shim_enforcing())
		return REAL(cuDevicePrimaryCtxRetain)(context, device);
	result = reserve_primary(VG_ENTRY_cuDevicePrimaryCtxRetain, &held);
	if (result != CUDA_SUCCESS)
		return result;
	result = REAL(cuDevicePrimaryCtxRetain)(context, device);
	settle_primary(device, held, result == CUDA_SUCCESS ? *context : NULL);
	return result;
}

static CUresult settle_after(CUresult result, CUdevice device)
{
	if (shim_counting())
		settle_primary(device, 0, NULL);
	return result;
}

// For calls that may take a context down: what is learned from the first one ends before.
#define TAKE_DOWN(call, device) (shim_first_context_over(), settle_after(call, device))

SHIM_EXPORT CUresult CUDAAPI cuDevicePrimaryCtxRelease(CUdevice device)
{
	return TAKE_DOWN(REAL(cuDevicePrimaryCtxRelease)(device), device);
}

SHIM_EXPORT CUresult CUDAAPI cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
	return TAKE_DOWN(REAL(cuDevicePrimaryCtxRelease_v2)(device), device);
}

SHIM_EXPORT CUresult CUDAAPI cuDevicePrimaryCtxReset(CUdevice device)
{
	return TAKE_DOWN(REAL(cuDevicePrimaryCtxReset)(device), device);
}

SHIM_EXPORT CUresult CUDAAPI cuDevicePrimaryCtxReset_v2(CUdevice device)
{
	return TAKE_DOWN(REAL(cuDevicePrimaryCtxReset_v2)(device), device);
}

// What a green context takes stays taken when it is destroyed, until the primary context goes, which
// therefore has the charge (docs/hardware.md).
static const uint64_t green_takes = 4ull << 20;

static CUresult reserve_green(enum vg_entry entry, uint64_t *ret_held)
{
	CUresult result = reserve_primary(entry, ret_held);

	if (result != CUDA_SUCCESS)
		return result;
	result = shim_charge(entry, VG_LEDGER_CONTEXT, green_takes);
	if (result != CUDA_SUCCESS)
		shim_refund(VG_LEDGER_CONTEXT, *ret_held);
	return result;
}

static void keep_green(void)
{
	bool kept;

	pthread_mutex_lock(&lock);
	kept = primary.charged;
	primary.bytes += kept ? green_takes : 0;
	pthread_mutex_unlock(&lock);
	if (!kept)
		shim_refund(VG_LEDGER_CONTEXT, green_takes);
}

// Green contexts live in the primary context and bring it up if need be.
SHIM_EXPORT CUresult CUDAAPI cuGreenCtxCreate(CUgreenCtx *green, CUdevResourceDesc resources, CUdevice device,
					      unsigned int flags)
{
	uint64_t held;
	CUresult result;

	if (!shim_enforcing())
		return REAL(cuGreenCtxCreate)(green, resources, device, flags);
	shim_first_context_over();
	result = reserve_green(VG_ENTRY_cuGreenCtxCreate, &held);
	if (result != CUDA_SUCCESS)
		return result;
	result = REAL(cuGreenCtxCreate)(green, resources, device, flags);
	settle_primary(device, held, NULL);
	if (result == CUDA_SUCCESS)
		keep_green();
	else
		shim_refund(VG_LEDGER_CONTEXT, green_takes);
	return result;
}

SHIM_EXPORT CUresult CUDAAPI cuGreenCtxDestroy(CUgreenCtx green)
{
	return TAKE_DOWN(REAL(cuGreenCtxDestroy)(green), 0);
}

static CUresult finish_create(CUresult result, CUcontext *context, uint64_t bytes)
{
	struct shim_record record = {.bytes = bytes, .what = SHIM_CONTEXT, .kind = VG_LEDGER_CONTEXT, .references = 1};

	if (result == CUDA_SUCCESS) {
		record.key = (uintptr_t)*context;
		if (shim_record_put(&record) == 0) {
			count_other(*context, 1);
			return CUDA_SUCCESS;
		}
		REAL(cuCtxDestroy_v2)(*context);
		result = CUDA_ERROR_OUT_OF_MEMORY;
	}
	shim_refund(VG_LEDGER_CONTEXT, bytes);
	return result;
}

#define CREATE_CONTEXT(abi, context, ...)                                                          \
	do {                                                                                       \
		uint64_t bytes;                                                                    \
		CUresult result;                                                                   \
		if (!shim_enforcing())                                                             \
			return REAL(abi)(context, __VA_ARGS__);                                    \
		shim_first_context_over();                                                         \
		bytes = overhead();                                                                \
		result = shim_charge(VG_ENTRY_##abi, VG_LEDGER_CONTEXT, bytes);                    \
		if (result != CUDA_SUCCESS)                                                        \
			return result;                                                             \
		return finish_create(REAL(abi)(context, __VA_ARGS__), context, bytes);             \
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
	shim_context_gone((CUcontext)(uintptr_t)record->key);
	count_other((CUcontext)(uintptr_t)record->key, -1);
	shim_refund_record(record);
	return result;
}

SHIM_EXPORT CUresult CUDAAPI cuCtxDestroy(CUcontext context)
{
	struct shim_record record;

	if (!shim_counting() || !shim_record_take(SHIM_CONTEXT, (uintptr_t)context, &record))
		return REAL(cuCtxDestroy)(context);
	return finish_destroy(REAL(cuCtxDestroy)(context), &record);
}

SHIM_EXPORT CUresult CUDAAPI cuCtxDestroy_v2(CUcontext context)
{
	struct shim_record record;

	if (!shim_counting() || !shim_record_take(SHIM_CONTEXT, (uintptr_t)context, &record))
		return REAL(cuCtxDestroy_v2)(context);
	return finish_destroy(REAL(cuCtxDestroy_v2)(context), &record);
}

SHIM_EXPORT CUresult CUDAAPI cuCtxAttach(CUcontext *context, unsigned int flags)
{
	CUresult result = REAL(cuCtxAttach)(context, flags);
	struct shim_record record;

	if (result == CUDA_SUCCESS && shim_counting())
		shim_record_count(SHIM_CONTEXT, (uintptr_t)*context, 1, &record);
	return result;
}

SHIM_EXPORT CUresult CUDAAPI cuCtxDetach(CUcontext context)
{
	struct shim_record record;
	CUresult result;

	if (!shim_counting() || !shim_record_count(SHIM_CONTEXT, (uintptr_t)context, -1, &record))
		return REAL(cuCtxDetach)(context);
	result = REAL(cuCtxDetach)(context);
	if (record.references == 0)
		return finish_destroy(result, &record);
	if (result != CUDA_SUCCESS)
		shim_record_count(SHIM_CONTEXT, (uintptr_t)context, 1, &record);
	return result;
}

uint64_t shim_for_every_thread(uint64_t bytes)
{
	int processors = 0, threads = 0;

	REAL(cuDeviceGetAttribute)(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0);
	REAL(cuDeviceGetAttribute)(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 0);
	return __builtin_mul_overflow(bytes, (uint64_t)processors * (uint64_t)threads, &bytes) ? UINT64_MAX : bytes;
}

// What a limit makes the device set aside: the stack is there for every thread it can hold.
static uint64_t declared_by(CUlimit limit, size_t value)
{
	return limit == CU_LIMIT_STACK_SIZE ? shim_for_every_thread(value) : value;
}

// The charge of a limit is what it was raised by since the context began: what a new context
// has is part of the context's own figure.
static void move_limit(CUcontext context, CUlimit limit, uint64_t before, uint64_t after, uint64_t held)
{
	struct shim_record record = {.key = (uintptr_t)context << 3 | limit, .context = context, .what = SHIM_LIMIT,
				     .kind = VG_LEDGER_LIMITS};
	uint64_t raised = after > before ? after - before : 0, lowered = before > after ? before - after : 0;

	if (raised < held)
		shim_refund(VG_LEDGER_LIMITS, held - raised);
	raised = raised < held ? raised : held;
	shim_record_take(SHIM_LIMIT, record.key, &record);
	lowered = lowered < record.bytes ? lowered : record.bytes;
	shim_refund(VG_LEDGER_LIMITS, lowered);
	record.bytes += raised - lowered;
	if (record.bytes)
		shim_record_put(&record);
}

// The driver will refuse it for a reason of its own; should it not, the quota does.
static CUresult too_much(CUlimit limit, size_t value, size_t current, uint64_t bytes)
{
	CUresult result = REAL(cuCtxSetLimit)(limit, value);

	if (result != CUDA_SUCCESS)
		return result;
	REAL(cuCtxSetLimit)(limit, current);
	return shim_refuse(VG_ENTRY_cuCtxSetLimit, bytes);
}

SHIM_EXPORT CUresult CUDAAPI cuCtxSetLimit(CUlimit limit, size_t value)
{
	uint64_t before, wanted, held = 0;
	size_t current = 0;
	CUresult result;

	if (!shim_enforcing() ||
	    (limit != CU_LIMIT_STACK_SIZE && limit != CU_LIMIT_MALLOC_HEAP_SIZE && limit != CU_LIMIT_PRINTF_FIFO_SIZE))
		return REAL(cuCtxSetLimit)(limit, value);
	if (REAL(cuCtxGetLimit)(&current, limit) != CUDA_SUCCESS)
		return REAL(cuCtxSetLimit)(limit, value);
	before = declared_by(limit, current);
	wanted = declared_by(limit, value);
	if (shim_exceeds_device(wanted))
		return too_much(limit, value, current, wanted);
	if (wanted > before) {
		held = wanted - before;
		result = shim_charge(VG_ENTRY_cuCtxSetLimit, VG_LEDGER_LIMITS, held);
		if (result != CUDA_SUCCESS)
			return result;
	}
	result = REAL(cuCtxSetLimit)(limit, value);
	if (result == CUDA_SUCCESS)
		REAL(cuCtxGetLimit)(&current, limit); // the driver may have rounded or bounded it
	move_limit(shim_current_context(), limit, before, declared_by(limit, current), held);
	shim_local_contexts(0);
	return result;
}
