// Kills or stops a process at every step of its work with a device whose time is shared. The other processes must
// continue. The work of a killed process must leave the device. A stopped process must later find that its work has
// ended.
#include "crash.h"
#include "region_time.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>

enum { US = 1000, MS = 1000000 };
static struct region *observer;

static void wait_for(struct region *region, uint32_t channel, uint64_t sequence, enum time_stage stage)
{
	for (;;) {
		struct region_moment moment = region_time_query(region, 0, channel, sequence, stage);
		if (moment.stage >= stage)
			return;
		region_time_sleep(region, 0, &moment);
	}
}

static uint64_t append(struct region *region, uint32_t channel, enum time_engine engine, bool open, uint64_t need_ns)
{
	struct region_piece piece = {.engine = engine, .open = open, .sms = 1, .need_ns = need_ns};

	return region_time_append(region, 0, channel, &piece, 1, region_time_now(region));
}

static void serve_one(struct region *region)
{
	uint32_t channel;

	CHECK_INT(region_time_claim(region, 0, 99, &channel), 0);
	wait_for(region, channel, append(region, channel, TIME_SMS, false, 10 * US), TIME_ENDS);
	region_time_release(region, 0, channel);
}

static void start_node(void)
{
	uint32_t channels[4];

	if (observer)
		return;
	make_node("memory=64M,slice=1ms,switch=20us");
	observer = join();
	// A channel is a queue of work in the region. Claiming one for the first time reserves its space on the file
	// system, which needs the region's lock. Do that now, so that the tests' processes need no lock for it.
	for (int i = 0; i < 4; i++)
		CHECK_INT(region_time_claim(observer, 0, 1, &channels[i]), 0);
	for (int i = 0; i < 4; i++)
		region_time_release(observer, 0, channels[i]);
}

// Joins the region without counting steps. leave_quietly() leaves it in the same way. So the step at which a test kills
// or stops this process is always between these two calls.
static struct region *join_quietly(void)
{
	int steps = steps_left;

	steps_left = -1;
	struct region *region = join();
	steps_left = steps;
	return region;
}

static void leave_quietly(struct region *region)
{
	steps_left = -1;
	region_close(region);
}

static void use_all_engines(void)
{
	struct region *region = join_quietly();
	uint32_t channel, other;

	MUST(region_time_claim(region, 0, region_time_context(region, 1), &channel));
	MUST(region_time_claim(region, 0, region_time_context(region, 2), &other));
	append(region, channel, TIME_SMS, false, 50 * US);
	append(region, channel, TIME_COPY_IN, false, 20 * US);
	uint64_t host = append(region, channel, TIME_HOST, false, 0);
	uint64_t last = append(region, channel, TIME_SMS, false, 30 * US);
	uint64_t beside = append(region, other, TIME_SMS, false, 40 * US);
	wait_for(region, channel, host - 1, TIME_ENDS);
	region_time_close(region, 0, channel, host, 0, region_time_now(region));
	wait_for(region, channel, last, TIME_ENDS);
	wait_for(region, other, beside, TIME_ENDS);
	region_time_release(region, 0, channel);
	region_time_release(region, 0, other);
	leave_quietly(region);
}

static void spin_and_cancel(void)
{
	struct region *region = join_quietly();
	uint32_t channel;

	MUST(region_time_claim(region, 0, region_time_context(region, 1), &channel));
	uint64_t spins = append(region, channel, TIME_SMS, true, 0);
	uint64_t cancelled = append(region, channel, TIME_SMS, false, 3000 * (uint64_t)MS);
	wait_for(region, channel, spins, TIME_RUNS);
	region_time_close(region, 0, channel, spins, 10 * US, region_time_now(region));
	wait_for(region, channel, cancelled, TIME_RUNS);
	region_time_cancel(region, 0, channel, cancelled);
	wait_for(region, channel, cancelled, TIME_ENDS);
	region_time_release(region, 0, channel);
	leave_quietly(region);
}

