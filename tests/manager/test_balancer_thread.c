// Tests the balancer's thread, queues and rounds with fake managers.
#include "balancer_fake.h"

static const struct vg_balancer_options manual = {.size = sizeof manual, .manual = 1};

struct job {
	struct vg_balancer *balancer;
	struct vg_balanced *balanced;
	atomic_uint bound, ended;
	_Atomic(enum vg_execution_state) state;
	enum vg_status answer, seen;
};

static enum vg_status bind_job(void *user, struct vg_virtual_gpu *vgpu, void *const *values, size_t count)
{
	struct job *job = user;

	job->bound++;
	CHECK_INT(count, 2);
	CHECK_INT(*(int *)values[0], 42);
	CHECK(*(void **)values[1] == NULL);
	*(void **)values[1] = vgpu;
	return job->answer ? vg_fail(job->answer, 0, "there is no input for this one") : VG_OK;
}

static void job_ended(void *user, enum vg_execution_state state)
{
	struct job *job = user;

	job->state = state;
	job->ended++;
}

static enum vg_status submit(struct vg_balancer *balancer, struct job *job, int priority)
{
	const struct vg_argument arguments[] = {VG_ARGUMENT((int){42}), {NULL, sizeof(void *)}};
	const struct vg_balanced_work work = {.size = sizeof work,
					      .kernel = "axpy",
					      .arguments = arguments,
					      .argument_count = 2,
					      .priority = priority,
					      .bind = bind_job,
					      .ended = job_ended,
					      .user = job};

	job->balancer = balancer;
	return vg_balancer_execute(balancer, &work, &job->balanced);
}

static void submit_all(struct vg_balancer *balancer, struct job *jobs, size_t count)
{
	for (size_t i = 0; i < count; i++)
		OK(submit(balancer, &jobs[i], 0));
}

static void wait_all(struct job *jobs, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		OK(vg_balanced_wait(jobs[i].balanced, 10));
		CHECK(jobs[i].bound == 1 && jobs[i].ended == 1 && jobs[i].state == VG_EXECUTION_COMPLETED);
	}
}

static void drop_all(struct job *jobs, size_t count)
{
	for (size_t i = 0; i < count; i++)
		vg_balanced_destroy(jobs[i].balanced);
}

static struct vg_balanced_info info_of(const struct job *job)
{
	struct vg_balanced_info info;

	OK(vg_balanced_info(job->balanced, &info));
	return info;
}

TEST(work_is_bound_once_and_ends_once)
{
	struct job jobs[40] = {0};
	struct vg_balancer_info info;

	begin_fakes();
	add_fake(0, 0, 1, 0.5, 2);
	add_fake(1, 1, 1, 0.5, 2);
	struct vg_balancer *balancer = open_balancer(NULL, 2);
	submit_all(balancer, jobs, 40);
	wait_all(jobs, 40);
	for (int i = 0; i < 40; i++) {
		struct vg_balanced_info one = info_of(&jobs[i]);
		CHECK(one.state == VG_EXECUTION_COMPLETED && one.bound && one.id == 1);
		CHECK(one.queued_ns <= one.bound_ns && one.bound_ns <= one.ended_ns);
	}
	CHECK(binds_of(0) + binds_of(1) == 40 && binds_of(0) >= 10 && binds_of(1) >= 10);
	OK(vg_balancer_info(balancer, &info));
	CHECK(info.submitted == 40 && info.completed == 40 && info.unbound == 0 && info.bound == 0);
	CHECK(info.managers == 2 && info.virtual_gpus == 2 && info.threshold == 0.2 && info.interval_ms == 100);
	vg_balancer_destroy(balancer);
	// Jobs can still be used after the balancer was destroyed.
	drop_all(jobs, 40);
	end_fakes();
}

