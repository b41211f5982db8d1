#include "exporter/metrics.h"

#include <stdio.h>
#include <stdlib.h>

#include <virgate/broker.h>
#include <virgate/journal.h>
#include <virgate/version.h>

#include "exporter/family.h"
#include "exporter/rows.h"

#define NO_LABELS ((const struct label[]){{0}})

struct lists {
	struct vg_vgpu_list *vgpus;
	struct vg_device_list *devices;
	struct vg_publication_list *publications;
	struct vg_daemon_info daemon;
};

static void print_one(FILE *out, const char *name, enum family_type type, const char *help, double value)
{
	family_begin(out, name, type, help);
	family_sample(out, name, NO_LABELS, value);
}

static void print_up(FILE *out, int is_up)
{
	print_one(out, "virgate_up", FAMILY_GAUGE, "Whether the daemon answers: 1, or 0.", is_up);
	family_begin(out, "virgate_build_info", FAMILY_GAUGE, "The version of Virgate; the value is 1.");
	family_sample(out, "virgate_build_info", (const struct label[]){{"version", vg_version()}, {0}}, 1);
}

// ---- GPUs ----------------------------------------------------------------------------------------------

static bool read_device_memory(const struct vg_device_info *device, double *ret_value)
{
	*ret_value = (double)device->memory;
	return true;
}

static bool read_device_used(const struct vg_device_info *device, double *ret_value)
{
	*ret_value = (double)device->memory_used;
	return device->memory_used_known;
}

static bool read_device_reserved(const struct vg_device_info *device, double *ret_value)
{
	*ret_value = (double)device->reserved;
	return true;
}

static bool read_device_vgpus(const struct vg_device_info *device, double *ret_value)
{
	*ret_value = device->vgpus;
	return true;
}

static const struct {
	const char *name, *help;
	bool (*read)(const struct vg_device_info *device, double *ret_value);
} device_families[] = {
	{"virgate_device_memory_bytes", "Memory of the GPU.", read_device_memory},
	{"virgate_device_memory_used_bytes", "Memory of the GPU that is in use, as the driver reports it.",
	 read_device_used},
	{"virgate_device_memory_reserved_bytes", "Sum of the limits of the vGPUs on the GPU.", read_device_reserved},
	{"virgate_device_vgpus", "Number of vGPUs on the GPU.", read_device_vgpus},
};

static void print_device_infos(FILE *out, const struct vg_device_list *list)
{
	family_begin(out, "virgate_device_info", FAMILY_GAUGE, "What the GPU is; the value is 1.");
	for (size_t i = 0; i < list->count; i++) {
		const struct vg_device_info *device = &list->devices[i];
		char index[16];
		snprintf(index, sizeof index, "%d", device->index);
		family_sample(out, "virgate_device_info",
			      (const struct label[]){{"device", index},
						     {"uuid", device->uuid},
						     {"name", device->name},
						     {"compute_capability", device->compute_capability},
						     {"driver", device->driver},
						     {"simulated", device->simulated ? "true" : "false"},
						     {0}},
			      1);
	}
}

static void print_devices(FILE *out, const struct vg_device_list *list)
{
	print_device_infos(out, list);
	for (size_t row = 0; row < sizeof device_families / sizeof *device_families; row++) {
		family_begin(out, device_families[row].name, FAMILY_GAUGE, device_families[row].help);
		for (size_t i = 0; i < list->count; i++) {
			char index[16];
			double value;
			snprintf(index, sizeof index, "%d", list->devices[i].index);
			if (device_families[row].read(&list->devices[i], &value))
				family_sample(out, device_families[row].name,
					      (const struct label[]){{"device", index}, {0}}, value);
		}
	}
}

// ---- vGPUs ---------------------------------------------------------------------------------------------

// Functions that read one figure of a row. They return false if the figure is unknown, or if it is a counter and the
// row is a group: the sum of a group would fall when one of its vGPUs is removed.
#define GAUGE(figure, known)                                                \
	static bool read_##figure(const struct row *row, double *ret_value) \
	{                                                                   \
		*ret_value = row->figure;                                   \
		return known;                                               \
	}
