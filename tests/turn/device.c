// Simulates the device of the model (model.h). The device serves contexts in turn. Kernels of one context run side by
// side while they fit.
#include "model_engine.h"

#include <stdlib.h>

// Returns a device's number.
static unsigned int find_number(const struct model *model, const struct device *device)
{
	return (unsigned int)(device - model->devices);
}

static struct device *find_device(struct model *model, const struct process *process)
{
	return &model->devices[process->device];
}

static int get_context(const struct model *model, unsigned int process)
{
	return model->options.mode == TURN_MODE_MPS ? 0 : (int)process;
}

static struct kernel *get_head(const struct process *process)
{
	return &process->queue[process->first];
}

static bool is_ready(const struct model *model, const struct process *process)
{
	return process->count && process->ready_ns <= model->now && !get_head(process)->copy;
}

uint64_t device_ahead(const struct model *model, const struct process *process)
{
	uint64_t ahead = 0, elapsed = model->now - process->head_ns;

	for (unsigned int i = 0; i < process->count; i++) {
		uint64_t estimate = process->queue[(process->first + i) % MODEL_DEPTH].estimate;
		if (i == 0)
			estimate -= estimate < elapsed ? estimate : elapsed;
		ahead += estimate;
	}
	return ahead;
}

// Advances the running kernels to the present time.
static void advance_kernels(struct model *model, struct device *device)
{
	uint64_t elapsed = model->now - device->since;

	device->since = model->now;
	for (unsigned int i = 0; elapsed && i < model->process_count; i++) {
		struct process *process = &model->processes[i];
		if (!process->running || find_device(model, process) != device)
			continue;
		struct kernel *kernel = get_head(process);
		process->public.gpu_ns += elapsed;
		if (kernel->left_ns != UINT64_MAX)
			kernel->left_ns -= elapsed < kernel->left_ns ? elapsed : kernel->left_ns;
	}
}

// Returns the part of the device that the process's first kernel fills. A collective operation has so few blocks that
// other kernels of the same context run beside it, as NCCL's do.
static double get_width(const struct process *process)
{
	if (get_head(process)->collective)
		return 1e-5;
	return process->public.program.width > 0 ? process->public.program.width : 1;
}

static void stop_kernel(struct model *model, struct process *process)
{
	process->running = false;
	find_device(model, process)->width -= get_width(process);
}

// Starts the operation at the head of a process's queue.
static void begin_head(struct model *model, unsigned int index)
{
	struct process *process = &model->processes[index];

	process->head_ns = model->now;
	if (process->count && get_head(process)->copy && model->copy_engines) {
		model->copy_engines--;
		model_schedule(model, model->now + get_head(process)->left_ns, EVENT_COPIED, index, 0);
	}
}

static void remove_head(struct model *model, unsigned int index)
{
	struct process *process = &model->processes[index];

	process->first = (process->first + 1) % MODEL_DEPTH;
	process->count--;
	process->ready_ns = model->now;
	begin_head(model, index);
	host_kernel_ended(model, index);
}

static void update_device(struct model *model, struct device *device);

void device_copied(struct model *model, unsigned int index)
{
	struct process *process = &model->processes[index];

	model->copy_engines++;
	if (process->count && get_head(process)->copy)
		remove_head(model, index);
	for (unsigned int i = 0; i < model->process_count && model->copy_engines; i++)
		if (i != index && model->processes[i].count && get_head(&model->processes[i])->copy &&
		    model->processes[i].head_ns < model->now)
			begin_head(model, i);
	update_device(model, find_device(model, process));
}

// Ends each kernel that spins until another process has ended enough kernels, if that is now the case.
static void release_spinning(struct model *model)
{
	for (unsigned int i = 0; i < model->process_count; i++) {
		struct process *process = &model->processes[i];
		if (!process->count || !process->public.program.spins_for || get_head(process)->left_ns != UINT64_MAX)
			continue;
		const struct process *other = &model->processes[process->public.program.spins_for - 1];
		if (other->public.kernels >= get_head(process)->awaits)
			get_head(process)->left_ns = 1 * US;
	}
}

static void end_kernels(struct model *model, const struct device *device)
{
	bool any = false;

	for (unsigned int i = 0; i < model->process_count; i++) {
		struct process *process = &model->processes[i];
		if (!process->running || get_head(process)->left_ns || find_device(model, process) != device)
			continue;
		stop_kernel(model, process);
		const struct kernel *kernel = get_head(process);
		if (kernel->sampled)
			turn_estimate_learn(&process->estimates, kernel->shape, kernel->measured_ns);
		process->public.kernels++;
		any = true;
		remove_head(model, i);
	}
	if (any)
		release_spinning(model);
}

// Returns the next context, in turn after the current one, that has work; -1: no context has work.
static int find_context(const struct model *model, const struct device *device)
{
	unsigned int from = device->current < 0 ? 0 : (unsigned int)device->current + 1;

	for (unsigned int i = 0; i < model->process_count; i++) {
		unsigned int process = (from + i) % model->process_count;
		int context = get_context(model, process);
		if (model->processes[process].device == find_number(model, device) && context != device->current &&
		    is_ready(model, &model->processes[process]))
			return context;
	}
	return -1;
}

// Notes that a kernel has begun. If it is a collective operation, the kernels of the same operation on other devices
// may now be able to go on.
static void note_begin(struct model *model, struct process *process)
{
	uint64_t collective = get_head(process)->collective;

	if (collective <= process->arrived)
		return;
	process->arrived = collective;
	for (unsigned int i = 0; i < MODEL_DEVICES; i++)
		if (i != process->device && !model->devices[i].switching)
			model_schedule(model, model->now, EVENT_DEVICE, i, ++model->devices[i].version);
}