TEST(unbound_work_moves_to_another_device)
{
	struct vg_balancer_options options = {
		.size = sizeof options, .strategy = VG_BALANCE_ROUND_ROBIN, .interval_ms = 5};
	static struct job jobs[200];
	struct vg_balancing_entry entries[VG_BALANCER_LOG];
	unsigned moves = 0, slow = 0;
	size_t count;

	memset(jobs, 0, sizeof jobs);
	begin_fakes();
	add_fake(0, 0, 1, 1, 0); // this virtual GPU never ends any work
	add_fake(1, 1, 7, 1, 8);
	struct vg_balancer *balancer = open_balancer(&options, 2);
	submit_all(balancer, jobs, 200); // half of the jobs go to each virtual GPU
	for (int i = 0; i < 1000 && binds_of(1) < 190; i++)
		pause_ms(5);
	pthread_mutex_lock(&fake_lock);
	// Virtual GPU 1 completes work only from now on, so that the jobs bound to it can end.
	fakes[0].per_ms = 8;
	pthread_mutex_unlock(&fake_lock);
	wait_all(jobs, 200);
	for (int i = 0; i < 200; i++) {
		moves += info_of(&jobs[i]).moves > 0;
		slow += info_of(&jobs[i]).manager == 0;
	}
	CHECK(moves >= 50);
	CHECK(slow <= 20);
	OK(vg_balancer_log(balancer, entries, VG_BALANCER_LOG, &count));
	CHECK(count >= 1);
	CHECK(entries[0].action == VG_ACTION_MIGRATE && entries[0].from == 1 && entries[0].to == 7);
	CHECK(entries[0].from_manager == 0 && entries[0].to_manager == 1 && entries[0].amount >= 1 &&
	      !entries[0].status);
	CHECK_CONTAINS(entries[0].why, "waiting");
	for (size_t i = 0; i < count; i++)
		// No work moves to virtual GPU 1, which ended no work.
		CHECK_INT(entries[i].to, 7);
	drop_all(jobs, 200);
	vg_balancer_destroy(balancer);
	end_fakes();
}

TEST(a_paused_virtual_gpu_loses_its_unbound_work)
{
	struct vg_balancer_options options = {
		.size = sizeof options, .strategy = VG_BALANCE_ROUND_ROBIN, .interval_ms = 20, .manual = 1};
	struct job jobs[40] = {0}, more = {0};
	size_t taken = 0;

	begin_fakes();
	add_fake(0, 0, 1, 0.5, 0);
	add_fake(1, 0, 2, 0.5, 4);
	struct vg_balancer *balancer = open_balancer(&options, 1);
	submit_all(balancer, jobs, 40);
	pause_fake(0, true);
	OK(vg_balancer_rebalance(balancer, &taken));
	CHECK_INT(taken, 1);
	unsigned kept = 0;
	for (int i = 0; i < 40; i++)
		kept += info_of(&jobs[i]).id == 1;
	CHECK(kept <= 4); // all jobs that were not bound yet left the paused virtual GPU
	pause_fake(1, true);
	REFUSED(submit(balancer, &more, 0), VG_STATE,
		"no virtual GPU accepts work: vGPU 1 is paused, vGPU 2 is paused");
	pause_fake(0, false);
	pause_fake(1, false);
	// The balancer notices by itself that the virtual GPUs were resumed.
	wait_all(jobs, 40);
	drop_all(jobs, 40);
	vg_balancer_destroy(balancer);
	end_fakes();
}

TEST(work_of_a_closed_virtual_gpu_moves_to_another)
{
	struct vg_balancer_options options = {.size = sizeof options, .strategy = VG_BALANCE_ROUND_ROBIN, .manual = 1};
	struct job jobs[40] = {0}, more = {0};

	begin_fakes();
	add_fake(0, 0, 1, 0.5, 0);
	add_fake(1, 0, 2, 0.5, 4);
	struct vg_balancer *balancer = open_balancer(&options, 1);
	submit_all(balancer, jobs, 40);
	for (int i = 0; i < 1000 && waiting_at(0) < 4; i++)
		pause_ms(1);
	pthread_mutex_lock(&fake_lock);
	fakes[0].there = false;
	fakes[0].per_ms = 4; // the closed virtual GPU still ends the work that was bound to it
	pthread_mutex_unlock(&fake_lock);
	OK(vg_balancer_rebalance(balancer, NULL));
	wait_all(jobs, 40);
	pthread_mutex_lock(&fake_lock);
	fakes[1].there = false;
	pthread_mutex_unlock(&fake_lock);
	REFUSED(submit(balancer, &more, 0), VG_NOT_FOUND, "there is no virtual GPU");
	drop_all(jobs, 40);
	vg_balancer_destroy(balancer);
	end_fakes();
}

