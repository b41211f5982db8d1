// Tests the verification of the audit log: it finds every change, and names the first one.
#include "audit_test.h"

enum { RECORDS = 9 };

struct log {
	char path[160];
	char *lines[RECORDS + 8]; // without newlines
	int count;
};

// Writes a log of RECORDS records, and splits it into lines.
static void begin(struct log *log)
{
	static int turn;
	size_t length;

	snprintf(log->path, sizeof log->path, "%s-%d", path_of("log"), turn++);
	write_records(log->path, RECORDS);
	char *text = read_file(log->path, &length);
	log->count = 0;
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		log->lines[log->count++] = strdup(line);
	free(text);
	CHECK_INT(log->count, RECORDS);
	is_whole(log->path, RECORDS);
}

static void put_back(struct log *log)
{
	FILE *file = fopen(log->path, "w");

	CHECK(file != NULL);
	for (int i = 0; i < log->count; i++)
		fprintf(file, "%s\n", log->lines[i]);
	CHECK_INT(fclose(file), 0);
}

static void end(struct log *log)
{
	for (int i = 0; i < log->count; i++)
		free(log->lines[i]);
}

// ---- faults ----------------------------------------------------------------------------------------------

TEST(verify_finds_every_changed_byte)
{
	struct log log;
	size_t length;

	begin(&log);
	char *text = read_file(log.path, &length);
	size_t first = strlen(log.lines[0]) + 1;
	// change only bytes of the first two lines, because all later lines have the form of the second one
	for (size_t at = 0; at < 2 * first; at++) {
		char before = text[at];
		text[at] ^= 1;
		write_file(log.path, text, length, 0600);
		struct vg_audit_report report;
		CHECK_INT(verify(log.path, NULL, &report), VG_INTEGRITY);
		CHECK_INT(report.line, at < first ? 1 : 2);
		CHECK_INT(report.records, report.line - 1);
		CHECK(report.fault != VG_AUDIT_NONE && report.fault != VG_AUDIT_CUT && report.fault != VG_AUDIT_KEY);
		text[at] = before;
	}
	free(text);
	end(&log);
}

TEST(verify_finds_a_changed_line)
{
	struct log log;

	begin(&log);
	char *event = strstr(log.lines[4], "sealed");
	memcpy(event, "SEALED", 6);
	put_back(&log);
	is_not_whole(log.path, VG_AUDIT_CHANGED, 5, 4, "line 5 was changed, or another put in its place");
	end(&log);
}

TEST(verify_finds_a_line_of_another_log)
{
	struct log log, other;

	begin(&log);
	begin(&other);
	char *kept = log.lines[4];
	log.lines[4] = other.lines[4];
	put_back(&log);
	is_not_whole(log.path, VG_AUDIT_CHANGED, 5, 4, "line 5");
	log.lines[4] = kept;
	put_back(&log);
	is_whole(log.path, RECORDS);
	// The head is a second file, with the number of records of the log. Replace it by the head of another log,
	// which has the same key and as many records.
	size_t length;
	char *head = read_file(head_of(other.path), &length);
	write_file(head_of(log.path), head, length, 0600);
	is_not_whole(log.path, VG_AUDIT_HEAD, RECORDS, RECORDS, "its head is another log's");
	free(head);
	end(&other);
	end(&log);
}

static void insert(struct log *log, int at, const char *line)
{
	memmove(&log->lines[at + 1], &log->lines[at], (size_t)(log->count - at) * sizeof *log->lines);
	log->lines[at] = strdup(line);
	log->count++;
}

static void take_out(struct log *log, int at)
{
	free(log->lines[at]);
	memmove(&log->lines[at], &log->lines[at + 1], (size_t)(log->count - at - 1) * sizeof *log->lines);
	log->count--;
}

TEST(verify_finds_an_inserted_line)
{
	struct log log;

	begin(&log);
	insert(&log, 3, "{\"n\":4,\"event\":\"nothing\"}");
	put_back(&log);
	is_not_whole(log.path, VG_AUDIT_UNREADABLE, 4, 3, "line 4 is not a record");
	end(&log);
	begin(&log);
	insert(&log, 3, "");
	put_back(&log);
	is_not_whole(log.path, VG_AUDIT_UNREADABLE, 4, 3, "line 4 is not a record");
	end(&log);
	begin(&log); // make a log with a line that is a valid record, but does not fit its MAC
	insert(&log, 3, log.lines[3]);
	memcpy(strstr(log.lines[3], "sealed"), "Sealed", 6);
	put_back(&log);
	is_not_whole(log.path, VG_AUDIT_CHANGED, 4, 3, "line 4 was changed");
	end(&log);
}

