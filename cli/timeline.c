#include "timeline.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "node/fields.h"

// Sizes of buffers. EVENT_NAME has room for the text of any event: the daemon's texts have less than 224 bytes.
enum { NAME = 192, TENANT_NAME = NAME + 32, EVENT_NAME = 512, COPIES = 3, GPU_PROCESS = 1 };
// Viewers of traces identify a counter by a number, as if it were a thread with the number of the counter's process. So
// no thread may have the number of a process. The exception is a GPU: its only thread has the number of its process.
enum { MOST_GPUS = 64, VGPU_PROCESS = 1000000 };

// The last value of a counter that was written. An equal value is not written again.
struct counter {
	bool is_known;
	double value;
};

// A process in a vGPU, as the trace shows it.
struct tenant {
	struct tenant *next;
	int64_t pid;
	char command[NAME];
	struct track track;
	uint64_t first_ns, last_ns;	       // when the first and the last answer with this program arrived
	uint64_t launches, gpu_ns;	       // the program's counters in the last answer
	uint64_t grown_launches, grown_gpu_ns; // growth of these counters since the first answer with this program
	char place[16];			       // where the program's memory is, as the daemon reports it; "": unknown
	uint64_t place_ns;
	struct counter rate, waiting, in_host;
};

// The present phase of a vGPU, such as "holds" (it has the turn), which may still go on. The daemon may report one
// phase in several records, which are joined here.
struct phase {
	char name[16]; // "": none
	uint64_t turn, begin_ns, end_ns, charged_ns, launches;
	bool has_launches;
};

struct row {
	struct row *next;
	char name[64];
	int device;
	struct track track;
	struct phase phase;
	uint64_t copied[COPIES];
	bool has_copies;
	struct counter charged, refusals, copy_rates[COPIES];
	struct tenant *tenants;
};

struct timeline {
	struct trace_file *file;
	const struct vg_device_list *names;
	int device;
	bool has_begun;
	uint64_t begin_ns, now_ns, before_ns; // times of the first, the latest and the previous answer
	double epoch;			      // time of the first answer, in seconds since 1970
	int next_thread, next_process;
	uint64_t shown_gpus; // bit set of the GPUs whose track was already named in the file
	struct row *rows;
	struct timeline_counts counts;
};

static const char *const copy_fields[COPIES] = {"in", "out", "within"};
static const char *const copy_names[COPIES] = {"copied to the GPU", "copied from the GPU", "copied within the GPU"};

struct timeline *timeline_create(struct trace_file *file, int device, const struct vg_device_list *names)
{
	struct timeline *timeline = calloc(1, sizeof *timeline);

	if (timeline)
		*timeline = (struct timeline){.file = file,
					      .names = names,
					      .device = device,
					      .next_thread = GPU_PROCESS + MOST_GPUS,
					      .next_process = VGPU_PROCESS};
	return timeline;
}

void timeline_destroy(struct timeline *timeline)
{
	while (timeline && timeline->rows) {
		struct row *row = timeline->rows;
		timeline->rows = row->next;
		while (row->tenants) {
			struct tenant *tenant = row->tenants;
			row->tenants = tenant->next;
			free(tenant);
		}
		free(row);
	}
	free(timeline);
}

// Returns the time from the beginning of the trace to `ns`; 0 if `ns` is earlier.
static uint64_t since_begin(const struct timeline *timeline, uint64_t ns)
{
	return ns > timeline->begin_ns ? ns - timeline->begin_ns : 0;
}

// Adds `value` to a sum. Bounds the result by INT64_MAX, the largest integer in JSON, because a program can set its
// counters to any value.
static uint64_t add_bounded(uint64_t sum, uint64_t value)
{
	return sum > INT64_MAX || value > INT64_MAX - sum ? INT64_MAX : sum + value;
}

static bool is_shown(const struct timeline *timeline, int device)
{
	return timeline->device == ALL_DEVICES || timeline->device == device;
}

// ---- tracks ---------------------------------------------------------------------------------------------------

static struct track gpu_track(struct timeline *timeline, int device)
{
	struct track track = {GPU_PROCESS + device, GPU_PROCESS + device};
	const char *model = "";
	char name[NAME];

