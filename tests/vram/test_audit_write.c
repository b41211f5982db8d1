// Tests appending to the audit log: the records, concurrent writers, and failures.
#include "audit_test.h"

#include "virgate/log.h"

#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/syscall.h>

// ---- records ---------------------------------------------------------------------------------------------

TEST(a_record_is_a_line_of_json)
{
	struct vram_keys *keys = keys_of(KEY_DIGITS);
	struct vram_audit *audit = open_log(path_of("one"), keys);
	struct vram_event event = example;
	struct stat stat_;
	char expected[256];
	size_t length;

	event.text = "a \"quoted\\\" text\n\x01\xff";
	OK(vram_audit_append(audit, &event));
	char *text = read_file(path_of("one"), &length);
	snprintf(expected, sizeof expected,
		 "Z\",\"pid\":%d,\"uid\":%u,\"vgpu\":\"train\",\"event\":\"sealed\",\"handle\":\"100000001\",",
		 getpid(), geteuid());
	CHECK_CONTAINS(text, "{\"n\":1,\"time\":\"2");
	CHECK_CONTAINS(text, expected);
	CHECK_CONTAINS(text,
		       "\"bytes\":4096,\"device\":\"GPU-01234567-89ab-cdef-0123-456789abcdef\",\"id\":\"layer-0\","
		       "\"generation\":7,\"text\":\"a \\\"quoted\\\\\\\" text\\u000a\\u0001\\ufffd\",\"mac\":\"");
	CHECK_STR(text + length - 3, "\"}\n");
	CHECK_INT(stat(path_of("one"), &stat_), 0);
	CHECK_INT(stat_.st_mode & 07777, 0600);
	CHECK_INT(stat(path_of("one.head"), &stat_), 0);
	CHECK_INT(stat_.st_mode & 07777, 0600);
	CHECK_INT(stat_.st_size, AUDIT_HEAD);
	free(text);
	vram_audit_close(audit);
	vram_keys_close(keys);
	is_whole(path_of("one"), 1);
}

TEST(the_longest_record_fits)
{
	struct vram_keys *keys = keys_of(KEY_DIGITS);
	struct vram_audit *audit;
	char text[3000], id[257], vgpu[200];
	struct vram_event event = {UINT32_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, NULL, id, text};

	memset(text, 1, sizeof text);
	memset(id, 'a', sizeof id);
	memset(vgpu, '\\', sizeof vgpu);
	text[sizeof text - 1] = id[256] = vgpu[sizeof vgpu - 1] = '\0';
	event.kind = VRAM_EVENT_VERIFICATION_FAILED;
	OK(vram_audit_open(path_of("long"), keys, vgpu, &audit));
	OK(vram_audit_append(audit, &event));
	vram_audit_close(audit);
	vram_keys_close(keys);
	is_whole(path_of("long"), 1);
}

TEST(reopened_log_continues)
{
	struct vg_audit_report report;

	write_records(path_of("again"), 2);
	write_records(path_of("again"), 3);
	OK(verify(path_of("again"), NULL, &report));
	CHECK_INT(report.records, 5);
	CHECK_INT(strlen(report.first), 30);
	CHECK(strcmp(report.first, report.last) < 0);
	CHECK_INT(strncmp(report.head, "5:", 2), 0);
	CHECK_INT(strlen(report.head), 66);
	write_records(path_of("empty"), 0);
	is_whole(path_of("empty"), 0);
}

static int syncs;

// Replaces libc's fdatasync() in this program, to count the calls.
__attribute__((visibility("default"))) int fdatasync(int fd)
{
	syncs++;
	return (int)syscall(SYS_fdatasync, fd);
}