GAUGE(vgpus, row->is_group)
GAUGE(memory, true)
GAUGE(charged, row->charged_known)
GAUGE(overhead, row->charged_known)
GAUGE(shared, row->charged_known)
GAUGE(physical, row->physical_known)
GAUGE(on_gpu, row->first->evictable || row->is_group)
GAUGE(in_host, row->first->evictable || row->is_group)
GAUGE(tenants, row->tenants_known)
GAUGE(suspended, true)
GAUGE(damaged, true)

static bool read_share(const struct row *row, double *ret_value)
{
	*ret_value = row->share / 100;
	return row->share > 0;
}

static bool read_share_used(const struct row *row, double *ret_value)
{
	*ret_value = row->recent / 100;
	return row->first->turns.known || row->is_group;
}

static bool read_share_entitled(const struct row *row, double *ret_value)
{
	*ret_value = row->first->turns.weight / 100;
	return row->first->turns.known && !row->is_group;
}

static bool read_share_held(const struct row *row, double *ret_value)
{
	*ret_value = row->first->turns.held != 0;
	return row->first->turns.known && !row->is_group;
}

static bool read_gpu_seconds(const struct row *row, double *ret_value)
{
	*ret_value = (double)row->first->turns.gpu_ns / 1e9;
	return row->first->turns.known && !row->is_group;
}

static bool read_waiting_seconds(const struct row *row, double *ret_value)
{
	*ret_value = (double)row->first->turns.waited_ns / 1e9;
	return row->first->turns.known && !row->is_group;
}

static bool read_turns(const struct row *row, double *ret_value)
{
	*ret_value = (double)row->first->turns.turns;
	return row->first->turns.known && !row->is_group;
}

static bool read_refusals(const struct row *row, double *ret_value)
{
	*ret_value = (double)row->first->refusals;
	return !row->is_group && row->charged_known;
}

static bool read_suspends(const struct row *row, double *ret_value)
{
	*ret_value = (double)row->first->suspends;
	return !row->is_group;
}

static bool read_checkpoints(const struct row *row, double *ret_value)
{
	*ret_value = (double)row->first->checkpoints;
	return !row->is_group;
}

static bool read_evictions(const struct row *row, double *ret_value)
{
	*ret_value = (double)row->first->evictions;
	return !row->is_group && row->first->evictable;
}

static bool read_created(const struct row *row, double *ret_value)
{
	*ret_value = row->first->created;
	return !row->is_group;
}