TEST(verify_finds_a_repeated_line)
{
	struct log log;

	begin(&log);
	insert(&log, 4, log.lines[3]);
	put_back(&log);
	is_not_whole(log.path, VG_AUDIT_REPEATED, 5, 4, "line 5 is record 4 again, where 5 is due");
	end(&log);
	begin(&log);
	insert(&log, RECORDS, log.lines[0]);
	put_back(&log);
	is_not_whole(log.path, VG_AUDIT_REPEATED, RECORDS + 1, RECORDS, "is record 1 again");
	end(&log);
}

TEST(verify_finds_a_removed_line)
{
	struct log log;

	for (int at = 0; at < RECORDS - 1; at++) {
		begin(&log);
		take_out(&log, at);
		put_back(&log);
		is_not_whole(log.path, VG_AUDIT_MISSING, (uint64_t)at + 1, (uint64_t)at,
			     "lines were taken away before it, or moved");
		end(&log);
	}
}

TEST(verify_finds_swapped_lines)
{
	struct log log;

	begin(&log);
	char *line = log.lines[2];
	log.lines[2] = log.lines[3];
	log.lines[3] = line;
	put_back(&log);
	is_not_whole(log.path, VG_AUDIT_MISSING, 3, 2, "line 3 is record 4 where 3 is due");
	end(&log);
}

TEST(verify_finds_a_cut_end)
{
	struct log log;
	size_t length;

	for (int left = 0; left < RECORDS; left++) {
		begin(&log);
		while (log.count > left)
			take_out(&log, log.count - 1);
		put_back(&log);
		is_not_whole(log.path, VG_AUDIT_CUT, (uint64_t)left + 1, (uint64_t)left, "and its head counts 9");
		end(&log);
	}
	begin(&log);
	char *text = read_file(log.path, &length);
	size_t last = length - strlen(log.lines[RECORDS - 1]) - 1;
	for (size_t cut = 1; cut < length - last; cut++) { // cut the log at each position of its last line
		write_file(log.path, text, length - cut, 0600);
		is_not_whole(log.path, VG_AUDIT_CUT, RECORDS, RECORDS - 1,
			     "it ends after 8 records, and its head counts 9");
	}
	// An unfinished record follows the last complete one. All records that the head counts are present.
	write_file(log.path, text, length, 0600);
	int fd = open(log.path, O_WRONLY | O_APPEND);
	CHECK_INT(write(fd, "{\"n\":10,\"ti", 11), 11);
	close(fd);
	is_not_whole(log.path, VG_AUDIT_CUT, RECORDS + 1, RECORDS,
		     "line, 10, is unfinished: all records that its head counts are there");
	free(text);
	end(&log);
}

TEST(verify_finds_lines_that_are_no_records)
{
	struct log log;
	char *large = malloc(1 << 20);

	begin(&log);
	memset(large, 'x', 1 << 20);
	write_file(log.path, large, 1 << 20, 0600);
	is_not_whole(log.path, VG_AUDIT_UNREADABLE, 1, 0, "line 1 is not a record");
	memset(large, 0, 1 << 20);
	write_file(log.path, large, 100, 0600);
	is_not_whole(log.path, VG_AUDIT_CUT, 1, 0, "it ends after 0 records");
	memset(large, '\n', 1 << 20);
	write_file(log.path, large, 1 << 20, 0600);
	is_not_whole(log.path, VG_AUDIT_UNREADABLE, 1, 0, "line 1 is not a record");
	free(large);
	end(&log);
}

TEST(verify_finds_a_missing_or_changed_head)
{
	struct log log;
	size_t length;

	begin(&log);
	char *head = read_file(head_of(log.path), &length);
	CHECK_INT(unlink(head_of(log.path)), 0);
	is_not_whole(log.path, VG_AUDIT_HEAD, 0, RECORDS, "head is missing: whether the end was cut cannot be told");
	for (size_t at = 0; at < length; at++) {
		head[at] ^= 1;
		write_file(head_of(log.path), head, length, 0600);
		is_not_whole(log.path, VG_AUDIT_HEAD, 0, RECORDS, "head was changed");
		head[at] ^= 1;
	}
	write_file(head_of(log.path), head, length - 1, 0600);
	is_not_whole(log.path, VG_AUDIT_HEAD, 0, RECORDS, "head was changed");
	write_file(head_of(log.path), head, 0, 0600);
	is_not_whole(log.path, VG_AUDIT_HEAD, 0, RECORDS, "head is missing");
	// An empty log is incomplete if its head counts records. Without a head, the head is missing.
	write_file(head_of(log.path), head, length, 0600);
	write_file(log.path, "", 0, 0600);
	is_not_whole(log.path, VG_AUDIT_CUT, 1, 0, "it ends after 0 records, and its head counts 9");
	CHECK_INT(unlink(head_of(log.path)), 0);
	is_not_whole(log.path, VG_AUDIT_HEAD, 0, 0, "head is missing");
	free(head);
	end(&log);
}

