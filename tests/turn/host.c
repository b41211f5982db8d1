// Simulates the processes of the model (model.h). Before a launch, each process waits for its turn in the real gate
// (src/turn/gate.h), as an interposer does.
#include "model_engine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static unsigned int find_index(const struct model *model, const struct process *process)
{
	return (unsigned int)(process - model->processes);
}

static void schedule(struct model *model, struct process *process, uint64_t when, enum event_kind kind)
{
	model_schedule(model, when, kind, find_index(model, process), ++process->version);
}

unsigned int model_start_process(struct model *model, unsigned int vgpu, const struct program *program)
{
	struct process *process = &model->processes[model->process_count];

	*process = (struct process){.public = {.program = *program, .vgpu = vgpu}};
	process->public.latencies = calloc(MODEL_LATENCIES, sizeof(uint32_t));
	process->slot = model->vgpus[vgpu].slot_count++;
	process->device = model->vgpus[vgpu].device;
	process->gate.page = &model->vgpus[vgpu].page;
	process->gate.slot = &model->vgpus[vgpu].slots[process->slot];
	process->request_ns = model->now;
	process->pace = 1;
	schedule(model, process, model->now + (uint64_t)(model_random(model) * 500) * US, EVENT_HOST);
	return model->process_count++;
}

// Reports the work in flight, as the interposer does from its events (marks) in the stream.
static void report_flight(struct model *model, struct process *process)
{
	uint64_t ahead = device_ahead(model, process), left = process->count && !ahead ? 1 : ahead;

	if (process->state == HOST_GATE ? turn_report_flight_at_gate(&process->gate, left, model->now)
					: turn_report_flight(&process->gate, left, model->now))
		model_ring(model);
}

static void launch_kernel(struct model *model, struct process *process)
{
	const struct program *program = &process->public.program;
	bool other = program->other_ns && process->launched % 2;
	uint64_t length = (uint64_t)((double)(other ? program->other_ns : program->kernel_ns) / model->speed);
	struct kernel kernel = {.left_ns = length + model->options.gap_ns, .shape = turn_shape(program, other)};

	kernel.measured_ns = (uint64_t)((double)length * model->options.estimate);
	kernel.estimate = turn_estimate(&process->estimates, kernel.shape, process->gate.page->window_us * 1000ull,
					&kernel.sampled);
	process->total_launches++;
	if (program->spins_for) {
		kernel.awaits = process->total_launches;
		kernel.left_ns = UINT64_MAX;
	}
	if (program->collective_every && process->total_launches % program->collective_every == 0) {
		kernel.collective = process->total_launches / program->collective_every;
		kernel.length_ns = kernel.left_ns;
		kernel.left_ns = UINT64_MAX;
	}
	if (turn_count_launches(&process->gate, 1, kernel.estimate, model->now))
		model_ring(model);
	process->launched++;
	device_submit(model, find_index(model, process), kernel);
	process->state = HOST_RUNS;
	bool pauses = program->pause_every && process->total_launches % program->pause_every == 0;
	uint64_t pause = pauses ? program->pause_ns : 0;
	schedule(model, process, model->now + (uint64_t)((double)program->host_ns * process->pace) + pause, EVENT_HOST);
}

static void leave_gate(struct model *model, struct process *process)
{
	uint64_t waited = process->closed_ns ? model->now - process->closed_ns : 0;

	turn_wait_end(&process->gate);
	if (waited > process->public.longest_wait_ns)
		process->public.longest_wait_ns = waited;
	launch_kernel(model, process);
}

// Lets a thread that waits for a turn read the word by which the arbiter grants turns.
static void look_at_gate(struct model *model, struct process *process)
{
	struct turn_action action;

	if (process->count || process->gate.slot->eta_ns)
		report_flight(model, process);
	action = turn_wait_look(&process->gate, &process->wait, model->now);
	if (action.ring)
		model_ring(model);
	if (turn_word_state(action.word) == TURN_CLOSED)
		process->closed_ns = process->closed_ns ? process->closed_ns : model->now;
	else if (!turn_word_is(action.word, TURN_WANTED))
		process->closed_ns = 0;
	if (action.step == TURN_STEP_LAUNCH && !process->public.program.silent) {
		leave_gate(model, process);
		return;
	}
	// Until `awake_ns`, the thread spins. If the word changes before that time, host_wake() lets the thread read it
	// at once, without the time that a sleeping thread takes to wake up.
	process->awake_ns = action.step == TURN_STEP_SPIN ? model->now + action.ns : 0;
	schedule(model, process, model->now + (action.ns ? action.ns : 10 * US), EVENT_LOOK);
}

static void try_launch(struct model *model, struct process *process)
{
	if (process->count == MODEL_DEPTH) {
		process->state = HOST_DEPTH;
	} else if (turn_gate_admits(&process->gate, model->now) && !process->public.program.silent) {
		launch_kernel(model, process);
	} else {
		process->state = HOST_GATE;
		process->closed_ns = 0;
		turn_wait_begin(&process->gate, &process->wait, model->now);
		look_at_gate(model, process);
	}
}

