#include "top/rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- filter ----------------------------------------------------------------------------------------------

static bool vgpu_matches(const struct model *model, const struct vg_vgpu_info *vgpu)
{
	return strcasestr(vgpu->name, model->filter) || strcasestr(vgpu->owner, model->filter);
}

static bool tenant_matches(const struct model *model, const struct vg_tenant_info *tenant)
{
	char pid[24];

	snprintf(pid, sizeof pid, "%lld", (long long)tenant->pid);
	return strcasestr(tenant->command, model->filter) || strstr(pid, model->filter) ||
	       strcasestr(tenant->container, model->filter) || strcasestr(tenant->image, model->filter);
}

static bool is_followed(const struct model *model, const struct vg_vgpu_info *vgpu)
{
	return !*model->followed || strcmp(model->followed, vgpu->name) == 0;
}

static bool has_match(const struct model *model, const struct vg_vgpu_info *vgpu)
{
	if (vgpu_matches(model, vgpu))
		return true;
	for (size_t i = 0; i < vgpu->tenant_count; i++)
		if (tenant_matches(model, &vgpu->tenants[i]))
			return true;
	return false;
}

// ---- order -----------------------------------------------------------------------------------------------

static double sort_value(const struct model *model, const struct row *row)
{
	const struct vg_vgpu_info *vgpu = row->vgpu;
	const struct vg_tenant_info *tenant = row->tenant;

	switch (model->sort) {
	case SORT_MEMORY:
		return (double)(tenant ? tenant->charged : vgpu->damaged ? 0 : vgpu->charged);
	case SORT_PHYSICAL:
		return (double)(tenant ? tenant->physical : vgpu->physical);
	case SORT_TIME:
		return history_last(model_history(model, vgpu), SERIES_TIME);
	case SORT_WAIT:
		return history_last(model_history(model, vgpu), SERIES_WAIT);
	case SORT_REFUSALS:
		return (double)vgpu->refusals;
	default:
		return 0;
	}
}

static int compare_names(const struct model *model, const struct row *left, const struct row *right)
{
	int order = model->sort == SORT_OWNER ? strcmp(left->vgpu->owner, right->vgpu->owner) : 0;

	return order ? order : strverscmp(left->vgpu->name, right->vgpu->name);
}

// Compares two rows for the sort key. The largest figure comes first; names are in alphabetical order.
static int compare_rows(const void *one, const void *other, void *user)
{
	const struct row *left = one, *right = other;
	const struct model *model = user;
	double a = sort_value(model, left), b = sort_value(model, right);
	int order = a < b ? 1 : a > b ? -1 : compare_names(model, left, right);

	if (order)
		return model->is_reversed ? -order : order;
	if (!left->tenant || !right->tenant)
		return 0;
	order = left->tenant->charged < right->tenant->charged	 ? 1
		: left->tenant->charged > right->tenant->charged ? -1
								 : 0;
	return order ? order : (left->tenant->pid > right->tenant->pid) - (left->tenant->pid < right->tenant->pid);
}

// ---- rows ------------------------------------------------------------------------------------------------

static void add_vgpu_rows(struct model *model, const struct vg_vgpu_info *vgpu)
{
	if (has_match(model, vgpu) && is_followed(model, vgpu))
		model->rows[model->row_count++] = (struct row){vgpu, NULL, false};
}

static void add_tenant_rows(struct model *model, const struct vg_vgpu_info *vgpu)
{
	bool is_whole = vgpu_matches(model, vgpu);

	for (size_t i = 0; i < vgpu->tenant_count && is_followed(model, vgpu); i++)
		if (is_whole || tenant_matches(model, &vgpu->tenants[i]))
			model->rows[model->row_count++] = (struct row){vgpu, &vgpu->tenants[i], false};
}

static void sort_rows(struct model *model, size_t first)
{
	qsort_r(model->rows + first, model->row_count - first, sizeof *model->rows, compare_rows, model);
}

// Adds the rows of its programs below each vGPU. Before the call, the array has only the vGPUs, which are sorted.
static void insert_tenants(struct model *model)
{
	size_t count = model->row_count;
	struct row *vgpus = malloc((count + 1) * sizeof *vgpus);

	if (!vgpus)
		return;
	memcpy(vgpus, model->rows, count * sizeof *vgpus);
	model->row_count = 0;
	for (size_t i = 0; i < count; i++) {
		model->rows[model->row_count++] = vgpus[i];
		size_t first = model->row_count;
		add_tenant_rows(model, vgpus[i].vgpu);
		sort_rows(model, first);
		if (model->row_count > first)
			model->rows[model->row_count - 1].is_last = true;
	}
	free(vgpus);
}

void rows_make(struct model *model)
{
	size_t most = 1, count = model->vgpus ? model->vgpus->count : 0;

	model->row_count = 0;
	for (size_t i = 0; i < count; i++)
		most += 1 + model->vgpus->vgpus[i].tenant_count;
	struct row *rows = realloc(model->rows, most * sizeof *rows);
	if (!rows)
		return;
	model->rows = rows;
	for (size_t i = 0; i < count; i++) {
		if (model->view == VIEW_PROGRAMS)
			add_tenant_rows(model, &model->vgpus->vgpus[i]);
		else
			add_vgpu_rows(model, &model->vgpus->vgpus[i]);
	}
	sort_rows(model, 0);
	if (model->view == VIEW_TREE || (*model->followed && model->view == VIEW_VGPUS))
		insert_tenants(model);
}
