// Tests how a simulated device divides its time (sim/device_time.c), in virtual time, without processes.
#include "device_time.h"
#include "test.h"

enum { US = 1000, MS = 1000000, SMS = 100 };
static const struct time_rules rules = {.slice_ns = 2150 * US, .switch_ns = 115 * US, .sms = SMS};

static struct time_channel channels[TIME_CHANNELS];
static struct time_work work[TIME_CHANNELS * TIME_DEPTH];
static struct time_state state;
static uint64_t ended_ns[TIME_CHANNELS][TIME_DEPTH]; // by sequence
static const struct time_queues queues = {.channels = channels, .work = work, .count = 16};

static void start_device(void)
{
	memset(channels, 0, sizeof channels);
	memset(work, 0, sizeof work);
	memset(&state, 0, sizeof state);
	memset(ended_ns, 0, sizeof ended_ns);
	for (unsigned i = 0; i < TIME_CHANNELS; i++)
		channels[i].context = i + 1;
}

static struct time_work *work_at(unsigned channel, uint64_t sequence)
{
	return &work[channel * TIME_DEPTH + sequence % TIME_DEPTH];
}

static uint64_t append(unsigned channel, enum time_engine engine, unsigned sms, uint64_t need_ns, uint64_t ready_ns)
{
	uint64_t sequence = channels[channel].tail;
	struct time_work *it = work_at(channel, sequence);

	it->ready_ns = ready_ns;
	it->closed_ns = engine != TIME_HOST;
	it->need_ns = need_ns;
	it->engine = engine;
	it->sms = sms;
	channels[channel].tail = sequence + 1;
	return sequence;
}

static uint64_t append_open(unsigned channel, uint64_t ready_ns)
{
	uint64_t sequence = append(channel, TIME_SMS, SMS, 0, ready_ns);

	work_at(channel, sequence)->closed_ns = 0;
	return sequence;
}

// Advances the device's time to `until`. After each step, stores in the channels (queues of work) how much of their
// work has ended. The shared region also does that before the next step.
static void run_until(uint64_t until)
{
	bool reached;

	do {
		unsigned events = 0;
		time_begin(&state, &queues);
		reached = time_advance(&state, &rules, &queues, until, &events);
		for (unsigned i = 0; i < state.ended_count; i++) {
			const struct time_ended *ended = &state.ended[i];
			for (uint64_t s = channels[ended->channel].done; s <= ended->sequence; s++)
				ended_ns[ended->channel][s % TIME_DEPTH] = ended->end_ns;
			channels[ended->channel].done = ended->sequence + 1;
		}
	} while (!reached);
}

static uint64_t get_end(unsigned channel, uint64_t sequence)
{
	if (channels[channel].done <= sequence)
		FAIL("work %llu of channel %u has not ended at %llu us", (unsigned long long)sequence, channel,
		     (unsigned long long)state.now_ns / US);
	return ended_ns[channel][sequence % TIME_DEPTH];
}

#define CHECK_US(got, want) CHECK_INT((got) / US, want)

// A simulated program on one channel. It keeps up to `ahead` pieces of work in the queue, and needs `gap_ns` to react
// when a piece ends.
struct tenant {
	unsigned channel, ahead;
	uint64_t need_ns, gap_ns, ended, at_ns;
};

static void run_tenants(struct tenant *tenants, unsigned count, uint64_t until)
{
	while (state.now_ns < until) {
		for (unsigned i = 0; i < count; i++) {
			struct tenant *tenant = &tenants[i];
			uint64_t done = channels[tenant->channel].done;
			if (done > tenant->ended) {
				tenant->ended = done;
				tenant->at_ns = state.now_ns + tenant->gap_ns;
			}
			if (state.now_ns >= tenant->at_ns)
				while (channels[tenant->channel].tail - done < tenant->ahead)
					append(tenant->channel, TIME_SMS, SMS, tenant->need_ns, state.now_ns + 1);
		}
		run_until(state.now_ns + 5 * US);
	}
}

