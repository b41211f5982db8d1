// Makes the events of a trace from the daemon's answers to the request `trace`, and from the journal. One thread.
#pragma once
#include "trace_file.h"
#include "virgate/journal.h"

enum { ALL_DEVICES = -1 };

struct timeline;
// Events go to `file`. `device` is the GPU that is shown, or ALL_DEVICES. `names` are the names of the GPUs, and must
// exist as long as the timeline. NULL: no memory.
struct timeline *timeline_create(struct trace_file *file, int device, const struct vg_device_list *names);
void timeline_destroy(struct timeline *timeline);
// Adds what an answer has. The trace begins at the time of the first one. Returns NULL, or the field of the answer that
// is missing or invalid.
const char *timeline_add(struct timeline *timeline, const json_t *answer);
void timeline_add_event(struct timeline *timeline, const struct vg_journal_event *event);
// Writes the phases and programs that have not ended yet; they end in the file at the time of the last answer. Returns
// the length of the trace in nanoseconds.
uint64_t timeline_finish(struct timeline *timeline);

struct timeline_counts {
	unsigned vgpus, tenants, turns, events;
};
struct timeline_counts timeline_counts(const struct timeline *timeline);