	if (device < 0 || device >= MOST_GPUS || timeline->shown_gpus >> device & 1)
		return track;
	timeline->shown_gpus |= 1ull << device;
	for (size_t i = 0; i < timeline->names->count; i++)
		if (timeline->names->devices[i].index == device)
			model = timeline->names->devices[i].name;
	snprintf(name, sizeof name, "GPU %d%s%.120s", device, *model ? ": " : "", model);
	trace_file_name_process(timeline->file, track.process, name);
	trace_file_name_thread(timeline->file, track, "who has the GPU");
	return track;
}

static struct row *find_row(struct timeline *timeline, const char *name)
{
	struct row *row = timeline->rows;

	while (row && strcmp(row->name, name) != 0)
		row = row->next;
	return row;
}

// Finds the row of the vGPU, or adds one. NULL: there is no memory.
static struct row *need_row(struct timeline *timeline, const char *vgpu, int device)
{
	struct row *row = find_row(timeline, vgpu);
	char name[NAME];

	if (row)
		return row;
	row = calloc(1, sizeof *row);
	if (!row)
		return NULL;
	snprintf(row->name, sizeof row->name, "%s", vgpu);
	row->device = device;
	row->track = (struct track){timeline->next_process++, timeline->next_thread++};
	row->next = timeline->rows;
	timeline->rows = row;
	timeline->counts.vgpus++;
	gpu_track(timeline, device);
	snprintf(name, sizeof name, "vGPU %s on GPU %d", vgpu, device);
	trace_file_name_process(timeline->file, row->track.process, name);
	trace_file_name_thread(timeline->file, row->track, "turns");
	return row;
}

static void name_tenant(const struct tenant *tenant, char name[TENANT_NAME])
{
	snprintf(name, TENANT_NAME, "%s %lld", tenant->command, (long long)tenant->pid);
}

static struct tenant *need_tenant(struct timeline *timeline, struct row *row, int64_t pid, const char *command)
{
	struct tenant *tenant = row->tenants;
	char name[TENANT_NAME];

	while (tenant && (tenant->pid != pid || strcmp(tenant->command, command) != 0))
		tenant = tenant->next;
	if (tenant)
		return tenant;
	tenant = calloc(1, sizeof *tenant);
	if (!tenant)
		return NULL;
	tenant->pid = pid;
	snprintf(tenant->command, sizeof tenant->command, "%s", command);
	tenant->track = (struct track){row->track.process, timeline->next_thread++};
	tenant->first_ns = timeline->now_ns;
	tenant->next = row->tenants;
	row->tenants = tenant;
	timeline->counts.tenants++;
	name_tenant(tenant, name);
	trace_file_name_thread(timeline->file, tenant->track, name);
	return tenant;
}

// ---- turns ----------------------------------------------------------------------------------------------------

// Returns the text that the user reads for a phase. *ret_has_gpu: whether the GPU's own track also shows the phase. A
// phase that this program does not know, of a newer daemon, keeps its name.
static const char *explain_phase(const char *phase, bool *ret_has_gpu)
{
	static const struct {
		const char *phase, *text;
		bool has_gpu;
	} texts[] = {{"holds", "has the GPU", true},
		     {"alone", "alone on the GPU", true},
		     {"ends", "turn ends", true},
		     {"paused", "makes way for a request", false},
		     {"beside", "beside others", false},
		     {"request", "request", false},
		     {"lasts", "work outside of turns", false},
		     {"waits", "waits for a turn", false},
		     {"none", "other work", false}};

	*ret_has_gpu = false;
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		if (strcmp(texts[i].phase, phase) != 0)
			continue;
		*ret_has_gpu = texts[i].has_gpu;
		return texts[i].text;
	}
	return phase;
}

// Returns the figures of a phase. The daemon charges GPU time some time after it was used. So the first phase of a
// trace may have been charged for time before the trace: the time shown is at most the length of the phase.
static json_t *phase_arguments(const struct phase *phase)
{
	uint64_t most = phase->end_ns - phase->begin_ns;
	uint64_t charged = phase->charged_ns < most ? phase->charged_ns : most;
	json_t *object = json_pack("{s:s, s:I, s:f}", "phase", phase->name, "turn", (json_int_t)phase->turn,
				   "GPU time ms", (double)charged / 1e6);

	if (phase->has_launches)
		json_object_set_new(object, "launches", json_integer((json_int_t)phase->launches));
	return object;
}

