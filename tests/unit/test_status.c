#include "test.h"

#include "base/log.h"
#include "base/status.h"

#include <pthread.h>

TEST(status_texts_are_unique)
{
	for (int i = 0; i <= VG_POLICY; i++) {
		CHECK(strcmp(vg_status_text(i), "unknown status") != 0);
		for (int other = 0; other < i; other++)
			CHECK(strcmp(vg_status_text(i), vg_status_text(other)) != 0);
	}
	CHECK_STR(vg_status_text(VG_POLICY + 1), "unknown status");
	CHECK_STR(vg_status_text(-1), "unknown status");
}

TEST(temporary_failures_are_retriable)
{
	CHECK(vg_status_is_retriable(VG_INSUFFICIENT));
	CHECK(vg_status_is_retriable(VG_BUSY));
	CHECK(vg_status_is_retriable(VG_NO_DAEMON));
	CHECK(!vg_status_is_retriable(VG_OK));
	CHECK(!vg_status_is_retriable(VG_BOUNDS));
	CHECK(!vg_status_is_retriable(VG_STALE));
	CHECK(!vg_status_is_retriable(VG_INTEGRITY));
	CHECK(!vg_status_is_retriable(VG_POLICY));
	CHECK(!vg_status_is_retriable(VG_POLICY + 1));
}

TEST(next_failure_clears_amounts)
{
	vg_fail(VG_INSUFFICIENT, 0, "little");
	vg_fail_amounts(7, 5);
	CHECK_INT(vg_last_error()->need, 7);
	CHECK_INT(vg_last_error()->have, 5);
	vg_fail(VG_INVALID, 0, "no amounts this time");
	CHECK_INT(vg_last_error()->need, 0);
	CHECK_INT(vg_last_error()->have, 0);
}

static void *fail_elsewhere(void *unused)
{
	CHECK_STR(vg_last_error()->function, "");
	vg_fail(VG_BUSY, 16, "another thread's");
	return unused;
}

static enum vg_status fail_inside(void)
{
	VG_ENTRY();
	return vg_fail(VG_INVALID, 0, "inside");
}

static enum vg_status fail_outside(void)
{
	VG_ENTRY();
	return fail_inside();
}

TEST(error_names_the_outermost_public_function)
{
	CHECK_INT(fail_outside(), VG_INVALID);
	CHECK_STR(vg_last_error()->function, "fail_outside");
	fail_inside();
	CHECK_STR(vg_last_error()->function, "fail_inside");
	vg_fail(VG_INVALID, 0, "outside of all of them");
	CHECK_STR(vg_last_error()->function, "");
}

TEST(last_error_is_per_thread)
{
	pthread_t thread;

	CHECK_INT(vg_fail(VG_LIMIT, 2, "asked %d of %d", 3, 2), VG_LIMIT);
	vg_fail_log("output of the tool");
	CHECK(pthread_create(&thread, NULL, fail_elsewhere, NULL) == 0);
	pthread_join(thread, NULL);
	const struct vg_error *error = vg_last_error();
	CHECK_INT(error->status, VG_LIMIT);
	CHECK_INT(error->code, 2);
	CHECK_STR(error->text, "asked 3 of 2");
	CHECK_STR(error->log, "output of the tool");
	vg_fail(VG_INVALID, 0, "no log this time");
	CHECK_STR(vg_last_error()->log, "");
}

static char message[64];
static enum vg_log_level message_level;

static void note_message(void *user, enum vg_log_level level, const char *text)
{
	CHECK(user == message);
	message_level = level;
	snprintf(message, sizeof message, "%s", text);
}

TEST(log_callback_gets_messages_until_it_is_removed)
{
	vg_log(VG_LOG_ERROR, "no callback");
	vg_log_set(note_message, message);
	vg_log(VG_LOG_WARNING, "%d left", 7);
	CHECK_STR(message, "7 left");
	CHECK_INT(message_level, VG_LOG_WARNING);
	vg_log_set(NULL, NULL);
	vg_log(VG_LOG_ERROR, "no callback");
	CHECK_STR(message, "7 left");
}