TEST(work_takes_the_time_it_needs)
{
	start_device();
	append(0, TIME_SMS, SMS, 200 * US, 10 * US);
	append(0, TIME_SMS, SMS, 300 * US, 10 * US);
	append(0, TIME_SMS, SMS, 50 * US, 2000 * US); // this work becomes ready only after the work before it has ended
	run_until(5000 * US);
	CHECK_US(get_end(0, 0), 210);
	CHECK_US(get_end(0, 1), 510);
	CHECK_US(get_end(0, 2), 2050);
	CHECK_US(state.busy_ns, 550);
	CHECK_INT(state.switches, 0);
	CHECK_INT(state.active_count, 0);
}

TEST(contexts_take_turns_in_slices)
{
	start_device();
	for (unsigned i = 0; i < 1000; i++)
		for (unsigned channel = 0; channel < 2; channel++)
			append(channel, TIME_SMS, SMS, 200 * US, 1);
	run_until(200 * MS);
	// The device must work 95 % of the time, as an H200 does, so each channel must complete work for 47.4 % of the
	// time.
	CHECK_INT((channels[0].done + channels[1].done) * 200 * US * 1000 / (200 * MS) / 2, 474);
	CHECK(channels[0].done + 11 >= channels[1].done && channels[1].done + 11 >= channels[0].done);
	CHECK_INT(state.switches, 200 * MS / (2265 * US));
}

TEST(three_contexts_take_turns_in_order)
{
	start_device();
	for (unsigned channel = 0; channel < 3; channel++)
		append(channel, TIME_SMS, SMS, 5000 * US, 1 + channel);
	run_until(30 * MS);
	// Each context has 5 ms of work: two full slices of 2150 us, and 700 us of a third slice. The first context's
	// third slice begins after six slices of all contexts, each followed by a context switch of 115 us.
	CHECK_US(get_end(0, 0), 6 * (2150 + 115) + 700);
	CHECK_US(get_end(1, 0), 6 * (2150 + 115) + 700 + 115 + 700);
	CHECK_US(get_end(2, 0), 6 * (2150 + 115) + 3 * 700 + 2 * 115);
}

TEST(a_short_kernel_waits_for_a_slice_beside_long_ones)
{
	struct tenant tenants[] = {{.channel = 0, .ahead = 2, .need_ns = 50 * MS}, {.channel = 1, .ahead = 0}};
	uint64_t sequence;

	start_device();
	run_tenants(tenants, 2, 100 * MS);
	append(1, TIME_SMS, SMS, 50 * US, state.now_ns);
	// The program of channel 1 launches its second kernel only after its first one has ended. By then the long
	// kernel has begun a slice, for which the second kernel must wait.
	run_tenants(tenants, 2, 110 * MS);
	uint64_t before = get_end(1, 0);
	sequence = append(1, TIME_SMS, SMS, 50 * US, before + 20 * US);
	run_tenants(tenants, 2, 120 * MS);
	CHECK(get_end(1, sequence) > before + 2000 * US);
	start_device();
	append(0, TIME_SMS, SMS, 50 * MS, 1);
	append(1, TIME_SMS, SMS, 50 * US, 2);
	run_until(1000 * US);
	// this work becomes ready right after the first work of channel 1 has ended
	append(1, TIME_SMS, SMS, 50 * US, 2330 * US);
	run_until(10 * MS);
	CHECK_US(get_end(1, 0), 2150 + 115 + 50);
	CHECK_US(get_end(1, 1) - get_end(1, 0), 115 + 2150 + 115 + 50);
}

// Tests two programs that wait for each of their kernels. The device leaves a context as soon as the context is idle,
// so it switches often, which costs time.
TEST(synchronous_kernels_of_two_processes)
{
	struct tenant tenants[] = {{.channel = 0, .ahead = 1, .need_ns = 500 * US, .gap_ns = 10 * US},
				   {.channel = 1, .ahead = 1, .need_ns = 500 * US, .gap_ns = 10 * US}};

	start_device();
	run_tenants(tenants, 2, 500 * MS);
	double of_solo = (double)(channels[0].done + channels[1].done) * 515 * US / (500 * MS);
	CHECK(of_solo > 0.79 && of_solo < 0.86); // two programs on an H200 reach 81 % of the speed of one
}

