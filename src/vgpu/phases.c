#include <errno.h>
#include <stdlib.h>

#include "base/status.h"
#include "node/fields.h"
#include "node/node.h"
#include "virgate/journal.h"

struct block {
	json_t *reply; // owns the strings
	struct vg_phase_list list;
	struct vg_phase phases[];
};

static void read_phase(struct vg_fields *fields, struct vg_phase *phase)
{
	int is_known;
	uint64_t launches = vg_field_known_size(fields, "launches", &is_known);

	*phase = (struct vg_phase){.vgpu = vg_field_text(fields, "vgpu"),
				   .device = (int)vg_field_size(fields, "device"),
				   .phase = vg_field_text(fields, "phase"),
				   .turn = vg_field_size(fields, "turn"),
				   .begin_ns = vg_field_size(fields, "begin_ns"),
				   .end_ns = vg_field_size(fields, "end_ns"),
				   .charged_ns = vg_field_size(fields, "charged_ns"),
				   .launches = is_known ? launches : VG_HISTORY_UNKNOWN};
}

// Makes the list from the reply, which it consumes.
static enum vg_status read_list(json_t *reply, struct vg_phase_list **ret_list)
{
	json_t *array = json_object_get(reply, "records"), *one;
	struct vg_fields whole = {reply, json_is_array(array) ? NULL : "records"};
	size_t count = json_array_size(array), i;
	struct block *block = calloc(1, sizeof *block + count * sizeof *block->phases);

	if (!block) {
		json_decref(reply);
		return vg_fail(VG_NO_MEMORY, ENOMEM, "no memory for the list");
	}
	*block = (struct block){.reply = reply, .list = {.count = count, .phases = block->phases}};
	block->list.next = vg_field_size(&whole, "next");
	block->list.more = vg_field_truth(&whole, "more");
	block->list.lost = vg_field_truth(&whole, "lost");
	block->list.now_ns = vg_field_size(&whole, "now_ns");
	block->list.started = vg_field_seconds(&whole, "started");
	json_array_foreach(array, i, one) {
		struct vg_fields fields = {one, NULL};
		read_phase(&fields, &block->phases[i]);
		whole.wrong = fields.wrong ? fields.wrong : whole.wrong;
	}
	if (!whole.wrong) {
		*ret_list = &block->list;
		return VG_OK;
	}
	enum vg_status status = vg_fields_refuse(whole.wrong);
	vg_phase_list_free(&block->list);
	return status;
}

enum vg_status vg_phase_list(struct vg_node *node, const struct vg_phase_options *options,
			     struct vg_phase_list **ret_list)
{
	VG_ENTRY();
	json_t *reply;

	VG_NEEDED(node);
	VG_NEEDED(options);
	VG_NEEDED(ret_list);
	if (options->size != sizeof *options)
		return vg_fail(VG_INVALID, 0, "vg_phase_options.size is %zu, but must be %zu", options->size,
			       sizeof *options);
	if (options->after > INT64_MAX)
		return vg_fail(VG_INVALID, 0, "vg_phase_options.after is larger than every number of a phase");
	json_t *request = json_pack("{s:s, s:b}", "op", "trace", "counters", 0);
	if (!options->begins)
		json_object_set_new(request, "after", json_integer((json_int_t)options->after));
	enum vg_status status = vg_node_request(node, request, &reply);
	return status ? status : read_list(reply, ret_list);
}

void vg_phase_list_free(struct vg_phase_list *list)
{
	if (!list)
		return;
	struct block *block = (struct block *)((char *)list - offsetof(struct block, list));
	json_decref(block->reply);
	free(block);
}
