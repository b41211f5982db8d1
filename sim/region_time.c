#include "region_time.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "region_internal.h"

enum { PAGE = 4096, STATES = 2 * REGION_PROCESSES, LOOK_FOR_DEAD_NS = 10000000 };

struct region_time { // A device's time, which processes share. Its work and states follow in the file.
	_Alignas(PAGE) _Atomic uint64_t published; // version << 16 | index of the valid state
	// futex; changes when work ends at a time that could not be predicted
	_Atomic uint32_t generation;
	_Atomic uint32_t channels_used; // channels from this index on were never used
	_Atomic uint64_t looked_ns;	// when a process last looked for dead processes
	_Atomic uint64_t failure;	// number of failures << 32 | error
	struct time_channel channels[TIME_CHANNELS];
};
_Static_assert(sizeof(struct region_time) % PAGE == 0, "what follows begins with a page");

// Size of a state in the file. It is a multiple of the page size, so that space can be reserved for each state.
enum { STATE_BYTES = (sizeof(struct time_state) + PAGE - 1) / PAGE * PAGE };
enum { RING_BYTES = TIME_DEPTH * sizeof(struct time_work) };
_Static_assert(RING_BYTES % PAGE == 0, "room is reserved by pages");
#define DEVICE_BYTES (sizeof(struct region_time) + (size_t)TIME_CHANNELS * RING_BYTES + (size_t)STATES * STATE_BYTES)

static size_t get_time_offset(const struct region *region, int device)
{
	return region->time_offset + (size_t)device * DEVICE_BYTES;
}

static struct region_time *get_time(const struct region *region, int device)
{
	return (struct region_time *)((char *)region->header + get_time_offset(region, device));
}

static size_t get_ring_offset(const struct region *region, int device, uint32_t channel)
{
	return get_time_offset(region, device) + sizeof(struct region_time) + (size_t)channel * RING_BYTES;
}

static size_t get_state_offset(const struct region *region, int device, unsigned index)
{
	return get_ring_offset(region, device, TIME_CHANNELS) + (size_t)index * STATE_BYTES;
}

static struct time_work *get_work(const struct region *region, int device, uint32_t channel, uint64_t sequence)
{
	return (struct time_work *)((char *)region->header + get_ring_offset(region, device, channel)) +
	       sequence % TIME_DEPTH;
}

static struct time_state *get_state(const struct region *region, int device, unsigned index)
{
	return (struct time_state *)((char *)region->header + get_state_offset(region, device, index));
}

static struct time_queues get_queues(const struct region *region, int device)
{
	struct region_time *time = get_time(region, device);

	return (struct time_queues){.channels = time->channels,
				    .work = get_work(region, device, 0, 0),
				    .count = atomic_load_explicit(&time->channels_used, memory_order_acquire)};
}

static struct time_rules get_rules(const struct region *region)
{
	const struct sim_config *config = &region->header->config;

	return (struct time_rules){.slice_ns = config->slice_ns, .switch_ns = config->switch_ns, .sms = config->sms};
}

size_t region_time_bytes(const struct sim_config *config)
{
	return config->slice_ns ? config->devices * DEVICE_BYTES : 0;
}

int region_time_init(struct region *region, int fd)
{
	int error = 0;

	// In a new file, `published` is 0, so the valid state is state 0, whose bytes are zero. Only space must be
	// reserved.
	for (unsigned device = 0; device < region->header->config.devices && error == 0; device++) {
		error = region_reserve(fd, (off_t)get_time_offset(region, (int)device), sizeof(struct region_time));
		if (error == 0)
			error = region_reserve(fd, (off_t)get_state_offset(region, (int)device, 0), STATE_BYTES);
	}
	return error;
}

// ---- processes ------------------------------------------------------------------------------

uint64_t region_time_now(const struct region *region)
{
	return vg_clock_monotonic_ns() - (uint64_t)region->clock_offset;
}