static void write_phase(struct timeline *timeline, struct row *row)
{
	const struct phase *phase = &row->phase;
	uint64_t begin = since_begin(timeline, phase->begin_ns), end = since_begin(timeline, phase->end_ns);
	bool has_gpu;
	char name[NAME];

	if (!*phase->name || !end)
		return;
	const char *text = explain_phase(phase->name, &has_gpu);
	trace_file_slice(timeline->file, row->track, text, begin, end, phase_arguments(phase));
	timeline->counts.turns += strcmp(phase->name, "holds") == 0;
	if (!has_gpu)
		return;
	snprintf(name, sizeof name, "%s%s", row->name, strcmp(phase->name, "ends") == 0 ? ": turn ends" : "");
	trace_file_slice(timeline->file, gpu_track(timeline, row->device), name, begin, end, phase_arguments(phase));
}

static const char *add_record(struct timeline *timeline, const json_t *object)
{
	struct vg_fields fields = {object, NULL};
	const char *vgpu = vg_field_text(&fields, "vgpu"), *name = vg_field_text(&fields, "phase");
	int device = (int)vg_field_size(&fields, "device"), has_launches;
	struct phase one = {.turn = vg_field_size(&fields, "turn"),
			    .begin_ns = vg_field_size(&fields, "begin_ns"),
			    .end_ns = vg_field_size(&fields, "end_ns"),
			    .charged_ns = vg_field_size(&fields, "charged_ns"),
			    .launches = vg_field_known_size(&fields, "launches", &has_launches)};

	one.has_launches = has_launches;
	if (fields.wrong || !is_shown(timeline, device))
		return fields.wrong;
	snprintf(one.name, sizeof one.name, "%s", name);
	struct row *row = need_row(timeline, vgpu, device);
	if (!row)
		return NULL;
	struct phase *phase = &row->phase;
	if (strcmp(phase->name, one.name) == 0 && phase->turn == one.turn && phase->end_ns == one.begin_ns) {
		phase->end_ns = one.end_ns;
		phase->charged_ns = add_bounded(phase->charged_ns, one.charged_ns);
		phase->launches = add_bounded(phase->launches, one.launches);
		return NULL;
	}
	write_phase(timeline, row);
	*phase = one;
	return NULL;
}

// ---- counters -------------------------------------------------------------------------------------------------

static void write_counter(struct timeline *timeline, const struct row *row, struct counter *counter, const char *name,
			  const char *unit, double value)
{
	if (counter->is_known && counter->value == value)
		return;
	*counter = (struct counter){true, value};
	trace_file_counter(timeline->file, row->track.process, name, since_begin(timeline, timeline->now_ns), unit,
			   value);
}

// Returns the growth of a counter per second since the previous answer; 0 if the counter has begun again at 0.
static double find_rate(const struct timeline *timeline, uint64_t value, uint64_t before)
{
	uint64_t ns = timeline->now_ns - timeline->before_ns;

	return ns && value > before ? (double)(value - before) * 1e9 / (double)ns : 0;
}

// Returns the growth of a counter since the previous answer. If the counter is lower than before, it has begun again at
// 0, for example because the process has called execve().
static uint64_t find_growth(uint64_t value, uint64_t before)
{
	return value < before ? value : value - before;
}

static void add_copies(struct timeline *timeline, struct row *row, struct vg_fields *fields, const json_t *object)
{
	for (int i = 0; json_is_object(object) && i < COPIES; i++) {
		struct vg_fields one = {json_object_get(object, copy_fields[i]), NULL};
		uint64_t bytes = vg_field_size(&one, "bytes");
		if (one.wrong)
			fields->wrong = "copies";
		double rate = row->has_copies ? find_rate(timeline, bytes, row->copied[i]) / (1 << 20) : 0;
		// A vGPU that never copies gets no counters of copies in the trace.
		if (rate > 0 || row->copy_rates[i].is_known)
			write_counter(timeline, row, &row->copy_rates[i], copy_names[i], "MiB/s", rate);
		row->copied[i] = bytes;
	}
	row->has_copies |= json_is_object(object);
}

static const char *explain_place(const char *place)
{
	return strcmp(place, "host") == 0     ? "memory in the host"
	       : strcmp(place, "leaves") == 0 ? "memory moves to the host"
					      : "memory returns to the GPU";
}

