#include "device_time.h"

#include <stddef.h>
#include <string.h>

enum { STEPS_MOST = 4096, PREDICTED_EVENTS = 128 };

// What one call of time_advance() or time_predict() works on: the state of the device, and the first unfinished piece
// of work of each channel. A channel is the queue of one stream (device_time.h).
struct advance {
	struct time_state *state;
	const struct time_rules *rules;
	const struct time_queues *queues;
	bool predicts; // the caller only predicts the future, so ended work is not reported
	unsigned events;
	// for each engine: how much of it the pieces of work that it serves now could use in total (find_demand)
	uint64_t demand[TIME_ENGINES];
	struct head {
		// copied from struct time_work; ready_ns is 0 if the channel has no work, or if its process does not
		// let it begin yet
		uint64_t ready_ns, closed_ns, need_ns;
		uint32_t engine, sms;
	} heads[TIME_CHANNELS];
};

static uint64_t get_tail(const struct time_queues *queues, uint32_t channel)
{
	return atomic_load_explicit(&queues->channels[channel].tail, memory_order_acquire);
}

static struct time_work *get_work(const struct time_queues *queues, uint32_t channel, uint64_t sequence)
{
	return &queues->work[(size_t)channel * TIME_DEPTH + sequence % TIME_DEPTH];
}

void time_begin(struct time_state *state, const struct time_queues *queues)
{
	bool is_active[TIME_CHANNELS] = {false};

	state->ended_count = 0;
	for (uint32_t i = 0; i < state->active_count; i++)
		is_active[state->active[i].channel % TIME_CHANNELS] = true;
	for (uint32_t channel = 0; channel < queues->count; channel++) {
		const struct time_channel *it = &queues->channels[channel];
		uint64_t done = atomic_load_explicit(&it->done, memory_order_acquire);
		if (!is_active[channel] && done < get_tail(queues, channel))
			state->active[state->active_count++] = (struct time_active){
				.channel = channel,
				.sequence = done,
				.context = atomic_load_explicit(&it->context, memory_order_relaxed),
			};
	}
}

// Removes channels without work from the state. The state need not keep anything about them, because the member `done`
// of a channel says which of its work has ended. Another process may take such a channel.
static void drop_idle(struct time_state *state, const struct time_queues *queues)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < state->active_count; i++)
		if (state->active[i].sequence < get_tail(queues, state->active[i].channel))
			state->active[count++] = state->active[i];
	state->active_count = count;
}

static void read_heads(struct advance *advance)
{
	struct time_state *state = advance->state;

	for (uint32_t i = 0; i < state->active_count; i++) {
		struct time_active *active = &state->active[i];
		struct head *head = &advance->heads[i];
		*head = (struct head){0};
		if (active->sequence < get_tail(advance->queues, active->channel)) {
			struct time_work *work = get_work(advance->queues, active->channel, active->sequence);
			head->closed_ns = atomic_load_explicit(&work->closed_ns, memory_order_acquire);
			head->ready_ns = atomic_load_explicit(&work->ready_ns, memory_order_acquire);
			head->need_ns = atomic_load_explicit(&work->need_ns, memory_order_relaxed);
			head->engine = atomic_load_explicit(&work->engine, memory_order_relaxed) % TIME_ENGINES;
			head->sms = atomic_load_explicit(&work->sms, memory_order_relaxed);
		}
		bool may_run = head->ready_ns && head->ready_ns <= state->now_ns;
		if (may_run && !active->runnable)
			active->turn = ++state->turns;
		active->runnable = may_run;
	}
}

static bool runs_on_sms(const struct advance *advance, uint32_t i)
{
	return advance->state->active[i].runnable && advance->heads[i].engine == TIME_SMS;
}

static bool has_device(const struct advance *advance, uint32_t i)
{
	const struct time_state *state = advance->state;

	return !state->next && state->active[i].context == state->current;
}

static bool has_ended(const struct advance *advance, uint32_t i)
{
	const struct time_state *state = advance->state;
	const struct head *head = &advance->heads[i];

	if (!head->closed_ns || head->closed_ns > state->now_ns)
		return false;
	if (head->engine == TIME_HOST)
		return true;
	return state->active[i].runnable && state->active[i].served_ns >= head->need_ns &&
	       (head->engine != TIME_SMS || has_device(advance, i));
}

// Removes all work with a number below `end` from the channel. Returns false if the array `ended` is full.
static bool remove_work(struct advance *advance, uint32_t i, uint64_t end)
{
	struct time_state *state = advance->state;
	struct time_active *active = &state->active[i];

	if (!advance->predicts) {
		if (state->ended_count == TIME_ENDED)
			return false;
		state->ended[state->ended_count++] =
			(struct time_ended){.channel = active->channel, .sequence = end - 1, .end_ns = state->now_ns};
	}
	active->sequence = end;
	active->served_ns = 0;
	advance->events++;
	return true;
}

