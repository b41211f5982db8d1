#include "daemon/history.h"

#include "base/clock.h"
#include "daemon/arbiter.h"
#include "daemon/deadline.h"
#include "daemon/eviction.h"
#include "daemon/listing.h"

#include <stdlib.h>

static const uint64_t UNKNOWN = UINT64_MAX;

// The figures in one sample. Counters are sums since the daemon started or the vGPU was created.
enum figure {
	FIGURE_CHARGED,
	FIGURE_PHYSICAL, // for a GPU: the memory that the driver reports as used
	FIGURE_IN_HOST,
	FIGURE_GPU_NS,
	FIGURE_WAITED_NS,
	FIGURE_REFUSALS,
	FIGURES
};
static const char *const figure_names[FIGURES] = {"charged", "physical", "in_host", "gpu_ns", "waited_ns", "refusals"};

struct history {
	uint64_t first; // number of the first sample that this vGPU or GPU has
	uint64_t figures[HISTORY_SAMPLES][FIGURES];
};

static uint64_t times_ns[HISTORY_SAMPLES]; // since the epoch
static uint64_t last_number;		   // number of the last sample; 0: there is no sample
static uint64_t next_ns, worst_delay_ns;
static struct history *devices[VG_SYSTEM_DEVICES];

static struct history *find_history(struct history **history, unsigned int *count)
{
	if (!*history && *count < HISTORY_VGPUS) {
		*history = malloc(sizeof **history);
		if (*history)
			(*history)->first = last_number;
	}
	*count += *history != NULL;
	return *history;
}

// Sums up the memory of the processes that is in the host.
static uint64_t sum_host(const struct vgpu *vgpu)
{
	struct eviction one;
	uint64_t sum = 0;

	for (const struct tenant *tenant = vgpu->tenants; tenant; tenant = tenant->next) {
		if (!eviction_concerns(tenant))
			continue;
		eviction_read_slot(vgpu, tenant->seen.slot, &one);
		sum += one.host;
	}
	return sum < vgpu->memory ? sum : vgpu->memory;
}

static void sample_vgpu(const struct node *node, const struct vgpu *vgpu, uint64_t figures[FIGURES])
{
	struct arbiter_report report = {0};
	bool takes_part = arbiter_read(vgpu, &report), is_sound = vgpu->damage != DAMAGE_CONTENTS;

	if (!listing_physical(node, vgpu, &figures[FIGURE_PHYSICAL]))
		figures[FIGURE_PHYSICAL] = UNKNOWN;
	figures[FIGURE_CHARGED] = is_sound ? vg_ledger_charged(vgpu->ledger) : UNKNOWN;
	figures[FIGURE_IN_HOST] = vgpu->evictable && is_sound ? sum_host(vgpu) : UNKNOWN;
	figures[FIGURE_GPU_NS] = takes_part ? report.account.charged_ns : UNKNOWN;
	figures[FIGURE_WAITED_NS] = takes_part ? report.account.waited_ns : UNKNOWN;
	figures[FIGURE_REFUSALS] = is_sound ? vg_ledger_refusal_count(vgpu->ledger) : UNKNOWN;
}

static void sample_device(const struct node *node, size_t device, uint64_t figures[FIGURES])
{
	uint64_t used = UNKNOWN, charged = 0;

	if (vg_system_memory_used(node->system, device, &used) != 0)
		used = UNKNOWN;
	for (const struct vgpu *vgpu = node->vgpus; vgpu; vgpu = vgpu->next)
		if (vgpu->device == device && vgpu->damage != DAMAGE_CONTENTS)
			charged += vg_ledger_charged(vgpu->ledger);
	for (int i = 0; i < FIGURES; i++)
		figures[i] = UNKNOWN;
	figures[FIGURE_PHYSICAL] = used;
	figures[FIGURE_CHARGED] = charged;
}

