// Implements model.h. device.c simulates the device, host.c the processes, whose launches wait for turns.
#include "model_engine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void model_options(enum turn_mode mode, struct model_options *ret_options)
{
	*ret_options = (struct model_options){
		.mode = mode,
		.sees_stops = true,
		.slice_ns = 2150 * US,
		.switch_ns = 115 * US,
		.start_ns = 5 * US,
		.gap_ns = 1 * US,
		.notice_ns = 8 * US,
		.wake_ns = 15 * US,
		.late_ns = 15 * US,
		.arbiter_ns = 10 * US,
		.estimate = 1,
		.seed = 1,
	};
	turn_rules(mode, &ret_options->rules);
}

double model_random(struct model *model)
{
	model->random ^= model->random << 13;
	model->random ^= model->random >> 7;
	model->random ^= model->random << 17;
	return (double)(model->random >> 11) / 9007199254740992.;
}

double model_normal(struct model *model)
{
	return sqrt(-2 * log(model_random(model) + 1e-300)) * cos(6.283185307179586 * model_random(model));
}

void model_schedule(struct model *model, uint64_t when, enum event_kind kind, unsigned int index, uint64_t version)
{
	struct event event = {when > model->now ? when : model->now, ++model->sequence, version, kind, index};
	size_t at = model->event_count++;

	if (model->event_count > model->event_room) {
		model->event_room = model->event_room ? 2 * model->event_room : 256;
		model->events = realloc(model->events, model->event_room * sizeof *model->events);
	}
	while (at && event_before(&event, &model->events[(at - 1) / 2])) {
		model->events[at] = model->events[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	model->events[at] = event;
}

static struct event remove_first_event(struct model *model)
{
	struct event first = model->events[0], last = model->events[--model->event_count];
	size_t at = 0, child;

	while ((child = 2 * at + 1) < model->event_count) {
		if (child + 1 < model->event_count && event_before(&model->events[child + 1], &model->events[child]))
			child++;
		if (!event_before(&model->events[child], &last))
			break;
		model->events[at] = model->events[child];
		at = child;
	}
	model->events[at] = last;
	return first;
}

struct model *model_create(const struct model_options *options)
{
	struct model *model = aligned_alloc(64, (sizeof *model + 63) / 64 * 64);

	memset(model, 0, sizeof *model);
	model->options = *options;
	model->now = 10 * SEC;
	model->random = options->seed * 0x9e3779b97f4a7c15u + 1;
	model->speed = 1;
	for (unsigned int i = 0; i < MODEL_DEVICES; i++)
		model->devices[i].current = -1;
	model->copy_engines = 2;
	if (!options->ungated)
		model_start_arbiter(model);
	return model;
}

void model_destroy(struct model *model)
{
	for (unsigned int i = 0; i < model->process_count; i++) {
		free(model->processes[i].public.latencies);
		free(model->processes[i].queue);
	}
	turn_destroy(model->arbiter);
	free(model->events);
	free(model);
}

static void join_vgpu(struct model *model, struct vgpu *vgpu)
{
	const struct vgpu *first = vgpu->parts ? &model->vgpus[vgpu->job] : vgpu;

	if (first != vgpu)
		vgpu->index = first->index;
	else if (turn_join(model->arbiter, &vgpu->terms, model->now, &vgpu->index))
		abort();
	vgpu->joined = true;
}

unsigned int model_add_vgpu(struct model *model, unsigned int share, bool is_latency, bool is_limit)
{
	struct vgpu *vgpu = &model->vgpus[model->vgpu_count];

	vgpu->terms = (struct turn_terms){share, .is_limit = is_limit, .is_latency = is_latency};
	vgpu->present = true;
	if (model->arbiter) {
		join_vgpu(model, vgpu);
		model_ring(model);
	}
	return model->vgpu_count++;
}

unsigned int model_add_job(struct model *model, unsigned int share, unsigned int devices)
{
	unsigned int first = model->vgpu_count;

	for (unsigned int i = 0; i < devices; i++) {
		struct vgpu *vgpu = &model->vgpus[model->vgpu_count++];
		vgpu->terms = (struct turn_terms){.share = share};
		vgpu->device = i;
		vgpu->job = first;
		vgpu->parts = devices;
		vgpu->present = true;
		if (model->arbiter)
			join_vgpu(model, vgpu);
	}
	model_ring(model);
	return first;
}

void model_set_terms(struct model *model, unsigned int index, const struct turn_terms *terms)
{
	struct vgpu *vgpu = &model->vgpus[index];

	vgpu->terms = *terms;
	if (turn_set(model->arbiter, vgpu->index, terms, model->now))
		abort();
	model_ring(model);
}

void model_start_arbiter(struct model *model)
{
	if (turn_create(&model->options.rules, model->now, 7, &model->arbiter))
		abort();
	for (unsigned int i = 0; i < model->vgpu_count; i++)
		if (model->vgpus[i].present)
			join_vgpu(model, &model->vgpus[i]);
	model->arbiter_dead = false;
	model->arbiter_busy = false;
	model_ring(model);
}

void model_stop_arbiter(struct model *model)
{
	model->arbiter_dead = true;
	model->arbiter_version++;
	turn_destroy(model->arbiter);
	model->arbiter = NULL;
}

// Rings the arbiter's bell, the futex on which it sleeps. If the arbiter is making a decision, it notices the bell
// right after it has written its orders.
void model_ring(struct model *model)
{
	uint64_t due;

	if (model->arbiter_dead || model->options.ungated)
		return;
	if (model->arbiter_busy) {
		model->rung = true;
		return;
	}
	due = model->now + (model->orders.poll ? 2 * US : model->options.late_ns);
	if (model->arbiter_due && model->arbiter_due <= due && model->arbiter_due >= model->now)
		return;
	model->arbiter_due = due;
	model_schedule(model, due, EVENT_ARBITER, 0, ++model->arbiter_version);
}

static void read_vgpu_facts(const struct model *model, const struct vgpu *vgpu, struct turn_facts *ret_facts)
{
	uint64_t stopped = model->options.sees_stops ? vgpu->stopped : 0;

	turn_page_read(&vgpu->page, vgpu->slots, vgpu->slot_count, &stopped, model->options.rules.margin_ns, model->now,
		       ret_facts);
}

// Returns whether the vGPU's work ended after the arbiter had read the facts, and before it wrote the orders.
static bool became_idle(const struct model *model, const struct vgpu *vgpu)
{
	struct turn_facts facts;

	read_vgpu_facts(model, vgpu, &facts);
	return facts.in_flight != vgpu->facts.in_flight;
}

static void read_facts(struct model *model)
{
	for (unsigned int i = 0; i < model->vgpu_count; i++) {
		struct vgpu *vgpu = &model->vgpus[i];
		if (!vgpu->joined)
			continue;
		read_vgpu_facts(model, vgpu, &vgpu->facts);
		model->facts[vgpu->index] = vgpu->facts;
		if (vgpu->parts && vgpu == &model->vgpus[vgpu->job + vgpu->parts - 1]) {
			struct turn_facts parts[MODEL_DEVICES];
			for (unsigned int j = 0; j < vgpu->parts; j++)
				parts[j] = model->vgpus[vgpu->job + j].facts;
			turn_gang_read(&model->vgpus[vgpu->job].gang, parts, vgpu->parts, model->now,
				       &model->facts[vgpu->index]);
		}
	}
}

static void run_arbiter(struct model *model)
{
	model->arbiter_due = 0;
	model->decisions++;
	for (unsigned int i = 0; i < model->vgpu_count; i++) {
		struct vgpu *vgpu = &model->vgpus[i];
		if (vgpu->joined && !vgpu->present) {
			turn_leave(model->arbiter, vgpu->index, model->now);
			vgpu->joined = false;
		}
	}
	read_facts(model);
	turn_decide(model->arbiter, model->facts, model->now, &model->orders);
	if (model->watch)
		model->watch(model, model->watch_user);
	model->arbiter_busy = true;
	model->rung = false;
	model_schedule(model, model->now + model->options.arbiter_ns, EVENT_ORDERS, 0, ++model->arbiter_version);
}

static void write_orders(struct model *model)
{
	model->arbiter_busy = false;
	for (unsigned int i = 0; i < model->vgpu_count; i++) {
		struct vgpu *vgpu = &model->vgpus[i];
		struct turn_gate gate = model->orders.gates[vgpu->index];
		const struct vgpu *first = vgpu->parts ? &model->vgpus[vgpu->job] : vgpu;
		if (vgpu->parts)
			turn_gang_gate(&first->gang, &model->orders.gates[vgpu->index], (unsigned int)(vgpu - first),
				       &vgpu->facts, &gate);
		unsigned int written = vgpu->joined ? turn_page_write(&vgpu->page, &gate, model->now) : 0;
		if (written & TURN_WRITTEN_WAKE)
			host_wake(model, i);
		if (written & TURN_WRITTEN_LOOK)
			model->rung |= became_idle(model, vgpu);
	}
	if (model->rung) {
		model->arbiter_due = model->now + 2 * US;
	} else if (model->orders.next_ns == UINT64_MAX) {
		model->arbiter_due = 0;
		return;
	} else {
		uint64_t next = model->orders.next_ns + (model->orders.poll ? 0 : model->options.late_ns);
		model->arbiter_due = next > model->now + 1 * US ? next : model->now + 1 * US;
	}
	model_schedule(model, model->arbiter_due, EVENT_ARBITER, 0, ++model->arbiter_version);
}

static void handle_event(struct model *model, const struct event *event)
{
	switch (event->kind) {
	case EVENT_ARBITER:
		if (event->version == model->arbiter_version && !model->arbiter_dead)
			run_arbiter(model);
		break;
	case EVENT_ORDERS:
		if (event->version == model->arbiter_version && !model->arbiter_dead)
			write_orders(model);
		break;
	case EVENT_DEVICE:
		if (event->version == model->devices[event->index].version)
			device_step(model, event->index);
		break;
	case EVENT_COPIED:
		device_copied(model, event->index);
		break;
	case EVENT_GONE:
		device_remove(model, event->index);
		break;
	default:
		host_event(model, event->kind, event->index, event->version);
	}
}

void model_run(struct model *model, uint64_t ns)
{
	uint64_t end = model->now + ns;

	while (model->event_count && model->events[0].when <= end) {
		struct event event = remove_first_event(model);
		model->now = event.when;
		handle_event(model, &event);
	}
	model->now = end;
}

uint64_t model_now(const struct model *model)
{
	return model->now;
}

void model_set_speed(struct model *model, double speed)
{
	model->speed = speed;
}

const struct model_process *model_process(const struct model *model, unsigned int process)
{
	return &model->processes[process].public;
}

struct turn_slot *model_slot(struct model *model, unsigned int index)
{
	struct process *process = &model->processes[index];

	return &model->vgpus[process->public.vgpu].slots[process->slot];
}

void model_reset_figures(struct model *model)
{
	for (unsigned int i = 0; i < model->process_count; i++) {
		struct model_process *public = &model->processes[i].public;
		public->kernels = public->gpu_ns = public->requests = public->longest_wait_ns = 0;
		public->latency_count = 0;
	}
	model->decisions = 0;
}

const struct turn_orders *model_orders(const struct model *model)
{
	return &model->orders;
}

const struct turn_gate *model_gate(const struct model *model, unsigned int vgpu)
{
	return &model->orders.gates[model->vgpus[vgpu].index];
}

const struct turn_facts *model_facts(const struct model *model, unsigned int vgpu)
{
	return &model->facts[model->vgpus[vgpu].index];
}

void model_account(const struct model *model, unsigned int vgpu, struct turn_account *ret_account)
{
	turn_read(model->arbiter, model->vgpus[vgpu].index, ret_account);
}

void model_total(const struct model *model, struct turn_total *ret_total)
{
	turn_read_total(model->arbiter, ret_total);
}

bool model_is_present(const struct model *model, unsigned int vgpu)
{
	return model->vgpus[vgpu].present && model->vgpus[vgpu].joined;
}

uint64_t model_decisions(const struct model *model)
{
	return model->decisions;
}

void model_set_watch(struct model *model, void (*watch)(struct model *, void *), void *user)
{
	model->watch = watch;
	model->watch_user = user;
}

static int compare_latencies(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

double model_percentile(const struct model *model, unsigned int process, double part)
{
	const struct model_process *public = &model->processes[process].public;
	size_t count = public->latency_count < MODEL_LATENCIES ? public->latency_count : MODEL_LATENCIES;
	uint32_t *sorted = malloc((count + 1) * sizeof *sorted);
	double value = 0;

	memcpy(sorted, public->latencies, count * sizeof *sorted);
	qsort(sorted, count, sizeof *sorted, compare_latencies);
	if (count)
		value = sorted[(size_t)((double)(count - 1) * part)];
	free(sorted);
	return value;
}