TEST(failures_are_synced)
{
	struct vram_keys *keys = keys_of(KEY_DIGITS);
	struct vram_audit *audit = open_log(path_of("synced"), keys);
	static const struct {
		enum vram_event_kind kind;
		int syncs; // expected number of calls: none, or one for the log and one for its head
	} rows[] = {
		{VRAM_EVENT_ALLOCATED, 0},	     {VRAM_EVENT_SEALED, 0},	  {VRAM_EVENT_VERIFIED, 0},
		{VRAM_EVENT_VERIFICATION_FAILED, 2}, {VRAM_EVENT_DEALLOCATED, 0}, {VRAM_EVENT_ALLOCATION_FAILED, 2},
		{VRAM_EVENT_POLICY_VIOLATION, 2},
	};

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct vram_event event = {.kind = rows[i].kind};
		syncs = 0;
		OK(vram_audit_append(audit, &event));
		CHECK_INT(syncs, rows[i].syncs);
	}
	syncs = 0;
	vram_audit_close(audit);
	CHECK_INT(syncs, 2);
	vram_keys_close(keys);
}

TEST(append_without_a_log_does_nothing)
{
	OK(vram_audit_append(NULL, &example));
	vram_audit_append_failure(NULL, &example);
	vram_audit_close(NULL);
}

// ---- writers ---------------------------------------------------------------------------------------------

TEST(open_refuses_unwritable_files)
{
	struct vram_keys *keys = keys_of(KEY_DIGITS);
	struct vram_audit *audit = NULL;
	char name[5000];

	REFUSED(vram_audit_open("", keys, "", &audit), VG_INVALID, "empty");
	memset(name, 'a', sizeof name);
	name[sizeof name - 1] = '\0';
	REFUSED(vram_audit_open(name, keys, "", &audit), VG_INVALID, "too long");
	REFUSED(vram_audit_open(path_of("no/folder"), keys, "", &audit), VG_NOT_FOUND, "No such file");
	REFUSED(vram_audit_open("/dev/full", keys, "", &audit), VG_INVALID, "not a regular file");
	CHECK_INT(symlink(path_of("key"), path_of("link")), 0);
	REFUSED(vram_audit_open(path_of("link"), keys, "", &audit), VG_DENIED, "symbolic link");
	CHECK(!audit);
	vram_keys_close(keys);
}

TEST(open_refuses_a_log_of_another_user)
{
	struct vram_keys *keys = keys_of(KEY_DIGITS);

	write_records(path_of("theirs"), 1);
	pid_t child = fork();
	if (child == 0) {
		struct vram_audit *audit;
		if (geteuid() == 0)
			CHECK_INT(setresuid(65534, 65534, 65534), 0);
		else
			CHECK_INT(chmod(path_of("theirs"), 0400), 0);
		REFUSED(vram_audit_open(path_of("theirs"), keys, "", &audit), VG_DENIED, "Permission denied");
		_exit(0);
	}
	CHECK_CHILD(child);
	vram_keys_close(keys);
}

TEST(append_finds_a_removed_or_replaced_log)
{
	struct vram_keys *keys = keys_of(KEY_DIGITS);
	const char *path = path_of("moved");
	struct vram_audit *audit = open_log(path, keys);
	char other[160];

	OK(vram_audit_append(audit, &example));
	snprintf(other, sizeof other, "%s-away", path);
	CHECK_INT(rename(path, other), 0);
	REFUSED(vram_audit_append(audit, &example), VG_SYSTEM, "was removed or replaced while it was open");
	write_file(path, "", 0, 0600);
	REFUSED(vram_audit_append(audit, &example), VG_SYSTEM, "was removed or replaced");
	CHECK_INT(rename(other, path), 0);
	OK(vram_audit_append(audit, &example));
	CHECK_INT(unlink(head_of(path)), 0);
	REFUSED(vram_audit_append(audit, &example), VG_SYSTEM, "head was removed or replaced");
	vram_audit_close(audit);
	vram_keys_close(keys);
}

TEST(append_after_a_change_of_directory)
{
	struct vram_keys *keys = keys_of(KEY_DIGITS);
	int before = open(".", O_RDONLY | O_DIRECTORY);

	CHECK_INT(chdir(seal_directory), 0);
	struct vram_audit *audit = open_log("here", keys);
	CHECK_INT(fchdir(before), 0);
	OK(vram_audit_append(audit, &example));
	vram_audit_close(audit);
	vram_keys_close(keys);
	close(before);
	is_whole(path_of("here"), 1);
}

