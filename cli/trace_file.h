// Writes a file of trace events in the JSON format that Perfetto and Chromium read. The events go to a temporary file,
// which is renamed when it is complete. Times are in nanoseconds since the trace began. One thread.
#pragma once
#include <jansson.h>
#include <stdint.h>

struct trace_file;

// The row in which an event is shown. Viewers call a row a thread, and a group of rows a process. The numbers are
// chosen by the caller; they are not pids.
struct track {
	int process, thread;
};

// Creates a temporary file beside `path`. Returns 0 or -errno; -EINVAL: `path` exists and is not a regular file.
int trace_file_begin(const char *path, struct trace_file **ret_file);
// Name a group of rows, and a row. Viewers show lower numbers first.
void trace_file_name_process(struct trace_file *file, int process, const char *name);
void trace_file_name_thread(struct trace_file *file, struct track track, const char *name);
// The next two functions consume the reference to `arguments`, which may be NULL.
// Adds a slice from `begin` to `end`. Slices of one track must not overlap, except that one can be nested in another.
// Viewers do not agree how to nest slices that begin in the same microsecond. So a nested slice must begin at least
// TRACE_NEST_NS after the outer one.
enum { TRACE_NEST_NS = 1000 };
void trace_file_slice(struct trace_file *file, struct track track, const char *name, uint64_t begin, uint64_t end,
		      json_t *arguments);
// Adds an event at one point in time. If its process is 0, the event concerns all processes.
void trace_file_instant(struct trace_file *file, struct track track, const char *name, uint64_t at, json_t *arguments);
// Adds the value that a counter has from the time `at` on.
void trace_file_counter(struct trace_file *file, int process, const char *name, uint64_t at, const char *unit,
			double value);
// Writes buffered events to the file. Returns 0, or the -errno of the first failed write.
int trace_file_flush(struct trace_file *file);
// Adds a description of the trace, completes the temporary file, and renames it to its final name. Drops the reference
// to `description`, and frees `file`. On failure, removes the temporary file. Returns 0 or -errno.
int trace_file_end(struct trace_file *file, json_t *description);
// Removes the temporary file, and frees `file`.
void trace_file_discard(struct trace_file *file);
