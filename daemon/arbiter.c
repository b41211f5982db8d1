#include "daemon/arbiter.h"

#include "daemon/arbiter_state.h"
#include "daemon/job.h"
#include "daemon/say.h"

#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct arbiter *arbiters; // used by the main thread only
static bool is_traced;		 // likewise

static void wake_arbiter(struct arbiter *arbiter)
{
	atomic_fetch_add(&arbiter->bell, 1);
	syscall(SYS_futex, &arbiter->bell, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

// Begins or ends the recording of phases, and the counting of launches and copies. If there is no memory for the log,
// only counts.
static void set_trace(struct arbiter *arbiter, bool wanted)
{
	if (wanted == (arbiter->log != NULL))
		return;
	phase_log_destroy(arbiter->log);
	arbiter->log = wanted ? phase_log_create((unsigned int)__builtin_popcountll(arbiter->devices)) : NULL;
	for (unsigned int i = 0; i < arbiter->most; i++)
		for (unsigned int j = 0; j < arbiter->seats[i].part_count; j++)
			arbiter->seats[i].parts[j].present.begin_ns = 0;
	turn_count_all(arbiter->turn, wanted);
}

static struct arbiter *start_arbiter(uint64_t devices, enum turn_mode mode)
{
	struct arbiter *arbiter = calloc(1, sizeof *arbiter);
	uint64_t now = arbiter_now();
	struct turn_rules rules;

	turn_rules(mode, &rules);
	if (!arbiter || turn_create(&rules, now, (uint32_t)(now >> 20), &arbiter->turn) != 0) {
		free(arbiter);
		return NULL;
	}
	arbiter->devices = devices;
	arbiter->mode = mode;
	arbiter->second = now / 1000000000;
	pthread_mutex_init(&arbiter->lock, NULL);
	set_trace(arbiter, is_traced);
	int r = pthread_create(&arbiter->thread, NULL, arbiter_thread_run, arbiter);
	if (r) {
		say("no thread for the compute shares of GPU %d: %s", __builtin_ctzll(devices), strerror(r));
		turn_destroy(arbiter->turn);
		phase_log_destroy(arbiter->log);
		free(arbiter);
		return NULL;
	}
	arbiter->next = arbiters;
	arbiters = arbiter;
	return arbiter;
}

static bool takes_part(const struct vgpu *vgpu)
{
	if (vgpu->damage == DAMAGE_CONTENTS)
		return false;
	for (const struct tenant *tenant = vgpu->tenants; tenant; tenant = tenant->next)
		if (!tenant->is_dead && !tenant->seen.guest)
			return true;
	return false;
}

static enum turn_mode find_mode(const struct vgpu *vgpu)
{
	return vgpu->terms.is_mps ? TURN_MODE_MPS : TURN_MODE_TIME;
}

// Finds the arbiter for these devices and the vGPU's sharing mode (time or mps). If it does not exist yet, starts it if
// `is_shared` (a vGPU on the devices has a compute share), and otherwise returns NULL. Programs of only one mode run on
// a device at a time. So of the arbiters of a device, at most one has vGPUs.
static struct arbiter *find_arbiter(const struct vgpu *vgpu, uint64_t devices, bool is_shared)
{
	struct arbiter *arbiter = arbiters;

	while (arbiter && (arbiter->devices != devices || arbiter->mode != find_mode(vgpu)))
		arbiter = arbiter->next;
	return arbiter || !is_shared ? arbiter : start_arbiter(devices, find_mode(vgpu));
}

// Returns the seat of the vGPU's job, if another vGPU of the job already has one; else NULL.
static struct seat *find_seat_of_job(struct arbiter *arbiter, const struct vgpu *vgpu)
{
	for (unsigned int i = 0; i < arbiter->most; i++)
		if (arbiter->seats[i].part_count && job_is_same(vgpu, arbiter->seats[i].parts[0].vgpu))
			return &arbiter->seats[i];
	return NULL;
}

// Returns the seat of the vGPU's job, or a new seat for the vGPU. NULL: no seat is free, or the shares do not fit.
static struct seat *take_seat(struct arbiter *arbiter, const struct vgpu *vgpu)
{
	uint64_t now = arbiter_now();
	struct seat *seat = find_seat_of_job(arbiter, vgpu);
	unsigned int number;

	if (seat || arbiter->part_count == TURN_VGPUS || turn_join(arbiter->turn, &vgpu->terms, now, &number) != 0)
		return arbiter->part_count == TURN_VGPUS ? NULL : seat;
	if (number >= arbiter->most)
		arbiter->most = number + 1;
	seat = &arbiter->seats[number];
	*seat = (struct seat){.terms = vgpu->terms, .joined_ns = now};
	return seat;
}

// Adds the vGPU to a seat. Returns false if there is no memory.
static bool add_part(struct arbiter *arbiter, struct seat *seat, struct vgpu *vgpu)
{
	struct part *parts =
		seat->part_count == TURN_PARTS ? NULL : realloc(seat->parts, (seat->part_count + 1) * sizeof *parts);

	if (!parts)
		return false;
	seat->gang = (struct turn_gang){0};
	struct part *part = &parts[seat->part_count++];
	*part = (struct part){.vgpu = vgpu, .ledger = vgpu->ledger};
	part->present = (struct phase_record){.owner = vgpu->owner, .group = vgpu->group, .device = vgpu->device};
	memcpy(part->present.vgpu, vgpu->name, sizeof part->present.vgpu);
	seat->parts = parts;
	arbiter->part_count++;
	vgpu->arbiter = arbiter;
	vgpu->seat = (unsigned int)(seat - arbiter->seats);
	return true;
}

// Frees a seat that has no vGPU any more.
static void leave_seat(struct arbiter *arbiter, unsigned int number)
{
	turn_leave(arbiter->turn, number, arbiter_now());
	free(arbiter->seats[number].parts);
	arbiter->seats[number] = (struct seat){0};
	memset(&arbiter->facts[number], 0, sizeof arbiter->facts[number]);
}

static void add_vgpu(struct arbiter *arbiter, struct vgpu *vgpu)
{
	pthread_mutex_lock(&arbiter->lock);
	struct seat *seat = take_seat(arbiter, vgpu);
	if (!seat || !add_part(arbiter, seat, vgpu))
		say("vGPU %s: its compute share cannot be enforced beside the shares of its GPU's other vGPUs",
		    vgpu->name);
	if (seat && !seat->part_count)
		leave_seat(arbiter, (unsigned int)(seat - arbiter->seats));
	pthread_mutex_unlock(&arbiter->lock);
	wake_arbiter(arbiter);
}

void arbiter_open_gate(struct vg_ledger *ledger)
{
	static const struct turn_gate open;
	struct turn_page *page = vg_ledger_turn_page(ledger);

	turn_page_write(page, &open, arbiter_now());
	atomic_store(&page->traced, 0);
	arbiter_thread_wake_gates(page);
}

static struct part *find_part(const struct vgpu *vgpu)
{
	struct part *part = vgpu->arbiter->seats[vgpu->seat].parts;

	while (part->vgpu != vgpu)
		part++;
	return part;
}

void arbiter_forget(struct vgpu *vgpu)
{
	struct arbiter *arbiter = vgpu->arbiter;

	if (!arbiter)
		return;
	pthread_mutex_lock(&arbiter->lock);
	struct seat *seat = &arbiter->seats[vgpu->seat];
	if (arbiter->log)
		arbiter_thread_follow_phase(arbiter, vgpu->seat, arbiter_now(), true);
	*find_part(vgpu) = seat->parts[--seat->part_count];
	arbiter->part_count--;
	seat->gang = (struct turn_gang){0};
	if (!seat->part_count)
		leave_seat(arbiter, vgpu->seat);
	arbiter_open_gate(vgpu->ledger);
	pthread_mutex_unlock(&arbiter->lock);
	vgpu->arbiter = NULL;
	wake_arbiter(arbiter);
}

void arbiter_set_stops(struct vgpu *vgpu, const struct arbiter_stops *stops)
{
	struct arbiter *arbiter = vgpu->arbiter;
	bool has_stops = false;

	if (!arbiter)
		return;
	for (unsigned int i = 0; i < VG_LEDGER_SLOTS / 64; i++)
		has_stops |= stops->slots[i] != 0;
	struct part *part = find_part(vgpu);
	pthread_mutex_lock(&arbiter->lock);
	bool changes =
		(has_stops || part->has_stops) && memcmp(part->stops.slots, stops->slots, sizeof stops->slots) != 0;
	part->stops = *stops;
	part->has_stops = has_stops;
	pthread_mutex_unlock(&arbiter->lock);
	if (changes)
		wake_arbiter(arbiter);
}

static void update_terms(struct vgpu *vgpu)
{
	struct arbiter *arbiter = vgpu->arbiter;
	struct turn_terms *terms = &arbiter->seats[vgpu->seat].terms; // only this thread, the main thread, writes terms

	if (terms->share == vgpu->terms.share && terms->is_limit == vgpu->terms.is_limit &&
	    terms->is_latency == vgpu->terms.is_latency && terms->is_exempt == vgpu->terms.is_exempt)
		return;
	pthread_mutex_lock(&arbiter->lock);
	if (turn_set(arbiter->turn, vgpu->seat, &vgpu->terms, arbiter_now()) == 0)
		*terms = vgpu->terms;
	pthread_mutex_unlock(&arbiter->lock);
	wake_arbiter(arbiter);
}

// Finds the devices that need one common arbiter, because a job has vGPUs on all of them. If two jobs have a device in
// common, the devices of both jobs need the same arbiter. ret_devices[i] is the bit mask of the devices that have one
// arbiter together with device i, including i.
static void find_ties(const struct node *node, uint64_t ret_devices[VG_SYSTEM_DEVICES])
{
	for (size_t i = 0; i < VG_SYSTEM_DEVICES; i++)
		ret_devices[i] = UINT64_C(1) << i;
	for (const struct vgpu *vgpu = node->vgpus; vgpu; vgpu = vgpu->next)
		for (const struct vgpu *other = *vgpu->job && takes_part(vgpu) ? vgpu->next : NULL; other;
		     other = other->next) {
			uint64_t both = ret_devices[vgpu->device] | ret_devices[other->device];
			if (!job_is_same(vgpu, other) || !takes_part(other))
				continue;
			for (size_t i = 0; i < VG_SYSTEM_DEVICES; i++)
				if (both >> i & 1)
					ret_devices[i] = both;
		}
}

void arbiter_follow(struct node *node)
{
	uint64_t ties[VG_SYSTEM_DEVICES], shared = 0; // `shared`: mask of the devices with compute shares
	uint64_t now = arbiter_now();

	find_ties(node, ties);
	// First free the seats of vGPUs that take no turns any more, or that move to another arbiter. Then other vGPUs
	// find free seats.
	for (struct vgpu *vgpu = node->vgpus; vgpu; vgpu = vgpu->next) {
		if (vgpu->terms.share || vgpu->terms.is_latency)
			shared |= ties[vgpu->device];
		if (vgpu->arbiter && (!takes_part(vgpu) || vgpu->arbiter->devices != ties[vgpu->device]))
			arbiter_forget(vgpu);
	}
	for (struct vgpu *vgpu = node->vgpus; vgpu; vgpu = vgpu->next) {
		vgpu->terms.is_exempt = now < vgpu->exempt_until_ns;
		if (vgpu->arbiter) {
			update_terms(vgpu);
			continue;
		}
		bool is_shared = shared >> vgpu->device & 1;
		struct arbiter *arbiter = takes_part(vgpu) ? find_arbiter(vgpu, ties[vgpu->device], is_shared) : NULL;
		if (arbiter)
			add_vgpu(arbiter, vgpu);
	}
}

void arbiter_end_all(struct node *node)
{
	for (struct vgpu *vgpu = node->vgpus; vgpu; vgpu = vgpu->next)
		arbiter_forget(vgpu);
	while (arbiters) {
		struct arbiter *arbiter = arbiters;
		arbiters = arbiter->next;
		pthread_mutex_lock(&arbiter->lock);
		arbiter->ending = true;
		pthread_mutex_unlock(&arbiter->lock);
		wake_arbiter(arbiter);
		pthread_join(arbiter->thread, NULL);
		turn_destroy(arbiter->turn);
		phase_log_destroy(arbiter->log);
		pthread_mutex_destroy(&arbiter->lock);
		free(arbiter);
	}
}

bool arbiter_read(const struct vgpu *vgpu, struct arbiter_report *ret_report)
{
	struct arbiter *arbiter = vgpu->arbiter;

	if (!arbiter)
		return false;
	pthread_mutex_lock(&arbiter->lock);
	const struct seat *seat = &arbiter->seats[vgpu->seat];
	turn_read(arbiter->turn, vgpu->seat, &ret_report->account);
	turn_read_total(arbiter->turn, &ret_report->total);
	ret_report->regime = arbiter->orders.regime;
	ret_report->reason = arbiter->orders.gates[vgpu->seat].reason;
	ret_report->since_ns = arbiter->orders.gates[vgpu->seat].since_ns;
	unsigned int oldest = (unsigned int)((arbiter->second + 1) % ARBITER_HISTORY);
	uint64_t begun = (arbiter->second - (ARBITER_HISTORY - 1)) * 1000000000, now = arbiter_now();
	double whole = (double)(now - begun) / 1e9, joined = (double)(now - seat->joined_ns) / 1e9 + 1e-3;
	ret_report->handovers = (double)(ret_report->total.handovers - arbiter->handovers[oldest]) / whole;
	ret_report->recent = (double)(ret_report->account.charged_ns - seat->charged[oldest]) / 1e9 /
			     (joined < whole ? joined : whole);
	pthread_mutex_unlock(&arbiter->lock);
	return true;
}

// Returns the vGPU of the seat that is on the device. If the seat has no vGPU there, returns its first one.
static const struct vgpu *find_on_device(const struct seat *seat, size_t device)
{
	for (unsigned int i = 0; i < seat->part_count; i++)
		if (seat->parts[i].vgpu->device == device)
			return seat->parts[i].vgpu;
	return seat->part_count ? seat->parts[0].vgpu : NULL;
}

const struct vgpu *arbiter_holder(size_t device)
{
	const struct vgpu *holder = NULL;

	for (struct arbiter *arbiter = arbiters; arbiter && !holder; arbiter = arbiter->next) {
		if (!(arbiter->devices >> device & 1))
			continue;
		pthread_mutex_lock(&arbiter->lock);
		if (arbiter->orders.holder >= 0)
			holder = find_on_device(&arbiter->seats[arbiter->orders.holder], device);
		pthread_mutex_unlock(&arbiter->lock);
	}
	return holder;
}

// Makes the processes of one vGPU start or stop counting their launches and copies, for a trace. They read this in the
// word that opens and closes their gates (turn/page.h). If the vGPU has an arbiter, only the arbiter's thread writes
// that word.
static void count_in_vgpu(const struct vgpu *vgpu, bool wanted)
{
	struct turn_page *page = vg_ledger_turn_page(vgpu->ledger);
	const struct turn_gate gate = {.word = wanted ? turn_word(0, TURN_OPEN, TURN_COUNT) : 0};

	atomic_store(&page->traced, wanted);
	if (!vgpu->arbiter)
		turn_page_write(page, &gate, arbiter_now());
}

void arbiter_trace(struct node *node, bool wanted)
{
	if (wanted != is_traced) {
		is_traced = wanted;
		for (struct arbiter *arbiter = arbiters; arbiter; arbiter = arbiter->next) {
			pthread_mutex_lock(&arbiter->lock);
			set_trace(arbiter, wanted);
			pthread_mutex_unlock(&arbiter->lock);
			wake_arbiter(arbiter);
		}
	}
	for (struct vgpu *vgpu = node->vgpus; vgpu; vgpu = vgpu->next)
		if (vgpu->damage != DAMAGE_CONTENTS)
			count_in_vgpu(vgpu, wanted);
}

void arbiter_cut_phases(void)
{
	for (struct arbiter *arbiter = arbiters; arbiter; arbiter = arbiter->next) {
		pthread_mutex_lock(&arbiter->lock);
		arbiter_thread_follow_phases(arbiter, arbiter_now(), true);
		pthread_mutex_unlock(&arbiter->lock);
	}
}

size_t arbiter_read_phases(const struct phase_range *range, struct phase_record *ret_records, size_t most,
			   bool *ret_lost)
{
	size_t count = 0;

	for (struct arbiter *arbiter = arbiters; arbiter; arbiter = arbiter->next) {
		pthread_mutex_lock(&arbiter->lock);
		if (arbiter->log)
			count += phase_log_read(arbiter->log, range, ret_records + count, most - count, ret_lost);
		pthread_mutex_unlock(&arbiter->lock);
	}
	return count;
}
