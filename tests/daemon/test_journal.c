// Checks the journal without a daemon: a disk without room, a clock that is set back, texts that are not UTF-8, and
// damaged files. The disk, the clock and the log are stand-ins. Each test runs in a process of its own, because the
// journal is a global variable.
#include "base/clock.h"
#include "daemon/journal.h"
#include "daemon/journal_file.h"
#include "daemon/json_text.h"
#include "daemon/say.h"
#include "daemon/work.h"
#include "test.h"

#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct node node;
static char directory[64], file[128], old_file[128];
static uint64_t clock_ns;
static char said[4096]; // all lines of the log
static int lines;
static struct work *posted;

// ---- stand-ins -------------------------------------------------------------------------------------------

uint64_t vg_clock_realtime_ns(void)
{
	return clock_ns += 1000000;
}

uint64_t vg_clock_monotonic_ns(void)
{
	static uint64_t now = 1;

	return now += 1000000;
}

void say_line(struct say_kind *kind, const char *format, ...)
{
	size_t length = strlen(said);
	va_list arguments;

	(void)kind;
	va_start(arguments, format);
	vsnprintf(said + length, sizeof said - length, format, arguments);
	va_end(arguments);
	lines++;
}

// Users from 100000 on are subordinate users of user 1000.
uid_t user_owner(uid_t uid)
{
	return uid >= 100000 ? 1000 : uid;
}

// Stands in for the daemon's worker threads. The journal hands over one piece of work at a time, and finish_work()
// executes it.
bool work_post(uid_t uid, struct work *work)
{
	(void)uid;
	CHECK(!posted);
	posted = work;
	return true;
}

static void finish_work(void)
{
	while (posted) {
		struct work *work = posted;
		posted = NULL;
		work->run(work);
		work->done(&node, work);
	}
}

json_t *json_user(uid_t uid)
{
	return json_integer((json_int_t)uid);
}

json_t *json_command(const char *command)
{
	return json_string(command);
}

// ---- helpers ---------------------------------------------------------------------------------------------

static void remove_files(void)
{
	unlink(file);
	unlink(old_file);
	rmdir(directory);
}

