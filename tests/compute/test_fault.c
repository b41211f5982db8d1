// Checks that a fault of a kernel ends all work, and that nothing hangs. If the driver only refuses a launch, no other
// work may fail.
#include "compute_test.h"

#include "compute/compute.h"

#include <stdatomic.h>
#include <sys/wait.h>

// Makes the driver fail to create a stream for the second compute unit. Runs in a child process, because the simulated
// driver reads which calls fail when it is loaded.
static void no_stream_for_the_second(void)
{
	struct rig rig = open_rig(NULL);
	struct vg_compute_unit *first = unit_of(&rig, "first", 0.4), *second = unit_of(&rig, "second", 0.3),
			       *third = unit_of(&rig, "third", 0.3);
	struct vg_execution *before = spin(first, 0, 20000000, 1);

	while (vg_execution_state(before) == VG_EXECUTION_QUEUED)
		pause_ms(1);
	struct vg_execution *refused = spin(second, 0, 1000, 1);
	while (vg_execution_state(refused) == VG_EXECUTION_QUEUED)
		pause_ms(1);
	struct vg_execution *behind = spin(third, 0, 1000, 1);
	OK(vg_execution_wait(before, 60));
	CHECK(vg_execution_wait(refused, 60) != VG_OK);
	CHECK_INT(vg_execution_state(refused), VG_EXECUTION_FAILED);
	CHECK_CONTAINS(vg_last_error()->text, "OUT_OF_MEMORY");
	OK(vg_execution_wait(behind, 60));
	CHECK_INT(info_of(second).failed, 0);
	vg_execution_destroy(refused);
	refused = spin(second, 0, 1000, 1);
	OK(vg_execution_wait(refused, 60));
	vg_execution_destroy(before);
	vg_execution_destroy(refused);
	vg_execution_destroy(behind);
	vg_compute_unit_destroy(first);
	vg_compute_unit_destroy(second);
	vg_compute_unit_destroy(third);
	close_rig(&rig);
}

TEST(a_failed_stream_creation_fails_only_its_work)
{
	if (!getenv("VIRGATE_SIM"))
		SKIP("faults are injected by the simulated driver");
	pid_t child = fork();
	if (child == 0) {
		setenv("VIRGATE_SIM_FAULT", "cuStreamCreateWithPriority:2=CUDA_ERROR_OUT_OF_MEMORY", 1);
		no_stream_for_the_second();
		exit(0);
	}
	CHECK_CHILD(child);
}

// Runs work of two compute units in several streams, while the driver fails to create events. Executions whose
// event cannot be created fail with the driver's error. All other executions must complete, and the scheduler must
// notice their ends.
static void without_events(bool direct, bool lasting)
{
	enum { MANY = 60 };
	struct vg_context *context = first_context();
	struct vg_object_code *code = built_code(VG_CODE_PTX, "compute-kernels.ptx");
	struct rig rig = {.context = context};
	struct vg_execution *all[MANY], *later;
	struct vg_compute_unit *units[2];
	unsigned failed = 0;

	OK(compute_create(vg_context_device(context), NULL, direct, &rig.compute));
	OK(vg_compute_register(rig.compute, code));
	units[0] = unit_of(&rig, "one", 0.5);
	units[1] = unit_of(&rig, "two", 0.5);
	for (unsigned i = 0; i < MANY; i++)
		all[i] = spin(units[i % 2], i / 2 % 4, 2000, i % 3 ? 1 : 150);
	for (unsigned i = 0; i < MANY; i++) {
		enum vg_status status = vg_execution_wait(all[i], 60);
		if (status) {
			failed++;
			CHECK_INT(status, VG_DRIVER);
			CHECK_CONTAINS(vg_last_error()->text, "OUT_OF_MEMORY");
		}
		vg_execution_destroy(all[i]);
	}
	struct vg_compute_unit_info one = info_of(units[0]), two = info_of(units[1]);
	CHECK_INT(one.failed, 0);
	CHECK_INT(one.completed + two.completed, MANY - failed);
	CHECK_INT(one.failures + two.failures, failed);
	later = spin(units[0], 0, 1000, 3);
	enum vg_status status = vg_execution_wait(later, 60);
	CHECK(lasting ? status == VG_OK || status == VG_DRIVER : status == VG_OK);
	vg_execution_destroy(later);
	OK(vg_compute_unit_close(units[1]));
	OK(vg_compute_close(rig.compute));
	vg_compute_unit_destroy(units[0]);
	vg_compute_unit_destroy(units[1]);
	vg_compute_destroy(rig.compute);
	vg_object_code_destroy(code);
	vg_context_destroy(context);
}

