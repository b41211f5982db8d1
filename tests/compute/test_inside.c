// Tests functions of compute units that only other parts of the library call: jobs, fences, migration, preemption,
// callbacks at the end of work, and work that is not scheduled.
#include "base/clock.h"
#include "compute/compute.h"
#include "compute_test.h"
#include "core/core.h"

#include <stdatomic.h>

struct pieces {
	unsigned left, done;
	struct vg_kernel *kernel;
	vg_address log;
	atomic_uint freed;
	enum vg_status fail;
};

static enum vg_status piece(void *user, struct vg_stream *stream, bool *ret_more)
{
	struct pieces *pieces = user;
	struct vg_launch_config config = {.size = sizeof config, .grid = {1}, .block = {1}};

	if (pieces->fail && pieces->left == 1) {
		struct vg_launch_config bad = {.size = sizeof bad, .grid = {1}, .block = {1 << 20}};
		return vg_launch(stream, &bad, pieces->kernel, NULL, 0);
	}
	unsigned id = pieces->done++;
	*ret_more = --pieces->left > 0;
	return vg_launch(stream, &config, pieces->kernel,
			 (struct vg_argument[]){VG_ARGUMENT(id), VG_ARGUMENT(pieces->log)}, 2);
}

static void freed(void *user)
{
	atomic_fetch_add(&((struct pieces *)user)->freed, 1);
}

static struct vg_kernel *note_kernel(void)
{
	struct vg_object_code *code = built_code(VG_CODE_PTX, "compute-kernels.ptx");
	struct vg_kernel *kernel;

	OK(vg_object_code_kernel(code, "note", &kernel));
	vg_object_code_destroy(code);
	return kernel;
}

static void wait_freed(struct pieces *pieces)
{
	for (int i = 0; i < 5000 && !atomic_load(&pieces->freed); i++)
		pause_ms(1);
	CHECK_INT(atomic_load(&pieces->freed), 1);
}

TEST(jobs_run_piece_by_piece)
{
	struct rig rig = open_rig(NULL);
	struct vg_compute_unit *unit = unit_of(&rig, NULL, 1);
	struct pieces pieces = {.left = 30, .kernel = note_kernel(), .log = rig.log};
	struct compute_job job = {.name = "pieces", .step = piece, .free = freed, .user = &pieces, .stream = 1};
	struct vg_execution *one;
	struct vg_execution_info info;
	unsigned ids[64];

	OK(compute_submit(unit, &job, &one));
	// this work must run after the job, since it is in the same stream
	vg_execution_destroy(note(&rig, unit, 1, 77, 0));
	OK(vg_execution_wait(one, 60));
	OK(vg_execution_info(one, &info));
	CHECK_INT(info.launches, 30);
	CHECK_STR(info.kernel, "pieces");
	wait_freed(&pieces);
	OK(vg_compute_unit_sync_all(unit, 60));
	CHECK_INT(read_log(&rig, ids, 64), 31);
	for (unsigned i = 0; i < 30; i++)
		CHECK_INT(ids[i], i);
	CHECK_INT(ids[30], 77);
	vg_execution_destroy(one);
	vg_kernel_destroy(pieces.kernel);
	vg_compute_unit_destroy(unit);
	close_rig(&rig);
}

TEST(a_failed_job_does_not_affect_others)
{
	struct rig rig = open_rig(NULL);
	struct vg_compute_unit *unit = unit_of(&rig, NULL, 1);
	struct pieces pieces = {.left = 3, .kernel = note_kernel(), .log = rig.log, .fail = VG_INVALID};
	struct compute_job job = {.name = "pieces", .step = piece, .free = freed, .user = &pieces};
	struct vg_execution *one;

	OK(compute_submit(unit, &job, &one));
	CHECK(vg_execution_wait(one, 60) == VG_INVALID);
	CHECK(vg_last_error()->text[0]);
	CHECK_INT(vg_execution_state(one), VG_EXECUTION_FAILED);
	wait_freed(&pieces);
	CHECK_INT(info_of(unit).failures, 1);
	CHECK_INT(info_of(unit).failed, 0);
	struct vg_execution *next = note(&rig, unit, 0, 1, 0);
	OK(vg_execution_wait(next, 60));
	vg_execution_destroy(next);
	vg_execution_destroy(one);
	vg_kernel_destroy(pieces.kernel);
	vg_compute_unit_destroy(unit);
	close_rig(&rig);
}