static uint64_t get_owner(const struct region *region)
{
	const struct region_process *process = &region->header->processes[region->slot];

	return (uint64_t)atomic_load(&process->incarnation) << 16 | (uint64_t)(region->slot + 1);
}

static bool is_dead(struct region *region, uint64_t owner)
{
	uint32_t slot = (uint32_t)(owner & 0xffff) - 1;

	if (owner == 0 || owner == get_owner(region) || slot >= REGION_PROCESSES)
		return false;
	const struct region_process *process = &region->header->processes[slot];
	return atomic_load(&process->incarnation) != (uint32_t)(owner >> 16) ||
	       (!region_slot_is_locked(region, slot) && !process->parked);
}

// Reserves space on the file system for the two states that this process writes.
static int reserve_states(struct region *region, int device)
{
	unsigned first = 2 * (unsigned)region->slot;

	if (region->time_slots[device] == region->slot + 1)
		return 0;
	region_lock(region);
	int error = region_reserve(region->lock, (off_t)get_state_offset(region, device, first), 2 * STATE_BYTES);
	region_unlock(region);
	if (error == 0)
		region->time_slots[device] = region->slot + 1;
	return error;
}

// ---- publishing the state -------------------------------------------------------------------

// Replaces a stamp atomically. A stamp is the number of a piece of work, and the time when it ended. Returns false if
// the stamp was not `expected`.
static bool swap_stamp(struct time_stamp *stamp, struct time_stamp expected, struct time_stamp desired)
{
	bool swapped;

	__asm__ volatile("lock cmpxchg16b %1"
			 : "=@ccz"(swapped), "+m"(*stamp), "+a"(expected.sequence), "+d"(expected.end_ns)
			 : "b"(desired.sequence), "c"(desired.end_ns)
			 : "memory");
	return swapped;
}

// Notes in the channels the work that a published state lists as ended. A process does so before it publishes the next
// state. If the process is stopped here and continues much later, its notes have no effect, because the entries then
// have the numbers of other work.
static void mark_ended(struct region *region, int device, const struct time_state *state)
{
	struct region_time *time = get_time(region, device);

	for (uint32_t i = 0; i < state->ended_count; i++) {
		const struct time_ended *ended = &state->ended[i];
		struct time_work *work = get_work(region, device, ended->channel, ended->sequence);
		(void)swap_stamp(&work->stamp, (struct time_stamp){ended->sequence, 0},
				 (struct time_stamp){ended->sequence, ended->end_ns});
		region_step("stamped");
		_Atomic uint64_t *done = &time->channels[ended->channel].done;
		uint64_t seen = atomic_load(done);
		while (seen <= ended->sequence && !atomic_compare_exchange_weak(done, &seen, ended->sequence + 1))
			;
		region_step("told");
	}
}

static void copy_state(struct time_state *to, const struct time_state *from)
{
	uint32_t count = from->active_count;

	memcpy(to, from, offsetof(struct time_state, active));
	region_step("half a state");
	to->active_count = count <= TIME_CHANNELS ? count : 0;
	to->ended_count = to->ended_count <= TIME_ENDED ? to->ended_count : 0;
	memcpy(to->active, from->active, to->active_count * sizeof *to->active);
}

// Reads the state that is valid now. Returns the value of `published` that belongs to it.
static uint64_t load_state(const struct region *region, int device, struct time_state *ret_state)
{
	struct region_time *time = get_time(region, device);

	for (;;) {
		uint64_t word = atomic_load_explicit(&time->published, memory_order_acquire);
		copy_state(ret_state, get_state(region, device, word & 0xffff));
		atomic_thread_fence(memory_order_acquire);
		if (atomic_load_explicit(&time->published, memory_order_relaxed) == word)
			return word;
	}
}

