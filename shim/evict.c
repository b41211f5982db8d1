// Starts the pager, and puts a gate before each driver function that uses device memory. At such a gate a call waits
// until the memory of this process is on the device.
#include "shim/evict.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hint.h"
#include "pager/blocks.h"
#include "pager/drain.h"
#include "pager/gate.h"
#include "pager/host.h"
#include "pager/host_file.h"
#include "pager/memory.h"
#include "pager/page.h"
#include "pager/pager.h"
#include "shim/contexts.h"
#include "shim/log.h"

_Atomic unsigned int shim_captures;

static const struct vg_ledger *ledger;
static _Atomic uint32_t unkept; // the last announcement for which an allocation waited, and no room came; 0: none
static const uint64_t room_patience_ns = 10000000000; // how long an allocation waits for memory that is leaving
static const long look_for_room_ns = 500000;

// each element is the distance of a stub from this table
extern const int32_t shim_evict_stubs[VG_ENTRY_COUNT] SHIM_HIDDEN;
void *shim_evict_below[VG_ENTRY_COUNT];

// For each family of driver functions (a column of entries.def): whether their calls wait at the pager's gate. Calls
// that launch work or use addresses must wait, because they must not run while memory is in the host. Calls that wait
// for work or query it do not wait at the gate, because they may last long. Calls for memory that never moves do not
// wait there either.
enum {
	gated_array = false,
	gated_capture = false, // but calls that begin a capture are in also_gated[]
	gated_checkpoint = false,
	gated_context = false, // but calls that destroy a context are in also_gated[]
	gated_copy = true,
	gated_coredump = false,
	gated_device = false,
	gated_error = false,
	gated_event = false,
	gated_external = true,
	gated_graph = true,
	gated_green = false, // but calls that destroy a green context are in also_gated[]
	gated_host = false,
	gated_init = false,
	gated_interop = true,
	gated_ipc = true,
	gated_kernel = false,
	gated_launch = true,
	gated_library = false,
	gated_logs = false,
	gated_lookup = false,
	gated_managed = true,
	gated_memop = true,
	gated_memory = false, // the hooks of these calls enter the gate themselves
	gated_module = false,
	gated_multicast = true,
	gated_occupancy = false,
	gated_peer = false,
	gated_pool = false,    // memory of pools never moves
	gated_primary = false, // but calls that release or reset the primary context are in also_gated[]
	gated_profiler = false,
	gated_set = true,
	gated_stream = false,
	gated_tensormap = false,
	gated_texture = true,
	gated_vmm = true,
};

static const bool is_family_gated[VG_ENTRY_COUNT] = {
#define ENTRY(abi, api, version, stream, family, need) gated_##family,
#include "abi/entries.def"
};

// Functions that wait at the pager's gate although the other functions of their families do not.
static const enum vg_entry also_gated[] = {
	VG_ENTRY_cuMemMapArrayAsync,
	VG_ENTRY_cuMemMapArrayAsync_ptsz,
	VG_ENTRY_cuStreamBeginCapture,
	VG_ENTRY_cuStreamBeginCapture_ptsz,
	VG_ENTRY_cuStreamBeginCapture_v2,
	VG_ENTRY_cuStreamBeginCapture_v2_ptsz,
	VG_ENTRY_cuStreamBeginCaptureToGraph,
	VG_ENTRY_cuStreamBeginCaptureToGraph_ptsz,
	VG_ENTRY_cuCtxDestroy,
	VG_ENTRY_cuCtxDestroy_v2,
	VG_ENTRY_cuCtxDetach,
	VG_ENTRY_cuGreenCtxDestroy, // the driver may destroy the primary context together with its last green context
	VG_ENTRY_cuDevicePrimaryCtxRelease,
	VG_ENTRY_cuDevicePrimaryCtxRelease_v2,
	VG_ENTRY_cuDevicePrimaryCtxReset,
	VG_ENTRY_cuDevicePrimaryCtxReset_v2,
};

static void set_gate(unsigned int row)
{
	void **slot = &shim_slots[row];

	shim_evict_below[row] = *slot;
	if (shim_driver_has(row))
		__atomic_store_n(slot, (char *)shim_evict_stubs + shim_evict_stubs[row], __ATOMIC_RELEASE);
}

static void set_gates(void)
{
	for (unsigned int row = 0; row < VG_ENTRY_COUNT; row++)
		if (is_family_gated[row])
			set_gate(row);
	for (size_t i = 0; i < sizeof also_gated / sizeof *also_gated; i++)
		set_gate(also_gated[i]);
}

static struct pager_slot *find_slot(void)
{
	return vg_ledger_pager_slot(ledger);
}

static uint32_t count_restores(void)
{
	return vg_ledger_restores(ledger);
}

static uint64_t read_clock_ns(void)
{
	return vg_ledger_clock_ns(ledger);
}