TEST(jobs_are_freed_after_any_end)
{
	struct rig rig = open_rig(NULL);
	struct vg_compute_unit *unit = unit_of(&rig, NULL, 1);
	struct pieces cancelled = {.left = 3, .kernel = note_kernel(), .log = rig.log}, closed = cancelled,
		      refused = closed;
	struct compute_job job = {.name = "pieces", .step = piece, .free = freed, .user = &cancelled};
	struct vg_execution *one;

	OK(vg_compute_unit_pause(unit));
	OK(compute_submit(unit, &job, &one));
	OK(vg_execution_cancel(one));
	CHECK_INT(atomic_load(&cancelled.freed), 1);
	vg_execution_destroy(one);
	job.user = &closed;
	OK(compute_submit(unit, &job, NULL));
	OK(vg_compute_unit_end(unit));
	CHECK_INT(atomic_load(&closed.freed), 1);
	job.user = &refused;
	CHECK_INT(compute_submit(unit, &job, NULL), VG_CLOSED);
	CHECK_INT(atomic_load(&refused.freed), 0); // the job was refused, so the caller still owns it
	vg_kernel_destroy(cancelled.kernel);
	vg_compute_unit_destroy(unit);
	close_rig(&rig);
}

TEST(a_fence_waits_for_submitted_work)
{
	struct rig rig = open_rig(NULL);
	struct vg_compute_unit *unit = unit_of(&rig, NULL, 1);
	struct vg_stream *stream;
	int done = 1;

	OK(vg_stream_create(rig.context, NULL, &stream));
	struct vg_execution *one = spin(unit, 0, 3000000, 1);
	while (vg_execution_state(one) == VG_EXECUTION_QUEUED)
		pause_ms(1);
	OK(compute_fence(unit, stream));
	OK(vg_stream_query(stream, &done));
	CHECK(!done || vg_execution_state(one) != VG_EXECUTION_RUNNING || vg_execution_wait(one, 0.2) == VG_OK);
	OK(vg_stream_sync(stream));
	OK(vg_execution_wait(one, 2));	 // the scheduler's thread notices soon that the work has ended
	OK(compute_fence(unit, stream)); // without work
	OK(vg_stream_sync(stream));
	vg_execution_destroy(one);
	vg_stream_destroy(stream);
	vg_compute_unit_destroy(unit);
	close_rig(&rig);
}

TEST(migrated_work_stays_in_order)
{
	struct rig rig = open_rig(NULL);
	struct vg_compute_unit *from = unit_of(&rig, "from", 0.5), *to = unit_of(&rig, "to", 0.5);
	struct vg_execution *last = NULL;
	unsigned ids[64];
	size_t moved = 9;

	OK(vg_compute_unit_pause(from));
	OK(vg_compute_unit_pause(to));
	for (unsigned i = 0; i < 20; i++) {
		vg_execution_destroy(last);
		last = note(&rig, from, 2, i, 0);
	}
	OK(compute_migrate(from, to, 5, &moved));
	CHECK_INT(moved, 5);
	CHECK_INT(info_of(from).queue_length, 15);
	CHECK_INT(info_of(to).queue_length, 5);
	OK(vg_compute_unit_resume(to));
	// `last` must wait for earlier executions of its stream, which were not migrated and are paused
	REFUSED(vg_execution_wait(last, 0.05), VG_NOT_READY, "queued");
	OK(vg_compute_unit_resume(from));
	OK(vg_compute_unit_sync(from, 2, 60)); // this must also wait for the work that was migrated
	CHECK_INT(vg_execution_state(last), VG_EXECUTION_COMPLETED);
	CHECK_INT(read_log(&rig, ids, 64), 20);
	for (unsigned i = 0; i < 20; i++)
		CHECK_INT(ids[i], i);
	CHECK_INT(info_of(to).completed, 5);
	CHECK_INT(info_of(from).completed, 15);
	vg_execution_destroy(last);
	vg_compute_unit_destroy(from);
	vg_compute_unit_destroy(to);
	close_rig(&rig);
}