static bool publish_state(struct region *region, int device, uint64_t word, const struct time_state *state)
{
	struct region_time *time = get_time(region, device);
	unsigned index = 2 * (unsigned)region->slot;

	// Each process has two states in the file. If one is the valid state, write the other, because the valid one
	// must not change.
	if (index == (word & 0xffff))
		index++;
	copy_state(get_state(region, device, index), state);
	region_step("written");
	bool published = atomic_compare_exchange_strong(&time->published, &word, ((word >> 16) + 1) << 16 | index);
	region_step("published");
	return published;
}

// Looks for dead processes, and sets when their work is removed. Does so only every 10 ms, because it needs system
// calls.
static unsigned schedule_dead(struct region *region, int device, uint64_t now, struct time_state *state)
{
	struct region_time *time = get_time(region, device);
	uint64_t looked = atomic_load(&time->looked_ns);
	unsigned found = 0;

	if (now < looked + LOOK_FOR_DEAD_NS || !atomic_compare_exchange_strong(&time->looked_ns, &looked, now))
		return 0;
	for (uint32_t i = 0; i < state->active_count; i++) {
		struct time_active *active = &state->active[i];
		if (active->gone_ns || !is_dead(region, atomic_load(&time->channels[active->channel].owner)))
			continue;
		active->gone_ns = now + REGION_TIME_GONE_NS;
		found++;
	}
	return found;
}

// Advances the device's state to `now` and publishes it. Call it with region->time_lock held, because it writes a state
// of this process's slot.
static void advance_to(struct region *region, int device, uint64_t now, struct time_state *ret_state)
{
	const struct time_rules rules = get_rules(region);
	bool reached = false;

	while (!reached) {
		unsigned events = 0;
		uint64_t word = load_state(region, device, ret_state);
		mark_ended(region, device, ret_state);
		struct time_queues queues = get_queues(region, device);
		time_begin(ret_state, &queues);
		events += schedule_dead(region, device, now, ret_state);
		reached = time_advance(ret_state, &rules, &queues, now, &events);
		if (events && !publish_state(region, device, word, ret_state))
			reached = false;
		else
			mark_ended(region, device, ret_state);
	}
}

// ---- channels -------------------------------------------------------------------------------

static bool claim_channel(struct region *region, int device, uint32_t index, uint64_t owner)
{
	struct region_time *time = get_time(region, device);
	struct time_channel *channel = &time->channels[index];
	uint32_t used = atomic_load(&time->channels_used);

	if (!atomic_compare_exchange_strong(&channel->owner, &owner, get_owner(region)))
		return false;
	region_step("claimed");
	while (used <= index && !atomic_compare_exchange_weak(&time->channels_used, &used, index + 1))
		;
	return true;
}

// Returns a free channel. TIME_CHANNELS: all are in use. *ret_later: a channel will be free soon, when the work of a
// dead process is removed.
static uint32_t find_channel(struct region *region, int device, bool *ret_later)
{
	struct region_time *time = get_time(region, device);
	uint32_t used = atomic_load(&time->channels_used);

	*ret_later = false;
	for (uint32_t i = 0; i < TIME_CHANNELS; i++)
		if (atomic_load_explicit(&time->channels[i].owner, memory_order_relaxed) == 0 &&
		    claim_channel(region, device, i, 0))
			return i;
	for (uint32_t i = 0; i < used; i++) {
		struct time_channel *channel = &time->channels[i];
		uint64_t owner = atomic_load(&channel->owner);
		if (!is_dead(region, owner))
			continue;
		*ret_later = true;
		bool is_empty = atomic_load(&channel->done) == atomic_load(&channel->tail);
		if (is_empty && claim_channel(region, device, i, owner))
			return i;
	}
	return TIME_CHANNELS;
}

static void advance_now(struct region *region, int device)
{
	struct time_state state;

	pthread_mutex_lock(&region->time_lock);
	advance_to(region, device, region_time_now(region), &state);
	pthread_mutex_unlock(&region->time_lock);
}

