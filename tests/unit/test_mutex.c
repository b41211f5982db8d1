#include "test.h"

#include "base/log.h"
#include "base/mutex.h"
#include "base/status.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

static struct vg_mutex one, other;
static char heard[256];
static unsigned heard_under_lock;

static void hear(void *user, enum vg_log_level level, const char *text)
{
	snprintf(heard + strlen(heard), sizeof heard - strlen(heard), "%s;", text);
	heard_under_lock += one.lock.word || other.lock.word;
	vg_fail(VG_BUSY, 1, "callback", "its own failure");
	if (strcmp(text, "second") == 0)
		vg_log(VG_LOG_INFO, "of the callback");
}

TEST(what_is_logged_under_a_lock_is_said_after_it)
{
	vg_log_set(hear, NULL);
	vg_fail(VG_LIMIT, 2, "before", "the failure");
	CHECK(vg_mutex_take(&one));
	vg_log(VG_LOG_WARNING, "first");
	CHECK(vg_mutex_take(&other));
	vg_log(VG_LOG_WARNING, "%s", "second");
	vg_mutex_give(&other);
	CHECK_STR(heard, "");
	vg_mutex_give(&one);
	CHECK_STR(heard, "first;second;of the callback;");
	vg_log(VG_LOG_WARNING, "at once");
	CHECK_CONTAINS(heard, "at once;");
	CHECK_INT(heard_under_lock, 0);
	CHECK_STR(vg_last_error()->text, "the failure");
	vg_log_set(NULL, NULL);
}

static atomic_int taken, enough;

static void *hold(void *unused)
{
	vg_mutex_take(&one);
	taken = 1;
	while (!enough)
		usleep(1000);
	vg_mutex_give(&one);
	return unused;
}

static void in_the_child(void)
{
	alarm(TEST_CHILD_SECONDS);
	CHECK(!vg_mutex_take(&one)); // taken, and what it protects may be half changed
	vg_mutex_give(&one);
	CHECK(!vg_mutex_take(&one));
	vg_mutex_give(&one);
	CHECK(vg_mutex_take(&other));
	vg_mutex_give(&other);
	pid_t grandchild = fork();
	int status;
	if (grandchild == 0) {
		CHECK(!vg_mutex_take(&one));
		CHECK(vg_mutex_take(&other));
		_exit(0);
	}
	CHECK_INT(waitpid(grandchild, &status, 0), grandchild);
	CHECK_INT(status, 0);
}

TEST(a_child_does_not_wait_for_a_thread_that_it_does_not_have)
{
	pthread_t thread;
	int status;

	CHECK_INT(pthread_create(&thread, NULL, hold, NULL), 0);
	while (!taken)
		usleep(1000);
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		in_the_child();
		_exit(0);
	}
	CHECK_INT(waitpid(child, &status, 0), child);
	enough = 1;
	pthread_join(thread, NULL);
	CHECK_INT(status, 0);
	CHECK(vg_mutex_take(&one)); // here nothing has changed
	vg_mutex_give(&one);
}

static int shared;

static void *add(void *unused)
{
	for (int i = 0; i < 100000; i++) {
		vg_mutex_take(&one);
		shared++;
		vg_mutex_give(&one);
	}
	return unused;
}

TEST(one_thread_at_a_time)
{
	pthread_t threads[4];

	for (int i = 0; i < 4; i++)
		CHECK_INT(pthread_create(&threads[i], NULL, add, NULL), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	CHECK_INT(shared, 400000);
}
