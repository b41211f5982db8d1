#include "residence/residence.h"

static const uint64_t ms = 1000000;

// Returns how many bytes of the vGPU's limit move to the host when it leaves the device.
static uint64_t get_moving_part(const struct residence_vgpu *vgpu)
{
	return vgpu->memory > vgpu->fixed ? vgpu->memory - vgpu->fixed : 0;
}

static uint64_t sum_fixed_parts(const struct residence_vgpu *vgpus, size_t count)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < count; i++)
		sum += vgpus[i].fixed < vgpus[i].memory ? vgpus[i].fixed : vgpus[i].memory;
	return sum;
}

uint64_t residence_most(const struct residence_vgpu *vgpus, size_t count)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < count; i++)
		sum += vgpus[i].memory;
	return sum;
}

// Returns whether the vGPU's memory has left the device, or is leaving it and the vGPU's programs have stopped.
static bool releases_room(const struct residence_vgpu *vgpu)
{
	return vgpu->state == RESIDENCE_OUT || (vgpu->state == RESIDENCE_LEAVING && vgpu->has_drained);
}

// Returns how many bytes the vGPUs occupy now or, if `soon`, after all orders are carried out. A vGPU that was ordered
// to move in counts with all its memory from then on.
static uint64_t sum_taken(const struct residence_vgpu *vgpus, size_t count, bool soon)
{
	uint64_t taken = sum_fixed_parts(vgpus, count);

	for (size_t i = 0; i < count; i++)
		if (!vgpus[i].out || (!soon && !releases_room(&vgpus[i])))
			taken += get_moving_part(&vgpus[i]);
	return taken;
}

// Returns how many bytes are still occupied by vGPUs that should have left the device by now.
static uint64_t sum_overdue(const struct residence_vgpu *vgpus, size_t count)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < count; i++)
		if (vgpus[i].out && vgpus[i].state == RESIDENCE_LEAVING && vgpus[i].is_overdue)
			sum += get_moving_part(&vgpus[i]);
	return sum;
}

// Orders a returning vGPU off the device again if the vGPUs that should make room for it stay, or do not leave in time.
// Otherwise the returning vGPU and the others would wait for each other.
static void order_back_out(struct residence_vgpu *vgpus, size_t count, uint64_t capacity)
{
	uint64_t overdue = sum_overdue(vgpus, count);

	for (size_t i = 0; i < count; i++)
		if (vgpus[i].state == RESIDENCE_COMING && !vgpus[i].out &&
		    sum_taken(vgpus, count, true) + overdue > capacity)
			vgpus[i].out = true;
}

static uint64_t choose_quantum(const struct residence_vgpu *vgpu)
{
	uint64_t quantum = vgpu->switch_ns * RESIDENCE_QUANTUM_SWITCHES;

	if (quantum < RESIDENCE_QUANTUM_LEAST_MS * ms)
		return RESIDENCE_QUANTUM_LEAST_MS * ms;
	return quantum < RESIDENCE_QUANTUM_MOST_MS * ms ? quantum : RESIDENCE_QUANTUM_MOST_MS * ms;
}

// Returns the time without use after which a vGPU is idle. The time is short for a vGPU that moves quickly: a server
// with few requests then makes room for others between requests. If that vGPU needs the device again at once, it loses
// only the time of a move.
static uint64_t choose_idle_time(const struct residence_vgpu *vgpu)
{
	uint64_t idle = vgpu->switch_ns / 2;

	if (vgpu->switch_ns == 0)
		return RESIDENCE_IDLE_MOST_MS * ms;
	if (idle < RESIDENCE_IDLE_LEAST_MS * ms)
		return RESIDENCE_IDLE_LEAST_MS * ms;
	return idle < RESIDENCE_IDLE_MOST_MS * ms ? idle : RESIDENCE_IDLE_MOST_MS * ms;
}

uint64_t residence_leaves_at(const struct residence_vgpu *vgpu)
{
	uint64_t idle = vgpu->active_ns > vgpu->in_since_ns ? vgpu->active_ns : vgpu->in_since_ns;
	uint64_t end = vgpu->in_since_ns + choose_quantum(vgpu);

	idle += choose_idle_time(vgpu);
	end = idle < end ? idle : end;
	return end > vgpu->busy_until_ns ? end : vgpu->busy_until_ns;
}

static bool is_idle(const struct residence_vgpu *vgpu, uint64_t now)
{
	return now >= vgpu->active_ns + choose_idle_time(vgpu);
}