TEST(channels_of_a_context_divide_its_multiprocessors)
{
	start_device();
	channels[1].context = channels[2].context = channels[0].context;
	append(0, TIME_SMS, SMS, 200 * US, 1000);
	append(1, TIME_SMS, SMS, 300 * US, 1000);
	run_until(MS);
	CHECK_US(get_end(0, 0), 1 + 400);
	CHECK_US(get_end(1, 0), 1 + 500);
	// the next three kernels together need all multiprocessors, so they run side by side
	append(0, TIME_SMS, SMS / 4, 200 * US, 1000 * US);
	append(1, TIME_SMS, SMS / 2, 300 * US, 1000 * US);
	append(2, TIME_SMS, SMS / 4, 300 * US, 1000 * US);
	run_until(2 * MS);
	CHECK_US(get_end(0, 1), 1200);
	CHECK_US(get_end(1, 1), 1300);
	CHECK_US(get_end(2, 0), 1300);
	CHECK_INT(state.switches, 0);
}

TEST(copies_run_beside_kernels)
{
	start_device();
	append(0, TIME_SMS, SMS, 10 * MS, 1000);
	append(1, TIME_COPY_IN, 0, 3 * MS, 1000);
	append(2, TIME_COPY_OUT, 0, 4 * MS, 1000);
	append(3, TIME_COPY_IN, 0, 1 * MS, 1000); // this copy shares its engine with that of channel 1
	run_until(20 * MS);
	CHECK_US(get_end(0, 0), 10001);
	CHECK_US(get_end(1, 0), 4001);
	CHECK_US(get_end(2, 0), 4001);
	CHECK_US(get_end(3, 0), 2001);
	CHECK_INT(state.switches, 0);
}

TEST(work_of_the_host_blocks_only_its_channel)
{
	start_device();
	append(0, TIME_HOST, 0, 0, 1000);
	append(0, TIME_SMS, SMS, 100 * US, 1000);
	append(1, TIME_SMS, SMS, 100 * US, 1000);
	run_until(10 * MS);
	CHECK_INT(channels[0].done, 0);
	CHECK_US(get_end(1, 0), 101);
	work_at(0, 0)->closed_ns = 10500 * US;
	run_until(20 * MS);
	CHECK_US(get_end(0, 0), 10500);
	CHECK_US(get_end(0, 1), 10500 + 115 + 100);
}

TEST(work_begins_when_it_is_ready)
{
	start_device();
	append(0, TIME_SMS, SMS, 100 * US, 0);
	run_until(5 * MS);
	CHECK_INT(channels[0].done, 0);
	CHECK_INT(state.busy_ns, 0);
	// the work was ready at 4 ms, when the device was idle, but the device learns it only at 5 ms
	work_at(0, 0)->ready_ns = 4 * MS;
	run_until(6 * MS);
	CHECK(get_end(0, 0) >= 4100 * US && get_end(0, 0) <= 5100 * US);
}

TEST(a_spinning_kernel_gets_its_slices)
{
	uint64_t spins, other;

	start_device();
	spins = append_open(0, 1000);
	other = append(1, TIME_SMS, SMS, 5 * MS, 1000);
	append(1, TIME_SMS, SMS, 50 * US, 1000);
	run_until(60 * MS);
	// this kernel ends in its third slice, beside the spinning kernel
	CHECK_US(get_end(1, other), 1 + 5 * (2150 + 115) + 700);
	CHECK_INT(channels[0].done, 0);
	CHECK(state.busy_ns > 58 * MS);
	work_at(0, spins)->closed_ns = 60 * MS; // the spinning kernel ends here
	run_until(61 * MS);
	CHECK_US(get_end(0, spins), 60 * 1000);
}

// Tests open kernels, whose end is not known when they begin. Such a kernel ends only while its context has the device,
// and after it has run for the time it needs.
TEST(an_open_kernel_runs_for_the_time_it_needs)
{
	uint64_t open;

	start_device();
	open = append_open(0, 1000);
	append(1, TIME_SMS, SMS, 20 * MS, 1000);
	run_until(3 * MS); // at 3 ms, the slice belongs to the other context
	work_at(0, open)->need_ns = 3 * MS;
	work_at(0, open)->closed_ns = 3 * MS;
	run_until(20 * MS);
	CHECK_US(get_end(0, open), 1 + 2 * (2150 + 115) + 3000 - 2150);
}

