#include <errno.h>
#include <stdlib.h>

#include "base/status.h"
#include "node/fields.h"
#include "node/node.h"
#include "virgate/journal.h"

struct block {
	json_t *reply; // owns the strings
	struct vg_history_series *series;
	struct vg_history_sample *samples; // of all series
	struct vg_history_list list;
};

// Reads one figure of each sample. Returns false if the array is missing or has another length.
static int read_figures(const json_t *object, const char *key, struct vg_history_sample *samples, size_t count,
			size_t offset)
{
	const json_t *array = json_object_get(object, key), *value;
	size_t i;

	if (json_array_size(array) != count)
		return 0;
	json_array_foreach(array, i, value) {
		uint64_t *figure = (uint64_t *)((char *)&samples[i] + offset);
		*figure = json_is_integer(value) ? (uint64_t)json_integer_value(value) : VG_HISTORY_UNKNOWN;
	}
	return 1;
}

// Fills in a series and its samples from a JSON object. Returns the key of an invalid field, or NULL if all are valid.
static const char *read_series(const json_t *object, struct vg_history_series *series,
			       struct vg_history_sample *samples)
{
	static const struct {
		const char *key;
		size_t offset;
	} figures[] = {{"charged", offsetof(struct vg_history_sample, charged)},
		       {"physical", offsetof(struct vg_history_sample, physical)},
		       {"in_host", offsetof(struct vg_history_sample, in_host)},
		       {"gpu_ns", offsetof(struct vg_history_sample, gpu_ns)},
		       {"waited_ns", offsetof(struct vg_history_sample, waited_ns)},
		       {"refusals", offsetof(struct vg_history_sample, refusals)}};
	struct vg_fields fields = {object, NULL};
	const json_t *times = json_object_get(object, "times"), *time;
	size_t i;

	*series = (struct vg_history_series){.vgpu = vg_field_optional_text(&fields, "vgpu"),
					     .device = (int)vg_field_size(&fields, "device"),
					     .first = vg_field_size(&fields, "first"),
					     .count = json_array_size(times),
					     .samples = samples};
	json_array_foreach(times, i, time)
		samples[i].time = json_number_value(time);
	for (i = 0; i < sizeof figures / sizeof *figures; i++)
		if (!read_figures(object, figures[i].key, samples, series->count, figures[i].offset))
			return figures[i].key;
	return fields.wrong;
}

// Allocates the arrays of the list. Returns NULL if there is no memory.
static struct block *make_block(json_t *reply, const json_t *array)
{
	struct block *block = calloc(1, sizeof *block);
	size_t samples = 0, i;
	const json_t *one;

	json_array_foreach(array, i, one)
		samples += json_array_size(json_object_get(one, "times"));
	if (!block)
		return NULL;
	block->reply = json_incref(reply);
	block->series = calloc(json_array_size(array) + 1, sizeof *block->series);
	block->samples = calloc(samples + 1, sizeof *block->samples);
	block->list = (struct vg_history_list){.count = json_array_size(array), .series = block->series};
	if (block->series && block->samples)
		return block;
	vg_history_list_free(&block->list);
	return NULL;
}

static enum vg_status read_list(json_t *reply, struct vg_history_list **ret_list)
{
	json_t *array = json_object_get(reply, "series"), *one;
	struct vg_fields fields = {reply, json_is_array(array) ? NULL : "series"};
	struct block *block = make_block(reply, array);
	size_t done = 0, i;

	if (!block)
		return vg_fail(VG_NO_MEMORY, ENOMEM, "no memory for the samples");
	block->list.last = vg_field_size(&fields, "last");
	block->list.every = (unsigned)vg_field_size(&fields, "every");
	json_array_foreach(array, i, one) {
		const char *wrong = read_series(one, &block->series[i], block->samples + done);
		fields.wrong = wrong ? wrong : fields.wrong;
		done += block->series[i].count;
	}
	if (!fields.wrong) {
		*ret_list = &block->list;
		return VG_OK;
	}
	enum vg_status status = vg_fields_refuse(fields.wrong);
	vg_history_list_free(&block->list);
	return status;
}

enum vg_status vg_history_list(struct vg_node *node, const struct vg_history_options *options,
			       struct vg_history_list **ret_list)
{
	VG_ENTRY();
	enum { HOUR = 720 };
	struct vg_history_options all = {0};
	json_t *reply;

	VG_NEEDED(node);
	VG_NEEDED(ret_list);
	if (options && options->size != sizeof *options)
		return vg_fail(VG_INVALID, 0, "vg_history_options.size is %zu, but must be %zu", options->size,
			       sizeof *options);
	if (options)
		all = *options;
	if (all.most > HOUR)
		return vg_fail(VG_INVALID, 0, "vg_history_options.most is %u, and there are at most %d samples",
			       all.most, HOUR);
	enum vg_status status = all.vgpu ? vg_check_name(all.vgpu) : VG_OK;
	if (status)
		return status;
	status = vg_node_request(node,
				 json_pack("{s:s, s:s?, s:I, s:i}", "op", "history", "vgpu", all.vgpu, "after",
					   (json_int_t)all.after, "most", all.most ? (int)all.most : HOUR),
				 &reply);
	if (status)
		return status;
	status = read_list(reply, ret_list);
	json_decref(reply);
	return status;
}

void vg_history_list_free(struct vg_history_list *list)
{
	if (!list)
		return;
	struct block *block = (struct block *)((char *)list - offsetof(struct block, list));
	json_decref(block->reply);
	free(block->series);
	free(block->samples);
	free(block);
}