// Migration must be fast, because the scheduler's thread waits meanwhile, and so the GPU may be idle.
TEST(migrating_many_executions_is_fast)
{
	enum { MANY = 40000 };
	struct rig rig = open_rig(NULL);
	struct vg_compute_unit *from = unit_of(&rig, "from", 0.5), *to = unit_of(&rig, "to", 0.5);
	double least = 1e9;
	size_t moved;

	OK(vg_compute_unit_pause(from));
	OK(vg_compute_unit_pause(to));
	for (unsigned i = 0; i < MANY; i++)
		OK(try_launch(from, "empty", i % 4, 1, NULL, 0, NULL));
	for (int turn = 0; turn < 3; turn++) {
		double start = seconds();
		OK(compute_migrate(from, to, MANY, &moved));
		least = seconds() - start < least ? seconds() - start : least;
		CHECK_INT(moved, MANY);
		// nothing moves: the executions in `to` came from `from`, and cannot move a second time
		OK(compute_migrate(to, from, MANY, &moved));
		CHECK_INT(moved, 0);
		OK(vg_compute_unit_pause(from)); // pausing a compute unit takes its migrated work back
		CHECK_INT(info_of(from).queue_length, MANY);
	}
	printf("  %.1f ms\n", least * 1e3);
	CHECK(least < 1); // if each migration had to search all migrated work, this would take 2.4 s
	vg_compute_unit_destroy(from);
	vg_compute_unit_destroy(to);
	close_rig(&rig);
}

TEST(a_closed_unit_returns_migrated_work)
{
	struct rig rig = open_rig(NULL);
	struct vg_compute_unit *from = unit_of(&rig, "from", 0.5), *to = unit_of(&rig, "to", 0.5);
	size_t moved;

	OK(vg_compute_unit_pause(from));
	OK(vg_compute_unit_pause(to));
	struct vg_execution *one = note(&rig, from, 0, 1, 0);
	OK(compute_migrate(from, to, 10, &moved));
	CHECK_INT(moved, 1);
	vg_compute_unit_destroy(to);
	CHECK_INT(info_of(from).queue_length, 1);
	OK(vg_compute_unit_resume(from));
	OK(vg_execution_wait(one, 60));
	vg_execution_destroy(one);
	vg_compute_unit_destroy(from);
	close_rig(&rig);
}

// Migrates a job of many launches from the compute unit `from` to the unit `to`, and closes `to` while the job runs
// there. The job must then continue in `from`.
TEST(a_closed_unit_returns_running_work)
{
	const unsigned repeat = 20000;
	struct rig rig = open_rig(NULL);
	struct vg_compute_unit *from = unit_of(&rig, "from", 0.5), *to = unit_of(&rig, "to", 0.5);
	struct vg_execution_info info = {0};
	size_t moved;

	OK(vg_compute_unit_pause(from));
	struct vg_execution *one = spin(from, 0, 200000, repeat), *next = note(&rig, from, 0, 7, 0);
	OK(compute_migrate(from, to, 10, &moved));
	CHECK_INT(moved, 2);
	while (info.launches < 40) {
		pause_ms(1);
		OK(vg_execution_info(one, &info));
	}
	OK(vg_compute_unit_close(to)); // this compute unit has no work of its own
	vg_compute_unit_destroy(to);
	CHECK_INT(vg_execution_state(one), VG_EXECUTION_RUNNING);
	CHECK_INT(vg_execution_state(next), VG_EXECUTION_QUEUED);
	CHECK_INT(info_of(from).running, 1);
	CHECK_INT(info_of(from).queue_length, 1);
	OK(vg_execution_info(one, &info));
	unsigned before = info.launches;
	CHECK(before < repeat);
	for (unsigned i = 0; i < 60000 && info.launches < before + 40; i++) { // the job's own compute unit continues it
		pause_ms(1);
		OK(vg_execution_info(one, &info));
	}
	CHECK(info.launches >= before + 40);
	CHECK(info_of(from).launches > 0);
	OK(vg_execution_cancel(one));
	CHECK_INT(vg_execution_wait(one, 60), VG_STATE);
	OK(vg_compute_unit_resume(from));
	OK(vg_execution_wait(next, 60));
	CHECK_INT(info_of(from).cancelled, 1);
	CHECK_INT(info_of(from).completed, 1);
	vg_execution_destroy(one);
	vg_execution_destroy(next);
	OK(vg_compute_unit_close(from));
	vg_compute_unit_destroy(from);
	close_rig(&rig);
}

