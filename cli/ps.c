// ps: lists the vGPUs and the programs in them.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "eviction.h"
#include "list.h"
#include "options.h"
#include "refresh.h"
#include "say.h"
#include "session.h"
#include "base/suggest.h"
#include "terms.h"

enum { USUAL_INTERVAL = 2, COLUMNS = 16, COLUMNS_OF_ALL = 11 }; // only evictable vGPUs need the last five columns

static size_t count_programs(const struct vg_vgpu_info *vgpu)
{
	size_t count = 0;

	for (size_t i = 0; i < vgpu->tenant_count; i++)
		count += !vgpu->tenants[i].guest && !vgpu->tenants[i].ended && !vgpu->tenants[i].outside;
	return count;
}

// Stores how often the programs of the vGPU have moved their memory to the host, and how long they have waited for it.
static void moves_text(const struct vg_vgpu_info *vgpu, char moves[CELL_TEXT], char stalled[TERMS_TEXT])
{
	const bool is_known = *vgpu->eviction_state && vgpu->tenants_known;
	uint64_t count = 0, waited_ns = 0;

	for (size_t i = 0; i < vgpu->tenant_count; i++) {
		const struct vg_eviction_info *eviction = &vgpu->tenants[i].eviction;
		count += eviction->known ? eviction->moves : 0;
		waited_ns += eviction->known ? eviction->waited_ns : 0;
	}
	snprintf(moves, CELL_TEXT, is_known ? "%llu" : "-", (unsigned long long)count);
	duration_text(waited_ns, is_known, stalled);
}

static void add_vgpu(struct table *table, const struct vg_vgpu_info *vgpu)
{
	char device[CELL_TEXT], memory[CELL_TEXT], overhead[CELL_TEXT], physical[CELL_TEXT], share[TERMS_TEXT];
	char recent[TERMS_TEXT], time[TERMS_TEXT], waited[TERMS_TEXT];
	const struct vg_turns_info *turns = &vgpu->turns;
	char tenants[CELL_TEXT], used[VG_SIZE_TEXT], limit[VG_SIZE_TEXT], on_gpu[CELL_TEXT], in_host[CELL_TEXT];
	char moves[CELL_TEXT], stalled[TERMS_TEXT];
	const char *state = vgpu->eviction_state;

	moves_text(vgpu, moves, stalled);
	snprintf(device, sizeof device, "%d", vgpu->device);
	snprintf(memory, sizeof memory, "%s / %s", vgpu->damaged ? "damaged" : vg_size_format(vgpu->charged, used),
		 vg_size_format(vgpu->memory, limit));
	if (vgpu->tenants_known)
		snprintf(tenants, sizeof tenants, "%zu", count_programs(vgpu));
	else
		strcpy(tenants, "-");
	table_add(table, (const char *const[COLUMNS]){
				 vgpu->name, vgpu->owner, device, memory,
				 size_or_unknown(vgpu->overhead, !vgpu->damaged, overhead),
				 size_or_unknown(vgpu->physical, vgpu->physical_known, physical),
				 share_text(vgpu->share, share), percent_text(turns->recent, turns->known, recent),
				 duration_text(turns->gpu_ns, turns->known, time),
				 duration_text(turns->waited_ns, turns->known, waited), tenants, *state ? state : "-",
				 size_or_unknown(vgpu->on_gpu, *state, on_gpu),
				 size_or_unknown(vgpu->in_host, *state, in_host), moves, stalled});
}

static void add_tenant(struct table *table, const struct vg_tenant_info *tenant)
{
	char name[3 * CELL_TEXT], command[CELL_TEXT], container[CELL_TEXT];
	char memory[CELL_TEXT], overhead[CELL_TEXT], physical[CELL_TEXT];
	const struct vg_eviction_info *eviction = &tenant->eviction;
	char on_gpu[CELL_TEXT], in_host[CELL_TEXT], moves[CELL_TEXT], stalled[TERMS_TEXT];

	bool is_deep = tenant->deep == VG_DEEP_DONE;
	size_or_unknown(is_deep ? 0 : eviction->bytes - eviction->host, eviction->known || is_deep, on_gpu);
	size_or_unknown(eviction->known ? eviction->host : tenant->charged, eviction->known || is_deep, in_host);
	snprintf(moves, sizeof moves, eviction->known ? "%u" : "-", eviction->moves);
	duration_text(eviction->waited_ns, eviction->known, stalled);
	snprintf(name, sizeof name, "  %lld %s%s", (long long)tenant->pid, program_text(tenant, command),
		 container_text(tenant, container));
	table_add(table, (const char *const[COLUMNS]){
				 name, "", "", vg_size_format(tenant->charged, memory),
				 vg_size_format(tenant->overhead, overhead),
				 size_or_unknown(tenant->physical, tenant->physical_known, physical), "", "", "", "",
				 "", eviction_state(tenant), on_gpu, in_host, moves, stalled});
}