static const struct {
	const char *name, *help;
	enum family_type type;
	bool is_private; // only users who may see the programs of the vGPU get this metric
	bool (*read)(const struct row *row, double *ret_value);
} vgpu_families[] = {
	{"virgate_vgpu_ephemeral_vgpus", "Number of ephemeral vGPUs that a row sums up.", FAMILY_GAUGE, false,
	 read_vgpus},
	{"virgate_vgpu_memory_limit_bytes", "The memory limit.", FAMILY_GAUGE, false, read_memory},
	{"virgate_vgpu_memory_charged_bytes", "Memory that is charged against the limit, overhead included.",
	 FAMILY_GAUGE, false, read_charged},
	{"virgate_vgpu_memory_overhead_bytes", "Charged memory that no program requested: contexts, modules.",
	 FAMILY_GAUGE, false, read_overhead},
	{"virgate_vgpu_memory_shared_bytes", "Charged memory that its process has freed and others have open.",
	 FAMILY_GAUGE, false, read_shared},
	{"virgate_vgpu_memory_physical_bytes", "Memory of the programs on the GPU, as the driver reports it.",
	 FAMILY_GAUGE, false, read_physical},
	{"virgate_vgpu_memory_movable_bytes", "Memory on the GPU that can move to the host.", FAMILY_GAUGE, false,
	 read_on_gpu},
	{"virgate_vgpu_memory_host_bytes", "Charged memory that is in the host.", FAMILY_GAUGE, false, read_in_host},
	{"virgate_vgpu_share_ratio", "The part of the GPU's time that was asked for.", FAMILY_GAUGE, false, read_share},
	{"virgate_vgpu_share_used_ratio", "The part of the GPU's time that was used in the last 10 seconds.",
	 FAMILY_GAUGE, false, read_share_used},
	{"virgate_vgpu_share_entitled_ratio", "The entitled part among the vGPUs that are active now.", FAMILY_GAUGE,
	 false, read_share_entitled},
	{"virgate_vgpu_share_held", "Whether the vGPU gets its share whenever it has work: 1, or 0.", FAMILY_GAUGE,
	 false, read_share_held},
	{"virgate_vgpu_gpu_seconds_total", "GPU time used since the first of the programs started.", FAMILY_COUNTER,
	 false, read_gpu_seconds},
	{"virgate_vgpu_waiting_seconds_total", "Time for which the vGPU waited for a turn.", FAMILY_COUNTER, false,
	 read_waiting_seconds},
	{"virgate_vgpu_turns_total", "Number of turns: handovers of the GPU to the vGPU.", FAMILY_COUNTER, false,
	 read_turns},
	{"virgate_vgpu_refusals_total", "Number of allocations that the limit refused.", FAMILY_COUNTER, false,
	 read_refusals},
	{"virgate_vgpu_suspends_total", "How often a user suspended the vGPU or a process of it.", FAMILY_COUNTER,
	 false, read_suspends},
	{"virgate_vgpu_checkpoints_total", "How often an image of its programs was complete.", FAMILY_COUNTER, false,
	 read_checkpoints},
	{"virgate_vgpu_evictions_total", "How often the daemon moved the vGPU out to make room.", FAMILY_COUNTER, false,
	 read_evictions},
	{"virgate_vgpu_suspended", "Whether a user suspended the vGPU: 1, or 0.", FAMILY_GAUGE, false, read_suspended},
	{"virgate_vgpu_damaged", "Whether the ledger is damaged: 1, or 0.", FAMILY_GAUGE, false, read_damaged},
	{"virgate_vgpu_created_timestamp_seconds", "When the vGPU was created.", FAMILY_GAUGE, false, read_created},
	{"virgate_vgpu_tenants", "Number of processes that are charged, guests included.", FAMILY_GAUGE, true,
	 read_tenants},
};

static void print_vgpu_infos(FILE *out, const struct rows *rows)
{
	family_begin(out, "virgate_vgpu_info", FAMILY_GAUGE, "What the vGPU is; the value is 1.");
	for (size_t i = 0; i < rows->count; i++) {
		const struct row *row = &rows->rows[i];
		const struct vg_vgpu_info *vgpu = row->first;
		family_sample(out, "virgate_vgpu_info",
			      (const struct label[]){
				      {"vgpu", row->name},
				      {"device", row->device},
				      {"owner", vgpu->owner},
				      {"group", row->is_group ? "" : vgpu->group},
				      {"class", vgpu->scheduling_class == VG_CLASS_LATENCY ? "latency" : "batch"},
				      {"mode", vgpu->mode == VG_MODE_MPS ? "mps" : "time"},
				      {"ephemeral", vgpu->ephemeral ? "true" : "false"},
				      {"evictable", vgpu->evictable ? "true" : "false"},
				      {0}},
			      1);
	}
}

static void print_vgpus(FILE *out, const struct rows *rows, bool is_public)
{
	print_vgpu_infos(out, rows);
	for (size_t family = 0; family < sizeof vgpu_families / sizeof *vgpu_families; family++) {
		if (is_public && vgpu_families[family].is_private)
			continue;
		family_begin(out, vgpu_families[family].name, vgpu_families[family].type, vgpu_families[family].help);
		for (size_t i = 0; i < rows->count; i++) {
			const struct row *row = &rows->rows[i];
			double value;
			if (vgpu_families[family].read(row, &value))
				family_sample(out, vgpu_families[family].name,
					      (const struct label[]){{"vgpu", row->name},
								     {"device", row->device},
								     {"owner", row->first->owner},
								     {0}},
					      value);
		}
	}
	print_one(out, "virgate_vgpus_left_out", FAMILY_GAUGE, "Number of vGPUs without a row: there are too many.",
		  (double)rows->left_out);
}

// ---- broker --------------------------------------------------------------------------------------------

