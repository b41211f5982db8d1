#include "daemon/residence.h"

#include <unistd.h>

#include "daemon/admission.h"
#include "daemon/arbiter.h"
#include "daemon/deadline.h"
#include "daemon/doubt.h"
#include "daemon/eviction.h"
#include "daemon/journal.h"
#include "daemon/say.h"
#include "daemon/sweep.h"
#include "daemon/thrash.h"
#include "pager/host_file.h"

enum {
	LOOK_MOVING_MS = 5,   // time between two checks of an overcommitted device while memory moves there
	LOOK_OFTEN_MS = 20,   // time between two checks while a vGPU waits for room
	LOOK_SELDOM_MS = 100, // time between two checks otherwise
	ASK_MS = 100,	      // time between two reports in which a process says whether it uses the device
	DRAIN_MS = 2000,
	BUSY_MOST_S = 64,
	// a move that takes longer counts as hanging, since a process could report for ever that it moves memory
	MOVE_MOST_S = 20,
	VGPUS_MOST = 256
};
static const uint64_t ms = 1000000;
static struct thrash thrash[VG_SYSTEM_DEVICES]; // how long memory moved on each device

// What the processes of one vGPU report: how many processes are in which state, and the latest value of each time.
struct facts {
	unsigned int processes, out, drained, refusing, waiting;
	bool is_moving;	 // at least one process has an order that it has not carried out yet
	bool is_copying; // memory of at least one process moves
	uint64_t active_ns, switch_ns;
};

static void add_process_facts(struct facts *facts, const struct eviction *one)
{
	if (one->state == PAGER_NONE || one->state == PAGER_BROKEN || one->state == PAGER_STATE_COUNT)
		return;
	facts->processes++;
	facts->waiting += one->waiting > 0;
	facts->out += one->state == PAGER_OUT || one->state == PAGER_PARKED;
	facts->drained += one->state == PAGER_OUT || one->state == PAGER_PARKED || one->state == PAGER_LEAVING;
	facts->refusing += one->is_out && one->state == PAGER_RUNNING && !one->is_pending;
	facts->is_moving |= one->state == PAGER_PREPARING || one->state == PAGER_CLOSING ||
			    one->state == PAGER_LEAVING || one->state == PAGER_COMING || one->is_pending;
	facts->is_copying |= one->state == PAGER_LEAVING || one->state == PAGER_COMING;
	if (one->active_ns > facts->active_ns)
		facts->active_ns = one->active_ns;
	if (one->moved_ns > facts->switch_ns)
		facts->switch_ns = one->moved_ns;
}

static struct facts collect_facts(const struct vgpu *vgpu)
{
	struct facts facts = {0};
	struct eviction one;

	for (const struct tenant *tenant = vgpu->tenants; tenant; tenant = tenant->next) {
		if (!eviction_concerns(tenant))
			continue;
		eviction_read_slot(vgpu, tenant->seen.slot, &one);
		add_process_facts(&facts, &one);
	}
	return facts;
}

static bool takes_part(const struct vgpu *vgpu, size_t device)
{
	return vgpu->evictable && vgpu->device == device && vgpu->damage != DAMAGE_CONTENTS;
}

static bool is_ordered_out(const struct vgpu *vgpu)
{
	return vgpu->residence.is_evicted || eviction_is_suspended(vgpu);
}

// A doubted vGPU counts as on the device, whatever its processes report.
static enum residence_state find_state(const struct vgpu *vgpu, const struct facts *facts)
{
	const struct residence *residence = &vgpu->residence;

	if (is_ordered_out(vgpu))
		return residence->claims_out && !residence->is_doubted ? RESIDENCE_OUT : RESIDENCE_LEAVING;
	return !residence->is_doubted && (facts->out || facts->is_moving) ? RESIDENCE_COMING : RESIDENCE_IN;
}

// Withdraws the order to leave from a vGPU that could not leave. Each time that this happens in a row, the vGPU stays
// longer before the next order: 1, 2, 4, up to 64 seconds.
static void postpone_eviction(struct vgpu *vgpu, uint64_t now)
{
	struct residence *residence = &vgpu->residence;
	uint64_t seconds = 1ull << (residence->refusals < 6 ? residence->refusals : 6);

	residence->refusals++;
	residence->busy_until_ns = now + (seconds < BUSY_MOST_S ? seconds : BUSY_MOST_S) * 1000 * ms;
	residence->is_evicted = false;
	eviction_apply(vgpu, DRAIN_MS);
}