// Returns whether the collective operation has begun on all devices of the job.
static bool have_all_arrived(const struct model *model, const struct process *process, uint64_t collective)
{
	unsigned int job = model->vgpus[process->public.vgpu].job;
	bool all = true;

	for (unsigned int i = 0; i < model->process_count; i++) {
		const struct vgpu *vgpu = &model->vgpus[model->processes[i].public.vgpu];
		if (vgpu->parts && vgpu->job == job)
			all &= model->processes[i].arrived >= collective;
	}
	return all;
}

// Sets the remaining time of collective operations that have begun on all devices.
static void start_collectives(struct model *model, const struct device *device)
{
	for (unsigned int i = 0; i < model->process_count; i++) {
		struct process *process = &model->processes[i];
		if (!process->running || find_device(model, process) != device)
			continue;
		struct kernel *kernel = get_head(process);
		if (kernel->collective && kernel->left_ns == UINT64_MAX &&
		    have_all_arrived(model, process, kernel->collective))
			kernel->left_ns = kernel->length_ns;
	}
}

static void begin_kernels(struct model *model, struct device *device)
{
	for (;;) {
		struct process *best = NULL;
		for (unsigned int i = 0; i < model->process_count; i++) {
			struct process *process = &model->processes[i];
			if (!process->running && find_device(model, process) == device &&
			    get_context(model, i) == device->current && is_ready(model, process) &&
			    (!best || process->head_ns < best->head_ns))
				best = process;
		}
		if (!best || device->width + get_width(best) > 1.0001)
			return;
		best->running = true;
		device->width += get_width(best);
		note_begin(model, best);
	}
}

static void wait_for_next(struct model *model, struct device *device, bool others)
{
	uint64_t next = !others		       ? UINT64_MAX
			: device->width > 1e-9 ? device->slice_end
					       : device->idle_since + model->options.linger_ns;

	for (unsigned int i = 0; i < model->process_count; i++) {
		const struct process *process = &model->processes[i];
		uint64_t when = UINT64_MAX;
		if (process->device != find_number(model, device))
			continue;
		if (process->running)
			when = get_head(process)->left_ns == UINT64_MAX ? UINT64_MAX
									: model->now + get_head(process)->left_ns;
		else if (process->count && !get_head(process)->copy && process->ready_ns > model->now)
			when = process->ready_ns;
		next = when < next ? when : next;
	}
	if (next != UINT64_MAX)
		model_schedule(model, next, EVENT_DEVICE, find_number(model, device), ++device->version);
}

static void switch_to(struct model *model, struct device *device, int context)
{
	bool first = device->current < 0;

	for (unsigned int i = 0; i < model->process_count; i++)
		if (model->processes[i].running && find_device(model, &model->processes[i]) == device)
			stop_kernel(model, &model->processes[i]);
	device->switching = true;
	device->next = context;
	model_schedule(model, model->now + (first ? 0 : model->options.switch_ns), EVENT_DEVICE,
		       find_number(model, device), ++device->version);
}

static void end_switch(const struct model *model, struct device *device)
{
	device->switching = false;
	device->current = device->next;
	device->since = device->idle_since = model->now;
	device->slice_end = model->now + model->options.slice_ns;
}

// Updates the device after any change: ends kernels, switches contexts, and starts kernels.
static void update_device(struct model *model, struct device *device)
{
	int other;

	if (device->switching)
		return;
	advance_kernels(model, device);
	start_collectives(model, device);
	end_kernels(model, device);
	other = find_context(model, device);
	if (device->current < 0) {
		if (other >= 0)
			switch_to(model, device, other);
		return;
	}
	if (model->now >= device->slice_end && other >= 0 && device->contended) {
		switch_to(model, device, other);
		return;
	}
	if (model->now >= device->slice_end) // the same context gets further slices while no other context waits
		device->slice_end +=
			((model->now - device->slice_end) / model->options.slice_ns + 1) * model->options.slice_ns;
	begin_kernels(model, device);
	start_collectives(model, device);
	device->contended = other >= 0;
	if (device->width > 1e-9)
		device->idle_since = UINT64_MAX;
	else if (device->idle_since == UINT64_MAX)
		device->idle_since = model->now;
	if (other >= 0 && device->width < 1e-9 && model->now >= device->idle_since + model->options.linger_ns)
		switch_to(model, device, other);
	else
		wait_for_next(model, device, other >= 0);
}

void device_step(struct model *model, unsigned int index)
{
	struct device *device = &model->devices[index];

	if (device->switching)
		end_switch(model, device);
	update_device(model, device);
}

void device_submit(struct model *model, unsigned int index, struct kernel kernel)
{
	struct process *process = &model->processes[index];

	if (!process->queue)
		process->queue = calloc(MODEL_DEPTH, sizeof *process->queue);
	process->queue[(process->first + process->count++) % MODEL_DEPTH] = kernel;
	if (process->count == 1) {
		process->ready_ns = model->now + model->options.start_ns;
		begin_head(model, index);
	}
	release_spinning(model);
	update_device(model, find_device(model, process));
}

void device_remove(struct model *model, unsigned int index)
{
	struct process *process = &model->processes[index];

	advance_kernels(model, find_device(model, process));
	if (process->running)
		stop_kernel(model, process);
	process->count = 0;
	update_device(model, find_device(model, process));
}