static void print_publications(FILE *out, const struct vg_publication_list *list)
{
	double bytes = 0, leases = 0;

	for (size_t i = 0; i < list->count; i++) {
		bytes += (double)list->publications[i].bytes;
		leases += list->publications[i].leases;
	}
	print_one(out, "virgate_broker_generations", FAMILY_GAUGE, "Generations of publications that the broker keeps.",
		  (double)list->count);
	print_one(out, "virgate_broker_memory_bytes", FAMILY_GAUGE, "Device memory of these generations.", bytes);
	print_one(out, "virgate_broker_leases", FAMILY_GAUGE, "Leases of their readers.", leases);
}

// ---- daemon --------------------------------------------------------------------------------------------

static void print_daemon(FILE *out, const struct vg_daemon_info *info)
{
	const struct {
		const char *name, *help;
		enum family_type type;
		double value;
	} figures[] = {
		{"virgate_daemon_start_time_seconds", "When the daemon started.", FAMILY_GAUGE, info->started},
		{"virgate_daemon_cpu_seconds_total", "Processor time of the daemon.", FAMILY_COUNTER,
		 info->cpu_seconds},
		{"virgate_daemon_resident_memory_bytes", "Memory of the daemon.", FAMILY_GAUGE, (double)info->resident},
		{"virgate_daemon_connections", "Connections of clients.", FAMILY_GAUGE, (double)info->connections},
		{"virgate_daemon_requests_total", "Requests that the daemon answered.", FAMILY_COUNTER,
		 (double)info->requests},
		{"virgate_daemon_delay_seconds", "The longest time that the main loop was late by.", FAMILY_GAUGE,
		 info->delay},
		{"virgate_journal_events_total", "Events added to the journal.", FAMILY_COUNTER, (double)info->events},
		{"virgate_journal_omitted_total", "Events not added, since one user's were too many.", FAMILY_COUNTER,
		 (double)info->omitted},
		{"virgate_journal_lost_total",
		 "Events that could not be written to the disk before they left the memory.", FAMILY_COUNTER,
		 (double)info->journal_lost},
		{"virgate_journal_write_errors_total", "Failed writes of the journal to the disk.", FAMILY_COUNTER,
		 (double)info->journal_errors},
		{"virgate_journal_damaged_lines", "Lines of the journal that could not be read at the start.",
		 FAMILY_GAUGE, (double)info->journal_damaged},
	};

	for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
		print_one(out, figures[i].name, figures[i].type, figures[i].help, figures[i].value);
}

// ---- all -----------------------------------------------------------------------------------------------

static enum vg_status make_text(const struct lists *lists, const struct metrics_options *options, char **ret_text)
{
	struct rows rows;
	size_t size;
	char *text = NULL;

	if (rows_make(lists->vgpus, options->lists_ephemeral, &rows) < 0)
		return VG_NO_MEMORY;
	FILE *out = open_memstream(&text, &size);
	if (out) {
		print_up(out, 1);
		print_devices(out, lists->devices);
		print_vgpus(out, &rows, options->is_public);
		print_publications(out, lists->publications);
		print_daemon(out, &lists->daemon);
	}
	rows_free(&rows);
	if (!out || fclose(out) != 0) {
		free(text);
		return VG_NO_MEMORY;
	}
	*ret_text = text;
	return VG_OK;
}

enum vg_status metrics_collect(struct vg_node *node, const struct metrics_options *options, char **ret_text)
{
	struct lists lists = {.daemon.size = sizeof lists.daemon};
	enum vg_status status = vg_vgpu_list(node, &lists.vgpus);

	if (!status)
		status = vg_device_list(node, &lists.devices);
	if (!status)
		status = vg_publication_list(node, &lists.publications);
	if (!status)
		status = vg_daemon_info(node, &lists.daemon);
	if (!status)
		status = make_text(&lists, options, ret_text);
	vg_vgpu_list_free(lists.vgpus);
	vg_device_list_free(lists.devices);
	vg_publication_list_free(lists.publications);
	return status;
}

char *metrics_without_daemon(void)
{
	size_t size;
	char *text = NULL;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return NULL;
	print_up(out, 0);
	if (fclose(out) == 0)
		return text;
	free(text);
	return NULL;
}