// Runs the function in a child with an empty journal, and passes on its failure.
static void run_alone(void (*body)(void))
{
	int status;

	snprintf(directory, sizeof directory, "/tmp/virgate-journal-XXXXXX");
	CHECK(mkdtemp(directory));
	snprintf(node.state_path, sizeof node.state_path, "%s/state.json", directory);
	snprintf(file, sizeof file, "%s/state.events", directory);
	snprintf(old_file, sizeof old_file, "%s/state.events.old", directory);
	clock_ns = 1700000000000000000;
	pid_t pid = fork();
	if (pid == 0) {
		body();
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	remove_files();
	CHECK_INT(status, 0);
}

static void add(enum journal_kind kind, const char *text)
{
	journal_add(&node, kind, &(struct journal_note){.pid = 7}, "%s", text);
	finish_work();
}

// Adds events of the daemon itself. Their number is not limited, unlike the number of events of one user.
static void add_many(int number)
{
	for (int i = 0; i < number; i++)
		add(JOURNAL_STARTED, "version 1");
}

static size_t count_lines(const char *path)
{
	FILE *in = fopen(path, "r");
	size_t found = 0;

	for (int c = in ? getc(in) : EOF; c != EOF; c = getc(in))
		found += c == '\n';
	if (in)
		fclose(in);
	return found;
}

static size_t count_kept(void)
{
	size_t kept = 0;

	for (const struct journal_event *event = journal_next(0); event; event = journal_next(event->number + 1))
		kept++;
	return kept;
}

// Sets the largest size that a file may have. A write beyond that size fails with EFBIG, which the journal treats like
// a full disk.
static void limit_disk(rlim_t bytes)
{
	struct rlimit limit;

	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &limit);
	limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
	CHECK_INT(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

// ---- a disk without room ---------------------------------------------------------------------------------

static void fill_disk(void)
{
	struct stat status;

	add_many(1);
	CHECK_INT(count_lines(file), 1);
	CHECK_INT(stat(file, &status), 0);
	limit_disk((rlim_t)status.st_size + 40); // a part of the next line would fit
	add_many(JOURNAL_EVENTS - 1);
	CHECK_INT(lines, 1); // the log has one line for all failures
	CHECK_CONTAINS(said, "cannot be written: File too large; the daemon goes on");
	// no event is lost: the first is on the disk, and memory has room for all others
	CHECK_INT(journal_counts().lost, 0);
	CHECK_INT(journal_counts().write_errors, JOURNAL_EVENTS - 1);
	add_many(1); // the new event replaces the first one in memory, which is still on the disk
	CHECK_INT(journal_counts().lost, 0);
	add_many(10);
	CHECK_INT(journal_counts().lost, 10);
	CHECK_INT(count_kept(), JOURNAL_EVENTS);
	CHECK_INT(count_lines(file), 1); // no part of a line was left
	CHECK_INT(lines, 1);
	journal_file_finish(&node);
	CHECK_CONTAINS(said, "lacks the last 4096 events");

	limit_disk(RLIM_INFINITY);
	add_many(1);
	CHECK_INT(journal_counts().lost, 11);
	CHECK_CONTAINS(said, "is written again; 11 events were lost");
	CHECK_INT(count_lines(file) + count_lines(old_file), 1 + JOURNAL_EVENTS);
	CHECK_INT(journal_file_last(), journal_next(0)->number + JOURNAL_EVENTS - 1);
	journal_file_finish(&node);
	CHECK_INT(lines, 3); // the file lacks no events now, so journal_file_finish() logs no further line
}

TEST(events_that_a_full_disk_refuses_are_kept_and_lost_ones_counted)
{
	run_alone(fill_disk);
}

static void fill_disk_twice(void)
{
	limit_disk(0);
	add_many(3);
	CHECK_INT(lines, 1);
	limit_disk(RLIM_INFINITY);
	add_many(1);
	CHECK_INT(lines, 2);
	limit_disk(0);
	add_many(3);
	CHECK_INT(lines, 3); // the disk is full for the second time, and the log reports that again
}

TEST(a_disk_that_is_full_again_is_reported_again)
{
	run_alone(fill_disk_twice);
}

// ---- a clock that jumps ----------------------------------------------------------------------------------

static void set_clock_back(void)
{
	const double since = 1699999999;
	struct journal_query query = {.most = JOURNAL_ANSWER};

	add_many(2);
	uint64_t last = journal_file_last();
	clock_ns -= 3600000000000ull; // an hour
	add_many(2);
	CHECK_INT(journal_file_last(), last + 2);
	CHECK(journal_next(last + 1)->time_ns < journal_next(last)->time_ns);
	clock_ns += 7200000000000ull;
	add_many(1);
	json_t *list = journal_list(NULL, &query), *events = json_object_get(list, "events");
	CHECK_INT(json_array_size(events), 5);
	for (size_t i = 1; i < 5; i++)
		CHECK(json_integer_value(json_object_get(json_array_get(events, i), "number")) >
		      json_integer_value(json_object_get(json_array_get(events, i - 1), "number")));
	json_decref(list);
	query.after = last; // a reader that follows the events by number also gets those after the clock was set back
	list = journal_list(NULL, &query);
	CHECK_INT(json_array_size(json_object_get(list, "events")), 3);
	CHECK(!json_is_true(json_object_get(list, "lost")));
	json_decref(list);
	query = (struct journal_query){.most = JOURNAL_ANSWER, .since = since};
	list = journal_list(NULL, &query);
	// the events of the hour before `since` are left out
	CHECK_INT(json_array_size(json_object_get(list, "events")), 3);
	json_decref(list);
}

TEST(events_keep_their_order_when_the_clock_is_set_back)
{
	run_alone(set_clock_back);
}

static void write_two(void)
{
	add_many(1);
	add(JOURNAL_DRAINED, "GPU 0");
}

// A child process adds events while its clock is a day ahead. Then the next daemon loads these events with the right
// clock.
static void restart_with_earlier_clock(void)
{
	uint64_t right = clock_ns;
	pid_t pid = fork();

	if (pid == 0) {
		clock_ns = right + 86400000000000ull;
		write_two();
		_exit(0);
	}
	CHECK(waitpid(pid, NULL, 0) == pid);
	journal_load(&node);
	uint64_t last = journal_file_last();
	CHECK_INT(count_kept(), 2);
	add_many(1);
	CHECK_INT(count_kept(), 3);
	CHECK_INT(journal_file_last(), last + 1);
	CHECK_INT(count_lines(file), 3);
	CHECK_INT(lines, 0);
}

TEST(a_restarted_daemon_continues_after_events_of_the_future)
{
	run_alone(restart_with_earlier_clock);
}

// ---- damaged files ---------------------------------------------------------------------------------------

// Writes the file with the byte at `at` changed, or cut before that byte. Loads the file in a child, and returns how
// many events the child has loaded.
static int load_changed(const char *text, size_t length, size_t at, bool is_cut)
{
	int status;
	FILE *out = fopen(file, "w");

	CHECK(out);
	for (size_t i = 0; i < (is_cut ? at : length); i++)
		putc(i == at ? text[i] ^ 1 : text[i], out);
	CHECK_INT(fclose(out), 0);
	pid_t pid = fork();
	if (pid == 0) {
		journal_load(&node);
		int kept = (int)count_kept();
		add_many(1); // a damaged end does not damage the next event
		_exit((int)count_kept() == kept + 1 ? kept : 99);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void damage_each_byte(void)
{
	static char text[2048];
	pid_t pid = fork();

	if (pid == 0) {
		write_two();
		_exit(0);
	}
	CHECK(waitpid(pid, NULL, 0) == pid);
	FILE *in = fopen(file, "r");
	CHECK(in);
	size_t length = fread(text, 1, sizeof text, in), first = (size_t)(strchr(text, '\n') - text);
	fclose(in);
	CHECK(length > 100 && length < sizeof text);
	for (size_t at = 0; at < length; at++) {
		int kept = load_changed(text, length, at, false);
		// One of the two events is lost. If the changed byte is the end of the first line, both lines are
		// read as one, and both are lost.
		CHECK(kept == 1 || (at == first && kept == 0));
		kept = load_changed(text, length, at, true);
		CHECK_INT(kept, at > first ? 1 : 0);
	}
}

TEST(only_the_damaged_line_is_left_out)
{
	run_alone(damage_each_byte);
}

// ---- texts -----------------------------------------------------------------------------------------------

static void add_odd_texts(void)
{
	char text[400];
	const struct journal_query query = {.most = JOURNAL_ANSWER};

	add(JOURNAL_DRAINED, "caf\xc3\xa9\n\x7f");
	add(JOURNAL_DRAINED, "\xff\xc3");
	memset(text, 'x', sizeof text);
	for (size_t i = 1; i + 2 < sizeof text; i += 2)
		memcpy(text + i, "\xc3\xa9", 2); // the end of the event's text is within a character
	text[sizeof text - 1] = '\0';
	add(JOURNAL_DRAINED, text);
	add(JOURNAL_DRAINED, text + 1);
	json_t *list = journal_list(NULL, &query), *events = json_object_get(list, "events"), *one;
	size_t i;
	CHECK_INT(json_array_size(events), 4);
	json_array_foreach(events, i, one)
		CHECK(json_string_length(json_object_get(one, "text")) > 0);
	CHECK_STR(json_string_value(json_object_get(json_array_get(events, 0), "text")), "caf\xc3\xa9??");
	CHECK_STR(json_string_value(json_object_get(json_array_get(events, 1), "text")), "??");
	json_decref(list);
	CHECK_INT(count_lines(file), 4);
}

TEST(texts_are_valid_wherever_they_are_cut)
{
	run_alone(add_odd_texts);
}

// Each user may add 256 events at once, and then 1 event a second. The clock of this test hardly advances.
static void flood_as_subordinate_users(void)
{
	for (uid_t uid = 100000; uid < 100016; uid++) {
		struct authority_peer peer = {.uid = uid, .pid = 7};
		for (int i = 0; i < 256; i++)
			journal_add(&node, JOURNAL_DENIED, &(struct journal_note){.actor = &peer}, "drain");
	}
	CHECK(count_kept() >= 256 && count_kept() <= 300);
	CHECK(journal_counts().omitted >= 15 * 256 - 50);
}

TEST(subordinate_users_share_the_budget_of_their_owner)
{
	run_alone(flood_as_subordinate_users);
}

static void load_large_number(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		journal_add(&node, JOURNAL_STARTED, &(struct journal_note){.pid = 7, .bytes = UINT64_MAX}, "version 1");
		finish_work();
		_exit(0);
	}
	CHECK(waitpid(pid, NULL, 0) == pid);
	journal_load(&node);
	CHECK_INT(journal_counts().damaged_lines, 0);
	CHECK_INT(count_kept(), 1);
}

TEST(a_number_above_int64_damages_no_line)
{
	run_alone(load_large_number);
}