enum step { STEP_NONE, STEP_DONE, STEP_FULL };

// Removes the work that ends at this moment.
static enum step end_work(struct advance *advance)
{
	struct time_state *state = advance->state;
	enum step step = STEP_NONE;

	for (uint32_t i = 0; i < state->active_count; i++) {
		struct time_active *active = &state->active[i];
		uint64_t end = active->sequence + 1;
		if (active->gone_ns && active->gone_ns <= state->now_ns) {
			end = get_tail(advance->queues, active->channel);
			if (end == active->sequence)
				continue;
		} else if (!has_ended(advance, i)) {
			continue;
		}
		if (!remove_work(advance, i, end))
			return STEP_FULL;
		step = STEP_DONE;
	}
	return step;
}

// Returns the context that gets the multiprocessors next: of those that wait for them, the one with the lowest turn. 0:
// no context waits.
static uint64_t find_waiting(const struct advance *advance)
{
	const struct time_state *state = advance->state;
	const struct time_active *first = NULL;

	for (uint32_t i = 0; i < state->active_count; i++)
		if (runs_on_sms(advance, i) && state->active[i].context != state->current &&
		    (!first || state->active[i].turn < first->turn))
			first = &state->active[i];
	return first ? first->context : 0;
}

static bool has_current_work(const struct advance *advance)
{
	for (uint32_t i = 0; i < advance->state->active_count; i++)
		if (runs_on_sms(advance, i) && advance->state->active[i].context == advance->state->current)
			return true;
	return false;
}

static void begin_slice(struct advance *advance, uint64_t context)
{
	struct time_state *state = advance->state;

	state->current = context;
	state->next = 0;
	state->slice_end_ns = state->now_ns + advance->rules->slice_ns;
	advance->events++;
}

static void begin_switch(struct advance *advance, uint64_t context)
{
	struct time_state *state = advance->state;
	uint64_t last = ++state->turns; // a context that is preempted gets its next turn after all others

	for (uint32_t i = 0; i < state->active_count; i++)
		if (runs_on_sms(advance, i) && state->active[i].context == state->current)
			state->active[i].turn = last;
	state->next = context;
	state->switch_end_ns = state->now_ns + advance->rules->switch_ns;
	state->switches++;
	advance->events++;
}

// Chooses the context that runs on the multiprocessors. Returns true if a context begins to run, or if the device
// begins to switch to a context.
static bool choose_context(struct advance *advance)
{
	struct time_state *state = advance->state;

	if (state->next) {
		if (state->now_ns < state->switch_end_ns)
			return false;
		begin_slice(advance, state->next);
		return true;
	}
	uint64_t waiting = find_waiting(advance);
	if (waiting && !state->current) {
		begin_slice(advance, waiting);
		return true;
	}
	bool runs = has_current_work(advance), is_over = state->now_ns >= state->slice_end_ns;
	if (waiting && (!runs || is_over)) {
		begin_switch(advance, waiting);
		return true;
	}
	if (runs && is_over)
		begin_slice(advance, state->current); // no other context waits: the current one gets another slice
	return false;
}

static bool is_being_served(const struct advance *advance, uint32_t i)
{
	if (!advance->state->active[i].runnable || advance->heads[i].engine == TIME_HOST)
		return false;
	return advance->heads[i].engine != TIME_SMS || has_device(advance, i);
}

// Computes the demand for each engine from the work that the engine serves now. Pieces of work share the
// multiprocessors in proportion to how many each can use. They share a copy engine equally.
static void find_demand(struct advance *advance)
{
	memset(advance->demand, 0, sizeof advance->demand);
	for (uint32_t i = 0; i < advance->state->active_count; i++) {
		const struct head *head = &advance->heads[i];
		if (is_being_served(advance, i))
			advance->demand[head->engine] += head->engine == TIME_SMS ? head->sms : 1;
	}
}

// Returns how fast the engine serves each piece of its work: in every *ret_of nanoseconds, the piece gets *ret_part
// nanoseconds of device time.
static void find_rate(const struct advance *advance, uint32_t engine, uint64_t *ret_part, uint64_t *ret_of)
{
	uint64_t all = engine == TIME_SMS ? advance->rules->sms : 1, demand = advance->demand[engine];

	*ret_part = all;
	*ret_of = demand > all ? demand : all;
}

static void note_event(uint64_t now, uint64_t at, uint64_t *earliest)
{
	if (at > now && at < *earliest)
		*earliest = at;
}

