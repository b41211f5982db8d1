#include "daemon/journal_file.h"

#include "base/descriptor.h"
#include "base/hash.h"
#include "daemon/journal.h"
#include "daemon/say.h"
#include "daemon/work.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { READ_MOST = 2 * JOURNAL_FILE_SIZE, BATCH = 256 };

struct write {
	struct work work;
	char path[PATH_MAX + 16];
	char *text;
	size_t length;
	uint64_t last; // the number of the last event in `text`
	int error;
};

static uint64_t written; // the number of the last event on the disk
static bool is_writing;
static uint64_t errors;

static void make_path(const struct node *node, const char *ending, char path[PATH_MAX + 16])
{
	size_t length = strlen(node->state_path), suffix = strlen(".json");
	bool has_suffix = length > suffix && strcmp(node->state_path + length - suffix, ".json") == 0;

	snprintf(path, PATH_MAX + 16, "%.*s%s", (int)(has_suffix ? length - suffix : length), node->state_path, ending);
}

// ---- writing, in the thread for the disk -----------------------------------------------------------------

static int rotate(const char *path, int *fd, off_t size, size_t length)
{
	char old[PATH_MAX + 32];

	if (size + (off_t)length <= JOURNAL_FILE_SIZE)
		return 0;
	snprintf(old, sizeof old, "%s.old", path);
	if (rename(path, old) < 0)
		return -errno;
	close(*fd);
	*fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	return *fd < 0 ? -errno : 0;
}

// Appends the text. After a failure, removes the part that was written.
static int append_text(int fd, const char *text, size_t length)
{
	struct stat status;
	char last = '\n';

	if (fstat(fd, &status) < 0)
		return -errno;
	if (!S_ISREG(status.st_mode))
		return -EINVAL;
	if (status.st_size && pread(fd, &last, 1, status.st_size - 1) != 1)
		return -EIO;
	int r = last == '\n' ? 0 : vg_write_all(fd, "\n", 1, -1); // end the line that a killed daemon began
	if (r == 0)
		r = vg_write_all(fd, text, length, -1);
	if (r < 0 && ftruncate(fd, status.st_size) < 0)
		return -errno;
	return r;
}

static void run_write(struct work *work)
{
	struct write *write = (struct write *)work;
	struct stat status;
	int fd = open(write->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);

	write->error = fd < 0 || fstat(fd, &status) < 0 ? -errno : 0;
	if (!write->error)
		write->error = rotate(write->path, &fd, status.st_size, write->length);
	if (!write->error)
		write->error = append_text(fd, write->text, write->length);
	if (fd >= 0)
		close(fd);
}

// ---- the main thread -------------------------------------------------------------------------------------

static json_t *describe_event(const struct journal_event *event)
{
	return json_pack("{s:I, s:I, s:s, s:I, s:I, s:I, s:i, s:I, s:I, s:s, s:s, s:s}", "n", (json_int_t)event->number,
			 "t", (json_int_t)event->time_ns, "kind", journal_kind_text(event->kind), "owner",
			 (json_int_t)event->owner, "group", (json_int_t)event->group, "actor", (json_int_t)event->actor,
			 "pid", (int)event->pid, "count", (json_int_t)event->count, "bytes", (json_int_t)event->bytes,
			 "vgpu", event->vgpu, "command", event->command, "text", event->text);
}

static void print_event(FILE *out, const struct journal_event *event)
{
	struct journal_event copy = *event;

	for (char *at = copy.command; *at; at++) // JSON accepts only UTF-8, and programs choose their names
		*at = *at >= ' ' && *at < 127 ? *at : '?';
	json_t *object = describe_event(&copy);
	char *text = json_dumps(object, JSON_COMPACT);
	json_decref(object);
	if (text)
		fprintf(out, "%016llx %s\n", (unsigned long long)vg_hash_text(text), text);
	free(text);
}

// Writes to the daemon's log that the journal cannot be written, once for each cause, and that it can be written again.
static void report_outcome(const struct write *write)
{
	static int reported; // the error that was logged last; 0: the last write succeeded

	if (write->error && write->error != reported)
		say("the journal %s cannot be written: %s; the daemon goes on, keeps the last %d events in memory, and "
		    "writes them with a later one",
		    write->path, strerror(-write->error), JOURNAL_EVENTS);
	if (!write->error && reported)
		say("the journal %s is written again; %llu event%s lost since the daemon started", write->path,
		    (unsigned long long)journal_counts().lost, journal_counts().lost == 1 ? " was" : "s were");
	reported = write->error;
}

static void end_write(struct node *node, struct work *work)
{
	struct write *write = (struct write *)work;
	bool must_wait = write->error != 0; // the disk is full or the file is invalid: try again at the next event

	is_writing = false;
	if (must_wait)
		errors++;
	else
		written = write->last;
	report_outcome(write);
	free(write->text);
	free(write);
	if (!must_wait)
		journal_file_write(node);
}

// Prepares a write of the oldest events that are not on the disk, at most BATCH. Returns NULL if all are on the disk,
// or if there is no memory.
static struct write *make_write(struct node *node)
{
	const struct journal_event *event = journal_next(written + 1);
	struct write *write = event ? calloc(1, sizeof *write) : NULL;