TEST(append_finds_a_shortened_log)
{
	struct vram_keys *keys = keys_of(KEY_DIGITS);
	const char *path = path_of("shrinks");
	struct vram_audit *audit = open_log(path, keys);
	size_t length;

	OK(vram_audit_append(audit, &example));
	char *head = read_file(head_of(path), &length);
	struct stat stat_;
	CHECK_INT(stat(path, &stat_), 0);
	OK(vram_audit_append(audit, &example));
	// Restore the old contents of both files in place.
	CHECK_INT(truncate(path, stat_.st_size), 0);
	int fd = open(head_of(path), O_WRONLY);
	CHECK_INT(pwrite(fd, head, length, 0), length);
	close(fd);
	REFUSED(vram_audit_append(audit, &example), VG_INTEGRITY, "is shorter than it was");
	free(head);
	vram_audit_close(audit);
	vram_keys_close(keys);
}

static int warnings;

static void count_warnings(void *user, enum vg_log_level level, const char *text)
{
	warnings++;
}

TEST(append_on_a_full_disk_leaves_no_record)
{
	struct vram_keys *keys = keys_of(KEY_DIGITS);
	const char *path = path_of("full");
	struct vram_audit *audit = open_log(path, keys);
	struct rlimit before, limit;
	struct stat stat_;

	OK(vram_audit_append(audit, &example));
	CHECK_INT(stat(path, &stat_), 0);
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &before);
	limit = before;
	for (int room = 0; room < 300; room += 60) { // the disk has room for no record, or only for a part of a record
		limit.rlim_cur = (rlim_t)stat_.st_size + (rlim_t)room;
		CHECK_INT(setrlimit(RLIMIT_FSIZE, &limit), 0);
		enum vg_status status = vram_audit_append(audit, &example);
		setrlimit(RLIMIT_FSIZE, &before);
		CHECK_INT(status, VG_SYSTEM);
		CHECK_CONTAINS(vg_last_error()->text, "cannot append a record");
		is_whole(path, 1);
	}
	// If a record of a failed operation cannot be written, the error of the operation is kept. The log callback
	// gets a message about the record.
	vg_log_set(count_warnings, NULL);
	CHECK_INT(vram_audit_open("", keys, "", &audit), VG_INVALID);
	CHECK_INT(setrlimit(RLIMIT_FSIZE, &limit), 0);
	vram_audit_append_failure(audit, &example);
	setrlimit(RLIMIT_FSIZE, &before);
	vg_log_set(NULL, NULL);
	CHECK_INT(warnings, 1);
	CHECK_INT(vg_last_error()->status, VG_INVALID);
	OK(vram_audit_append(audit, &example));
	vram_audit_close(audit);
	vram_keys_close(keys);
	is_whole(path, 2);
}

TEST(next_writer_removes_an_unfinished_record)
{
	const char *path = path_of("unfinished");
	size_t length;

	write_records(path, 2);
	int fd = open(path, O_WRONLY | O_APPEND);
	CHECK_INT(write(fd, "{\"n\":3,\"time", 12), 12);
	close(fd);
	is_not_whole(path, VG_AUDIT_CUT, 3, 2, "is unfinished");
	write_records(path, 1);
	is_whole(path, 4);
	char *text = read_file(path, &length);
	CHECK_CONTAINS(text, "\"event\":\"recovered\",\"handle\":\"0\",\"bytes\":12,");
	free(text);
}

// Simulates a writer that was killed after it had written a record, and before it wrote the head.
TEST(next_writer_counts_a_record_after_the_head)
{
	const char *path = path_of("behind");
	size_t length;

	write_records(path, 2);
	char *head = read_file(head_of(path), &length);
	write_records(path, 1);
	write_file(head_of(path), head, length, 0600);
	free(head);
	is_whole(path, 3);
	write_records(path, 1);
	is_whole(path, 4);
}

