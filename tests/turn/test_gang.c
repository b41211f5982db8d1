// Runs jobs with several devices against the model. Their kernels wait for each other, as those of collective
// operations do.
#include "test.h"

#include <math.h>
#include <stdio.h>

#include "model.h"
#include "turn/gang.h"

// A training on each device: kernels of 0.2 ms, of which every fifth is a collective operation.
static const struct program program_ddp = {
	.launches = 20, .host_ns = 8 * US, .kernel_ns = 200 * US, .jitter = .1, .collective_every = 5};
// Collective operations only, which the host launches far ahead.
static const struct program program_collectives = {
	.launches = 50, .host_ns = 10 * US, .kernel_ns = 60 * US, .jitter = .1, .collective_every = 1};
// The host is slower than the device, and more so in some steps than in others.
static const struct program program_slow_host = {
	.launches = 40, .host_ns = 60 * US, .kernel_ns = 50 * US, .jitter = .3, .collective_every = 4};
// A training with a data loader.
static const struct program program_pauses = {.launches = 30,
					      .host_ns = 8 * US,
					      .kernel_ns = 300 * US,
					      .think_ns = 2 * MS,
					      .jitter = .1,
					      .collective_every = 10};

struct job {
	const struct program *program;
	unsigned int share;
};

struct figures {
	double part[2];	 // each job's part of the sum of rates, in percent
	double sum;	 // sum of the rates, in percent of the rate of one job alone
	uint64_t gap_ns; // longest time in which a job ended no kernel
	double resident; // percentage of decisions at which kernels of a job still ran after its turn
	uint64_t seen, late;
};

static unsigned int start_job(struct model *model, const struct job *job, unsigned int devices)
{
	unsigned int first = model_add_job(model, job->share, devices), process = 0;

	for (unsigned int i = devices; i-- > 0;)
		process = model_start_process(model, first + i, job->program);
	return process; // the process on device 0
}

static void watch_residents(struct model *model, void *user)
{
	struct figures *figures = user;

	figures->seen++;
	figures->late += model_orders(model)->reason == TURN_REASON_RESIDENT;
}

// Returns how many kernels a second the job does without gates and without others.
static double run_alone(const struct job *job, unsigned int devices)
{
	struct model_options options;

	model_options(TURN_MODE_TIME, &options);
	options.ungated = true;
	struct model *model = model_create(&options);
	unsigned int process = start_job(model, job, devices);
	model_run(model, SEC / 2);
	model_reset_figures(model);
	model_run(model, 4 * SEC);
	double rate = (double)model_process(model, process)->kernels / 4;
	model_destroy(model);
	return rate;
}

// What differs between the runs of check_jobs().
struct variation {
	uint64_t seed, wake_ns;
	double estimate;
	enum turn_mode mode;
};

static struct figures run_jobs(const struct job jobs[2], unsigned int devices, const struct variation *variation)
{
	const unsigned int seconds = 8, steps = 50;
	struct figures figures = {0};
	struct model_options options;
	unsigned int processes[2];
	uint64_t before[2] = {0}, quiet[2] = {0};
	double rates[2];

	model_options(variation->mode, &options);
	options.seed = variation->seed;
	options.estimate = variation->estimate;
	if (variation->wake_ns)
		options.wake_ns = options.late_ns = variation->wake_ns;
	struct model *model = model_create(&options);
	for (int i = 0; i < 2; i++)
		processes[i] = start_job(model, &jobs[i], devices);
	model_run(model, SEC / 2);
	model_reset_figures(model);
	model_set_watch(model, watch_residents, &figures);
	for (unsigned int step = 0; step < seconds * steps; step++) {
		model_run(model, SEC / steps);
		for (int i = 0; i < 2; i++) {
			uint64_t kernels = model_process(model, processes[i])->kernels;
			quiet[i] = kernels == before[i] ? quiet[i] + SEC / steps : 0;
			figures.gap_ns = quiet[i] > figures.gap_ns ? quiet[i] : figures.gap_ns;
			before[i] = kernels;
		}
	}
	for (int i = 0; i < 2; i++) {
		rates[i] = (double)before[i] / seconds / run_alone(&jobs[i], devices) * 100;
		figures.sum += rates[i];
	}
	for (int i = 0; i < 2; i++)
		figures.part[i] = rates[i] / figures.sum * 100;
	figures.resident = (double)figures.late / (double)figures.seen * 100;
	model_destroy(model);
	printf("%u devices, shares %u and %u: %.1f and %.1f %% of the sum, sum %.1f %%, longest gap %llu ms, "
	       "%.1f %% late\n",
	       devices, jobs[0].share, jobs[1].share, figures.part[0], figures.part[1], figures.sum,
	       (unsigned long long)(figures.gap_ns / MS), figures.resident);
	return figures;
}