TEST(failures_report_their_reason)
{
	struct job unbound = {.answer = VG_INSUFFICIENT}, failed = {0};

	begin_fakes();
	add_fake(0, 0, 1, 1, 4);
	struct vg_balancer *balancer = open_balancer(&manual, 1);
	OK(submit(balancer, &unbound, 0));
	REFUSED(vg_balanced_wait(unbound.balanced, 10), VG_INSUFFICIENT, "there is no input for this one");
	CHECK(unbound.ended == 1 && unbound.state == VG_EXECUTION_FAILED && !info_of(&unbound).bound);
	OK(submit(balancer, &failed, 666));
	REFUSED(vg_balanced_wait(failed.balanced, 10), VG_DRIVER, "the kernel fell over");
	CHECK_INT(vg_last_error()->code, 700);
	CHECK(failed.state == VG_EXECUTION_FAILED && info_of(&failed).bound);
	vg_balanced_destroy(unbound.balanced);
	vg_balanced_destroy(failed.balanced);
	vg_balancer_destroy(balancer);
	end_fakes();
}

TEST(cancelling_works_before_and_after_binding)
{
	struct job jobs[20] = {0};

	begin_fakes();
	add_fake(0, 0, 1, 1, 0);
	struct vg_balancer *balancer = open_balancer(&manual, 1);
	submit_all(balancer, jobs, 20);
	for (int i = 0; i < 1000 && !info_of(&jobs[0]).bound; i++)
		pause_ms(1);
	CHECK(info_of(&jobs[0]).bound && !info_of(&jobs[19]).bound);
	REFUSED(vg_balanced_wait(jobs[19].balanced, 0.01), VG_NOT_READY, "axpy has not ended within 0.01 s");
	OK(vg_balanced_cancel(jobs[19].balanced));
	CHECK_INT(vg_balanced_state(jobs[19].balanced), VG_EXECUTION_CANCELLED);
	REFUSED(vg_balanced_wait(jobs[19].balanced, 10), VG_STATE, "was cancelled");
	CHECK(jobs[19].ended == 1 && jobs[19].bound == 0 && jobs[19].state == VG_EXECUTION_CANCELLED);
	REFUSED(vg_balanced_cancel(jobs[19].balanced), VG_STATE, "has ended");
	OK(vg_balanced_cancel(jobs[0].balanced));
	REFUSED(vg_balanced_wait(jobs[0].balanced, 10), VG_STATE, "was cancelled");
	CHECK(jobs[0].ended == 1 && jobs[0].bound == 1);
	// This cancels the other jobs, including bound ones.
	vg_balancer_destroy(balancer);
	for (int i = 1; i < 19; i++)
		CHECK(jobs[i].ended == 1 && jobs[i].state == VG_EXECUTION_CANCELLED);
	REFUSED(vg_balanced_wait(jobs[5].balanced, 0), VG_STATE, "was cancelled");
	drop_all(jobs, 20);
	end_fakes();
}

static void call_forbidden_functions(void *user, enum vg_execution_state state)
{
	struct job *job = user;

	job->seen = vg_balancer_close(job->balancer);
	vg_balancer_destroy(job->balancer);
	CHECK_INT(vg_last_error()->status, VG_STATE);
	CHECK_INT(vg_balanced_wait(job->balanced, 1), VG_STATE);
	CHECK_CONTAINS(vg_last_error()->text, "cannot wait for its work");
	job->ended++;
}

TEST(a_callback_cannot_wait_for_the_balancer)
{
	struct job job = {0};
	struct vg_balanced_work work = {
		.size = sizeof work, .kernel = "fill", .ended = call_forbidden_functions, .user = &job};

	begin_fakes();
	add_fake(0, 0, 1, 1, 0);
	struct vg_balancer *balancer = open_balancer(&manual, 1);
	job.balancer = balancer;
	OK(vg_balancer_execute(balancer, &work, &job.balanced));
	pthread_mutex_lock(&fake_lock);
	fakes[0].per_ms = 1;
	pthread_mutex_unlock(&fake_lock);
	OK(vg_balanced_wait(job.balanced, 10));
	CHECK(job.ended == 1 && job.seen == VG_STATE);
	vg_balanced_destroy(job.balanced);
	vg_balancer_destroy(balancer);
	end_fakes();
}

struct words {
	pthread_mutex_t lock;
	char text[4096];
};

