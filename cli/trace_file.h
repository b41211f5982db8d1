// Writes a file of trace events in the JSON format that Perfetto and Chromium read. The file gets its name when
// it is complete. Times are nanoseconds since the trace began. One thread.
#pragma once
#include <jansson.h>
#include <stdint.h>

struct trace_file;

// Where an event is shown: a track is a row (`thread`) in a group of rows (`process`). Both are numbers of our own.
struct track {
	int process, thread;
};

// Begins a temporary file beside `path`. Returns 0 or -errno; -EINVAL: `path` is not a regular file.
int trace_file_begin(const char *path, struct trace_file **ret_file);
// Give a group of rows and a row their names. Lower groups and rows are shown first.
void trace_file_name_process(struct trace_file *file, int process, const char *name);
void trace_file_name_thread(struct trace_file *file, struct track track, const char *name);
// These functions consume `arguments`, which may be NULL.
// Adds what lasted from `begin` to `end`. On one track, two slices are nested, or do not overlap. Readers nest slices
// that begin in the same microsecond in different ways, so a nested slice begins at least TRACE_NEST_NS later.
enum { TRACE_NEST_NS = 1000 };
void trace_file_slice(struct trace_file *file, struct track track, const char *name, uint64_t begin, uint64_t end,
		      json_t *arguments);
// Adds what happened at one time. Process 0: it concerns all.
void trace_file_instant(struct trace_file *file, struct track track, const char *name, uint64_t at, json_t *arguments);
// Adds the value of a counter from `at` on.
void trace_file_counter(struct trace_file *file, int process, const char *name, uint64_t at, const char *unit,
			double value);
// Writes the events that are in memory to the file. Returns 0, or the -errno of this or an earlier write.
int trace_file_flush(struct trace_file *file);
// Completes the file, with a description of the trace, and gives it its name. Consumes `description`. Frees `file`, and
// removes the temporary file on failure. Returns 0 or -errno.
int trace_file_end(struct trace_file *file, json_t *description);
// Removes the temporary file, and frees `file`.
void trace_file_discard(struct trace_file *file);
