// inspect: shows everything about one vGPU.
#include <stdio.h>

#include "base/size.h"
#include "eviction.h"
#include "list.h"
#include "session.h"
#include "options.h"
#include "say.h"
#include "terms.h"

static void print_size(const char *what, uint64_t bytes, int known)
{
	char text[CELL_TEXT];

	if (known)
		print_line("%-11s%s (%llu bytes)", what, vg_size_format(bytes, text), (unsigned long long)bytes);
	else
		print_line("%-11sunknown", what);
}

static void print_tenants(const struct vg_vgpu_info *vgpu)
{
	struct table table = {.columns = has_state(vgpu) ? 8 : 6,
			      .right = {[0] = true, [2] = true, [3] = true, [4] = true, [7] = true}};
	char pid[CELL_TEXT], command[CELL_TEXT], charged[CELL_TEXT], overhead[CELL_TEXT], physical[CELL_TEXT];
	char started[CELL_TEXT], in_host[CELL_TEXT];

	table_add(&table, (const char *const[]){"PID", "COMMAND", "MEMORY", "OVERHEAD", "PHYSICAL", "STARTED", "STATE",
						"IN HOST"});
	for (size_t i = 0; i < vgpu->tenant_count; i++) {
		const struct vg_tenant_info *tenant = &vgpu->tenants[i];
		const struct vg_eviction_info *eviction = &tenant->eviction;
		snprintf(pid, sizeof pid, "%lld", (long long)tenant->pid);
		table_add(&table, (const char *const[]){
					  pid, program_text(tenant, command), vg_size_format(tenant->charged, charged),
					  vg_size_format(tenant->overhead, overhead),
					  size_or_unknown(tenant->physical, tenant->physical_known, physical),
					  time_text(tenant->started, started), eviction_state(tenant),
					  size_or_unknown(eviction->host, eviction->known, in_host)});
	}
	printf("\n");
	table_print(&table);
}

static void print_vgpu(const struct vg_vgpu_info *vgpu)
{
	char text[CELL_TEXT];

	print_line("%-11s%s", "name", vgpu->name);
	print_line("%-11s%d, %s", "device", vgpu->device, vgpu->uuid);
	print_size("limit", vgpu->memory, 1);
	if (vgpu->damaged)
		print_line("%-11sits ledger was overwritten, truncated or removed: virgate rm --force %s ends what "
			   "runs in it and removes it",
			   "damaged", vgpu->name);
	print_size("used", vgpu->charged, !vgpu->damaged);
	print_size("overhead", vgpu->overhead, !vgpu->damaged);
	if (vgpu->shared && !vgpu->damaged)
		print_size("shared", vgpu->shared, 1);
	print_size("physical", vgpu->physical, vgpu->physical_known);
	print_terms(vgpu);
	print_eviction(vgpu);
	if (*vgpu->job)
		print_line("%-11s%s", "job", vgpu->job);
	print_line("%-11s%s", "owner", vgpu->owner);
	print_line("%-11s%s", "group", *vgpu->group ? vgpu->group : "none");
	print_line("%-11s%s", "lifetime", vgpu->ephemeral ? "until its last program has ended" : "until it is removed");
	print_line("%-11s%s", "created", time_text(vgpu->created, text));
	print_line("%-11s%llu", "refusals", (unsigned long long)vgpu->refusals);
	if (vgpu->tenant_count)
		print_tenants(vgpu);
	print_not_moved(vgpu, stdout);
}

static int inspect_vgpu(struct vg_node *node, const struct arguments *arguments)
{
	struct vg_vgpu_list *list;
	int r = EXIT_OK;

	if (vg_vgpu_inspect(node, arguments->words[0], &list))
		return fail_with_last_error(arguments);
	if (option_value(arguments, "json"))
		r = print_json(json_pack("{s:o}", "vgpu", vgpu_json(&list->vgpus[0])));
	else
		print_vgpu(&list->vgpus[0]);
	vg_vgpu_list_free(list);
	return r;
}

static int run_inspect(const struct arguments *arguments)
{
	return run_in_session(arguments, inspect_vgpu);
}

static const struct option options[] = {OPTION_JSON, OPTION_SIM, {0}};

const struct verb verb_inspect = {
	.name = "inspect",
	.synopsis = "NAME [--json] [--sim]",
	.summary = "Show everything about one vGPU",
	.options = options,
	.least = 1,
	.most = 1,
	.complete = COMPLETE_VGPU,
	.run = run_inspect,
};