	if (!write)
		return NULL;
	*write = (struct write){.work = {.lane = WORK_DISK, .run = run_write, .done = end_write}};
	make_path(node, ".events", write->path);
	FILE *out = open_memstream(&write->text, &write->length);
	for (int i = 0; out && event && i < BATCH; i++) {
		print_event(out, event);
		write->last = event->number;
		event = journal_next(event->number + 1);
	}
	if (out && fclose(out) == 0)
		return write;
	free(write->text);
	free(write);
	return NULL;
}

void journal_file_write(struct node *node)
{
	struct write *write = is_writing ? NULL : make_write(node);

	if (!write)
		return;
	is_writing = work_post(geteuid(), &write->work);
	if (is_writing)
		return;
	free(write->text);
	free(write);
}

bool journal_file_is_writing(void)
{
	return is_writing;
}

uint64_t journal_file_errors(void)
{
	return errors;
}

uint64_t journal_file_last(void)
{
	return written;
}

void journal_file_finish(const struct node *node)
{
	char path[PATH_MAX + 16];
	uint64_t left = 0;

	for (const struct journal_event *event = journal_next(written + 1); event;
	     event = journal_next(event->number + 1))
		left++;
	make_path(node, ".events", path);
	if (left)
		say("the journal %s lacks the last %llu event%s, which could not be written", path,
		    (unsigned long long)left, left == 1 ? "" : "s");
}

// ---- loading ---------------------------------------------------------------------------------------------

static void copy_text(const json_t *object, const char *key, char *text, size_t capacity)
{
	const char *value = json_string_value(json_object_get(object, key));

	snprintf(text, capacity, "%s", value ? value : "");
}

static uint64_t read_number(const json_t *object, const char *key, uint64_t most, bool *is_valid)
{
	const json_t *value = json_object_get(object, key);

	*is_valid &=
		json_is_integer(value) && json_integer_value(value) >= 0 && (uint64_t)json_integer_value(value) <= most;
	return (uint64_t)json_integer_value(value);
}

static bool read_event(const json_t *object, struct journal_event *ret_event)
{
	const char *kind = json_string_value(json_object_get(object, "kind"));
	bool is_valid = kind && journal_find_kind(kind) < JOURNAL_KINDS_COUNT;

	if (!is_valid)
		return false;
	*ret_event = (struct journal_event){
		.number = read_number(object, "n", INT64_MAX - 1, &is_valid),
		.time_ns = read_number(object, "t", INT64_MAX, &is_valid),
		.kind = journal_find_kind(kind),
		.owner = (uid_t)read_number(object, "owner", UINT32_MAX, &is_valid),
		.group = (gid_t)read_number(object, "group", UINT32_MAX, &is_valid),
		.actor = (uid_t)read_number(object, "actor", UINT32_MAX, &is_valid),
		.pid = (pid_t)read_number(object, "pid", INT32_MAX, &is_valid),
		.count = (unsigned int)read_number(object, "count", UINT32_MAX, &is_valid),
		.bytes = read_number(object, "bytes", INT64_MAX, &is_valid),
	};
	copy_text(object, "vgpu", ret_event->vgpu, sizeof ret_event->vgpu);
	copy_text(object, "command", ret_event->command, sizeof ret_event->command);
	copy_text(object, "text", ret_event->text, sizeof ret_event->text);
	return is_valid;
}

static bool load_line(const char *line)
{
	struct journal_event event;
	char *end;

	unsigned long long hash = strtoull(line, &end, 16);
	if (end != line + 16 || *end != ' ' || vg_hash_text(end + 1) != hash)
		return false;
	json_t *object = json_loads(end + 1, JSON_REJECT_DUPLICATES, NULL);
	bool is_valid = read_event(object, &event) && journal_restore(&event);
	json_decref(object);
	return is_valid;
}

// Loads the lines of the text. Returns the number of damaged ones.
static uint64_t load_lines(char *text, size_t length)
{
	uint64_t damaged = 0;

	for (char *line = text, *next; line < text + length; line = next) {
		char *end = memchr(line, '\n', (size_t)(text + length - line));
		next = end ? end + 1 : text + length;
		if (end)
			*end = '\0';
		damaged += !end || strlen(line) != (size_t)(end - line) || !load_line(line);
	}
	return damaged;
}

static uint64_t load_file(const char *path)
{
	struct stat status = {0};
	uint64_t damaged = 1;
	int fd = vg_open_regular(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	if (fd == -ENOENT)
		return 0;
	char *text = malloc(READ_MOST + 1);
	if (fd >= 0 && text && fstat(fd, &status) == 0) {
		off_t start = status.st_size > READ_MOST ? status.st_size - READ_MOST : 0;
		ssize_t length = vg_read_all(fd, text, READ_MOST, start);
		damaged = length < 0 ? 1 : 0;
		if (length > 0) {
			text[length] = '\0';
			damaged = load_lines(text, (size_t)length);
		}
	}
	if (damaged)
		say("%s: %llu damaged line%s left out%s%s", path, (unsigned long long)damaged, damaged == 1 ? "" : "s",
		    fd < 0 ? ": " : "", fd < 0 ? strerror(-fd) : "");
	free(text);
	if (fd >= 0)
		close(fd);
	return damaged;
}

uint64_t journal_file_load(struct node *node)
{
	const struct journal_event *event;
	char path[PATH_MAX + 16];

	make_path(node, ".events.old", path);
	uint64_t damaged = load_file(path);
	make_path(node, ".events", path);
	damaged += load_file(path);
	for (event = journal_next(0); event; event = journal_next(event->number + 1))
		written = event->number;
	return damaged;
}
