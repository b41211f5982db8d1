// Tests locking of a busy process, and missing features of an older driver. Each process is a child that is forked
// before this one uses the driver.
#include "core_child.h"
#include "core_hold.h"

#include <pthread.h>

static void restore_elsewhere(void)
{
	static const struct vg_process_gpu_pair pair = {"00000000000000000000000000000001",
							"00000000000000000000000000000002"};
	struct vg_process *process;

	OK(vg_process_open(getppid(), &process));
	REFUSED(vg_process_restore(process, &pair, 1), VG_UNSUPPORTED, "needs driver 13.0, have 12.8");
	vg_process_destroy(process);
}

TEST(before_13_0_processes_are_restored_on_the_same_gpus)
{
	in_child(restore_elsewhere, "VIRGATE_SIM", "driver=12080");
}

static int to_child[2], from_child[2];
static struct hold hold;

// Waits without CUDA calls, which would block while the process is locked.
static void *wait_for_word(void *nothing)
{
	char word;

	if (read(to_child[0], &word, 1) == 1)
		hold_end(&hold);
	return NULL;
}

static void work(void)
{
	struct vg_context *context = first_context();
	struct vg_stream *stream;
	pthread_t thread;

	OK(vg_stream_create(context, NULL, &stream));
	CHECK_INT(pthread_create(&thread, NULL, wait_for_word, NULL), 0);
	hold_stream(&hold, stream);
	CHECK_INT(write(from_child[1], "r", 1), 1);
	OK(vg_stream_sync(stream));
	pthread_join(thread, NULL);
	char word;
	CHECK_INT(read(to_child[0], &word, 1), 1);
	_exit(0);
}

TEST(a_busy_process_is_locked_after_its_work)
{
	enum vg_process_state state;
	struct vg_process *process;
	char word;

	CHECK_INT(pipe(to_child), 0);
	CHECK_INT(pipe(from_child), 0);
	fflush(stdout);
	pid_t child = fork();
	if (child == 0)
		work();
	close(from_child[1]);
	CHECK_INT(read(from_child[0], &word, 1), 1);
	OK(vg_process_open(child, &process));
	REFUSED(vg_process_lock(process, 200), VG_NOT_READY, "200 ms");
	OK(vg_process_state(process, &state));
	CHECK_INT(state, VG_PROCESS_RUNNING);
	CHECK_INT(write(to_child[1], "g", 1), 1);
	OK(vg_process_lock(process, 10000));
	OK(vg_process_unlock(process));
	CHECK_INT(write(to_child[1], "e", 1), 1);
	CHECK_CHILD(child);
	vg_process_destroy(process);
}
