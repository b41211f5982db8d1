// logs: lists the allocations that the quota of a vGPU refused.
#include <stdio.h>

#include "base/size.h"
#include "list.h"
#include "session.h"
#include "options.h"
#include "say.h"

static void print_table(const struct vg_refusal_list *list)
{
	struct table table = {.columns = 7, .right = {[1] = true, [3] = true, [4] = true, [5] = true, [6] = true}};
	char time[CELL_TEXT], pid[CELL_TEXT], asked[CELL_TEXT], used[CELL_TEXT], limit[CELL_TEXT], overhead[CELL_TEXT];

	table_add(&table, (const char *const[]){"TIME", "PID", "CALL", "ASKED", "USED", "OVERHEAD", "LIMIT"});
	for (size_t i = 0; i < list->count; i++) {
		const struct vg_refusal_info *refusal = &list->refusals[i];
		snprintf(pid, sizeof pid, "%lld", (long long)refusal->pid);
		table_add(&table, (const char *const[]){time_text(refusal->time, time), pid, refusal->entry,
							vg_size_format(refusal->asked, asked),
							vg_size_format(refusal->charged, used),
							vg_size_format(refusal->overhead, overhead),
							vg_size_format(refusal->limit, limit)});
	}
	table_print(&table);
}

static int print_refusals(const char *name, const struct vg_refusal_list *list)
{
	json_t *array = json_array();

	for (size_t i = 0; i < list->count; i++) {
		const struct vg_refusal_info *refusal = &list->refusals[i];
		json_array_append_new(array,
				      json_pack("{s:f, s:I, s:s, s:I, s:I, s:I, s:I}", "time", refusal->time, "pid",
						(json_int_t)refusal->pid, "entry", refusal->entry, "asked",
						(json_int_t)refusal->asked, "charged", (json_int_t)refusal->charged,
						"overhead", (json_int_t)refusal->overhead, "limit",
						(json_int_t)refusal->limit));
	}
	return print_json(json_pack("{s:s, s:o}", "name", name, "refusals", array));
}

static int show_refusals(struct vg_node *node, const struct arguments *arguments)
{
	const char *name = arguments->words[0];
	struct vg_refusal_list *list;
	int r = EXIT_OK;

	if (vg_refusal_list(node, name, &list))
		return fail_with_last_error(arguments);
	if (option_value(arguments, "json"))
		r = print_refusals(name, list);
	else if (list->count == 0)
		print_line("%s: nothing was refused", name);
	else
		print_table(list);
	vg_refusal_list_free(list);
	return r;
}

static int run_logs(const struct arguments *arguments)
{
	return run_in_session(arguments, show_refusals);
}

static const struct option options[] = {OPTION_JSON, OPTION_SIM, {0}};

const struct verb verb_logs = {
	.name = "logs",
	.synopsis = "NAME [--json] [--sim]",
	.summary = "Show the requests that the quota of a vGPU refused",
	.details = "ASKED would have made USED (by all programs of the vGPU, OVERHEAD included) larger than LIMIT. "
		   "The last 64 refusals are kept.",
	.options = options,
	.least = 1,
	.most = 1,
	.complete = COMPLETE_VGPU,
	.run = run_logs,
};
