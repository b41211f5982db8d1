#include "trace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct trace_file {
	FILE *out;
	int error; // -errno of the first failed write; 0: none
	bool has_events;
	char path[PATH_MAX], temporary[PATH_MAX];
};

static const size_t JSON_STYLE = JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(15);

static void note_error(struct trace_file *file)
{
	if (!file->error)
		file->error = errno ? -errno : -EIO;
}

// Refuses an existing target that is not a regular file: renaming the temporary file would replace, for example, a
// device.
static int check_target(const char *path)
{
	struct stat target;

	if (stat(path, &target) < 0)
		return errno == ENOENT ? 0 : -errno;
	return S_ISREG(target.st_mode) ? 0 : S_ISDIR(target.st_mode) ? -EISDIR : -EINVAL;
}

static int open_temporary(struct trace_file *file)
{
	int fd = mkostemp(file->temporary, O_CLOEXEC);

	if (fd < 0)
		return -errno;
	file->out = fdopen(fd, "w");
	if (file->out)
		return 0;
	int r = -errno;
	close(fd);
	unlink(file->temporary);
	return r;
}

int trace_file_begin(const char *path, struct trace_file **ret_file)
{
	int r = check_target(path);

	if (r < 0)
		return r;
	struct trace_file *file = calloc(1, sizeof *file);
	if (!file)
		return -ENOMEM;
	if (snprintf(file->path, sizeof file->path, "%s", path) >= (int)sizeof file->path ||
	    snprintf(file->temporary, sizeof file->temporary, "%s.XXXXXX", path) >= (int)sizeof file->temporary)
		r = -ENAMETOOLONG;
	else
		r = open_temporary(file);
	if (r < 0) {
		free(file);
		return r;
	}
	fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[", file->out);
	*ret_file = file;
	return 0;
}

// Writes one event, and drops the reference to it. `event` is NULL if a text in it is not valid UTF-8: then only this
// event is left out.
static void write_event(struct trace_file *file, json_t *event)
{
	if (!event)
		return;
	errno = 0;
	if (fputs(file->has_events ? ",\n" : "\n", file->out) < 0 || json_dumpf(event, file->out, JSON_STYLE) < 0)
		note_error(file);
	file->has_events = true;
	json_decref(event);
}

// Converts nanoseconds to whole microseconds, the unit of the file. Fractions could be rounded by a viewer, and
// adjacent slices would overlap.
static json_int_t microseconds(uint64_t ns)
{
	return (json_int_t)(ns / 1000);
}

void trace_file_name_process(struct trace_file *file, int process, const char *name)
{
	write_event(file, json_pack("{s:s, s:s, s:i, s:{s:s}}", "ph", "M", "name", "process_name", "pid", process,
				    "args", "name", name));
	write_event(file, json_pack("{s:s, s:s, s:i, s:{s:i}}", "ph", "M", "name", "process_sort_index", "pid", process,
				    "args", "sort_index", process));
}

void trace_file_name_thread(struct trace_file *file, struct track track, const char *name)
{
	write_event(file, json_pack("{s:s, s:s, s:i, s:i, s:{s:s}}", "ph", "M", "name", "thread_name", "pid",
				    track.process, "tid", track.thread, "args", "name", name));
	write_event(file, json_pack("{s:s, s:s, s:i, s:i, s:{s:i}}", "ph", "M", "name", "thread_sort_index", "pid",
				    track.process, "tid", track.thread, "args", "sort_index", track.thread));
}

static json_t *or_empty(json_t *arguments)
{
	return arguments ? arguments : json_object();
}

void trace_file_slice(struct trace_file *file, struct track track, const char *name, uint64_t begin, uint64_t end,
		      json_t *arguments)
{
	write_event(file, json_pack("{s:s, s:s, s:i, s:i, s:I, s:I, s:o}", "ph", "X", "name", name, "pid",
				    track.process, "tid", track.thread, "ts", microseconds(begin), "dur",
				    end > begin ? microseconds(end) - microseconds(begin) : (json_int_t)0, "args",
				    or_empty(arguments)));
}

void trace_file_instant(struct trace_file *file, struct track track, const char *name, uint64_t at, json_t *arguments)
{
	write_event(file, json_pack("{s:s, s:s, s:s, s:i, s:i, s:I, s:o}", "ph", "i", "name", name, "s",
				    track.process ? "t" : "g", "pid", track.process, "tid", track.thread, "ts",
				    microseconds(at), "args", or_empty(arguments)));
}

void trace_file_counter(struct trace_file *file, int process, const char *name, uint64_t at, const char *unit,
			double value)
{
	write_event(file, json_pack("{s:s, s:s, s:i, s:I, s:{s:f}}", "ph", "C", "name", name, "pid", process, "ts",
				    microseconds(at), "args", unit, value));
}

int trace_file_flush(struct trace_file *file)
{
	errno = 0;
	if (fflush(file->out) != 0 || ferror(file->out))
		note_error(file);
	return file->error;
}

static int complete(struct trace_file *file, json_t *description)
{
	mode_t mask = umask(0);

	umask(mask);
	fputs("\n],\n\"otherData\":", file->out);
	if (!description || json_dumpf(description, file->out, JSON_STYLE) < 0)
		note_error(file);
	fputs("}\n", file->out);
	if (trace_file_flush(file) < 0)
		return file->error;
	if (fchmod(fileno(file->out), 0666 & ~mask) < 0 || fsync(fileno(file->out)) < 0)
		return -errno;
	return rename(file->temporary, file->path) < 0 ? -errno : 0;
}

int trace_file_end(struct trace_file *file, json_t *description)
{
	int r = complete(file, description);

	json_decref(description);
	if (r < 0)
		unlink(file->temporary);
	fclose(file->out);
	free(file);
	return r;
}

void trace_file_discard(struct trace_file *file)
{
	unlink(file->temporary);
	fclose(file->out);
	free(file);
}