TEST(a_pause_takes_migrated_work_back)
{
	struct rig rig = open_rig(NULL);
	struct vg_compute_unit *from = unit_of(&rig, "from", 0.5), *to = unit_of(&rig, "to", 0.5);
	struct vg_execution *first = spin(from, 0, 2000000, 1), *last = NULL;
	unsigned ids[8];
	size_t moved;

	OK(vg_compute_unit_pause(to));
	while (vg_execution_state(first) == VG_EXECUTION_QUEUED)
		pause_ms(1);
	for (unsigned i = 0; i < 3; i++) {
		vg_execution_destroy(last);
		last = note(&rig, from, 0, i, 0);
	}
	OK(compute_migrate(from, to, 3, &moved));
	CHECK_INT(info_of(to).queue_length, moved);
	OK(vg_compute_unit_pause(from));
	OK(vg_compute_unit_resume(to));
	CHECK_INT(info_of(to).queue_length, 0);
	OK(vg_execution_wait(first, 60));
	if (moved == 3) // otherwise the work had begun before it could be migrated, so there is nothing to check
		REFUSED(vg_execution_wait(last, 0.1), VG_NOT_READY, "queued");
	OK(vg_compute_unit_resume(from));
	OK(vg_compute_unit_sync_all(from, 60));
	CHECK_INT(read_log(&rig, ids, 8), 3);
	vg_execution_destroy(first);
	vg_execution_destroy(last);
	vg_compute_unit_destroy(from);
	vg_compute_unit_destroy(to);
	close_rig(&rig);
}

static void tell_late(void *user)
{
	pause_ms(100);
	atomic_store((atomic_uint *)user, 1);
}

TEST(an_end_waits_for_all_callbacks)
{
	struct rig rig = open_rig(NULL);
	struct vg_compute_unit *unit = unit_of(&rig, NULL, 1);
	unsigned rounds = 2000000;
	vg_address nowhere = 0;
	struct vg_argument arguments[] = {VG_ARGUMENT(rounds), VG_ARGUMENT(nowhere)};
	struct vg_work work = {.size = sizeof work,
			       .kernel = "spin",
			       .config = {.grid = {1}, .block = {32}},
			       .arguments = arguments,
			       .argument_count = 2};
	struct vg_execution *one;
	atomic_uint told = 0;

	OK(compute_execute(unit, &work, tell_late, &told, &one));
	while (vg_execution_state(one) == VG_EXECUTION_QUEUED)
		pause_ms(1);
	OK(vg_compute_unit_end(unit)); // the end of running work is reported later, by the scheduler's thread
	CHECK_INT(atomic_load(&told), 1);
	vg_execution_destroy(one);
	vg_compute_unit_destroy(unit);
	close_rig(&rig);
}

TEST(a_global_capture_and_the_scheduler_do_not_interfere)
{
	struct rig rig = open_rig(NULL);
	struct vg_compute_unit *unit = unit_of(&rig, NULL, 1);
	struct vg_stream *stream;
	CUgraph graph;

	OK(vg_stream_create(rig.context, NULL, &stream));
	CHECK_INT(core_driver->cuStreamBeginCapture_v2(vg_stream_handle(stream), CU_STREAM_CAPTURE_MODE_GLOBAL), 0);
	// the scheduler creates events and streams while another stream is captured
	struct vg_execution *one = spin(unit, 0, 200000, 20);
	OK(vg_execution_wait(one, 60));
	CHECK_INT(core_driver->cuStreamEndCapture(vg_stream_handle(stream), &graph), 0);
	CHECK_INT(core_driver->cuGraphDestroy(graph), 0);
	CHECK_INT(info_of(unit).failed, 0);
	vg_execution_destroy(one);
	vg_stream_destroy(stream);
	vg_compute_unit_destroy(unit);
	close_rig(&rig);
}

static void count_end(void *user)
{
	atomic_fetch_add((atomic_uint *)user, 1);
}