static void note_message(void *user, enum vg_log_level level, const char *text)
{
	struct words *words = user;

	pthread_mutex_lock(&words->lock);
	size_t used = strlen(words->text);
	snprintf(words->text + used, sizeof words->text - used, "%d %s\n", level, text);
	pthread_mutex_unlock(&words->lock);
}

TEST(closing_returns_lent_shares)
{
	struct vg_balancer_options options = {.size = sizeof options,
					      .manual = 1,
					      .log_level = VG_LOG_INFO,
					      .forbidden =
						      VG_ACTION_MIGRATE | VG_ACTION_SCALE_UNITS | VG_ACTION_PREEMPT};
	struct words words = {.lock = PTHREAD_MUTEX_INITIALIZER};
	struct vg_balancing_entry entries[8];
	size_t taken = 0, count = 0;

	begin_fakes();
	add_fake(0, 0, 1, 0.4, 0);
	add_fake(1, 0, 2, 0.6, 0);
	fakes[0].load.waiting = 9;
	fakes[1].load.utilization_known = true;
	struct vg_balancer *balancer = open_balancer(&options, 1);
	vg_log_set(note_message, &words);
	OK(vg_balancer_rebalance(balancer, &taken));
	CHECK_INT(taken, 0);
	fake_refusal = VG_LIMIT;
	OK(vg_balancer_rebalance(balancer, &taken));
	CHECK_INT(taken, 0);
	CHECK(fakes[0].load.share == 0.4);
	fake_refusal = VG_OK;
	OK(vg_balancer_rebalance(balancer, &taken));
	CHECK_INT(taken, 1);
	CHECK(fakes[0].load.share > 0.6 && fakes[1].load.share < 0.4);
	OK(vg_balancer_log(balancer, NULL, 0, &count));
	CHECK_INT(count, 2);
	OK(vg_balancer_log(balancer, entries, 8, &count));
	CHECK(count == 2 && entries[0].status == VG_LIMIT && entries[1].status == VG_OK);
	CHECK_CONTAINS(entries[0].why, "it failed: no such share is to be had");
	CHECK(entries[1].action == VG_ACTION_ADJUST_SHARE && entries[1].from == 2 && entries[1].to == 1);
	CHECK(entries[1].amount > 0.29 && entries[1].amount < 0.31 && entries[1].round == 3);
	OK(vg_balancer_log(balancer, entries, 1, &count)); // the latest entry
	CHECK(count == 1 && entries[0].status == VG_OK);
	vg_log_set(NULL, NULL);
	CHECK_CONTAINS(words.text, "1 balancer: adjust share: work waits");
	CHECK_CONTAINS(words.text, "2 balancer: adjust share: work waits");
	fakes[0].load.waiting = 0;
	vg_balancer_destroy(balancer);
	CHECK(fakes[0].load.share > 0.399 && fakes[0].load.share < 0.401);
	end_fakes();
}

TEST(closing_keeps_shares_set_by_others)
{
	struct vg_balancer_options options = {.size = sizeof options,
					      .manual = 1,
					      .forbidden =
						      VG_ACTION_MIGRATE | VG_ACTION_SCALE_UNITS | VG_ACTION_PREEMPT};
	size_t taken = 0;

	begin_fakes();
	add_fake(0, 0, 1, 0.4, 0);
	add_fake(1, 0, 2, 0.5, 0);
	fakes[0].load.waiting = 9;
	fakes[1].load.utilization_known = true;
	struct vg_balancer *balancer = open_balancer(&options, 1);
	for (int i = 0; i < 2; i++)
		OK(vg_balancer_rebalance(balancer, &taken));
	CHECK_INT(taken, 1);
	CHECK(fakes[0].load.share > 0.6);
	pthread_mutex_lock(&fake_lock);
	fakes[0].load.share = 0.1; // the program itself changes the share, so the balancer must not take back its loan
	double lender = fakes[1].load.share;
	pthread_mutex_unlock(&fake_lock);
	vg_balancer_destroy(balancer);
	CHECK(fakes[0].load.share == 0.1);
	CHECK(fakes[1].load.share == lender);
	end_fakes();
}