// Appends several pieces of work. All of them must be appended before the first one begins.
static void queue_and_release(void)
{
	struct region *region = join_quietly();
	struct region_piece pieces[8];
	uint32_t channel;

	for (int i = 0; i < 8; i++)
		pieces[i] = (struct region_piece){.engine = TIME_SMS, .sms = 1, .need_ns = 5 * US};
	MUST(region_time_claim(region, 0, region_time_context(region, 1), &channel));
	uint64_t first = region_time_append(region, 0, channel, pieces, 8, 0);
	region_time_ready(region, 0, channel, first, region_time_now(region));
	wait_for(region, channel, first + 7, TIME_ENDS);
	region_time_release(region, 0, channel);
	leave_quietly(region);
}

static const struct {
	const char *name;
	void (*work)(void);
	int least; // steps
} works[] = {{"use_all_engines", use_all_engines, 40},
	     {"spin_and_cancel", spin_and_cancel, 25},
	     {"queue_and_release", queue_and_release, 30}};
enum { WORKS = sizeof works / sizeof *works };

// Checks that the dead process has left no work: all channels must be free to be claimed.
static void check_channels(void)
{
	static uint32_t channels[TIME_CHANNELS];

	alarm(TEST_CHILD_SECONDS);
	for (int i = 0; i < TIME_CHANNELS; i++)
		CHECK_INT(region_time_claim(observer, 0, 1, &channels[i]), 0);
	CHECK_INT(region_time_claim(observer, 0, 1, &channels[0]), REGION_FULL);
	CHECK_INT(region_time_view(observer, 0).channels, 0);
	for (uint32_t i = 0; i < TIME_CHANNELS; i++)
		region_time_release(observer, 0, i);
	alarm(0);
}

TEST(a_process_killed_at_any_step_blocks_no_other)
{
	start_node();
	step_signal = SIGKILL;
	for (unsigned w = 0; w < WORKS; w++) {
		int step = 0;
		do {
			run_until(works[w].work, step);
			alarm(TEST_CHILD_SECONDS);
			serve_one(observer);
			alarm(0);
		} while (!reached_end && ++step < 2000);
		if (!reached_end || step < works[w].least)
			FAIL("%s: %d steps", works[w].name, step);
	}
	check_channels();
}

// Returns whether the child was stopped; false: it has ended.
static bool wait_until_stopped(pid_t child)
{
	int status;

	CHECK_INT(waitpid(child, &status, WUNTRACED), child);
	if (WIFEXITED(status))
		CHECK_INT(WEXITSTATUS(status), 0);
	else
		CHECK(WIFSTOPPED(status));
	return WIFSTOPPED(status);
}

TEST(a_process_stopped_at_any_step_blocks_no_other)
{
	start_node();
	step_signal = SIGSTOP;
	for (unsigned w = 0; w < WORKS; w++) {
		int step = 0;
		for (bool stopped = true; stopped && step < 2000; step++) {
			pid_t child = start_until(works[w].work, step);
			stopped = wait_until_stopped(child);
			alarm(TEST_CHILD_SECONDS);
			for (int i = 0; i < 5; i++)
				serve_one(observer);
			if (stopped) {
				kill(child, SIGCONT);
				CHECK(!wait_until_stopped(child));
			}
			alarm(0);
		}
		if (step < works[w].least)
			FAIL("%s: %d steps", works[w].name, step);
	}
	step_signal = SIGKILL;
	check_channels();
}

TEST(work_is_served_while_no_process_reads_the_state)
{
	struct region_moment moment;
	uint32_t channel;

	start_node();
	CHECK_INT(region_time_claim(observer, 0, 7, &channel), 0);
	uint64_t start = region_time_now(observer), last = 0;
	for (int i = 0; i < 50; i++)
		last = append(observer, channel, TIME_SMS, false, 100 * US);
	usleep(30000);
	moment = region_time_query(observer, 0, channel, last, TIME_ENDS);
	CHECK_INT(moment.stage, TIME_ENDS);
	CHECK(moment.end_ns >= start + 5 * MS && moment.end_ns < start + 5 * MS + 10 * MS);
	region_time_release(observer, 0, channel);
}

