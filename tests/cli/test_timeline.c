// Tests the timeline that `virgate trace` writes, with answers of the daemon that the test makes: counters that start
// again at zero, counters with false values, and texts that are too long.
#include "timeline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test.h"

static const struct vg_device_list devices;
static char directory[32], path[64];

static struct timeline *begin(struct trace_file **ret_file)
{
	snprintf(directory, sizeof directory, "/tmp/virgate-test-XXXXXX");
	CHECK(mkdtemp(directory));
	snprintf(path, sizeof path, "%s/trace.json", directory);
	CHECK_INT(trace_file_begin(path, ret_file), 0);
	struct timeline *timeline = timeline_create(*ret_file, ALL_DEVICES, &devices);
	CHECK(timeline != NULL);
	return timeline;
}

// Completes the file, and returns its events.
static json_t *finish(struct timeline *timeline, struct trace_file *file)
{
	timeline_finish(timeline);
	timeline_destroy(timeline);
	CHECK_INT(trace_file_end(file, json_object()), 0);
	json_t *whole = json_load_file(path, 0, NULL);
	unlink(path);
	rmdir(directory);
	CHECK(whole != NULL);
	json_t *events = json_incref(json_object_get(whole, "traceEvents"));
	json_decref(whole);
	return events;
}

static json_t *make_tenant(int pid, json_int_t launches, json_int_t gpu_ns)
{
	return json_pack("{s:i, s:s, s:I, s:I, s:i}", "pid", pid, "command", "train.py", "launches", launches, "gpu_ns",
			 gpu_ns, "waiting", 0);
}

// Adds an answer that the daemon gives `number` seconds after the first one. Consumes both arrays.
static void add_answer(struct timeline *timeline, int number, json_t *records, json_t *tenants)
{
	json_t *answer = json_pack("{s:f, s:I, s:o, s:[{s:s, s:i, s:i, s:i, s:o}]}", "time", 1e9 + number, "now_ns",
				   (json_int_t)(number + 1) * 1000000000, "records", records, "vgpus", "name", "train",
				   "device", 0, "charged", 0, "refusals", 0, "tenants", tenants);

	CHECK(answer != NULL);
	CHECK(!timeline_add(timeline, answer));
	json_decref(answer);
}

static void add_tenant(struct timeline *timeline, int number, json_int_t launches, json_int_t gpu_ns)
{
	add_answer(timeline, number, json_array(), json_pack("[o]", make_tenant(7, launches, gpu_ns)));
}

// Returns the arguments of the only event of this kind.
static const json_t *find_arguments(const json_t *events, const char *kind)
{
	const json_t *one, *found = NULL;
	size_t i;

	json_array_foreach(events, i, one) {
		if (strcmp(json_string_value(json_object_get(one, "ph")), kind) != 0)
			continue;
		CHECK(!found);
		found = json_object_get(one, "args");
	}
	CHECK(found != NULL);
	return found;
}

static json_int_t find_launches(const json_t *events, const char *kind)
{
	return json_integer_value(json_object_get(find_arguments(events, kind), "launches"));
}

static double find_gpu_ms(const json_t *events)
{
	return json_real_value(json_object_get(find_arguments(events, "X"), "GPU time ms, estimated"));
}

TEST(counters_that_begin_again_are_continued)
{
	struct trace_file *file;
	struct timeline *timeline = begin(&file);

	add_tenant(timeline, 0, 1000, 50000000);
	add_tenant(timeline, 1, 1100, 60000000);
	add_tenant(timeline, 2, 1100, 60000000);
	// the process has executed its program again (exec), so its counters start at zero
	add_tenant(timeline, 3, 30, 2000000);
	add_tenant(timeline, 4, 35, 3000000);
	json_t *events = finish(timeline, file);
	CHECK_INT(find_launches(events, "X"), 135);
	CHECK_INT(find_gpu_ms(events), 13);
	json_decref(events);
}

TEST(sums_of_lying_programs_are_bounded)
{
	struct trace_file *file;
	struct timeline *timeline = begin(&file);

	for (int i = 0; i < 8; i++)
		add_tenant(timeline, i, i % 2 ? INT64_MAX : 0, i % 2 ? INT64_MAX : 0);
	json_t *events = finish(timeline, file);
	CHECK(find_launches(events, "X") == INT64_MAX);
	CHECK(find_gpu_ms(events) > 0 && find_gpu_ms(events) < 1e13);
	json_decref(events);
}

TEST(the_parts_of_a_phase_have_a_bounded_sum)
{
	struct trace_file *file;
	struct timeline *timeline = begin(&file);
	json_t *records = json_array();

	for (int i = 1; i <= 3; i++)
		json_array_append_new(records, json_pack("{s:s, s:i, s:s, s:i, s:i, s:i, s:I, s:I}", "vgpu", "train",
							 "device", 0, "phase", "waits", "turn", 1, "begin_ns",
							 1000000000 + i * 1000, "end_ns", 1000001000 + i * 1000,
							 "charged_ns", INT64_MAX, "launches", INT64_MAX));
	add_answer(timeline, 0, records, json_array());
	json_t *events = finish(timeline, file);
	CHECK(find_launches(events, "X") == INT64_MAX);
	json_decref(events);
}

// The daemon lists the pid 0 for a program whose pid namespace it cannot see. The counters of two such programs must
// not be mixed up.
TEST(programs_with_unknown_pids_are_not_mixed)
{
	struct trace_file *file;
	struct timeline *timeline = begin(&file);

	for (int i = 0; i < 3; i++)
		add_answer(timeline, i, json_array(),
			   json_pack("[o, o]", make_tenant(0, 10 + i, 0), make_tenant(0, 900000 + i, 0)));
	json_t *events = finish(timeline, file);
	CHECK_INT(find_launches(events, "X"), 2);
	json_decref(events);
}

static const json_t *find_name(const json_t *events, const char *kind)
{
	const json_t *one;
	size_t i;

	json_array_foreach(events, i, one)
		if (strcmp(json_string_value(json_object_get(one, "ph")), kind) == 0)
			return json_object_get(one, "name");
	return NULL;
}

TEST(a_long_text_of_an_event_is_kept)
{
	struct trace_file *file;
	struct timeline *timeline = begin(&file);
	char text[224] = "", name[256];

	// each "ö" begins at an even byte of the name and has two bytes, so a cut after 191 bytes would split one
	for (int i = 0; i < 111; i++)
		strcat(text, i ? "ö" : "xö");
	snprintf(name, sizeof name, "ended: %s", text);
	add_tenant(timeline, 0, 1, 1);
	timeline_add_event(timeline, &(struct vg_journal_event){.time = 1e9,
								.kind = "ended",
								.vgpu = "",
								.owner = "",
								.user = "",
								.command = "",
								.text = text});
	json_t *events = finish(timeline, file);
	CHECK(find_name(events, "i") != NULL);
	CHECK_STR(json_string_value(find_name(events, "i")), name);
	json_decref(events);
}

TEST(an_event_with_an_invalid_text_is_left_out)
{
	struct trace_file *file;
	struct timeline *timeline = begin(&file);

	add_tenant(timeline, 0, 1, 1);
	trace_file_instant(file, (struct track){0, 0}, "\xc3", 0, NULL);
	trace_file_instant(file, (struct track){0, 0}, "valid", 0, NULL);
	json_t *events = finish(timeline, file);
	CHECK(find_name(events, "i") != NULL);
	CHECK_STR(json_string_value(find_name(events, "i")), "valid");
	json_decref(events);
}