TEST(verify_finds_another_key)
{
	struct vg_audit_options options = {.size = sizeof options};
	struct vg_audit_report report = {.size = sizeof report};
	struct log log;

	begin(&log);
	options.key_file = key_file("other-key", OTHER_DIGITS);
	REFUSED(vg_audit_verify(log.path, &options, &report), VG_INTEGRITY,
		"neither its first line nor its head is of this key");
	CHECK_INT(report.fault, VG_AUDIT_KEY);
	REFUSED(vg_audit_verify(log.path, NULL, NULL), VG_INVALID, "neither key_file nor key_ring");
	options.key_file = path_of("no-key");
	REFUSED(vg_audit_verify(log.path, &options, NULL), VG_NOT_FOUND, "there is no key file");
	end(&log);
}

// Restores the log and its head from an old copy. The two fit each other, so the caller must pass the head that it
// expects.
TEST(expected_head_finds_a_restored_old_log)
{
	struct vg_audit_report before, report;
	struct log log, other;
	size_t log_length, head_length;
	char expect[VG_AUDIT_HEAD_MAX];

	begin(&log);
	OK(verify(log.path, NULL, &before));
	char *text = read_file(log.path, &log_length), *head = read_file(head_of(log.path), &head_length);
	write_records(log.path, 2);
	OK(verify(log.path, before.head, &report)); // the log has more records now
	strcpy(expect, report.head);
	OK(verify(log.path, expect, &report));
	write_file(log.path, text, log_length, 0600);
	write_file(head_of(log.path), head, head_length, 0600);
	is_whole(log.path, RECORDS);
	REFUSED(verify(log.path, expect, &report), VG_INTEGRITY, "it ends after 9 records, and 11 were expected");
	CHECK_INT(report.fault, VG_AUDIT_EXPECTED);
	begin(&other);
	REFUSED(verify(other.path, before.head, &report), VG_INTEGRITY, "record 9 is not the one that was expected");
	CHECK_INT(report.fault, VG_AUDIT_EXPECTED);
	static const char *const bad[] = {"", "9", "9:", ":00", "x:00", "9:0g", "09:00", "-1:00"};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		REFUSED(verify(log.path, bad[i], &report), VG_INVALID, "is not a head: it must be COUNT:MAC");
	before.head[10] = 'G';
	REFUSED(verify(log.path, before.head, &report), VG_INVALID, "is not a head");
	free(text);
	free(head);
	end(&other);
	end(&log);
}

TEST(verify_refuses_unreadable_logs)
{
	struct vg_audit_report report;
	struct vg_audit_options options = {.size = sizeof options, .key_file = key_file("verify-key", KEY_DIGITS)};

	REFUSED(verify(path_of("none"), NULL, &report), VG_NOT_FOUND, "cannot read audit log");
	REFUSED(verify(seal_directory, NULL, &report), VG_INVALID, "is not a regular file");
	REFUSED(verify(NULL, NULL, &report), VG_INVALID, "path is NULL");
	report.size = 3;
	REFUSED(vg_audit_verify("a", &options, &report), VG_INVALID, "ret_report->size is 3");
	CHECK_STR(vg_audit_fault_text((enum vg_audit_fault)99), "unknown");
	CHECK_STR(vg_audit_fault_text(VG_AUDIT_CUT), "cut");
}

TEST(append_refuses_a_damaged_log)
{
	struct vram_keys *keys = keys_of(KEY_DIGITS);
	struct vram_audit *audit;
	struct log log;

	begin(&log);
	CHECK_INT(truncate(log.path, 100), 0);
	REFUSED(vram_audit_open(log.path, keys, "", &audit), VG_INTEGRITY, "is shorter than it was");
	put_back(&log);
	insert(&log, RECORDS, "{}");
	put_back(&log);
	REFUSED(vram_audit_open(log.path, keys, "", &audit), VG_INTEGRITY, "is not the next record");
	take_out(&log, RECORDS);
	put_back(&log);
	CHECK_INT(unlink(head_of(log.path)), 0);
	REFUSED(vram_audit_open(log.path, keys, "", &audit), VG_INTEGRITY, "has no head");
	vram_keys_close(keys);
	end(&log);
	begin(&log);
	keys = keys_of(OTHER_DIGITS);
	REFUSED(vram_audit_open(log.path, keys, "", &audit), VG_INTEGRITY, "is of another key");
	vram_keys_close(keys);
	is_whole(log.path, RECORDS);
	end(&log);
}