TEST(cancelled_work_needs_no_device)
{
	uint64_t sequence;

	start_device();
	append(0, TIME_SMS, SMS, 50 * MS, 1000);
	sequence = append(1, TIME_SMS, SMS, 50 * MS, 1000);
	run_until(MS);
	work_at(1, sequence)->engine = TIME_HOST;
	work_at(1, sequence)->closed_ns = 1200 * US;
	run_until(2 * MS);
	CHECK_US(get_end(1, sequence), 1200);
	run_until(60 * MS);
	CHECK_US(get_end(0, 0), 50001); // the cancelled work caused no context switch
}

TEST(work_of_a_dead_process_is_removed)
{
	start_device();
	for (int i = 0; i < 10; i++)
		append(0, TIME_SMS, SMS, 20 * MS, 1000);
	append(1, TIME_SMS, SMS, 80 * MS, 1000);
	run_until(10 * MS);
	for (unsigned i = 0; i < state.active_count; i++)
		if (state.active[i].channel == 0)
			state.active[i].gone_ns = 110 * MS;
	run_until(400 * MS);
	CHECK_INT(channels[0].done, 10);
	CHECK_US(get_end(0, 9), 110 * 1000);
	// The context of the living process shares the device for 110 ms, in which about 52 of its 80 ms are done. Then
	// it has the device alone.
	CHECK(get_end(1, 0) > 130 * MS && get_end(1, 0) < 145 * MS);
}

// Advances the device's time first in one step, and then in many small steps. The results must be the same.
TEST(the_result_does_not_depend_on_the_steps)
{
	static uint64_t ends[4][1000];
	unsigned seed;

	for (int small = 0; small < 2; small++) {
		start_device();
		seed = 1;
		uint64_t sum = 0;
		for (unsigned i = 0; i < 400; i++) {
			seed = seed * 1103515245 + 12345;
			uint64_t need = (seed >> 8) % 3000 * US + 777;
			enum time_engine engine = seed >> 28 < 12 ? TIME_SMS : TIME_COPY_IN;
			append(i % 4, engine, SMS / (1 + i % 3), need, 1 + (seed >> 4) % 1000 * US);
			sum += engine == TIME_SMS ? need : 0;
		}
		for (uint64_t until = small ? 317 * US : 2000 * MS; until <= 2000 * MS; until += 317 * US)
			run_until(until);
		run_until(2000 * MS);
		for (unsigned channel = 0; channel < 4; channel++) {
			CHECK_INT(channels[channel].done, 100);
			for (unsigned i = 0; i < 100; i++) {
				CHECK(i == 0 || get_end(channel, i) >= get_end(channel, i - 1));
				if (small) // the small steps round fractions of nanoseconds
					CHECK(llabs((long long)(get_end(channel, i) - ends[channel][i])) < 20 * US);
				ends[channel][i] = get_end(channel, i);
			}
		}
		// each context has only one channel, so no kernels run side by side and the times of all kernels add up
		CHECK(state.busy_ns >= sum - MS && state.busy_ns <= sum + MS);
	}
}

TEST(predictions_are_right)
{
	struct time_state copy;

	start_device();
	for (int i = 0; i < 20; i++) {
		append(0, TIME_SMS, SMS, 900 * US, 1000);
		append(1, TIME_SMS, SMS, 400 * US, 500 * US);
	}
	time_begin(&state, &queues);
	copy = state;
	uint64_t starts = time_predict(&copy, &rules, &queues, 1, 0, TIME_RUNS);
	copy = state;
	uint64_t ends = time_predict(&copy, &rules, &queues, 1, 6, TIME_ENDS);
	append_open(2, 1000); // the end of an open kernel cannot be predicted
	time_begin(&state, &queues);
	copy = state;
	CHECK(time_predict(&copy, &rules, &queues, 2, 0, TIME_ENDS) != 0);
	channels[2].tail = 0;
	memset(&state, 0, sizeof state);
	run_until(100 * MS);
	CHECK_US(starts, 2150 + 1 + 115);
	CHECK_INT(ends, get_end(1, 6));
	CHECK_INT(time_stage_of(&state, &queues, 1, 6), TIME_ENDS);
}