uint64_t region_time_context(const struct region *region, uint64_t id)
{
	return (uint64_t)atomic_load(&region->header->processes[region->slot].incarnation) << 32 | (uint32_t)id;
}

int region_time_claim(struct region *region, int device, uint64_t context, uint32_t *ret_channel)
{
	struct region_time *time = get_time(region, device);
	const struct timespec nap = {.tv_nsec = LOOK_FOR_DEAD_NS};
	bool later = false;
	int error = reserve_states(region, device);

	if (error != 0)
		return error;
	uint32_t index = find_channel(region, device, &later);
	while (index == TIME_CHANNELS && later) {
		nanosleep(&nap, NULL);
		advance_now(region, device);
		index = find_channel(region, device, &later);
	}
	if (index == TIME_CHANNELS)
		return REGION_FULL;
	struct time_channel *channel = &time->channels[index];
	if (!atomic_load(&channel->reserved)) {
		region_lock(region);
		error = region_reserve(region->lock, (off_t)get_ring_offset(region, device, index), RING_BYTES);
		region_unlock(region);
		region_step("a ring");
		if (error != 0) {
			atomic_store(&channel->owner, 0);
			return error;
		}
		atomic_store(&channel->reserved, 1);
	}
	atomic_store(&channel->context, context);
	*ret_channel = index;
	return 0;
}

void region_time_release(struct region *region, int device, uint32_t channel)
{
	region_step("not released");
	atomic_store(&get_time(region, device)->channels[channel].owner, 0);
	region_step("released");
}

uint64_t region_time_append(struct region *region, int device, uint32_t channel, const struct region_piece *pieces,
			    unsigned count, uint64_t ready_ns)
{
	struct time_channel *it = &get_time(region, device)->channels[channel];
	uint64_t first = atomic_load_explicit(&it->tail, memory_order_relaxed), now = region_time_now(region);

	for (unsigned i = 0; i < count; i++) {
		struct time_work *work = get_work(region, device, channel, first + i);
		bool open = pieces[i].open || pieces[i].engine == TIME_HOST;
		atomic_store_explicit(&work->ready_ns, i ? now : ready_ns, memory_order_relaxed);
		atomic_store_explicit(&work->closed_ns, open ? 0 : 1, memory_order_relaxed);
		atomic_store_explicit(&work->need_ns, pieces[i].need_ns, memory_order_relaxed);
		atomic_store_explicit(&work->engine, pieces[i].engine, memory_order_relaxed);
		atomic_store_explicit(&work->sms, pieces[i].sms, memory_order_relaxed);
		// Set the number first: `work` was used for earlier work. A process that still wants to note when the
		// earlier work ended then fails to do so.
		__atomic_store_n(&work->stamp.sequence, first + i, __ATOMIC_RELEASE);
		region_step("no stamp");
		__atomic_store_n(&work->stamp.end_ns, 0, __ATOMIC_RELEASE);
	}
	region_step("not in sight");
	atomic_store_explicit(&it->tail, first + count, memory_order_release);
	region_step("appended");
	return first;
}

void region_time_ready(struct region *region, int device, uint32_t channel, uint64_t sequence, uint64_t ready_ns)
{
	atomic_store_explicit(&get_work(region, device, channel, sequence)->ready_ns, ready_ns, memory_order_release);
	region_step("ready");
}