static bool is_capturing(void)
{
	return atomic_load(&shim_captures) != 0;
}

static const char *format_reason(const struct pager_slot *slot, char *text, size_t size)
{
	uint32_t row = atomic_load(&slot->row);
	unsigned long long mib = atomic_load(&slot->missing) >> 20;

	switch ((enum pager_reason)atomic_load(&slot->reason)) {
	case PAGER_THREAD:
		snprintf(text, size, "a thread did not return from %s",
			 row < VG_ENTRY_COUNT ? shim_entry((enum vg_entry)row)->abi : "a driver call");
		return text;
	case PAGER_GPU:
		return "the GPU has not finished its work";
	case PAGER_CAPTURE:
		return "a stream capture has not ended";
	case PAGER_HOST:
		snprintf(text, size, "%llu MiB of host memory are missing", mib);
		return text;
	case PAGER_DEVICE:
		if (!mib) // the process's memory fits on the device, but the driver needs more for itself
			return "the GPU lacks memory; trying again";
		snprintf(text, size, "the GPU lacks %llu MiB; trying again", mib);
		return text;
	case PAGER_FILE:
		snprintf(text, size, "the file with its memory in " PAGER_FILE_DIRECTORY ": %s", strerror((int)row));
		return text;
	case PAGER_RESTORE:
		return "the restore failed or ended before the memory was back; the program ends";
	default:
		snprintf(text, size, "the driver failed with %u", row);
		return text;
	}
}

static void log_failure(const struct pager_slot *slot)
{
	char text[128];
	bool is_away = atomic_load(&slot->state) == PAGER_OUT || atomic_load(&slot->reason) == PAGER_RESTORE;

	shim_log(SHIM_WARNING, "vGPU %s: cannot %s: %s", vg_ledger_name(ledger), is_away ? "resume" : "suspend",
		 format_reason(slot, text, sizeof text));
}

// Reads the name of the vGPU whose memory is on the device, while this vGPU's memory must wait in the host. Copies only
// printable characters: the daemon writes the name, but every process of this vGPU can overwrite it.
static void read_holder(const struct pager_page *page, char holder[PAGER_NAME])
{
	size_t length = 0;

	while (length + 1 < PAGER_NAME && page->holder[length] > ' ' && page->holder[length] < 0x7f) {
		holder[length] = page->holder[length];
		length++;
	}
	holder[length] = '\0';
}

static void log_waiting(uint64_t waited_ns)
{
	const struct pager_page *page = vg_ledger_pager_page(ledger);
	const struct pager_slot *slot = find_slot();
	unsigned long long seconds = waited_ns / 1000000000;
	const char *name = vg_ledger_name(ledger);
	char holder[PAGER_NAME], sim[VG_HINT_SIM];

	read_holder(page, holder);
	vg_hint_sim(secure_getenv("VIRGATE_SIM"), sim);
	if (atomic_load(&page->suspended) || (slot && atomic_load(&slot->out)))
		shim_log(SHIM_ERROR,
			 "vGPU %s is suspended, and the program has waited for %llu s: `virgate resume%s %s`", name,
			 seconds, sim, name);
	else
		shim_log(SHIM_ERROR, "vGPU %s: the program has waited for the GPU for %llu s%s%s", name, seconds,
			 *holder ? ": there is no room for it beside vGPU " : "", holder);
}

void shim_evict_fill_driver(void)
{
	shim_driver_loaded();
#define X(abi) pager_driver.abi = REAL(abi);
	PAGER_CALLS(X)
#undef X
	pager_driver.cuModuleLoadData = cuModuleLoadData;
	pager_driver.cuModuleUnload = cuModuleUnload;
	pager_driver.cuModuleGetFunction = cuModuleGetFunction;
	pager_driver.cuModuleGetGlobal_v2 = cuModuleGetGlobal_v2;
}

// Returns how many bytes of movable memory a process must have before the pager looks for unchanged blocks. The GPU
// hashes the blocks, and blocks that are the same as in the host's last copy are not copied again. Copying less memory
// takes only milliseconds. The simulated GPU interprets the hash kernel, which takes longer than copying. So it does
// not hash, unless VIRGATE_SIM_HASH sets this figure in MiB.
static uint64_t choose_hash_least(const struct vg_ledger *of)
{
	const char *mib = secure_getenv("VIRGATE_SIM_HASH");

	if (!(vg_ledger_flags(of) & VG_LEDGER_SIMULATED))
		return 256ull << 20;
	return mib ? strtoull(mib, NULL, 10) << 20 : UINT64_MAX;
}

// Returns the amount of available host memory below which the pager releases pinned memory that it does not need. On
// the simulated GPU a test sets the amount; the default is 0.
static uint64_t choose_host_least(const struct vg_ledger *of)
{
	const char *mib = secure_getenv("VIRGATE_SIM_HOST_LEAST");

	if (!(vg_ledger_flags(of) & VG_LEDGER_SIMULATED))
		return 2ull << 30;
	return mib ? strtoull(mib, NULL, 10) << 20 : 0;
}

