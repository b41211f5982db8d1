// Chooses the rows of the metrics about vGPUs. Names of ephemeral vGPUs are new for each program, so a row for each
// would make a time series for each: they are summed up, one row for each GPU and owner. Any thread.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include <virgate/vgpu.h>

enum { ROWS_MOST = 1000 }; // more vGPUs than these are left out, and counted

// One vGPU, or all ephemeral vGPUs of one owner on one GPU.
struct row {
	const struct vg_vgpu_info *first; // the vGPU, or the first one of the group
	bool is_group;
	const char *name; // in a group ROWS_GROUP
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
	size_t left_out; // vGPUs without a row
};

// Makes the rows from a list, which must stay valid. Returns 0, or -1 if there is no memory.
int rows_make(const struct vg_vgpu_list *list, bool lists_ephemeral, struct rows *ret_rows);
void rows_free(struct rows *rows);