// Adds a row for shared memory whose owner has ended, so that the rows add up to the vGPU's memory.
static void add_shared(struct table *table, const struct vg_vgpu_info *vgpu)
{
	char memory[CELL_TEXT];

	if (vgpu->shared && !vgpu->damaged)
		table_add(table, (const char *const[COLUMNS]){"  - (shared, owner gone)", "", "",
							      vg_size_format(vgpu->shared, memory), "", "", "", "", "",
							      "", "", "", "", ""});
}

// Returns whether the vGPU is shown. Without names on the command line, all vGPUs are shown.
static bool is_wanted(const struct vg_vgpu_info *vgpu, const struct arguments *arguments)
{
	for (int i = 0; i < arguments->count; i++)
		if (strcmp(arguments->words[i], vgpu->name) == 0)
			return true;
	return arguments->count == 0;
}

// Returns whether at least one vGPU that is shown is evictable. The table then needs the columns about eviction.
static bool has_evictable(const struct vg_vgpu_list *list, const struct arguments *arguments)
{
	for (size_t i = 0; i < list->count; i++)
		if (is_wanted(&list->vgpus[i], arguments) && has_state(&list->vgpus[i]))
			return true;
	return false;
}

// Prints a line for each drained GPU that has vGPUs.
static void print_drained(const struct vg_vgpu_list *list, FILE *out)
{
	for (size_t i = 0; i < list->count; i++) {
		bool is_first = list->vgpus[i].drained;
		for (size_t j = 0; j < i && is_first; j++)
			is_first = list->vgpus[j].device != list->vgpus[i].device;
		if (is_first)
			fprintf(out, "GPU %d is drained: no new vGPUs and programs start on it\n",
				list->vgpus[i].device);
	}
}

static void print_table(const struct vg_vgpu_list *list, const struct arguments *arguments, FILE *out)
{
	struct table table = {
		.columns = has_evictable(list, arguments) ? COLUMNS : COLUMNS_OF_ALL,
		.right = {[3 ... COLUMNS_OF_ALL - 1] = true, [COLUMNS_OF_ALL + 1 ... COLUMNS - 1] = true}};
	bool tenants = !option_value(arguments, "quiet");

	table_add(&table, (const char *const[COLUMNS]){"NAME", "OWNER", "DEVICE", "MEMORY", "OVERHEAD", "PHYSICAL",
						       "SHARE", "GPU", "TIME", "WAITED", "TENANTS", "STATE", "ON GPU",
						       "IN HOST", "MOVES", "STALLED"});
	for (size_t i = 0; i < list->count; i++) {
		if (!is_wanted(&list->vgpus[i], arguments))
			continue;
		add_vgpu(&table, &list->vgpus[i]);
		for (size_t j = 0; tenants && j < list->vgpus[i].tenant_count; j++)
			add_tenant(&table, &list->vgpus[i].tenants[j]);
		if (tenants)
			add_shared(&table, &list->vgpus[i]);
	}
	table_print_to(&table, out);
	for (size_t i = 0; i < list->count; i++) {
		if (!is_wanted(&list->vgpus[i], arguments))
			continue;
		print_missed_share(&list->vgpus[i], out);
		print_not_moved(&list->vgpus[i], out);
	}
	print_drained(list, out);
}

static int print_list(const struct vg_vgpu_list *list, const struct arguments *arguments)
{
	if (!option_value(arguments, "json")) {
		print_table(list, arguments, stdout);
		return EXIT_OK;
	}
	json_t *array = json_array();
	for (size_t i = 0; i < list->count; i++)
		if (is_wanted(&list->vgpus[i], arguments))
			json_array_append_new(array, vgpu_json(&list->vgpus[i]));
	return print_json(json_pack("{s:o}", "vgpus", array));
}

static bool is_listed(const char *name, const struct vg_vgpu_list *list, struct suggestion *suggestion)
{
	suggestion_init(suggestion, name);
	for (size_t i = 0; i < list->count; i++) {
		if (strcmp(list->vgpus[i].name, name) == 0)
			return true;
		suggestion_offer(suggestion, list->vgpus[i].name);
	}
	return false;
}

