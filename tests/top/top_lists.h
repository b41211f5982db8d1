// Lists that a daemon would return for a node with one GPU and three vGPUs, and a canvas whose contents the test reads.
#pragma once
#include "test.h"

#include <locale.h>

#include "top/draw.h"
#include "top/keys.h"

#define GiB (1ull << 30)

enum { TRAIN, INFER, BATCH, VGPUS };

static struct vg_tenant_info train_tenants[] = {
	{.pid = 101,
	 .command = "python",
	 .charged = 1 * GiB,
	 .physical = 1 * GiB,
	 .physical_known = 1,
	 .started = 5,
	 .container = "",
	 .image = ""},
	{.pid = 102,
	 .command = "loader",
	 .charged = 2 * GiB,
	 .overhead = GiB / 2,
	 .physical = 2 * GiB,
	 .physical_known = 1,
	 .started = 6,
	 .container = "",
	 .image = ""},
};
static struct vg_tenant_info infer_tenants[] = {
	{.pid = 201, .command = "server", .charged = GiB, .container = "", .image = ""},
};
static struct vg_vgpu_info vgpus[VGPUS];
static struct vg_vgpu_list vgpu_list = {VGPUS, vgpus};
static struct vg_device_info device;
static struct vg_device_list device_list = {1, &device};
static struct model model;
static struct control control;
static char line[1024];

// Resets the lists: vGPU train has the most memory, infer waits for train, and batch is evictable and belongs to
// another user.
static inline void reset_lists(void)
{
	static const struct vg_turns_info turns = {.known = 1,
						   .mode = "time",
						   .held = 1,
						   .reason = "the share is being held",
						   .holder = "train",
						   .handovers = 12};

	device = (struct vg_device_info){.uuid = "GPU-1",
					 .name = "Test GPU",
					 .memory = 16 * GiB,
					 .memory_used = 5 * GiB,
					 .memory_used_known = 1,
					 .reserved = 14 * GiB,
					 .compute_capability = "9.0",
					 .driver = "1",
					 .vgpus = VGPUS,
					 .share_reserved = 80};
	vgpus[TRAIN] = (struct vg_vgpu_info){.name = "train",
					     .uuid = "GPU-1",
					     .memory = 4 * GiB,
					     .charged = 3 * GiB,
					     .overhead = GiB / 2,
					     .physical = 3 * GiB,
					     .physical_known = 1,
					     .share = 30,
					     .turns = turns,
					     .owner = "ann",
					     .group = "",
					     .created = 1,
					     .tenants_known = 1,
					     .tenant_count = 2,
					     .tenants = train_tenants,
					     .eviction_state = ""};
	vgpus[INFER] = (struct vg_vgpu_info){.name = "infer",
					     .uuid = "GPU-1",
					     .memory = 2 * GiB,
					     .charged = GiB,
					     .share = 50,
					     .turns = turns,
					     .owner = "bob",
					     .group = "",
					     .created = 2,
					     .refusals = 3,
					     .tenants_known = 1,
					     .tenant_count = 1,
					     .tenants = infer_tenants,
					     .eviction_state = ""};
	vgpus[BATCH] = (struct vg_vgpu_info){.name = "batch",
					     .uuid = "GPU-1",
					     .memory = 8 * GiB,
					     .owner = "carol",
					     .group = "",
					     .created = 3,
					     .evictable = 1,
					     .eviction_state = "running"};
	vgpus[TRAIN].turns.recent = 61;
	vgpus[INFER].turns.recent = 20;
	vgpu_list.count = VGPUS;
	model_finish(&model);
	model_init(&model, 1);
	model.sort = SORT_MEMORY;
	control = (struct control){0};
	setlocale(LC_CTYPE, "C.UTF-8");
}

// Gives the lists to the model twice, with times a second apart. Between them, vGPU infer waited for 0.4 s.
static inline void show_lists(void)
{
	model_update(&model, &vgpu_list, &device_list, 10);
	vgpus[INFER].turns.waited_ns = 400000000;
	model_update(&model, &vgpu_list, &device_list, 11);
}

// Returns the line of the canvas that contains the text, or "".
static inline const char *line_with(const struct canvas *canvas, const char *text)
{
	for (int i = 0; i < canvas->rows; i++)
		if (strstr(canvas_read(canvas, i, line, sizeof line), text))
			return line;
	return "";
}

static inline const char *selected_row(void)
{
	static char text[100];
	const struct row *row = model_selected(&model);

	snprintf(text, sizeof text, "%s %lld", row ? row->vgpu->name : "-",
		 row && row->tenant ? (long long)row->tenant->pid : 0);
	return text;
}
