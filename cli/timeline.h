// Converts the daemon's answers to the request `trace`, and the events of the journal, into the events of a trace file.
// One thread.
#pragma once
#include "trace_file.h"
#include "virgate/journal.h"

enum { ALL_DEVICES = -1 };

struct timeline;
// Creates a timeline that writes its events to `file`. `device` is the only GPU that is shown, or ALL_DEVICES. `names`
// has the names of the GPUs, and must exist as long as the timeline. Returns NULL if there is no memory.
struct timeline *timeline_create(struct trace_file *file, int device, const struct vg_device_list *names);
void timeline_destroy(struct timeline *timeline);
// Adds the contents of an answer. The trace begins at the time of the first answer. Returns NULL, or the name of a
// field that is missing in the answer or invalid.
const char *timeline_add(struct timeline *timeline, const json_t *answer);
void timeline_add_event(struct timeline *timeline, const struct vg_journal_event *event);
// Writes the phases and programs that have not ended yet. In the file, they end at the time of the last answer. Returns
// the length of the trace in nanoseconds.
uint64_t timeline_finish(struct timeline *timeline);

struct timeline_counts {
	unsigned vgpus, tenants, turns, events;
};
struct timeline_counts timeline_counts(const struct timeline *timeline);