// Returns whether `left` leaves before `right`, if both are allowed to leave.
static bool leaves_before(const struct residence_vgpu *left, const struct residence_vgpu *right, uint64_t now)
{
	bool left_idle = is_idle(left, now), right_idle = is_idle(right, now);

	if (left_idle != right_idle)
		return left_idle;
	if (left_idle)
		return left->active_ns < right->active_ns;
	if (left->is_latency != right->is_latency)
		return right->is_latency;
	return left->in_since_ns < right->in_since_ns;
}

// Finds the vGPU that must leave the device next. If no vGPU may leave now, returns NULL, and lowers *ret_next to the
// earliest time at which a vGPU may leave.
static struct residence_vgpu *find_victim(struct residence_vgpu *vgpus, size_t count, uint64_t now, uint64_t *ret_next)
{
	struct residence_vgpu *victim = NULL;

	for (struct residence_vgpu *vgpu = vgpus; vgpu < vgpus + count; vgpu++) {
		if (vgpu->state != RESIDENCE_IN || vgpu->out || get_moving_part(vgpu) == 0)
			continue;
		uint64_t at = residence_leaves_at(vgpu);
		if (at > now)
			*ret_next = at < *ret_next ? at : *ret_next;
		else if (!victim || leaves_before(vgpu, victim, now))
			victim = vgpu;
	}
	return victim;
}

// Finds the vGPU that has waited longest.
static struct residence_vgpu *find_first_waiting(struct residence_vgpu *vgpus, size_t count)
{
	struct residence_vgpu *first = NULL;

	for (struct residence_vgpu *vgpu = vgpus; vgpu < vgpus + count; vgpu++)
		if (vgpu->out && vgpu->wants && !vgpu->is_suspended &&
		    (!first || vgpu->wants_since_ns < first->wants_since_ns))
			first = vgpu;
	return first;
}

// Orders a vGPU to return to the device if it fits beside the vGPUs that are there or still leaving. Returns false if
// it does not fit.
static bool order_in(struct residence_vgpu *vgpu, const struct residence_vgpu *vgpus, size_t count, uint64_t capacity)
{
	vgpu->out = false;
	vgpu->out = sum_taken(vgpus, count, false) > capacity;
	return !vgpu->out;
}

// Orders waiting vGPUs to return to the device, the longest waiting first, as long as there is room. Returns the first
// vGPU that does not fit, or NULL.
static struct residence_vgpu *order_waiting_in(struct residence_vgpu *vgpus, size_t count, uint64_t capacity)
{
	struct residence_vgpu *first;

	while ((first = find_first_waiting(vgpus, count)) && order_in(first, vgpus, count, capacity))
		;
	return first;
}

// Returns the time at which the vGPU leaves because its own `idle_ns` is over; UINT64_MAX: never.
static uint64_t find_idle_end(const struct residence_vgpu *vgpu)
{
	uint64_t used = vgpu->active_ns > vgpu->in_since_ns ? vgpu->active_ns : vgpu->in_since_ns;

	if (!vgpu->idle_ns || vgpu->state != RESIDENCE_IN || vgpu->out || get_moving_part(vgpu) == 0)
		return UINT64_MAX;
	return used + vgpu->idle_ns > vgpu->busy_until_ns ? used + vgpu->idle_ns : vgpu->busy_until_ns;
}

uint64_t residence_decide(struct residence_vgpu *vgpus, size_t count, uint64_t capacity, uint64_t now)
{
	bool fit = residence_most(vgpus, count) <= capacity;
	uint64_t next = UINT64_MAX;
	struct residence_vgpu *first, *victim;

	for (size_t i = 0; i < count; i++)
		vgpus[i].out = vgpus[i].is_suspended ||
			       ((!fit || vgpus[i].idle_ns) &&
				(vgpus[i].state == RESIDENCE_OUT || vgpus[i].state == RESIDENCE_LEAVING));
	order_back_out(vgpus, count, capacity);
	first = order_waiting_in(vgpus, count, capacity);
	while (first && sum_taken(vgpus, count, true) + get_moving_part(first) > capacity &&
	       (victim = find_victim(vgpus, count, now, &next)) != NULL)
		victim->out = true;
	for (size_t i = 0; i < count; i++) {
		uint64_t idle_end = find_idle_end(&vgpus[i]);
		vgpus[i].out |= idle_end <= now;
		if (idle_end > now && idle_end < next)
			next = idle_end;
	}
	return next;
}