TEST(rounds_change_units_quanta_and_bound_work)
{
	struct vg_balancer_options options = {.size = sizeof options, .manual = 1, .forbidden = VG_ACTION_ADJUST_SHARE};
	size_t taken;

	begin_fakes();
	add_fake(0, 0, 1, 0.25, 0);
	add_fake(1, 0, 2, 0.25, 0);
	fakes[0].load.waiting = 9;
	fakes[0].load.priority = 5;
	fakes[1].load.running = 9;
	fakes[0].load.units = fakes[1].load.units = 4;
	fakes[0].load.max_units = fakes[1].load.max_units = 16;
	struct vg_balancer *balancer = open_balancer(&options, 1);
	OK(vg_balancer_rebalance(balancer, &taken));
	OK(vg_balancer_rebalance(balancer, &taken));
	// The balancer has taken two actions: it has lent compute units to the first virtual GPU, and ended the quantum
	// of the other one.
	CHECK_INT(taken, 2);
	CHECK(fakes[0].load.units == 8 && fakes[1].preempted == 1 && fakes[0].migrated == 0);
	fakes[1].load.running = 0;
	OK(vg_balancer_rebalance(balancer, &taken));
	// The first virtual GPU has twice the share of the other one, so a third of the 9 executions moves.
	CHECK(fakes[0].migrated == 3 && fakes[1].load.waiting == 3);
	fakes[0].load.waiting = fakes[1].load.waiting = 0;
	vg_balancer_destroy(balancer);
	CHECK_INT(fakes[0].load.units, 4);
	end_fakes();
}

TEST(invalid_input_is_refused)
{
	struct vg_manager *one = (struct vg_manager *)&fakes[0], *managers[VG_BALANCER_MANAGERS + 1] = {one, one, NULL};
	struct vg_balancer_options options;
	struct vg_balanced_work work = {.size = sizeof work};
	struct vg_balanced *balanced = NULL;
	struct vg_balancer *balancer = NULL;
	struct vg_balanced_info info;
	size_t count;

	begin_fakes();
	add_fake(0, 0, 1, 1, 4);
#define CREATE(...)                                                                   \
	(options = (struct vg_balancer_options){.size = sizeof options, __VA_ARGS__}, \
	 vg_balancer_create(managers, 1, &options, &balancer))
	REFUSED(CREATE(.threshold = 1.5), VG_INVALID, "a threshold of 1.5");
	REFUSED(CREATE(.threshold = -0.1), VG_INVALID, "a threshold of -0.1");
	REFUSED(CREATE(.threshold = 0.0 / 0.0), VG_INVALID, "a threshold of");
	REFUSED(CREATE(.interval_ms = 3600001), VG_LIMIT, "an interval of 3600001 ms");
	REFUSED(CREATE(.strategy = (enum vg_balancing)3), VG_INVALID, "strategy 3");
	REFUSED(CREATE(.forbidden = 16), VG_INVALID, "forbidden is 0x10");
	REFUSED(CREATE(.log_level = (enum vg_log_level)9), VG_INVALID, "log level 9");
	REFUSED(vg_balancer_create(NULL, 1, NULL, &balancer), VG_INVALID, "managers is NULL");
	REFUSED(vg_balancer_create(managers, 1, NULL, NULL), VG_INVALID, "ret_balancer is NULL");
	REFUSED(vg_balancer_create(managers, 0, NULL, &balancer), VG_INVALID, "0 managers");
	REFUSED(vg_balancer_create(managers, 65, NULL, &balancer), VG_LIMIT, "65 managers: 1 to 64");
	REFUSED(vg_balancer_create(managers, 2, NULL, &balancer), VG_EXISTS, "has that manager, as number 0");
	REFUSED(vg_balancer_create(managers + 2, 1, NULL, &balancer), VG_INVALID, "manager is NULL");
	CHECK(!balancer);
	balancer = open_balancer(&manual, 1);
	REFUSED(vg_balancer_add(balancer, one), VG_EXISTS, "number 0");
	REFUSED(vg_balancer_add(NULL, one), VG_INVALID, "balancer is NULL");
	REFUSED(vg_balancer_execute(balancer, NULL, NULL), VG_INVALID, "work is NULL");
	REFUSED(vg_balancer_execute(balancer, &work, &balanced), VG_INVALID, "names no kernel");
	work.kernel = "fill";
	work.argument_count = 1;
	REFUSED(vg_balancer_execute(balancer, &work, &balanced), VG_INVALID, "1 arguments at NULL");
	work.arguments = &(struct vg_argument){NULL, 8};
	REFUSED(vg_balancer_execute(balancer, &work, &balanced), VG_INVALID, "argument 0 has no value");
	work.arguments = &(struct vg_argument){&work, 0};
	REFUSED(vg_balancer_execute(balancer, &work, &balanced), VG_INVALID, "argument 0 has 0 bytes");
	work.argument_count = 5000;
	REFUSED(vg_balancer_execute(balancer, &work, &balanced), VG_LIMIT, "5000 arguments: at most 4096");
	work.argument_count = 0;
	work.config.attribute_count = 1;
	REFUSED(vg_balancer_execute(balancer, &work, &balanced), VG_INVALID, "1 attributes");
	REFUSED(vg_balancer_log(balancer, NULL, 1, &count), VG_INVALID, "entries is NULL");
	REFUSED(vg_balancer_log(balancer, NULL, 0, NULL), VG_INVALID, "ret_count is NULL");
	REFUSED(vg_balancer_info(balancer, NULL), VG_INVALID, "ret_info is NULL");
	REFUSED(vg_balanced_info(NULL, &info), VG_INVALID, "balanced is NULL");
	REFUSED(vg_balanced_wait(NULL, 1), VG_INVALID, "balanced is NULL");
	REFUSED(vg_balanced_cancel(NULL), VG_INVALID, "balanced is NULL");
	REFUSED(vg_balancer_rebalance(NULL, NULL), VG_INVALID, "balancer is NULL");
	CHECK_INT(vg_balanced_state(NULL), VG_EXECUTION_COMPLETED);
	CHECK(!balanced);
	CHECK_STR(vg_balancing_action_text(VG_ACTION_PREEMPT), "preempt");
	CHECK_STR(vg_balancing_action_text(VG_ACTION_ALL), "unknown action");
	OK(vg_balancer_close(balancer));
	OK(vg_balancer_close(balancer));
	work.config.attribute_count = 0;
	REFUSED(vg_balancer_execute(balancer, &work, &balanced), VG_CLOSED, "has been closed");
	REFUSED(vg_balancer_rebalance(balancer, NULL), VG_CLOSED, "has been closed");
	REFUSED(vg_balancer_add(balancer, (struct vg_manager *)&fakes[1]), VG_CLOSED, "has been closed");
	OK(vg_balancer_log(balancer, NULL, 0, &count));
	vg_balancer_destroy(balancer);
	vg_balancer_destroy(NULL);
	vg_balanced_destroy(NULL);
	end_fakes();
}