// Withdraws the order to leave from a doubted vGPU: its processes report that its memory has left, but it has not.
// Other vGPUs rely on the room after each order, until a measurement shows the truth. So the next order comes only
// after the longest time (BUSY_MOST_S).
static void withdraw_from_doubted(struct vgpu *vgpu, uint64_t now)
{
	vgpu->residence.busy_until_ns = now + BUSY_MOST_S * 1000 * ms;
	vgpu->residence.is_evicted = false;
	eviction_apply(vgpu, DRAIN_MS);
}

static void note_move(struct residence *residence, const struct facts *facts, enum residence_state before, uint64_t now)
{
	bool moves = residence->state == RESIDENCE_COMING ||
		     (residence->state == RESIDENCE_LEAVING && facts->drained == facts->processes);

	if (!moves || residence->state != before)
		residence->moves_since_ns = 0;
	if (moves && !residence->moves_since_ns)
		residence->moves_since_ns = now;
}

static bool is_overdue(const struct residence *residence, uint64_t now)
{
	return residence->moves_since_ns && now > residence->moves_since_ns + MOVE_MOST_S * 1000 * ms;
}

static void update_residence(struct vgpu *vgpu, const struct facts *facts, uint64_t now)
{
	struct residence *residence = &vgpu->residence;
	enum residence_state before = residence->state;

	if (!vgpu->tenants)
		doubt_reset(vgpu); // nothing is measured any more
	if (residence->is_evicted && facts->refusing && !facts->is_moving)
		postpone_eviction(vgpu, now);
	if (residence->is_evicted && residence->is_doubted)
		withdraw_from_doubted(vgpu, now);
	residence->claims_out = is_ordered_out(vgpu) && facts->out == facts->processes && !facts->is_moving;
	residence->state = find_state(vgpu, facts);
	note_move(residence, facts, before, now);
	if (residence->state == RESIDENCE_OUT)
		residence->refusals = 0;
	if (residence->state == RESIDENCE_IN && before != RESIDENCE_IN) {
		residence->in_since_ns = now;
		residence->is_called = false;
	}
	bool wants = is_ordered_out(vgpu) && (facts->waiting || residence->is_called);
	if (!wants)
		residence->wants_since_ns = 0;
	else if (!residence->wants_since_ns)
		residence->wants_since_ns = now;
}

static struct residence_vgpu describe_vgpu(const struct vgpu *vgpu, const struct facts *facts, uint64_t now)
{
	const struct residence *residence = &vgpu->residence;
	bool is_late = is_overdue(residence, now) || residence->is_doubted;

	return (struct residence_vgpu){.memory = vgpu->memory,
				       .fixed = vgpu->fixed,
				       .is_suspended = eviction_is_suspended(vgpu),
				       .is_latency = vgpu->terms.is_latency,
				       .wants = residence->wants_since_ns != 0,
				       .wants_since_ns = residence->wants_since_ns,
				       .in_since_ns = residence->in_since_ns,
				       .active_ns = facts->active_ns,
				       .switch_ns = facts->switch_ns,
				       .busy_until_ns = residence->busy_until_ns,
				       // A vGPU without programs has no memory to move, so its time is 0: never.
				       .idle_ns = facts->processes ? vgpu->idle_suspend * 1000 * ms : 0,
				       .state = residence->state,
				       .has_drained = facts->drained == facts->processes && !is_late,
				       .is_overdue = is_late};
}

// Returns the name of the vGPU that counts as having the device: of the vGPUs that are not ordered to leave, the one
// with the largest limit. If all are ordered to leave, those count whose memory is still there. Programs that wait for
// the device show this name in messages. "": no vGPU.
static const char *find_holder(struct vgpu *const *vgpus, const struct residence_vgpu *orders, size_t count)
{
	const struct vgpu *holder = NULL;

	for (int are_leaving = 0; are_leaving < 2 && !holder; are_leaving++)
		for (size_t i = 0; i < count; i++)
			if ((are_leaving ? orders[i].state == RESIDENCE_LEAVING : !orders[i].out) &&
			    (!holder || vgpus[i]->memory > holder->memory))
				holder = vgpus[i];
	return holder ? holder->name : "";
}