static void try_without_events(unsigned nth, bool lasting, bool direct)
{
	char fault[80];
	int status;

	pid_t child = fork();
	if (child == 0) {
		snprintf(fault, sizeof fault, "cuEventCreate:%u%s=CUDA_ERROR_OUT_OF_MEMORY", nth, lasting ? "+" : "");
		setenv("VIRGATE_SIM_FAULT", fault, 1);
		without_events(direct, lasting);
		exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child);
	if (status)
		printf("  of event %u%s, %s\n", nth, lasting ? " and all after it" : "",
		       direct ? "direct" : "in quanta");
	CHECK_INT(status, 0);
}

TEST(a_failed_event_creation_fails_only_its_work)
{
	if (!getenv("VIRGATE_SIM"))
		SKIP("faults are injected by the simulated driver");
	for (unsigned nth = 1; nth <= 9; nth++)
		for (unsigned how = 0; how < 4; how++)
			if (nth <= 3 || how == nth % 4)
				try_without_events(nth, how & 1, how & 2);
}

static pthread_t main_thread;
static atomic_bool starving;
static atomic_uint starved;
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

// Makes allocations of the library's threads fail (--wrap).
void *__wrap_malloc(size_t size)
{
	if (!atomic_load(&starving) || pthread_equal(pthread_self(), main_thread))
		return __real_malloc(size);
	atomic_fetch_add(&starved, 1);
	return NULL;
}

TEST(work_waits_until_memory_is_available)
{
	struct rig rig = open_rig(NULL);
	struct vg_compute_unit *unit = unit_of(&rig, "unit", 1);

	main_thread = pthread_self();
	atomic_store(&starving, true);
	struct vg_execution *one = spin(unit, 0, 1000, 3);
	REFUSED(vg_execution_wait(one, 0.1), VG_NOT_READY, "queued");
	CHECK(atomic_load(&starved) > 1); // the library has tried again
	atomic_store(&starving, false);
	OK(vg_execution_wait(one, 60)); // this work ends although nothing new is submitted
	vg_execution_destroy(one);
	vg_compute_unit_destroy(unit);
	close_rig(&rig);
}

TEST(a_fault_fails_all_work_of_the_context)
{
	struct rig rig = open_rig(NULL);
	struct vg_compute_unit *bad = unit_of(&rig, "bad", 0.5), *good = unit_of(&rig, "good", 0.5);
	struct vg_execution *queued[20], *one;
	struct vg_compute_info info;

	for (int i = 0; i < 20; i++)
		queued[i] = spin(good, (unsigned)i % 4, 2000000, 50);
	OK(try_launch(bad, "fault", 0, 1, NULL, 0, &one));
	CHECK_INT(vg_execution_wait(one, 60), VG_DRIVER);
	CHECK(vg_last_error()->code != 0);
	int code = vg_last_error()->code;
	for (int i = 0; i < 20; i++) {
		enum vg_status status = vg_execution_wait(queued[i], 60);
		CHECK(status == VG_DRIVER || status == VG_OK);
		if (status)
			CHECK_INT(vg_last_error()->code, code);
	}
	CHECK_INT(vg_execution_state(queued[19]), VG_EXECUTION_FAILED);
	REFUSED(try_launch(good, "empty", 0, 1, NULL, 0, NULL), VG_DRIVER, "restart the process");
	CHECK_INT(vg_compute_unit_sync_all(good, 60), VG_DRIVER);
	CHECK_INT(info_of(good).failed, 1);
	CHECK_INT(info_of(good).failure, code);
	OK(vg_compute_info(rig.compute, &info));
	CHECK_INT(info.failure, code);
	CHECK_INT(info.queue_length + info.running, 0);
	for (int i = 0; i < 20; i++)
		vg_execution_destroy(queued[i]);
	vg_execution_destroy(one);
	vg_compute_unit_destroy(good);
	vg_compute_unit_destroy(bad);
	vg_compute_destroy(rig.compute);
	vg_context_destroy(rig.context);
}
