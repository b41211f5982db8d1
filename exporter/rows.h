// Chooses the rows of the metrics about vGPUs. Ephemeral vGPUs are summed up, with one row for each GPU and owner: each
// of them has a new name, so rows of their own would begin new time series. Any thread.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include <virgate/vgpu.h>

enum { ROWS_MOST = 1000 }; // the most vGPUs that get rows; further ones are only counted

// One vGPU, or all ephemeral vGPUs of one owner on one GPU.
struct row {
	const struct vg_vgpu_info *first; // the vGPU, or the first vGPU of the group
	bool is_group;
	const char *name; // the name of the vGPU, or ROWS_GROUP for a group
	char device[16];
	unsigned vgpus;
	double memory, charged, overhead, physical, shared, on_gpu, in_host, tenants, suspended, damaged;
	bool charged_known, physical_known, tenants_known;
	double share, recent; // percent
};
#define ROWS_GROUP "(ephemeral)" // no vGPU can have this name

struct rows {
	struct row *rows;
	size_t count;
	size_t left_out; // the number of vGPUs without a row
};

// Makes the rows from a list, which must stay valid. Returns 0, or -1 if there is no memory.
int rows_make(const struct vg_vgpu_list *list, bool lists_ephemeral, struct rows *ret_rows);
void rows_free(struct rows *rows);