static void end_request(struct model *model, struct process *process)
{
	struct model_process *public = &process->public;
	uint64_t latency = (model->now - process->request_ns) / US;
	double think = (double)public->program.think_ns;

	if (public->latency_count < MODEL_LATENCIES)
	public->latencies[public->latency_count++] = (uint32_t)latency;
	public->requests++;
	process->launched = 0;
	process->state = HOST_RUNS;
	if (public->program.requests && public->requests == public->program.requests) {
		process->state = HOST_DEAD;
		return;
	}
	if (think > 0) // add some time, since a sleep is never exact
		think = think * (1 + .01 * model_normal(model)) + 60 * US * model_random(model);
	process->request_ns = model->now + (think > 0 ? (uint64_t)think : 2 * US);
	process->pace = public->program.jitter > 0 ? exp(public->program.jitter * model_normal(model)) : 1;
	schedule(model, process, process->request_ns, EVENT_HOST);
}

static void synchronize(struct model *model, struct process *process)
{
	process->state = HOST_SYNC;
	turn_watch_begin(&process->gate);
	if (!process->count)
		schedule(model, process, model->now + 1 * US, EVENT_SYNCED);
}

static void end_synchronization(struct model *model, struct process *process)
{
	turn_watch_end(&process->gate);
	report_flight(model, process);
	end_request(model, process);
}

static void continue_program(struct model *model, struct process *process)
{
	const struct program *program = &process->public.program;

	if (!process->launched && program->copy_ns && !process->count)
		device_submit(model, find_index(model, process),
			      (struct kernel){.left_ns = program->copy_ns, .copy = true});
	if (process->launched < program->launches)
		try_launch(model, process);
	else if (program->never_waits)
		end_request(model, process);
	else
		synchronize(model, process);
}

void host_kernel_ended(struct model *model, unsigned int index)
{
	struct process *process = &model->processes[index];

	if (process->state == HOST_DEPTH)
		schedule(model, process, model->now + 2 * US, EVENT_HOST);
	else if (process->state == HOST_SYNC && !process->count)
		schedule(model, process, model->now + model->options.notice_ns, EVENT_SYNCED);
}

void host_wake(struct model *model, unsigned int vgpu)
{
	for (unsigned int i = 0; i < model->process_count; i++) {
		struct process *process = &model->processes[i];
		if (process->public.vgpu == vgpu && process->state == HOST_GATE)
			schedule(model, process,
				 model->now + (model->now < process->awake_ns ? 1 * US : model->options.wake_ns),
				 EVENT_LOOK);
	}
}

void host_event(struct model *model, enum event_kind kind, unsigned int index, uint64_t version)
{
	struct process *process = &model->processes[index];

	if (kind == EVENT_REAPED) {
		memset(process->gate.slot, 0, sizeof *process->gate.slot);
		model_ring(model);
		return;
	}
	if (version != process->version || process->state == HOST_DEAD)
		return;
	if (process->stopped) {
		process->pending = true;
		return;
	}
	if (kind == EVENT_SYNCED)
		end_synchronization(model, process);
	else if (kind == EVENT_LOOK)
		look_at_gate(model, process);
	else if (process->state == HOST_RUNS || process->state == HOST_DEPTH)
		continue_program(model, process);
}

void model_stop(struct model *model, unsigned int index)
{
	struct process *process = &model->processes[index];

	process->stopped = true;
	model->vgpus[process->public.vgpu].stopped |= 1ull << process->slot;
	model_ring(model);
}

void model_continue(struct model *model, unsigned int index)
{
	struct process *process = &model->processes[index];

	process->stopped = false;
	model->vgpus[process->public.vgpu].stopped &= ~(1ull << process->slot);
	model_ring(model);
	if (!process->pending)
		return;
	process->pending = false;
	schedule(model, process, model->now + model->options.wake_ns,
		 process->state == HOST_GATE   ? EVENT_LOOK
		 : process->state == HOST_SYNC ? EVENT_SYNCED
					       : EVENT_HOST);
}

// Kills a process. The daemon notices that at once, and the work leaves the device within 100 ms.
void model_kill(struct model *model, unsigned int index)
{
	struct process *process = &model->processes[index];
	bool last = true;

	if (process->state == HOST_DEAD)
		return;
	process->state = HOST_DEAD;
	model_schedule(model, model->now + 1 * MS, EVENT_REAPED, index, 0);
	model_schedule(model, model->now + 50 * MS, EVENT_GONE, index, 0);
	for (unsigned int i = 0; i < model->process_count; i++)
		last &= model->processes[i].public.vgpu != process->public.vgpu ||
			model->processes[i].state == HOST_DEAD;
	if (last)
		model->vgpus[process->public.vgpu].present = false;
	model->vgpus[process->public.vgpu].stopped &= ~(1ull << process->slot);
	model_ring(model);
}