static void carry_out_orders(struct node *node, struct vgpu *const *vgpus, const struct residence_vgpu *orders,
			     size_t count)
{
	const char *holder = find_holder(vgpus, orders, count);
	bool is_one_leaving = false;

	for (size_t i = 0; i < count; i++)
		is_one_leaving |= orders[i].out && orders[i].state == RESIDENCE_LEAVING && orders[i].has_drained;
	for (size_t i = 0; i < count; i++) {
		eviction_name_holder(vgpus[i], orders[i].out && holder != vgpus[i]->name ? holder : "");
		// Programs that need memory meanwhile wait for the room: those that return, and those that allocate.
		eviction_set_room_comes(vgpus[i], !orders[i].out && is_one_leaving);
	}
	for (size_t i = 0; i < count; i++) {
		bool is_evicted = orders[i].out && !orders[i].is_suspended;
		struct residence *residence = &vgpus[i]->residence;
		if (is_evicted == residence->is_evicted)
			continue;
		residence->is_evicted = is_evicted;
		residence->claims_out = false; // unknown until the processes have answered
		residence->evictions += is_evicted;
		if (is_evicted)
			doubt_reset(vgpus[i]);
		journal_add(node, is_evicted ? JOURNAL_EVICTED : JOURNAL_RETURNED,
			    &(struct journal_note){.vgpu = vgpus[i]}, "%s",
			    is_evicted ? "its memory moves to the host" : "its memory may return to the GPU");
		eviction_apply(vgpus[i], DRAIN_MS);
	}
}

static void report_thrashing(size_t device, unsigned int percent)
{
	if (percent)
		say("GPU %zu: in %u %% of the last minute or more, memory of evictable vGPUs was moving; their "
		    "programs waited meanwhile: let fewer of them run at the same time, or give each vGPU less memory",
		    device, percent);
}

static void move_vgpus(struct node *node, size_t device, uint64_t now, uint64_t *deadline)
{
	static struct residence_vgpu orders[VGPUS_MOST];
	static struct vgpu *vgpus[VGPUS_MOST];
	uint64_t shared_now = arbiter_now();
	bool is_one_waiting = false, is_one_copying = false;
	size_t count = 0;

	for (struct vgpu *vgpu = node->vgpus; vgpu && count < VGPUS_MOST; vgpu = vgpu->next) {
		if (!takes_part(vgpu, device))
			continue;
		struct facts facts = collect_facts(vgpu);
		update_residence(vgpu, &facts, shared_now);
		is_one_waiting |= vgpu->residence.wants_since_ns != 0;
		is_one_copying |= facts.is_copying && !is_overdue(&vgpu->residence, shared_now);
		vgpus[count] = vgpu;
		orders[count++] = describe_vgpu(vgpu, &facts, shared_now);
	}
	uint64_t capacity = admission_for_evictable(node, device);
	bool fit = residence_most(orders, count) <= capacity;
	report_thrashing(device, thrash_note(&thrash[device], is_one_copying && !fit, shared_now));
	if (!count)
		return;
	bool are_watched = !fit;
	for (size_t i = 0; i < count; i++)
		are_watched |= orders[i].idle_ns != 0;
	for (size_t i = 0; i < count; i++)
		eviction_set_ask(vgpus[i], !fit || orders[i].idle_ns ? ASK_MS : 0);
	residence_decide(orders, count, capacity, shared_now);
	carry_out_orders(node, vgpus, orders, count);
	if (are_watched)
		deadline_lower(deadline, now + (is_one_copying	 ? LOOK_MOVING_MS
						: is_one_waiting ? LOOK_OFTEN_MS
								 : LOOK_SELDOM_MS) *
							 ms);
}

void residence_keep(struct node *node, uint64_t now, uint64_t *deadline)
{
	for (size_t device = 0; device < vg_system_device_count(node->system); device++)
		move_vgpus(node, device, now, deadline);
}

// Returns whether the vGPU fits on the device beside all vGPUs that are not ordered to leave it.
static bool has_room(const struct node *node, const struct vgpu *vgpu)
{
	uint64_t used = vgpu->memory;

	for (const struct vgpu *other = node->vgpus; other; other = other->next)
		if (takes_part(other, vgpu->device) && other != vgpu)
			used += is_ordered_out(other) && !other->residence.is_doubted ? other->fixed : other->memory;
	return used <= admission_for_evictable(node, vgpu->device);
}

void residence_begin(struct node *node, struct vgpu *vgpu)
{
	struct pager_page *page = vg_ledger_pager_page(vgpu->ledger);

	if (!vgpu->evictable)
		return;
	vgpu->residence = (struct residence){.is_evicted = atomic_load(&page->out) && !atomic_load(&page->suspended)};
	vgpu->residence.is_evicted |= !has_room(node, vgpu);
	sweep_files(vgpu->owner);
	atomic_store(&page->swept, pager_file_place(geteuid()));
	eviction_apply(vgpu, DRAIN_MS);
}

void residence_resume(struct node *node, struct vgpu *vgpu)
{
	vgpu->residence.is_called = true;
	vgpu->residence.is_evicted |= !has_room(node, vgpu);
}