// Returns the time of the next event if no more work arrives: a piece of work begins or ends, or another context runs.
// UINT64_MAX: no event.
static uint64_t find_next_event(const struct advance *advance)
{
	const struct time_state *state = advance->state;
	uint64_t earliest = UINT64_MAX, part, of, now = state->now_ns;

	for (uint32_t i = 0; i < state->active_count; i++) {
		const struct head *head = &advance->heads[i];
		uint64_t served = state->active[i].served_ns;
		note_event(now, head->ready_ns, &earliest);
		note_event(now, state->active[i].gone_ns, &earliest);
		if (head->closed_ns)
			note_event(now, head->closed_ns, &earliest);
		if (head->closed_ns && is_being_served(advance, i) && head->need_ns > served) {
			find_rate(advance, head->engine, &part, &of);
			note_event(now, now + ((head->need_ns - served) * of + part - 1) / part, &earliest);
		}
	}
	if (state->next)
		note_event(now, state->switch_end_ns, &earliest);
	else if (find_waiting(advance) && has_current_work(advance))
		note_event(now, state->slice_end_ns, &earliest);
	return earliest;
}

static void serve_work(struct advance *advance, uint64_t until)
{
	struct time_state *state = advance->state;
	const struct time_rules *rules = advance->rules;
	uint64_t elapsed = until - state->now_ns, part, of;

	if (state->next)
		state->switching_ns += elapsed;
	else if (has_current_work(advance))
		state->busy_ns += elapsed;
	// No other context waits, so the running one gets its next slices without a switch.
	if (!state->next && state->slice_end_ns < until && has_current_work(advance) && !find_waiting(advance))
		state->slice_end_ns +=
			(until - state->slice_end_ns + rules->slice_ns - 1) / rules->slice_ns * rules->slice_ns;
	for (uint32_t i = 0; i < state->active_count; i++) {
		if (!is_being_served(advance, i))
			continue;
		find_rate(advance, advance->heads[i].engine, &part, &of);
		state->active[i].served_ns += elapsed * part / of;
	}
	state->now_ns = until;
}

// Handles what happens at this moment. Then advances to the next event, but at most to `until`. Returns STEP_NONE if
// `until` is reached.
static enum step advance_step(struct advance *advance, uint64_t until)
{
	read_heads(advance);
	enum step step = end_work(advance);
	if (step != STEP_NONE)
		return step;
	if (choose_context(advance))
		return STEP_DONE;
	if (advance->state->now_ns >= until)
		return STEP_NONE;
	find_demand(advance);
	uint64_t next = find_next_event(advance);
	serve_work(advance, next < until ? next : until);
	advance->events += next <= until;
	return STEP_DONE;
}

bool time_advance(struct time_state *state, const struct time_rules *rules, const struct time_queues *queues,
		  uint64_t until, unsigned *ret_events)
{
	struct advance advance = {.state = state, .rules = rules, .queues = queues};
	enum step step = STEP_DONE;

	// The loop is bounded, because another process may overwrite a channel while this one reads it. In that case
	// the result is discarded later.
	for (unsigned i = 0; i < STEPS_MOST && step == STEP_DONE; i++)
		step = advance_step(&advance, until);
	drop_idle(state, queues);
	*ret_events += advance.events;
	return step == STEP_NONE;
}

static const struct time_active *find_active(const struct time_state *state, uint32_t channel)
{
	for (uint32_t i = 0; i < state->active_count; i++)
		if (state->active[i].channel == channel)
			return &state->active[i];
	return NULL;
}

enum time_stage time_stage_of(const struct time_state *state, const struct time_queues *queues, uint32_t channel,
			      uint64_t sequence)
{
	const struct time_active *active = find_active(state, channel);

	if (!active)
		return atomic_load_explicit(&queues->channels[channel].done, memory_order_acquire) > sequence
			       ? TIME_ENDS
			       : TIME_WAITS;
	if (active->sequence != sequence)
		return active->sequence > sequence ? TIME_ENDS : TIME_WAITS;
	if (active->served_ns)
		return TIME_RUNS;
	uint32_t engine = atomic_load_explicit(&get_work(queues, channel, sequence)->engine, memory_order_relaxed);
	bool runs = active->runnable && (engine != TIME_SMS || (!state->next && active->context == state->current));
	return runs ? TIME_RUNS : TIME_WAITS;
}

uint64_t time_predict(struct time_state *state, const struct time_rules *rules, const struct time_queues *queues,
		      uint32_t channel, uint64_t sequence, enum time_stage stage)
{
	struct advance advance = {.state = state, .rules = rules, .queues = queues, .predicts = true};

	while (advance.events < PREDICTED_EVENTS) {
		if (time_stage_of(state, queues, channel, sequence) >= stage)
			return state->now_ns;
		read_heads(&advance);
		if (end_work(&advance) != STEP_NONE || choose_context(&advance))
			continue;
		find_demand(&advance);
		uint64_t next = find_next_event(&advance);
		if (next == UINT64_MAX)
			return next;
		serve_work(&advance, next);
		advance.events++;
	}
	return state->now_ns;
}