// Writes a slice that shows for how long the program's memory was in the host or on the way. Memory on the device is
// the usual case, and gets no slice.
static void write_place(struct timeline *timeline, struct tenant *tenant, uint64_t end_ns)
{
	// The slice is nested in the program's own slice, so it begins a little later than that one.
	uint64_t least = tenant->first_ns + TRACE_NEST_NS;
	uint64_t begin = tenant->place_ns > least ? tenant->place_ns : least;

	if (*tenant->place && strcmp(tenant->place, "device") != 0)
		trace_file_slice(timeline->file, tenant->track, explain_place(tenant->place),
				 since_begin(timeline, begin), since_begin(timeline, end_ns), NULL);
}

static void follow_memory(struct timeline *timeline, struct row *row, struct tenant *tenant, struct vg_fields *fields,
			  const json_t *object)
{
	struct vg_fields memory = {object, NULL};
	char name[TENANT_NAME + 48];

	if (!json_is_object(object))
		return;
	const char *place = vg_field_text(&memory, "place");
	uint64_t since = vg_field_size(&memory, "since_ns"), host = vg_field_size(&memory, "host");
	if (memory.wrong) {
		fields->wrong = "memory";
		return;
	}
	if (strcmp(tenant->place, place) != 0) {
		// The process reports when the move began. That time is bounded by the previous and the present answer,
		// because the slices of one track must not overlap.
		uint64_t least = tenant->last_ns ? tenant->last_ns : tenant->first_ns;
		since = since < least ? least : since > timeline->now_ns ? timeline->now_ns : since;
		write_place(timeline, tenant, since);
		snprintf(tenant->place, sizeof tenant->place, "%s", place);
		tenant->place_ns = since;
	}
	snprintf(name, sizeof name, "%s %lld: memory in the host", tenant->command, (long long)tenant->pid);
	if (host || tenant->in_host.is_known)
		write_counter(timeline, row, &tenant->in_host, name, "MiB", (double)host / (1 << 20));
}

static void add_tenant(struct timeline *timeline, struct row *row, struct vg_fields *fields, const json_t *object)
{
	struct vg_fields one = {object, NULL};
	int64_t pid = (int64_t)vg_field_size(&one, "pid");
	const char *command = vg_field_text(&one, "command");
	uint64_t launches = vg_field_size(&one, "launches"), gpu_ns = vg_field_size(&one, "gpu_ns");
	uint64_t waiting = vg_field_size(&one, "waiting");
	char name[TENANT_NAME + 48];

	if (one.wrong) {
		fields->wrong = "tenants";
		return;
	}
	struct tenant *tenant = need_tenant(timeline, row, pid, command);
	// The daemon reports pid 0 for programs whose pids it does not know. Of several such programs with the same
	// name, only the first in an answer is shown.
	if (!tenant || tenant->last_ns == timeline->now_ns)
		return;
	if (!tenant->last_ns) {
		tenant->launches = launches;
		tenant->gpu_ns = gpu_ns;
	}
	snprintf(name, sizeof name, "%s %lld: launches", command, (long long)pid);
	write_counter(timeline, row, &tenant->rate, name, "per second",
		      find_rate(timeline, launches, tenant->launches));
	snprintf(name, sizeof name, "%s %lld: threads that wait for a turn", command, (long long)pid);
	write_counter(timeline, row, &tenant->waiting, name, "threads", (double)waiting);
	follow_memory(timeline, row, tenant, fields, json_object_get(object, "memory"));
	tenant->grown_launches = add_bounded(tenant->grown_launches, find_growth(launches, tenant->launches));
	tenant->grown_gpu_ns = add_bounded(tenant->grown_gpu_ns, find_growth(gpu_ns, tenant->gpu_ns));
	tenant->launches = launches;
	tenant->gpu_ns = gpu_ns;
	tenant->last_ns = timeline->now_ns;
}