void region_time_wake(struct region *region, int device)
{
	struct region_time *time = get_time(region, device);

	atomic_fetch_add(&time->generation, 1);
	syscall(SYS_futex, &time->generation, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void region_time_close(struct region *region, int device, uint32_t channel, uint64_t sequence, uint64_t need_ns,
		       uint64_t closed_ns)
{
	struct time_work *work = get_work(region, device, channel, sequence);

	atomic_store_explicit(&work->need_ns, need_ns, memory_order_relaxed);
	region_step("not closed");
	atomic_store_explicit(&work->closed_ns, closed_ns, memory_order_release);
	region_step("closed");
	// Other work of the device may wait for this work, so wake the processes that wait for either.
	if (atomic_load_explicit(&work->engine, memory_order_relaxed) != TIME_HOST)
		region_time_wake(region, device);
}

void region_time_cancel(struct region *region, int device, uint32_t channel, uint64_t sequence)
{
	struct time_work *work = get_work(region, device, channel, sequence);
	bool was_on_device = atomic_exchange(&work->engine, TIME_HOST) != TIME_HOST;

	region_step("not cancelled");
	atomic_store_explicit(&work->closed_ns, region_time_now(region), memory_order_release);
	region_step("cancelled");
	if (was_on_device)
		region_time_wake(region, device);
}

// ---- waiting --------------------------------------------------------------------------------

struct region_moment region_time_query(struct region *region, int device, uint32_t channel, uint64_t sequence,
				       enum time_stage stage)
{
	struct region_time *time = get_time(region, device);
	const struct time_rules rules = get_rules(region);
	// read before the state, so that a later change ends the sleep at once
	struct region_moment moment = {.generation = atomic_load(&time->generation)};
	struct time_state state;

	pthread_mutex_lock(&region->time_lock);
	uint64_t now = region_time_now(region);
	advance_to(region, device, now, &state);
	pthread_mutex_unlock(&region->time_lock);
	struct time_queues queues = get_queues(region, device);
	moment.stage = time_stage_of(&state, &queues, channel, sequence);
	if (moment.stage == TIME_ENDS)
		moment.end_ns =
			__atomic_load_n(&get_work(region, device, channel, sequence)->stamp.end_ns, __ATOMIC_ACQUIRE);
	if (moment.stage >= stage)
		return moment;
	moment.wake_ns = time_predict(&state, &rules, &queues, channel, sequence, stage);
	if (moment.wake_ns > now + REGION_TIME_PATIENCE_NS)
		moment.wake_ns = now + REGION_TIME_PATIENCE_NS;
	return moment;
}

void region_time_sleep(struct region *region, int device, const struct region_moment *moment)
{
	const uint64_t wake_ns = moment->wake_ns + (uint64_t)region->clock_offset;
	const struct timespec until = {.tv_sec = (time_t)(wake_ns / 1000000000),
				       .tv_nsec = (long)(wake_ns % 1000000000)};

	syscall(SYS_futex, &get_time(region, device)->generation, FUTEX_WAIT_BITSET, moment->generation, &until, NULL,
		FUTEX_BITSET_MATCH_ANY);
}

struct region_time_view region_time_view(struct region *region, int device)
{
	const struct time_rules rules = get_rules(region);
	uint64_t now = region_time_now(region);
	struct time_state state;
	unsigned events = 0, channels = 0;

	(void)load_state(region, device, &state);
	mark_ended(region, device, &state);
	struct time_queues queues = get_queues(region, device);
	time_begin(&state, &queues);
	while (!time_advance(&state, &rules, &queues, now, &events))
		// `ended` is full. Clear it without a note in the channels, because this state is not published.
		state.ended_count = 0;
	for (uint32_t i = 0; i < state.active_count; i++)
		channels += state.active[i].sequence < atomic_load(&queues.channels[state.active[i].channel].tail);
	return (struct region_time_view){.busy_ns = state.busy_ns,
					 .switching_ns = state.switching_ns,
					 .switches = state.switches,
					 .channels = channels};
}

// ---- failures of clients of MPS -------------------------------------------------------------

void region_time_fail(struct region *region, int device, uint32_t error)
{
	struct region_time *time = get_time(region, device);
	uint64_t seen = atomic_load(&time->failure);

	while (!atomic_compare_exchange_weak(&time->failure, &seen, ((seen >> 32) + 1) << 32 | error))
		;
	region_time_wake(region, device);
}

uint64_t region_time_failure(struct region *region, int device)
{
	return atomic_load(&get_time(region, device)->failure);
}