static void take_sample(struct node *node)
{
	size_t row = ++last_number % HISTORY_SAMPLES;
	struct history *history;
	unsigned int count = 0, device_count = 0;

	times_ns[row] = vg_clock_realtime_ns();
	for (struct vgpu *vgpu = node->vgpus; vgpu; vgpu = vgpu->next)
		if ((history = find_history(&vgpu->history, &count)))
			sample_vgpu(node, vgpu, history->figures[row]);
	for (size_t i = 0; i < vg_system_device_count(node->system); i++)
		if ((history = find_history(&devices[i], &device_count)))
			sample_device(node, i, history->figures[row]);
}

void history_keep(struct node *node, uint64_t now, uint64_t *deadline)
{
	if (!node->vgpus) { // an unused daemon takes no samples, so that it need not wake up
		next_ns = 0;
		return;
	}
	if (now >= next_ns) {
		if (next_ns && now - next_ns > worst_delay_ns)
			worst_delay_ns = now - next_ns;
		take_sample(node);
		next_ns = now + HISTORY_EVERY_S * 1000000000ull;
	}
	deadline_lower(deadline, next_ns);
}

uint64_t history_worst_delay_ns(void)
{
	return worst_delay_ns;
}

static uint64_t first_of(const struct history *history, const struct history_query *query)
{
	uint64_t first = last_number >= HISTORY_SAMPLES ? last_number - HISTORY_SAMPLES + 1 : 1;

	if (first < history->first)
		first = history->first;
	if (first <= query->after)
		first = query->after + 1;
	if (query->most && last_number >= query->most && first < last_number - query->most + 1)
		first = last_number - query->most + 1;
	return first;
}

static json_t *list_figures(const struct history *history, enum figure figure, uint64_t first)
{
	json_t *array = json_array();

	for (uint64_t number = first; number <= last_number; number++) {
		uint64_t value = history->figures[number % HISTORY_SAMPLES][figure];
		json_array_append_new(array, value > INT64_MAX ? json_null() : json_integer((json_int_t)value));
	}
	return array;
}

static json_t *list_series(const struct history *history, const struct history_query *query, const char *name,
			   size_t device)
{
	uint64_t first = first_of(history, query);
	json_t *times = json_array(), *series;

	for (uint64_t number = first; number <= last_number; number++)
		json_array_append_new(times, json_real((double)times_ns[number % HISTORY_SAMPLES] / 1e9));
	series = json_pack("{s:s?, s:i, s:I, s:o}", "vgpu", name, "device", (int)device, "first", (json_int_t)first,
			   "times", times);
	for (int figure = 0; figure < FIGURES; figure++)
		json_object_set_new(series, figure_names[figure], list_figures(history, figure, first));
	return series;
}

static unsigned int count_series(const struct node *node)
{
	unsigned int count = 0;

	for (const struct vgpu *vgpu = node->vgpus; vgpu; vgpu = vgpu->next)
		count += vgpu->history != NULL;
	return count + (unsigned int)vg_system_device_count(node->system);
}

json_t *history_list(const struct node *node, const struct history_query *asked)
{
	struct history_query query = *asked;
	unsigned int most = query.vgpu ? HISTORY_SAMPLES : HISTORY_ANSWER / (count_series(node) + 1);
	json_t *array = json_array();

	if (!query.most || query.most > most)
		query.most = most;
	for (const struct vgpu *vgpu = node->vgpus; vgpu; vgpu = vgpu->next)
		if (vgpu->history && (!query.vgpu || query.vgpu == vgpu))
			json_array_append_new(array, list_series(vgpu->history, &query, vgpu->name, vgpu->device));
	for (size_t i = 0; i < vg_system_device_count(node->system) && !query.vgpu; i++)
		if (devices[i])
			json_array_append_new(array, list_series(devices[i], &query, NULL, i));
	return json_pack("{s:b, s:o, s:I, s:i}", "ok", 1, "series", array, "last", (json_int_t)last_number, "every",
			 (int)HISTORY_EVERY_S);
}