static const char *add_vgpu(struct timeline *timeline, const json_t *object)
{
	struct vg_fields fields = {object, NULL};
	const char *name = vg_field_text(&fields, "name");
	int device = (int)vg_field_size(&fields, "device"), is_known;
	uint64_t charged = vg_field_known_size(&fields, "charged", &is_known);
	uint64_t refusals = vg_field_size(&fields, "refusals");
	const json_t *tenants = json_object_get(object, "tenants"), *one;
	size_t i;

	if (fields.wrong || !is_shown(timeline, device))
		return fields.wrong;
	struct row *row = need_row(timeline, name, device);
	if (!row)
		return NULL;
	if (is_known)
		write_counter(timeline, row, &row->charged, "memory charged", "MiB", (double)charged / (1 << 20));
	write_counter(timeline, row, &row->refusals, "allocations refused", "since it was created", (double)refusals);
	add_copies(timeline, row, &fields, json_object_get(object, "copies"));
	json_array_foreach(tenants, i, one)
		add_tenant(timeline, row, &fields, one);
	return fields.wrong;
}

const char *timeline_add(struct timeline *timeline, const json_t *answer)
{
	struct vg_fields fields = {answer, NULL};
	const json_t *records = json_object_get(answer, "records"), *vgpus = json_object_get(answer, "vgpus"), *one;
	double time = vg_field_seconds(&fields, "time");
	size_t i;

	timeline->before_ns = timeline->now_ns;
	timeline->now_ns = vg_field_size(&fields, "now_ns");
	if (!timeline->has_begun) {
		timeline->has_begun = true;
		timeline->begin_ns = timeline->before_ns = timeline->now_ns;
		timeline->epoch = time;
	}
	json_array_foreach(records, i, one)
		fields.wrong = fields.wrong ? fields.wrong : add_record(timeline, one);
	json_array_foreach(vgpus, i, one)
		fields.wrong = fields.wrong ? fields.wrong : add_vgpu(timeline, one);
	return fields.wrong;
}

// ---- events ---------------------------------------------------------------------------------------------------

static json_t *event_arguments(const struct vg_journal_event *event)
{
	json_t *object = json_object();
	char bytes[VG_SIZE_TEXT];

	if (*event->text)
		json_object_set_new(object, "text", json_string(event->text));
	if (*event->user)
		json_object_set_new(object, "user", json_string(event->user));
	if (event->pid)
		json_object_set_new(object, "process", json_integer(event->pid));
	if (*event->command)
		json_object_set_new(object, "command", json_string(event->command));
	if (event->bytes)
		json_object_set_new(object, "size", json_string(vg_size_format(event->bytes, bytes)));
	if (event->count > 1)
		json_object_set_new(object, "times", json_integer(event->count));
	return object;
}

void timeline_add_event(struct timeline *timeline, const struct vg_journal_event *event)
{
	const struct row *row = *event->vgpu ? find_row(timeline, event->vgpu) : NULL;
	double seconds = event->time - timeline->epoch;
	char name[EVENT_NAME];

	if (*event->vgpu && !row) // the vGPU is on a GPU that is not shown, or no answer has listed it
		return;
	struct track track = row ? row->track : (struct track){0, 0};
	snprintf(name, sizeof name, "%s%s%s", event->kind, row ? "" : ": ", row ? "" : event->text);
	trace_file_instant(timeline->file, track, name, seconds > 0 ? (uint64_t)(seconds * 1e9) : 0,
			   event_arguments(event));
	timeline->counts.events++;
}

static void finish_tenant(struct timeline *timeline, struct tenant *tenant)
{
	char name[TENANT_NAME];

	name_tenant(tenant, name);
	write_place(timeline, tenant, tenant->last_ns);
	trace_file_slice(timeline->file, tenant->track, name, since_begin(timeline, tenant->first_ns),
			 since_begin(timeline, tenant->last_ns),
			 json_pack("{s:I, s:f}", "launches", (json_int_t)tenant->grown_launches,
				   "GPU time ms, estimated", (double)tenant->grown_gpu_ns / 1e6));
}

uint64_t timeline_finish(struct timeline *timeline)
{
	for (struct row *row = timeline->rows; row; row = row->next) {
		write_phase(timeline, row);
		row->phase = (struct phase){0};
		for (struct tenant *tenant = row->tenants; tenant; tenant = tenant->next)
			finish_tenant(timeline, tenant);
	}
	return since_begin(timeline, timeline->now_ns);
}

struct timeline_counts timeline_counts(const struct timeline *timeline)
{
	return timeline->counts;
}