TEST(append_times_out_waiting_for_the_lock)
{
	struct vram_keys *keys = keys_of(KEY_DIGITS);
	struct vram_audit *audit;

	if (!getenv("VIRGATE_TEST_FULL"))
		SKIP("takes 10 seconds: VIRGATE_TEST_FULL=1");
	write_records(path_of("locked"), 1);
	int fd = open(path_of("locked"), O_RDWR);
	CHECK_INT(flock(fd, LOCK_EX), 0);
	REFUSED(vram_audit_open(path_of("locked"), keys, "", &audit), VG_BUSY, "has held its lock for 10 seconds");
	close(fd);
	vram_keys_close(keys);
}

TEST(forked_child_cannot_append)
{
	struct vram_keys *keys = keys_of(KEY_DIGITS);
	struct vram_audit *audit = open_log(path_of("forked"), keys);

	pid_t child = fork();
	if (child == 0) {
		REFUSED(vram_audit_append(audit, &example), VG_STATE, "opened by the parent");
		_exit(0);
	}
	CHECK_CHILD(child);
	OK(vram_audit_append(audit, &example));
	vram_audit_close(audit);
	vram_keys_close(keys);
	is_whole(path_of("forked"), 1);
}

enum { THREADS = 4, EACH = 50 };

static void *append_some(void *audit)
{
	for (int i = 0; i < EACH; i++)
		if (vram_audit_append(audit, &example))
			return "failed";
	return NULL;
}

TEST(threads_and_processes_append_to_one_log)
{
	pid_t children[3];
	const char *path = path_of("shared");

	key_file("key", KEY_DIGITS);
	for (int i = 0; i < 3; i++) {
		children[i] = fork();
		if (children[i] == 0) {
			struct vram_keys *keys;
			pthread_t threads[THREADS];
			void *result;
			OK(vram_keys_open(path_of("key"), NULL, "train", &keys));
			struct vram_audit *audit = open_log(path, keys);
			for (int t = 0; t < THREADS; t++)
				CHECK_INT(pthread_create(&threads[t], NULL, append_some, audit), 0);
			for (int t = 0; t < THREADS; t++) {
				CHECK_INT(pthread_join(threads[t], &result), 0);
				CHECK(!result);
			}
			vram_audit_close(audit);
			_exit(0);
		}
	}
	for (int i = 0; i < 3; i++)
		CHECK_CHILD(children[i]);
	is_whole(path, 3 * THREADS * EACH);
}

// Kills writers at various times. After each kill the log is valid, or ends in an unfinished line. The next writer
// removes such a line.
TEST(killed_writers_leave_a_valid_log)
{
	const char *path = path_of("killed");
	struct vg_audit_report report;
	uint64_t records = 0;

	key_file("key", KEY_DIGITS);
	for (int round = 0; round < 40 || (!records && round < 400);
	     round++) { // on a slow machine, repeats until a writer had time for a record
		pid_t child = fork();
		if (child == 0) {
			struct vram_keys *keys;
			if (vram_keys_open(path_of("key"), NULL, "train", &keys))
				_exit(2);
			struct vram_audit *audit = open_log(path, keys);
			for (;;)
				if (vram_audit_append(audit, &example))
					_exit(3);
		}
		usleep(2000 + 317 * (useconds_t)round);
		CHECK_INT(kill(child, SIGKILL), 0);
		int status;
		CHECK_INT(waitpid(child, &status, 0), child);
		CHECK(WIFSIGNALED(status));
		if (access(path, F_OK) < 0)
			continue;
		if (verify(path, NULL, &report) != VG_OK && report.fault != VG_AUDIT_CUT &&
		    // VG_AUDIT_HEAD is allowed if the writer was killed before the log had a head
		    !(report.fault == VG_AUDIT_HEAD && report.records == 0))
			FAIL("round %d: %s", round, vg_last_error()->text);
		CHECK(report.records >= records);
		records = report.records;
	}
	CHECK(records > 0);
	write_records(path, 1);
	OK(verify(path, NULL, &report));
	CHECK(report.records > records);
}