TEST(end_callbacks_run_once)
{
	struct rig rig = open_rig(NULL);
	struct vg_compute_unit *unit = unit_of(&rig, NULL, 1);
	struct vg_work work = {.size = sizeof work, .kernel = "empty", .config = {.grid = {1}, .block = {1}}};
	struct vg_work wrong = {.size = sizeof wrong, .kernel = "no such", .config = {.grid = {1}, .block = {1}}};
	atomic_uint ends = 0;
	bool preempted = true;

	for (int i = 0; i < 100; i++)
		OK(compute_execute(unit, &work, count_end, &ends, NULL));
	CHECK_INT(compute_execute(unit, &wrong, count_end, &ends, NULL), VG_NOT_FOUND);
	OK(vg_compute_unit_sync_all(unit, 60));
	for (int i = 0; i < 2000 && atomic_load(&ends) < 100; i++)
		pause_ms(1);
	CHECK_INT(atomic_load(&ends), 100);
	OK(compute_preempt(unit, &preempted));
	CHECK(!preempted);
	struct vg_execution *one = spin(unit, 0, 20000, 100000);
	while (vg_execution_state(one) == VG_EXECUTION_QUEUED)
		pause_ms(1);
	OK(compute_preempt(unit, &preempted));
	CHECK(preempted);
	OK(vg_execution_cancel(one));
	CHECK_INT(vg_execution_wait(one, 60), VG_STATE);
	vg_execution_destroy(one);
	vg_compute_unit_destroy(unit);
	close_rig(&rig);
}

TEST(direct_work_overlaps_and_is_not_measured)
{
	struct vg_context *context = first_context();
	struct vg_object_code *code = built_code(VG_CODE_PTX, "compute-kernels.ptx");
	struct rig rig = {.context = context, .log = words(context, 16384)};
	struct vg_compute_unit *units[3];
	unsigned ids[64];

	OK(compute_create(vg_context_device(context), NULL, true, &rig.compute));
	OK(vg_compute_register(rig.compute, code));
	vg_object_code_destroy(code);
	for (int i = 0; i < 3; i++)
		OK(vg_compute_unit_create(rig.compute, NULL, &units[i]));
	struct vg_execution *slow = spin(units[0], 0, 2000000, 3);
	for (unsigned i = 0; i < 20; i++)
		vg_execution_destroy(note(&rig, units[1], i % 4, i, 0));
	OK(vg_compute_unit_sync_all(units[1], 60));
	CHECK_INT(read_log(&rig, ids, 64), 20);
	OK(vg_execution_wait(slow, 60));
	CHECK_INT(info_of(units[0]).measured, 0);
	CHECK_INT(info_of(units[0]).utilization_known, 0);
	CHECK_INT(info_of(units[0]).completed, 1);
	REFUSED(vg_compute_unit_set_share(units[0], 0.5), VG_STATE, "no share");
	vg_execution_destroy(slow);
	slow = spin(units[0], 1, 20000, 1000000);
	for (int i = 0; i < 3; i++)
		vg_compute_unit_destroy(units[i]);
	CHECK_INT(vg_execution_state(slow), VG_EXECUTION_CANCELLED);
	vg_execution_destroy(slow);
	close_rig(&rig);
}

// Answers that an event has not occurred until 5 ms after the first question about it.
static const struct vg_driver *driver;
static CUresult query_late(CUevent event)
{
	static CUevent asked;
	static uint64_t since_ns;

	if (event != asked)
		since_ns = vg_clock_monotonic_ns();
	asked = event;
	return vg_clock_monotonic_ns() - since_ns < 5000000 ? CUDA_ERROR_NOT_READY : driver->cuEventQuery(event);
}

// The last mark of cancelled work has no launches. The GPU may reach it long after all launches have ended.
TEST(the_scheduler_waits_for_the_end_of_cancelled_direct_work)
{
	struct rig rig = {.context = first_context()};
	struct vg_object_code *code = built_code(VG_CODE_PTX, "compute-kernels.ptx");
	struct vg_compute_unit *unit;

	driver = core_driver;
	struct vg_driver late = *driver;
	late.cuEventQuery = query_late;
	core_driver = &late;
	rig.log = words(rig.context, 16384);
	OK(compute_create(vg_context_device(rig.context), NULL, true, &rig.compute));
	OK(vg_compute_register(rig.compute, code));
	vg_object_code_destroy(code);
	OK(vg_compute_unit_create(rig.compute, NULL, &unit));
	struct vg_execution *one = spin(unit, 0, 1000, 1000000);
	while (vg_execution_state(one) == VG_EXECUTION_QUEUED)
		pause_ms(1);
	vg_compute_unit_destroy(unit);
	CHECK_INT(vg_execution_state(one), VG_EXECUTION_CANCELLED);
	vg_execution_destroy(one);
	close_rig(&rig);
	core_driver = driver;
}
