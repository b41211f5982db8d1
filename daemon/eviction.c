#include "daemon/eviction.h"

#include "base/descriptor.h"
#include "base/size.h"
#include "daemon/arbiter.h"

#include <inttypes.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

// The default of the fixed part, without the context.
#define FIXED_WITHOUT_CONTEXT (UINT64_C(1) << 30)

// ---- options ---------------------------------------------------------------------------------------------

static uint64_t smaller(uint64_t left, uint64_t right)
{
	return left < right ? left : right;
}

// Returns MemTotal of /proc/meminfo in bytes, or 0 if it cannot be read.
static uint64_t read_host_memory(void)
{
	char text[4096];
	uint64_t kib;

	const char *line = vg_file_read("/proc/meminfo", text, sizeof text) > 0 ? strstr(text, "MemTotal:") : NULL;
	return line && sscanf(line, "MemTotal: %" SCNu64 " kB", &kib) == 1 ? kib << 10 : 0;
}

static json_t *refuse_swap(const struct vgpu *wanted, bool is_default, uint64_t host)
{
	char text[2][VG_SIZE_TEXT];

	if (!host)
		return refuse("system",
			      "vGPU %s: the memory size of this machine is unknown: /proc/meminfo has no MemTotal",
			      wanted->name);
	return refuse("limit",
		      is_default ? "vGPU %s: each of its processes may move %s, its memory limit, to the host, but "
				   "this machine has %s of memory: give less with --swap SIZE"
				 : "vGPU %s: asked for a swap of %s for each process, but this machine has %s of "
				   "memory: ask for less",
		      wanted->name, vg_size_format(wanted->swap, text[0]), vg_size_format(host, text[1]));
}

bool eviction_is_asked(const struct request *request)
{
	return json_is_true(json_object_get(request->object, "evictable"));
}

// Returns the default of the fixed part: a context, and room for small allocations and the libraries' own. The room is
// at most a quarter of the memory.
static uint64_t choose_fixed(const struct request *request, const struct vgpu *wanted)
{
	bool measured;
	uint64_t context = overhead_estimate(request->node, wanted->device, wanted->owner, &measured);
	uint64_t rest = smaller(FIXED_WITHOUT_CONTEXT, wanted->memory / 4);

	return smaller(context + rest, wanted->memory);
}

static json_t *take_fixed(const struct request *request, struct vgpu *wanted)
{
	const json_t *fixed = json_object_get(request->object, "fixed");
	char text[2][VG_SIZE_TEXT];
	bool measured;
	uint64_t context = overhead_estimate(request->node, wanted->device, wanted->owner, &measured);

	wanted->fixed = fixed ? (uint64_t)json_integer_value(fixed) : choose_fixed(request, wanted);
	if (wanted->fixed > wanted->memory)
		return refuse("invalid", "vGPU %s: a fixed part of %s is more than its memory, %s: ask for less",
			      wanted->name, vg_size_format(wanted->fixed, text[0]), vg_size_format(wanted->memory, text[1]));
	if (wanted->fixed < context)
		return refuse("invalid",
			      "vGPU %s: a fixed part of %s is too small, since a CUDA context alone takes %s: ask for more",
			      wanted->name, vg_size_format(wanted->fixed, text[0]), vg_size_format(context, text[1]));
	return NULL;
}