// Sleeps until work ends whose end could not be predicted, or for 100 s. `moment` is the result of region_time_query().
// Returns at once if such work has ended since that query.
static void sleep_long(struct region_moment moment)
{
	moment.wake_ns = region_time_now(observer) + 100000 * (uint64_t)MS;
	region_time_sleep(observer, 0, &moment);
}

static void *sleep_in_thread(void *argument)
{
	sleep_long(*(struct region_moment *)argument);
	return NULL;
}

static void check_woken_by(void (*act)(uint32_t channel, uint64_t sequence))
{
	struct region_moment moment;
	pthread_t thread;
	uint32_t channel;

	CHECK_INT(region_time_claim(observer, 0, 5, &channel), 0);
	uint64_t sequence = append(observer, channel, TIME_SMS, true, 0);
	wait_for(observer, channel, sequence, TIME_RUNS);
	moment = region_time_query(observer, 0, channel, sequence, TIME_ENDS);
	alarm(TEST_CHILD_SECONDS);
	pthread_create(&thread, NULL, sleep_in_thread, &moment);
	// End the work. sleep_in_thread() may already sleep, or begin to sleep only after this call.
	act(channel, sequence);
	pthread_join(thread, NULL);
	sleep_long(moment);
	alarm(0);
	wait_for(observer, channel, sequence, TIME_ENDS);
	region_time_release(observer, 0, channel);
}

static void close_it(uint32_t channel, uint64_t sequence)
{
	region_time_close(observer, 0, channel, sequence, 0, region_time_now(observer));
}

static void cancel_it(uint32_t channel, uint64_t sequence)
{
	region_time_cancel(observer, 0, channel, sequence);
}

static void fail_and_cancel_it(uint32_t channel, uint64_t sequence)
{
	region_time_fail(observer, 0, 719);
	region_time_cancel(observer, 0, channel, sequence);
}

TEST(an_early_end_wakes_all_waiting_threads)
{
	start_node();
	check_woken_by(close_it);
	check_woken_by(cancel_it);
	check_woken_by(fail_and_cancel_it);
}

TEST(many_processes_use_the_device_at_once)
{
	enum { PROCESSES = 6 };
	pid_t children[PROCESSES];

	start_node();
	for (int i = 0; i < PROCESSES; i++) {
		children[i] = fork();
		if (children[i] == 0) {
			struct region *region = join();
			for (int k = 0; k < 200; k++)
				serve_one(region);
			region_close(region);
			_exit(0);
		}
	}
	alarm(TEST_CHILD_SECONDS);
	for (int i = 0; i < PROCESSES; i++)
		CHECK_CHILD(children[i]);
	alarm(0);
	check_channels();
}

// Uses the device in a process whose clock has another offset, as after a restore from an image.
__attribute__((noreturn)) static void serve_with_clock_offset(void)
{
	int status;

	if (unshare(CLONE_NEWTIME) < 0)
		_exit(77);
	int fd = open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);
	if (fd < 0 || dprintf(fd, "monotonic 259200 5000001\nboottime 259200 5000001\n") < 0)
		_exit(77);
	pid_t inside = fork();
	if (inside == 0) {
		struct region *region = join();
		for (int i = 0; i < 20; i++)
			serve_one(region);
		region_close(region);
		_exit(0);
	}
	_exit(waitpid(inside, &status, 0) == inside && WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

TEST(processes_of_several_time_namespaces)
{
	int status;

	start_node();
	alarm(TEST_CHILD_SECONDS);
	serve_one(observer);
	uint64_t before = region_time_now(observer);
	pid_t child = fork();
	if (child == 0)
		serve_with_clock_offset();
	CHECK_INT(waitpid(child, &status, 0), child);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		SKIP("this user may not make a time namespace");
	CHECK_INT(status, 0);
	for (int i = 0; i < 20; i++)
		serve_one(observer);
	CHECK(region_time_now(observer) - before < 10000 * (uint64_t)MS);
	alarm(0);
}