static void check_jobs(const struct program *first, unsigned int share, const struct program *second,
		       unsigned int devices)
{
	static const struct variation variations[] = {
		{1, 0, 1, TURN_MODE_TIME},	 {2, 0, 1, TURN_MODE_TIME},	   {3, 0, .5, TURN_MODE_TIME},
		{4, 0, 2, TURN_MODE_TIME},	 {5, 200 * US, 1, TURN_MODE_TIME}, {6, 500 * US, .7, TURN_MODE_TIME},
		{1, 0, 1, TURN_MODE_MPS},	 {2, 0, .5, TURN_MODE_MPS},	   {3, 0, 2, TURN_MODE_MPS},
		{4, 500 * US, .7, TURN_MODE_MPS}};
	const struct job jobs[2] = {{first, share}, {second, 100 - share}};

	for (size_t i = 0; i < sizeof variations / sizeof *variations; i++) {
		struct figures figures = run_jobs(jobs, devices, &variations[i]);
		CHECK(figures.sum >= 90);
		// Side by side, a job that is ahead pauses until the other has caught up.
		bool is_mps = variations[i].mode == TURN_MODE_MPS;
		CHECK(fabs(figures.part[0] - share) <= (is_mps ? 6 : 3));
		CHECK(figures.gap_ns <= (is_mps ? SEC : 200 * MS));
	}
}

TEST(two_trainings_share_two_devices)
{
	check_jobs(&program_ddp, 50, &program_ddp, 2);
	check_jobs(&program_ddp, 30, &program_ddp, 2);
}

TEST(two_trainings_share_four_devices)
{
	check_jobs(&program_ddp, 50, &program_ddp, 4);
}

TEST(collectives_only)
{
	check_jobs(&program_collectives, 50, &program_collectives, 2);
	check_jobs(&program_collectives, 30, &program_ddp, 2);
}

TEST(hosts_that_are_slow_or_pause)
{
	check_jobs(&program_slow_host, 50, &program_slow_host, 2);
	check_jobs(&program_pauses, 50, &program_pauses, 2);
}

// The kernels on one device of a job may wait for launches on another device, which only a ring tells the arbiter.
TEST(part_of_a_job_rings_during_a_pause)
{
	const struct turn_gate gate = {.word = turn_word(3, TURN_CLOSED, TURN_SPIN | TURN_PAUSED)};
	const struct turn_gang gang = {0};
	const struct turn_facts part = {.in_flight = 1};
	struct turn_gate of_part;

	turn_gang_gate(&gang, &gate, 0, &part, &of_part);
	CHECK_INT(of_part.word, turn_word(3, TURN_CLOSED, TURN_SPIN));
}

TEST(job_beside_a_killed_one)
{
	const struct job job = {&program_ddp, 50};
	struct model_options options;

	model_options(TURN_MODE_TIME, &options);
	struct model *model = model_create(&options);
	unsigned int first = start_job(model, &job, 2), second = start_job(model, &job, 2);
	model_run(model, SEC);
	model_kill(model, first - 1); // the process on the other device of the first job
	for (int i = 0; i < 50; i++) {
		uint64_t before = model_process(model, second)->kernels;
		model_run(model, 100 * MS);
		CHECK(model_process(model, second)->kernels > before + 100);
	}
	model_kill(model, first);
	model_run(model, SEC);
	model_reset_figures(model);
	model_run(model, SEC);
	CHECK((double)model_process(model, second)->kernels > .98 * run_alone(&job, 2));
	model_destroy(model);
}