json_t *eviction_take(const struct request *request, struct vgpu *wanted)
{
	const json_t *evictable = json_object_get(request->object, "evictable");
	const json_t *swap = json_object_get(request->object, "swap");
	const json_t *fixed = json_object_get(request->object, "fixed");

	if (evictable && !json_is_null(evictable) && !json_is_boolean(evictable))
		return refuse("invalid", "\"evictable\" must be true or false");
	if (swap && (!json_is_integer(swap) || json_integer_value(swap) <= 0))
		return refuse("invalid", "\"swap\" must be a number of bytes above 0");
	if (fixed && (!json_is_integer(fixed) || json_integer_value(fixed) <= 0))
		return refuse("invalid", "\"fixed\" must be a number of bytes above 0");
	if (fixed && !json_is_true(evictable))
		return refuse("invalid", "a fixed part is for evictable vGPUs: give --evictable with --fixed");
	if (swap && !json_is_true(evictable))
		return refuse("invalid", "a swap is for evictable vGPUs: give --evictable with --swap");
	if (!json_is_true(evictable))
		return NULL;
	wanted->evictable = true;
	wanted->swap = swap ? (uint64_t)json_integer_value(swap) : wanted->memory;
	uint64_t host = read_host_memory();
	return wanted->swap > host ? refuse_swap(wanted, !swap, host) : take_fixed(request, wanted);
}

void eviction_write(json_t *object, const struct vgpu *vgpu)
{
	json_object_set_new(object, "evictable", json_boolean(vgpu->evictable));
	if (!vgpu->evictable)
		return;
	json_object_set_new(object, "swap", json_integer((json_int_t)vgpu->swap));
	json_object_set_new(object, "fixed", json_integer((json_int_t)vgpu->fixed));
}

bool eviction_read(const json_t *object, struct vgpu *ret_vgpu)
{
	bool evictable = json_is_true(json_object_get(object, "evictable"));
	json_int_t swap = json_integer_value(json_object_get(object, "swap"));
	json_int_t fixed = json_integer_value(json_object_get(object, "fixed"));

	if (evictable && (swap <= 0 || fixed <= 0))
		return false;
	ret_vgpu->evictable = evictable;
	ret_vgpu->fixed = evictable ? (uint64_t)fixed : 0;
	ret_vgpu->swap = evictable ? (uint64_t)swap : 0;
	return true;
}

void eviction_adopt(const struct vg_ledger *ledger, struct vgpu *ret_vgpu)
{
	uint64_t swap = vg_ledger_swap(ledger), host = read_host_memory();

	ret_vgpu->evictable = vg_ledger_flags(ledger) & VG_LEDGER_EVICTABLE;
	ret_vgpu->swap = !ret_vgpu->evictable ? 0 : swap < host ? swap : host;
	ret_vgpu->fixed = ret_vgpu->evictable ? smaller(vg_ledger_fixed(ledger), ret_vgpu->memory) : 0;
}

// ---- words of processes ----------------------------------------------------------------------------------

#define READ(word) atomic_load_explicit(&(word), memory_order_relaxed)

bool eviction_is_suspended(const struct vgpu *vgpu)
{
	return vgpu->evictable && READ(vg_ledger_pager_page(vgpu->ledger)->suspended);
}

bool eviction_next_slot(const struct vgpu *vgpu, unsigned int *cursor, unsigned int *ret_slot)
{
	struct vg_ledger_tenant seen;

	while (vg_ledger_next_tenant(vgpu->ledger, cursor, &seen))
		if (!seen.guest && !seen.host) {
			*ret_slot = seen.slot;
			return true;
		}
	return false;
}

static void ring_processes(const struct vgpu *vgpu, uint32_t drain_ms)
{
	struct pager_slot *slots = vg_ledger_pager_slots(vgpu->ledger);
	unsigned int cursor = 0, slot;

	while (eviction_next_slot(vgpu, &cursor, &slot)) {
		if (drain_ms)
			atomic_store_explicit(&slots[slot].drain_ms, drain_ms, memory_order_relaxed);
		eviction_ring(&slots[slot]);
	}
}

void eviction_ring(struct pager_slot *slot)
{
	atomic_fetch_add_explicit(&slot->bell, 1, memory_order_release);
	syscall(SYS_futex, &slot->bell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0); // not private: another process waits
}