static void log_not_hashed(const struct pager_slot *slot)
{
	static uint32_t logged; // the reason of the last message, so that each reason is logged once

	if (logged == atomic_load(&slot->hash_result))
		return;
	logged = atomic_load(&slot->hash_result);
	shim_log(SHIM_WARNING,
		 "vGPU %s: the GPU cannot hash memory, so unchanged blocks are copied, too: the driver failed with %u",
		 vg_ledger_name(ledger), logged);
}

void shim_evict_start(const struct vg_ledger *of)
{
	struct pager_options options = {.page = vg_ledger_pager_page(of),
					.slot = find_slot,
					.restores = count_restores,
					.clock_ns = read_clock_ns,
					.contexts = shim_contexts_list,
					.captures = is_capturing,
					.failed = log_failure,
					.not_hashed = log_not_hashed,
					.waits = log_waiting,
					.host_limit = vg_ledger_swap(of),
					.hash_least = choose_hash_least(of),
					.host_least = choose_host_least(of)};
	int r;

	if (!(vg_ledger_flags(of) & VG_LEDGER_EVICTABLE) || !shim_driver_loaded())
		return;
	ledger = of;
	r = pager_start(&options);
	if (r < 0) {
		shim_log(SHIM_ERROR, "vGPU %s: memory cannot move to the host: %s", vg_ledger_name(of), strerror(-r));
		return;
	}
	shim_evict_handles_start();
	set_gates();
	shim_evictable = true;
}

void shim_evict_stop(void)
{
	if (!shim_evictable)
		return;
	shim_evictable = false;
	shim_evict_handles_stop();
	pager_reset();
}

bool shim_is_evictable(CUdeviceptr address)
{
	struct pager_range range;

	return shim_evictable && pager_memory_find(address, &range);
}

bool shim_evict_is_possible(void)
{
	return shim_evictable && !is_capturing();
}

// Returns the number of the announcement that other vGPUs make room. 0: no announcement, or no room came while an
// allocation waited for it, for example because the daemon was killed.
static uint32_t find_coming_room(void)
{
	uint32_t number = atomic_load(&vg_ledger_pager_page(ledger)->room_comes);

	return number == atomic_load(&unkept) ? 0 : number;
}

struct shim_evict_attempt shim_evict_begin(enum vg_entry entry)
{
	return (struct shim_evict_attempt){entry, vg_clock_monotonic_ns(), find_coming_room()};
}

bool shim_evict_try_again(struct shim_evict_attempt *attempt, CUresult result)
{
	if (result != CUDA_ERROR_OUT_OF_MEMORY || !attempt->room_comes)
		return false;
	if (vg_clock_monotonic_ns() - attempt->began_ns > room_patience_ns) {
		atomic_store(&unkept, attempt->room_comes);
		return false;
	}
	pager_leave();
	pager_sleep(look_for_room_ns);
	uint64_t left_ns = vg_clock_monotonic_ns();
	pager_enter(attempt->entry);
	attempt->began_ns += vg_clock_monotonic_ns() - left_ns; // does not count the wait while the memory is away
	attempt->room_comes = find_coming_room();
	return true;
}

CUresult shim_evict_allocate(enum vg_entry entry, CUdeviceptr *address, size_t bytes)
{
	CUcontext context = NULL;
	CUresult result;

	pager_enter(entry);
	result = REAL(cuCtxGetCurrent)(&context);
	if (!address || result != CUDA_SUCCESS || !context) {
		// call the driver, so that the program gets the driver's own error
		result = REAL(cuMemAlloc_v2)(address, bytes);
	} else {
		uint64_t freed = is_capturing() ? 0 : pager_memory_free_rest();
		shim_refund_evictable(VG_LEDGER_DEVICE, freed);
		struct shim_evict_attempt attempt = shim_evict_begin(entry);
		do
			result = pager_memory_allocate(bytes, context, address);
		while (shim_evict_try_again(&attempt, result));
		pager_note_bytes();
	}
	pager_leave();
	return result;
}

CUresult shim_evict_free(enum vg_entry entry, CUdeviceptr address, bool *ret_later)
{
	CUresult result;

	pager_enter(entry);
	*ret_later = is_capturing();
	result = pager_memory_free(address, true, *ret_later);
	pager_note_bytes();
	pager_leave();
	return result;
}

void shim_evict_forget(CUdeviceptr address)
{
	pager_enter(VG_ENTRY_cuCtxDestroy_v2);
	pager_memory_free(address, false, false);
	pager_note_bytes();
	pager_leave();
}

void shim_evict_forget_context(CUcontext context)
{
	if (!shim_evictable)
		return;
	pager_host_forget(context);
	pager_blocks_forget(context);
}
