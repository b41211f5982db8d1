// Keeps what the program shows: the latest lists, their history, and the sorted rows of the table. One thread.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <virgate/vgpu.h>

#include "top/history.h"

enum { NAME_TEXT = 64, FILTER_TEXT = 64 };

enum sort_key { SORT_NAME, SORT_MEMORY, SORT_PHYSICAL, SORT_TIME, SORT_WAIT, SORT_REFUSALS, SORT_OWNER, SORT_COUNT };

enum view {
	VIEW_TREE,     // each vGPU with its programs below it
	VIEW_VGPUS,    // vGPUs alone
	VIEW_PROGRAMS, // the programs of all vGPUs, without rows for vGPUs
	VIEW_COUNT
};

struct row {
	const struct vg_vgpu_info *vgpu;
	const struct vg_tenant_info *tenant; // NULL: this is the row of the vGPU itself
	bool is_last;			     // this is the last program of its vGPU
};

struct model {
	// The latest lists, which belong to the caller; NULL: none yet.
	const struct vg_vgpu_list *vgpus;
	const struct vg_device_list *devices;
	const struct vg_refusal_list *refusals; // refusals of the vGPU `refusals_of`; NULL: none are known
	char refusals_of[NAME_TEXT];
	struct histories histories;
	double time;	 // when the latest lists were made
	double interval; // seconds from one reading of the lists to the next
	enum sort_key sort;
	bool is_reversed;
	enum view view;
	char filter[FILTER_TEXT];
	char followed[NAME_TEXT]; // name of the only vGPU that is shown; "": all are shown
	struct row *rows;
	size_t row_count;
	size_t selected; // index of the selected row; 0 if the table is empty
	size_t top;	 // index of the first row that the screen shows
	char selected_name[NAME_TEXT];
	int64_t selected_pid; // 0: the vGPU
};

void model_init(struct model *model, double interval);
void model_finish(struct model *model);
// Replaces the lists. The caller keeps them until the next call. `time` is in seconds of any clock that never goes
// back.
void model_update(struct model *model, const struct vg_vgpu_list *vgpus, const struct vg_device_list *devices,
		  double time);
// Makes the rows again, after a change of the sort key, the view, the filter or `followed`. Keeps the selection.
void model_arrange(struct model *model);
// Moves the selection down by `rows`, or up if `rows` is negative, but not beyond the first or last row.
void model_move(struct model *model, long rows);
// Selects the first row.
void model_select_first(struct model *model);
// Returns the selected row, or NULL.
const struct row *model_selected(const struct model *model);
// Chooses the first row to show on a screen of `height` rows, so that the selected row is visible.
void model_scroll(struct model *model, size_t height);

const struct history *model_history(const struct model *model, const struct vg_vgpu_info *vgpu);
const struct history *model_device_history(const struct model *model, const struct vg_device_info *device);
// Returns the name of the figure by which the rows are sorted, for the status line.
const char *sort_name(enum sort_key key);
// Returns the number of processes that run in a vGPU.
size_t count_programs(const struct vg_vgpu_info *vgpu);