static void *use_in_thread(void *user)
{
	struct vg_balancer *balancer = user;
	struct vg_balancing_entry entries[4];
	struct vg_balancer_info info;
	size_t count;

	for (int i = 0; i < 100; i++) {
		struct job job = {0};
		OK(submit(balancer, &job, 0));
		if (i % 3 == 0)
			// The result does not matter: the job may have ended already.
			(void)vg_balanced_cancel(job.balanced);
		if (i % 5 == 0)
			OK(vg_balancer_rebalance(balancer, NULL));
		OK(vg_balancer_log(balancer, entries, 4, &count));
		OK(vg_balancer_info(balancer, &info));
		enum vg_status status = vg_balanced_wait(job.balanced, 0);
		CHECK(status == VG_OK || status == VG_STATE);
		CHECK_INT(job.ended, 1);
		vg_balanced_destroy(job.balanced);
	}
	return NULL;
}

TEST(many_threads_use_one_balancer)
{
	struct vg_balancer_options options = {.size = sizeof options, .interval_ms = 1};
	struct vg_balancer_info info;
	pthread_t threads[4];

	begin_fakes();
	add_fake(0, 0, 1, 0.5, 1);
	add_fake(1, 0, 2, 0.5, 3);
	add_fake(2, 1, 1, 1, 2);
	struct vg_balancer *balancer = open_balancer(&options, 2);
	for (int i = 0; i < 4; i++)
		CHECK_INT(pthread_create(&threads[i], NULL, use_in_thread, balancer), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	OK(vg_balancer_info(balancer, &info));
	CHECK(info.submitted == 400 && info.completed + info.cancelled == 400 && info.failed == 0);
	vg_balancer_destroy(balancer);
	end_fakes();
}