void eviction_name_holder(struct vgpu *vgpu, const char *holder)
{
	struct pager_page *page = vg_ledger_pager_page(vgpu->ledger);

	if (strncmp(page->holder, holder, sizeof page->holder) != 0)
		snprintf(page->holder, sizeof page->holder, "%s", holder);
}

void eviction_apply(struct vgpu *vgpu, uint32_t drain_ms)
{
	struct pager_page *page = vg_ledger_pager_page(vgpu->ledger);

	atomic_store(&page->out, eviction_is_suspended(vgpu) || vgpu->residence.is_evicted);
	ring_processes(vgpu, drain_ms);
}

void eviction_set_ask(struct vgpu *vgpu, uint32_t ms)
{
	struct pager_page *page = vg_ledger_pager_page(vgpu->ledger);

	if (atomic_exchange(&page->ask_ms, ms) != ms)
		ring_processes(vgpu, 0);
}

void eviction_read_slot(const struct vgpu *vgpu, unsigned int slot, struct eviction *ret_eviction)
{
	struct pager_slot *words = &vg_ledger_pager_slots(vgpu->ledger)[slot];
	uint32_t answered = atomic_load_explicit(&words->answered, memory_order_acquire); // before other words
	uint32_t state = READ(words->state), reason = READ(words->reason);
	struct eviction now = {
		.state = state < PAGER_STATE_COUNT ? (enum pager_state)state : PAGER_STATE_COUNT,
		.reason = reason < PAGER_REASON_COUNT ? (enum pager_reason)reason : PAGER_REASON_COUNT,
		.row = READ(words->row),
		.waiting = READ(words->waiting),
		.moves = READ(words->moves),
		.bytes = smaller(READ(words->bytes), vgpu->memory),
		.host = READ(words->host),
		.missing = READ(words->missing),
		.since_ns = READ(words->since_ns),
		.moved_ns = smaller(READ(words->moved_ns), INT64_MAX),
		.waited_ns = smaller(READ(words->waited_ns), INT64_MAX),
		.is_out = READ(words->out) || READ(vg_ledger_pager_page(vgpu->ledger)->out),
		.is_evicted = vgpu->residence.is_evicted && !READ(words->out) && !eviction_is_suspended(vgpu),
		.active_ns = READ(words->active_ns),
		.is_pending = READ(words->bell) != answered};

	now.host = smaller(now.host, now.bytes);
	now.missing = smaller(now.missing, now.bytes);
	*ret_eviction = now;
}

bool eviction_concerns(const struct tenant *tenant)
{
	return !tenant->dead && !tenant->replaced && !tenant->seen.guest && !tenant->seen.host;
}

// ---- listings --------------------------------------------------------------------------------------------

// Whether the process waits for room on the device.
static bool is_waiting(const struct eviction *one)
{
	if (one->is_evicted)
		return one->state == PAGER_OUT && one->waiting;
	return !one->is_out && one->reason == PAGER_DEVICE && (one->state == PAGER_OUT || one->state == PAGER_COMING);
}

static const char *name_state(const struct eviction *one)
{
	if (is_waiting(one))
		return "waiting";
	switch (one->state) {
	case PAGER_NONE:
		return "none";
	case PAGER_RUNNING:
		return one->is_out && one->is_pending ? "asked" : "running";
	case PAGER_CLOSING:
		return "draining";
	case PAGER_LEAVING:
		return "leaving";
	case PAGER_OUT:
		return one->is_evicted ? "out" : "suspended";
	case PAGER_COMING:
		return "returning";
	case PAGER_BROKEN:
		return "broken";
	case PAGER_STATE_COUNT:
		break;
	}
	return "unknown";
}

static const char *name_reason(enum pager_reason reason)
{
	static const char *const texts[] = {
		[PAGER_DONE] = "",	     [PAGER_THREAD] = "thread", [PAGER_GPU] = "gpu",
		[PAGER_CAPTURE] = "capture", [PAGER_HOST] = "host",	[PAGER_DEVICE] = "device",
		[PAGER_DRIVER] = "driver",   [PAGER_REASON_COUNT] = "unknown"};

	return texts[reason];
}

