#include "exporter/rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Finds the row of the group that the vGPU belongs to; NULL: the group has no row yet.
static struct row *find_group(struct rows *rows, const struct vg_vgpu_info *vgpu)
{
	for (size_t i = 0; i < rows->count; i++) {
		struct row *row = &rows->rows[i];
		if (row->is_group && row->first->device == vgpu->device && strcmp(row->first->owner, vgpu->owner) == 0)
			return row;
	}
	return NULL;
}

static struct row *add_row(struct rows *rows, const struct vg_vgpu_info *vgpu, bool is_group)
{
	if (rows->count == ROWS_MOST)
		return NULL;
	struct row *row = &rows->rows[rows->count++];
	*row = (struct row){.first = vgpu,
			    .is_group = is_group,
			    .name = is_group ? ROWS_GROUP : vgpu->name,
			    .charged_known = true,
			    .physical_known = true,
			    .tenants_known = true};
	snprintf(row->device, sizeof row->device, "%d", vgpu->device);
	return row;
}

static void add_figures(struct row *row, const struct vg_vgpu_info *vgpu)
{
	row->vgpus++;
	row->memory += (double)vgpu->memory;
	row->charged += (double)vgpu->charged;
	row->overhead += (double)vgpu->overhead;
	row->shared += (double)vgpu->shared;
	row->physical += (double)vgpu->physical;
	row->on_gpu += (double)vgpu->on_gpu;
	row->in_host += (double)vgpu->in_host;
	row->charged_known &= !vgpu->damaged;
	row->physical_known &= vgpu->physical_known != 0;
	row->tenants_known &= vgpu->tenants_known != 0;
	row->tenants += (double)vgpu->tenant_count;
	row->suspended += vgpu->suspended != 0;
	row->damaged += vgpu->damaged != 0;
	row->share += vgpu->share;
	row->recent += vgpu->turns.known ? vgpu->turns.recent : 0;
}

int rows_make(const struct vg_vgpu_list *list, bool lists_ephemeral, struct rows *ret_rows)
{
	size_t most = list->count < ROWS_MOST ? list->count : ROWS_MOST;
	struct rows rows = {.rows = calloc(most + 1, sizeof *rows.rows)};

	if (!rows.rows)
		return -1;
	for (size_t i = 0; i < list->count; i++) {
		const struct vg_vgpu_info *vgpu = &list->vgpus[i];
		bool is_grouped = vgpu->ephemeral && !lists_ephemeral;
		struct row *row = is_grouped ? find_group(&rows, vgpu) : NULL;
		if (!row)
			row = add_row(&rows, vgpu, is_grouped);
		if (row)
			add_figures(row, vgpu);
		else
			rows.left_out++;
	}
	*ret_rows = rows;
	return 0;
}

void rows_free(struct rows *rows)
{
	free(rows->rows);
	*rows = (struct rows){0};
}
