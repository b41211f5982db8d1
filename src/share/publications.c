// Lists publications and their readers.
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "node/fields.h"
#include "node/node.h"
#include "virgate/broker.h"

struct block {
	json_t *reply; // owns the strings in the rows
	struct vg_publication_info *rows;
	struct vg_reader_info *readers; // the readers of all rows
	struct vg_publication_list list;
};

static const char *read_reader(const json_t *object, struct vg_reader_info *reader)
{
	struct vg_fields fields = {object, NULL};

	reader->pid = (int64_t)vg_field_size(&fields, "pid");
	reader->command = vg_field_optional_text(&fields, "command");
	reader->user = vg_field_text(&fields, "user");
	reader->writable = strcmp(vg_field_text(&fields, "access"), "read-write") == 0;
	reader->since = vg_field_seconds(&fields, "since");
	return fields.wrong;
}

static const char *read_row(const json_t *object, struct vg_publication_info *row, struct vg_reader_info *readers)
{
	struct vg_fields fields = {object, NULL};
	json_t *array = json_object_get(object, "readers"), *one;
	const json_t *published = json_object_get(object, "published");
	int device_known, known;
	size_t i;

	row->name = vg_field_text(&fields, "name");
	row->generation = vg_field_size(&fields, "generation");
	row->state = vg_field_text(&fields, "state");
	// The daemon does not send `bytes`, `ranges` and `device` of lost publications.
	row->bytes = vg_field_known_size(&fields, "bytes", &known);
	row->ranges = (unsigned)vg_field_known_size(&fields, "ranges", &known);
	row->device = (int)vg_field_known_size(&fields, "device", &device_known);
	row->device = device_known ? row->device : -1;
	row->owner = vg_field_text(&fields, "owner");
	row->group = vg_field_optional_text(&fields, "group");
	row->mode = (unsigned)vg_field_known_size(&fields, "mode", &known);
	row->vgpu = vg_field_optional_text(&fields, "vgpu");
	row->publisher = (int64_t)vg_field_size(&fields, "publisher");
	row->published = json_is_null(published) ? 0 : vg_field_seconds(&fields, "published");
	row->leases = (unsigned)vg_field_size(&fields, "leases");
	row->readers = readers;
	row->reader_count = json_array_size(array);
	row->readers_known = json_is_array(array);
	json_array_foreach(array, i, one) {
		const char *wrong = read_reader(one, &readers[i]);
		if (wrong)
			return wrong;
	}
	return fields.wrong;
}

static int compare_rows(const void *left, const void *right)
{
	const struct vg_publication_info *a = left, *b = right;
	int order = strcmp(a->name, b->name);

	return order ? order : a->generation < b->generation ? -1 : a->generation > b->generation;
}

static void free_block(struct block *block)
{
	json_decref(block->reply);
	free(block->rows);
	free(block->readers);
	free(block);
}

static enum vg_status read_all(struct block *block, const json_t *array)
{
	size_t readers = 0, i;
	json_t *one;

	json_array_foreach(array, i, one)
		readers += json_array_size(json_object_get(one, "readers"));
	block->rows = calloc(json_array_size(array) + 1, sizeof *block->rows);
	block->readers = calloc(readers + 1, sizeof *block->readers);
	if (!block->rows || !block->readers)
		return vg_fail(VG_NO_MEMORY, ENOMEM, "no memory for the list");
	readers = 0;
	json_array_foreach(array, i, one) {
		const char *wrong = read_row(one, &block->rows[i], block->readers + readers);
		if (wrong)
			return vg_fields_refuse(wrong);
		readers += block->rows[i].reader_count;
	}
	qsort(block->rows, json_array_size(array), sizeof *block->rows, compare_rows);
	block->list = (struct vg_publication_list){json_array_size(array), block->rows};
	return VG_OK;
}

enum vg_status vg_publication_list(struct vg_node *node, struct vg_publication_list **ret_list)
{
	VG_ENTRY();
	json_t *reply;

	VG_NEEDED(node);
	VG_NEEDED(ret_list);
	enum vg_status status = vg_node_request(node, json_pack("{s:s}", "op", "publications"), &reply);
	if (status)
		return status;
	const json_t *array = json_object_get(reply, "publications");
	struct block *block = calloc(1, sizeof *block);
	if (!block) {
		json_decref(reply);
		return vg_fail(VG_NO_MEMORY, ENOMEM, "no memory for the list");
	}
	block->reply = reply;
	status = json_is_array(array) ? read_all(block, array) : vg_fields_refuse("publications");
	if (status)
		free_block(block);
	else
		*ret_list = &block->list;
	return status;
}

void vg_publication_list_free(struct vg_publication_list *list)
{
	if (list)
		free_block((struct block *)((char *)list - offsetof(struct block, list)));
}