// Reports each named vGPU that does not exist. Returns EXIT_OK if all exist.
static int check_names(const struct vg_vgpu_list *list, const struct arguments *arguments)
{
	struct suggestion suggestion;
	int r = EXIT_OK;

	for (int i = 0; i < arguments->count; i++) {
		if (is_listed(arguments->words[i], list, &suggestion))
			continue;
		r = EXIT_FAILED;
		if (suggestion.best)
			say_error("there is no vGPU \"%s\": did you mean \"%s\"?", arguments->words[i],
				  suggestion.best);
		else
			say_error("there is no vGPU \"%s\"", arguments->words[i]);
	}
	return r;
}

static int show_vgpus(struct vg_node *node, const struct arguments *arguments)
{
	struct vg_vgpu_list *list;

	if (vg_vgpu_list(node, &list))
		return fail_with_last_error(arguments);
	int missing = check_names(list, arguments);
	int r = missing ? missing : EXIT_OK;
	if (!missing || arguments->count > 1)
		r = print_list(list, arguments) ? EXIT_FAILED : missing;
	vg_vgpu_list_free(list);
	return r;
}

// ---- --watch --------------------------------------------------------------------------------------------

struct watched {
	struct vg_node *node;
	const struct arguments *arguments;
};

static enum vg_status draw_vgpus(void *user, FILE *out)
{
	const struct watched *watched = user;
	struct vg_vgpu_list *list;

	enum vg_status status = vg_vgpu_list(watched->node, &list);
	if (status)
		return status;
	print_table(list, watched->arguments, out);
	vg_vgpu_list_free(list);
	return VG_OK;
}

static int check_start(struct vg_node *node, const struct arguments *arguments)
{
	struct vg_vgpu_list *list;

	if (vg_vgpu_list(node, &list))
		return fail_with_last_error(arguments);
	int r = check_names(list, arguments);
	vg_vgpu_list_free(list);
	return r;
}

// Lists vGPUs repeatedly. Only the first request may start the daemon: otherwise --watch would restart a daemon after
// its shutdown.
static int watch_vgpus(const struct arguments *arguments, unsigned seconds)
{
	struct watched watched = {.arguments = arguments};
	struct session session;

	int r = run_in_session(arguments, check_start);
	if (r == 0)
		r = session_open_quietly(&session, arguments);
	if (r)
		return r;
	watched.node = session.node;
	r = refresh_until_interrupted("virgate ps", seconds, draw_vgpus, &watched);
	session_close(&session);
	return r;
}

static int run_ps(const struct arguments *arguments)
{
	const char *interval = option_value(arguments, "watch");

	if (!interval)
		return run_in_session(arguments, show_vgpus);
	const char *wrong = *interval ? config_check(KIND_SECONDS, interval) : NULL;
	if (wrong)
		return say_usage(arguments->verb, "--watch: \"%s\" %s", interval, wrong);
	if (option_value(arguments, "json"))
		return say_usage(arguments->verb,
				 "--watch draws a table and --json prints one object: give one of them");
	return watch_vgpus(arguments, *interval ? (unsigned)atoi(interval) : USUAL_INTERVAL);
}

static const struct option options[] = {
	{"quiet", 'q', NULL, "leave out the programs", 0},
	{"watch", 'w', "[SECONDS]", "show it again every SECONDS seconds until ^C; default: 2", 0, .number = true},
	OPTION_JSON,
	OPTION_SIM,
	{0},
};

const struct verb verb_ps = {
	.name = "ps",
	.alias = "list",
	.synopsis = "[NAME...] [--quiet] [--watch [SECONDS] | --json] [--sim]",
	.summary = "List the vGPUs and the programs in them",
	.details = "MEMORY is what counts against the limit, OVERHEAD the part of it that programs did not ask for "
		   "(contexts, modules, limits), PHYSICAL what the driver itself reports for their processes. A "
		   "(guest) runs elsewhere and uses memory of this vGPU. A program in a container has the container's "
		   "id and image; one that is (outside) does not load Virgate's library, and no quota holds for it. "
		   "A program that has (ended) is charged until "
		   "its memory is released. TENANTS counts neither. SHARE is the part of the GPU's time that "
		   "was asked for, GPU the part in the last 10 s, TIME the GPU time used and WAITED the time spent "
		   "waiting for a turn since the vGPU's programs started. A line below the table tells if a share is "
		   "not being held, and why. The other columns are there if a vGPU is evictable. STATE, ON GPU and "
		   "IN HOST say where the memory is that can move, MOVES how often it moved to the host, and STALLED "
		   "how long threads have waited for it.",
	.options = options,
	.most = -1,
	.complete = COMPLETE_VGPU,
	.run = run_ps,
};