// Returns the name of the driver call that a thread has not left; JSON null if it is unknown.
static json_t *name_call(const struct eviction *one)
{
	static const char *const entries[] = {
#define ENTRY(abi, api, version, stream, family, need) #abi,
#include "abi/entries.def"
	};

	if (one->reason != PAGER_THREAD || one->row >= sizeof entries / sizeof *entries)
		return json_null();
	return json_string(entries[one->row]);
}

static bool has_readable_words(const struct vgpu *vgpu)
{
	return vgpu->evictable && vgpu->damage != DAMAGE_CONTENTS;
}

json_t *eviction_list_tenant(const struct tenant *tenant)
{
	uint64_t now = arbiter_now();
	struct eviction one;

	if (!has_readable_words(tenant->vgpu) || !eviction_concerns(tenant))
		return json_null();
	eviction_read_slot(tenant->vgpu, tenant->seen.slot, &one);
	uint64_t state_ns = one.since_ns && one.since_ns < now ? now - one.since_ns : 0;
	return json_pack("{s:s, s:b, s:b, s:s, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "state",
			 name_state(&one), "suspended", (int)one.is_out, "pending", (int)one.is_pending, "reason",
			 name_reason(one.reason), "call", name_call(&one), "error",
			 (json_int_t)(one.reason == PAGER_DRIVER ? one.row : 0), "bytes", (json_int_t)one.bytes, "host",
			 (json_int_t)one.host, "missing", (json_int_t)one.missing, "state_ns", (json_int_t)state_ns,
			 "moved_ns", (json_int_t)one.moved_ns, "waited_ns", (json_int_t)one.waited_ns, "waiting",
			 (json_int_t)one.waiting, "moves", (json_int_t)one.moves);
}

// The processes of a vGPU, counted by where their memory is.
struct summary {
	unsigned int on_device, out, moving, waiting;
	uint64_t bytes, host;
};

static void add_process(struct summary *summary, const struct eviction *one)
{
	summary->bytes += one->bytes;
	summary->host += one->host;
	if (is_waiting(one))
		summary->waiting++;
	else if (one->state == PAGER_OUT)
		summary->out++;
	else if (one->state == PAGER_CLOSING || one->state == PAGER_LEAVING || one->state == PAGER_COMING)
		summary->moving++;
	else if (one->state == PAGER_RUNNING && one->is_out && one->is_pending)
		summary->moving++;
	else if (one->state != PAGER_NONE)
		summary->on_device++;
}

static const char *name_summary(const struct summary *summary, bool is_suspended, bool is_evicted)
{
	if (summary->moving)
		return "moving";
	if (summary->waiting)
		return "waiting";
	if (is_evicted && !is_suspended && !summary->on_device)
		return "out";
	if (!is_suspended && !summary->out)
		return "running";
	return summary->on_device ? "partly suspended" : "suspended";
}

json_t *eviction_list_vgpu(const struct vgpu *vgpu)
{
	struct summary summary = {0};
	struct eviction one;

	if (!has_readable_words(vgpu))
		return json_null();
	for (const struct tenant *tenant = vgpu->tenants; tenant; tenant = tenant->next) {
		if (!eviction_concerns(tenant))
			continue;
		eviction_read_slot(vgpu, tenant->seen.slot, &one);
		add_process(&summary, &one);
	}
	uint64_t bytes = smaller(summary.bytes, vgpu->memory), host = smaller(summary.host, bytes);
	bool is_suspended = eviction_is_suspended(vgpu);
	return json_pack("{s:s, s:b, s:I, s:I}", "state",
			 name_summary(&summary, is_suspended, vgpu->residence.is_evicted), "suspended",
			 (int)is_suspended, "on_gpu", (json_int_t)(bytes - host), "in_host",
			 (json_int_t)host);
}
