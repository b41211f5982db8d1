// Simulates the device of the model (model.h). The device serves contexts in turn. Kernels of one context run side by
// side while they fit.
#include "model_engine.h"

#include <stdlib.h>

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
static void advance_kernels(struct model *model)
{
	uint64_t elapsed = model->now - model->device.since;

	model->device.since = model->now;
	for (unsigned int i = 0; elapsed && i < model->process_count; i++) {
		struct process *process = &model->processes[i];
		if (!process->running)
			continue;
		struct kernel *kernel = get_head(process);
		process->public.gpu_ns += elapsed;
		if (kernel->left_ns != UINT64_MAX)
			kernel->left_ns -= elapsed < kernel->left_ns ? elapsed : kernel->left_ns;
	}
}

static double get_width(const struct process *process)
{
	return process->public.program.width > 0 ? process->public.program.width : 1;
}

static void stop_kernel(struct model *model, struct process *process)
{
	process->running = false;
	model->device.width -= get_width(process);
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

static void update_device(struct model *model);

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
	update_device(model);
}

// Ends kernels that spin until a kernel of another process has ended, if that one has ended.
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

static void end_kernels(struct model *model)
{
	bool any = false;

	for (unsigned int i = 0; i < model->process_count; i++) {
		struct process *process = &model->processes[i];
		if (!process->running || get_head(process)->left_ns)
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
static int find_context(const struct model *model)
{
	unsigned int from = model->device.current < 0 ? 0 : (unsigned int)model->device.current + 1;

	for (unsigned int i = 0; i < model->process_count; i++) {
		unsigned int process = (from + i) % model->process_count;
		int context = get_context(model, process);
		if (context != model->device.current && is_ready(model, &model->processes[process]))
			return context;
	}
	return -1;
}

static void begin_kernels(struct model *model)
{
	for (;;) {
		struct process *best = NULL;
		for (unsigned int i = 0; i < model->process_count; i++) {
			struct process *process = &model->processes[i];
			if (!process->running && get_context(model, i) == model->device.current &&
			    is_ready(model, process) && (!best || process->head_ns < best->head_ns))
				best = process;
		}
		if (!best || model->device.width + get_width(best) > 1.0001)
			return;
		best->running = true;
		model->device.width += get_width(best);
	}
}

static void wait_for_next(struct model *model, bool others)
{
	struct device *device = &model->device;
	uint64_t next = !others		       ? UINT64_MAX
			: device->width > 1e-9 ? device->slice_end
					       : device->idle_since + model->options.linger_ns;

	for (unsigned int i = 0; i < model->process_count; i++) {
		const struct process *process = &model->processes[i];
		uint64_t when = UINT64_MAX;
		if (process->running)
			when = get_head(process)->left_ns == UINT64_MAX ? UINT64_MAX
									: model->now + get_head(process)->left_ns;
		else if (process->count && !get_head(process)->copy && process->ready_ns > model->now)
			when = process->ready_ns;
		next = when < next ? when : next;
	}
	if (next != UINT64_MAX)
		model_schedule(model, next, EVENT_DEVICE, 0, ++device->version);
}

static void switch_to(struct model *model, int context)
{
	struct device *device = &model->device;
	bool first = device->current < 0;

	for (unsigned int i = 0; i < model->process_count; i++)
		if (model->processes[i].running)
			stop_kernel(model, &model->processes[i]);
	device->switching = true;
	device->next = context;
	model_schedule(model, model->now + (first ? 0 : model->options.switch_ns), EVENT_DEVICE, 0, ++device->version);
}

static void end_switch(struct model *model)
{
	struct device *device = &model->device;

	device->switching = false;
	device->current = device->next;
	device->since = device->idle_since = model->now;
	device->slice_end = model->now + model->options.slice_ns;
}

// Updates the device after any change: ends kernels, switches contexts, and starts kernels.
static void update_device(struct model *model)
{
	struct device *device = &model->device;
	int other;

	if (device->switching)
		return;
	advance_kernels(model);
	end_kernels(model);
	other = find_context(model);
	if (device->current < 0) {
		if (other >= 0)
			switch_to(model, other);
		return;
	}
	if (model->now >= device->slice_end && other >= 0 && device->contended) {
		switch_to(model, other);
		return;
	}
	if (model->now >= device->slice_end) // the same context gets further slices while no other context waits
		device->slice_end +=
			((model->now - device->slice_end) / model->options.slice_ns + 1) * model->options.slice_ns;
	begin_kernels(model);
	device->contended = other >= 0;
	if (device->width > 1e-9)
		device->idle_since = UINT64_MAX;
	else if (device->idle_since == UINT64_MAX)
		device->idle_since = model->now;
	if (other >= 0 && device->width < 1e-9 && model->now >= device->idle_since + model->options.linger_ns)
		switch_to(model, other);
	else
		wait_for_next(model, other >= 0);
}

void device_step(struct model *model)
{
	if (model->device.switching)
		end_switch(model);
	update_device(model);
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
	update_device(model);
}

void device_remove(struct model *model, unsigned int index)
{
	struct process *process = &model->processes[index];

	advance_kernels(model);
	if (process->running)
		stop_kernel(model, process);
	process->count = 0;
	update_device(model);
}
