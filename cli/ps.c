// ps: the vGPUs and the programs in them.
#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "list.h"
#include "session.h"
#include "options.h"

static size_t count_programs(const struct vg_vgpu_info *vgpu)
{
	size_t count = 0;

	for (size_t i = 0; i < vgpu->tenant_count; i++)
		count += !vgpu->tenants[i].guest && !vgpu->tenants[i].ended;
	return count;
}

static void add_vgpu(struct table *table, const struct vg_vgpu_info *vgpu)
{
	char device[CELL_TEXT], memory[CELL_TEXT], overhead[CELL_TEXT], physical[CELL_TEXT], share[CELL_TEXT];
	char tenants[CELL_TEXT], used[VG_SIZE_TEXT], limit[VG_SIZE_TEXT];

	snprintf(device, sizeof device, "%d", vgpu->device);
	snprintf(memory, sizeof memory, "%s / %s", vgpu->damaged ? "damaged" : vg_size_format(vgpu->charged, used),
		 vg_size_format(vgpu->memory, limit));
	if (vgpu->tenants_known)
		snprintf(tenants, sizeof tenants, "%zu", count_programs(vgpu));
	else
		strcpy(tenants, "-");
	table_add(table, (const char *const[]){vgpu->name, device, memory,
					       size_or_unknown(vgpu->overhead, !vgpu->damaged, overhead),
					       size_or_unknown(vgpu->physical, vgpu->physical_known, physical),
					       share_text(vgpu, share), tenants});
}

static void add_tenant(struct table *table, const struct vg_tenant_info *tenant)
{
	char name[2 * CELL_TEXT], command[CELL_TEXT], memory[CELL_TEXT], overhead[CELL_TEXT], physical[CELL_TEXT];

	snprintf(name, sizeof name, "  %lld %s", (long long)tenant->pid, program_text(tenant, command));
	table_add(table,
		  (const char *const[]){name, "", vg_size_format(tenant->charged, memory),
					vg_size_format(tenant->overhead, overhead),
					size_or_unknown(tenant->physical, tenant->physical_known, physical), "", ""});
}

// What no program has among its own: the rows add up only with it.
static void add_shared(struct table *table, const struct vg_vgpu_info *vgpu)
{
	char memory[CELL_TEXT];

	if (vgpu->shared && !vgpu->damaged)
		table_add(table, (const char *const[]){"  - (shared, owner gone)", "",
						       vg_size_format(vgpu->shared, memory), "", "", "", ""});
}

static void print_table(const struct vg_vgpu_list *list, bool tenants)
{
	struct table table = {.columns = 7, .right = {[2] = true, [3] = true, [4] = true, [6] = true}};

	table_add(&table,
		  (const char *const[]){"NAME", "DEVICE", "MEMORY", "OVERHEAD", "PHYSICAL", "SHARE", "TENANTS"});
	for (size_t i = 0; i < list->count; i++) {
		add_vgpu(&table, &list->vgpus[i]);
		for (size_t j = 0; tenants && j < list->vgpus[i].tenant_count; j++)
			add_tenant(&table, &list->vgpus[i].tenants[j]);
		if (tenants)
			add_shared(&table, &list->vgpus[i]);
	}
	table_print(&table);
}

static int print_list(const struct vg_vgpu_list *list, const struct arguments *arguments)
{
	if (!option_value(arguments, "json")) {
		print_table(list, !option_value(arguments, "quiet"));
		return EXIT_OK;
	}
	json_t *array = json_array();
	for (size_t i = 0; i < list->count; i++)
		json_array_append_new(array, vgpu_json(&list->vgpus[i]));
	return print_json(json_pack("{s:o}", "vgpus", array));
}

static int show(struct vg_node *node, const struct arguments *arguments)
{
	struct vg_vgpu_list *list;

	if (vg_vgpu_list(node, &list))
		return fail_with_last_error(arguments);
	int r = print_list(list, arguments);
	vg_vgpu_list_free(list);
	return r;
}

static int run(const struct arguments *arguments)
{
	return in_session(arguments, show);
}

static const struct option options[] = {
	{"quiet", 'q', NULL, "leave out the programs", 0},
	OPTION_JSON,
	OPTION_SIM,
	{0},
};

const struct verb verb_ps = {
	.name = "ps",
	.synopsis = "[--quiet] [--json] [--sim]",
	.summary = "List the vGPUs and the programs in them",
	.details = "MEMORY is what counts against the limit, OVERHEAD the part of it that programs did not ask for\n"
		   "(contexts, modules, limits), PHYSICAL what the driver itself reports for their processes. A\n"
		   "(guest) runs elsewhere and holds memory of this vGPU; of one that has (ended) memory is held\n"
		   "elsewhere. TENANTS leaves both out.",
	.options = options,
	.run = run,
};
