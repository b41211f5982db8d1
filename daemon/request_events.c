// Handles the verbs `events`, `history` and `status`, with which users look at a node. Also handles `dumped`, by which
// a dump reports that its image is complete. A program that shows the answers to other users sets "public": then the
// answer has only what `virgate ps` shows of other users' vGPUs.
#include "base/descriptor.h"
#include "daemon/history.h"
#include "daemon/journal.h"
#include "daemon/registry.h"
#include "daemon/request_parts.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// Reads a number that is not negative. Returns NULL or a refusal; leaves *ret_number unchanged if the field is missing.
static json_t *read_number(const struct request *request, const char *key, json_int_t most, json_int_t *ret_number)
{
	const json_t *value = json_object_get(request->object, key);

	if (!value || json_is_null(value))
		return NULL;
	if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) > most)
		return refuse("invalid", "\"%s\" must be a number from 0 to %lld", key, (long long)most);
	*ret_number = json_integer_value(value);
	return NULL;
}

json_t *answer_events(const struct request *request)
{
	bool is_public = json_is_true(json_object_get(request->object, "public"));
	json_int_t after = 0, most = JOURNAL_ANSWER;
	const json_t *since = json_object_get(request->object, "since");
	json_t *refusal;

	if ((refusal = read_number(request, "after", INT64_MAX, &after)) ||
	    (refusal = read_number(request, "most", JOURNAL_ANSWER, &most)))
		return refusal;
	if (since && !json_is_null(since) && !json_is_number(since))
		return refuse("invalid", "\"since\" must be a time in seconds");
	const struct journal_query query = {.after = (uint64_t)after,
					    .since = json_number_value(since),
					    .vgpu = request_text(request, "vgpu"),
					    .most = (unsigned int)most,
					    .newest = json_is_true(json_object_get(request->object, "newest"))};
	return journal_list(is_public ? NULL : request->peer, &query);
}

// The daemon takes no part in a dump. So it believes the process that made the image, if that process may enter the
// vGPU.
json_t *answer_dumped(const struct request *request)
{
	const char *image = request_text(request, "image");
	json_t *refusal = NULL;
	struct vgpu *vgpu = request_vgpu(request, "name", &refusal);

	if (!vgpu)
		return refusal;
	vgpu->checkpoints++;
	journal_add(request->node, JOURNAL_DUMPED, &(struct journal_note){.vgpu = vgpu, .actor = request->peer},
		    image ? "image %s" : "an image for another machine", image);
	return agree();
}

json_t *answer_history(const struct request *request)
{
	const char *name = request_text(request, "vgpu");
	json_int_t after = 0, most = HISTORY_SAMPLES;
	struct vgpu *vgpu = name ? registry_find(request->node, name) : NULL;
	json_t *refusal;

	if (name && !vgpu)
		return refuse("not_found", "there is no vGPU %.63s: `virgate ps%s` lists those that exist", name,
			      sim_flag());
	if ((refusal = read_number(request, "after", INT64_MAX, &after)) ||
	    (refusal = read_number(request, "most", HISTORY_SAMPLES, &most)))
		return refusal;
	const struct history_query query = {.vgpu = vgpu, .after = (uint64_t)after, .most = (unsigned int)most};
	return history_list(request->node, &query);
}

// Returns the resident memory of the daemon in bytes; 0: unknown.
static uint64_t read_resident(void)
{
	unsigned long long size, resident;
	char text[128];

	if (vg_file_read("/proc/self/statm", text, sizeof text) <= 0 ||
	    sscanf(text, "%llu %llu", &size, &resident) != 2)
		return 0;
	return resident * (unsigned long long)sysconf(_SC_PAGESIZE);
}

json_t *answer_status(const struct request *request)
{
	const struct node *node = request->node;
	struct journal_counts journal = journal_counts();
	struct timespec cpu;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
	return json_pack("{s:b, s:i, s:s, s:b, s:f, s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f}", "ok", 1, "pid",
			 (int)getpid(), "version", VIRGATE_VERSION, "system", (int)node->system_wide, "started",
			 (double)node->started_ns / 1e9, "cpu", (double)cpu.tv_sec + (double)cpu.tv_nsec / 1e9,
			 "resident", (json_int_t)read_resident(), "connections", (json_int_t)node->connection_count,
			 "requests", (json_int_t)node->requests, "events", (json_int_t)journal.events, "omitted",
			 (json_int_t)journal.omitted, "journal_lost", (json_int_t)journal.lost, "journal_errors",
			 (json_int_t)journal.write_errors, "journal_damaged", (json_int_t)journal.damaged_lines,
			 "delay", (double)history_worst_delay_ns() / 1e9);
}
