#include "test.h"

#include "base/log.h"
#include "base/mutex.h"
#include "base/status.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

static struct vg_mutex one, other;
static char logged[256];
static unsigned calls_under_lock;

static void note_message(void *user, enum vg_log_level level, const char *text)
{
	snprintf(logged + strlen(logged), sizeof logged - strlen(logged), "%s;", text);
	calls_under_lock += one.lock.word || other.lock.word;
	vg_fail(VG_BUSY, 1, "failure of the callback");
	if (strcmp(text, "second") == 0)
		vg_log(VG_LOG_INFO, "of the callback");
}

TEST(messages_logged_under_a_mutex_are_delivered_after_it)
{
	vg_log_set(note_message, NULL);
	vg_fail(VG_LIMIT, 2, "the failure");
	CHECK(vg_mutex_lock(&one));
	vg_log(VG_LOG_WARNING, "first");
	CHECK(vg_mutex_lock(&other));
	vg_log(VG_LOG_WARNING, "%s", "second");
	vg_mutex_unlock(&other);
	CHECK_STR(logged, "");
	vg_mutex_unlock(&one);
	CHECK_STR(logged, "first;second;of the callback;");
	vg_log(VG_LOG_WARNING, "at once");
	CHECK_CONTAINS(logged, "at once;");
	CHECK_INT(calls_under_lock, 0);
	CHECK_STR(vg_last_error()->text, "the failure");
	vg_log_set(NULL, NULL);
}

static atomic_int is_locked, is_done;

static void *hold_mutex(void *unused)
{
	vg_mutex_lock(&one);
	is_locked = 1;
	while (!is_done)
		usleep(1000);
	vg_mutex_unlock(&one);
	return unused;
}

static void check_in_child(void)
{
	alarm(TEST_CHILD_SECONDS);
	CHECK(!vg_mutex_lock(&one)); // locked, and orphaned
	vg_mutex_unlock(&one);
	CHECK(!vg_mutex_lock(&one));
	vg_mutex_unlock(&one);
	CHECK(vg_mutex_lock(&other));
	vg_mutex_unlock(&other);
	pid_t grandchild = fork();
	if (grandchild == 0) {
		CHECK(!vg_mutex_lock(&one));
		CHECK(vg_mutex_lock(&other));
		_exit(0);
	}
	CHECK_CHILD(grandchild);
}

TEST(forked_child_can_lock_mutex_of_another_thread)
{
	pthread_t thread;
	int status;

	CHECK_INT(pthread_create(&thread, NULL, hold_mutex, NULL), 0);
	while (!is_locked)
		usleep(1000);
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		check_in_child();
		_exit(0);
	}
	CHECK_INT(waitpid(child, &status, 0), child);
	is_done = 1;
	pthread_join(thread, NULL);
	CHECK_INT(status, 0);
	// the parent's mutex still works; only the copy in the child had lost the thread that held it
	CHECK(vg_mutex_lock(&one));
	vg_mutex_unlock(&one);
}

static int counter;

static void *increment(void *unused)
{
	for (int i = 0; i < 100000; i++) {
		vg_mutex_lock(&one);
		counter++;
		vg_mutex_unlock(&one);
	}
	return unused;
}

TEST(mutex_excludes_threads)
{
	pthread_t threads[4];

	for (int i = 0; i < 4; i++)
		CHECK_INT(pthread_create(&threads[i], NULL, increment, NULL), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	CHECK_INT(counter, 400000);
}
