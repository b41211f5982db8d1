#include "virgate/journal.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/status.h"
#include "node/fields.h"
#include "node/node.h"

enum { POLL_MS = 500, EVENTS_MOST = 512 };

struct block {
	json_t *reply; // owns the strings
	struct vg_journal_list list;
	struct vg_journal_event events[];
};

static void read_event(struct vg_fields *fields, struct vg_journal_event *event)
{
	event->number = vg_field_size(fields, "number");
	event->time = vg_field_seconds(fields, "time");
	event->kind = vg_field_text(fields, "kind");
	event->vgpu = vg_field_text(fields, "vgpu");
	event->owner = vg_field_optional_text(fields, "owner");
	event->user = vg_field_optional_text(fields, "user");
	event->pid = (int64_t)vg_field_size(fields, "pid");
	event->command = vg_field_optional_text(fields, "command");
	event->text = vg_field_optional_text(fields, "text");
	event->bytes = vg_field_size(fields, "bytes");
	event->count = (unsigned)vg_field_size(fields, "count");
}

// Makes the list from the reply, which it consumes.
static enum vg_status read_list(json_t *reply, struct vg_journal_list **ret_list)
{
	json_t *array = json_object_get(reply, "events"), *one;
	struct vg_fields whole = {reply, json_is_array(array) ? NULL : "events"};
	size_t count = json_array_size(array), i;
	struct block *block = calloc(1, sizeof *block + count * sizeof *block->events);

	if (!block) {
		json_decref(reply);
		return vg_fail(VG_NO_MEMORY, ENOMEM, "no memory for the list");
	}
	*block = (struct block){.reply = reply, .list = {.count = count, .events = block->events}};
	block->list.next = vg_field_size(&whole, "next");
	block->list.more = vg_field_truth(&whole, "more");
	block->list.lost = vg_field_truth(&whole, "lost");
	json_array_foreach(array, i, one) {
		struct vg_fields fields = {one, NULL};
		read_event(&fields, &block->events[i]);
		whole.wrong = fields.wrong ? fields.wrong : whole.wrong;
	}
	if (!whole.wrong) {
		*ret_list = &block->list;
		return VG_OK;
	}
	enum vg_status status = vg_fields_refuse(whole.wrong);
	vg_journal_list_free(&block->list);
	return status;
}

static enum vg_status check_options(const struct vg_journal_options *options, struct vg_journal_options *ret_all)
{
	*ret_all = (struct vg_journal_options){.most = EVENTS_MOST};
	if (!options)
		return VG_OK;
	if (options->size != sizeof *options)
		return vg_fail(VG_INVALID, 0, "vg_journal_options.size is %zu, but must be %zu", options->size,
			       sizeof *options);
	if (options->most > EVENTS_MOST)
		return vg_fail(VG_INVALID, 0, "vg_journal_options.most is %u, and at most %d are listed", options->most,
			       EVENTS_MOST);
	enum vg_status status = options->vgpu ? vg_check_name(options->vgpu) : VG_OK;
	if (status)
		return status;
	*ret_all = *options;
	if (!ret_all->most)
		ret_all->most = EVENTS_MOST;
	return VG_OK;
}

static enum vg_status ask(struct vg_node *node, const struct vg_journal_options *options,
			  struct vg_journal_list **ret_list)
{
	json_t *reply;

	enum vg_status status = vg_node_request(node,
						json_pack("{s:s, s:I, s:f, s:s?, s:i, s:b, s:b}", "op", "events",
							  "after", (json_int_t)options->after, "since", options->since,
							  "vgpu", options->vgpu, "most", (int)options->most, "newest",
							  options->newest != 0, "public", options->only_public != 0),
						&reply);
	return status ? status : read_list(reply, ret_list);
}

enum vg_status vg_journal_list(struct vg_node *node, const struct vg_journal_options *options,
			       struct vg_journal_list **ret_list)
{
	VG_ENTRY();
	struct vg_journal_options all;

	VG_NEEDED(node);
	VG_NEEDED(ret_list);
	enum vg_status status = check_options(options, &all);
	return status ? status : ask(node, &all, ret_list);
}

enum vg_status vg_journal_wait(struct vg_node *node, const struct vg_journal_options *options, double seconds,
			       struct vg_journal_list **ret_list)
{
	VG_ENTRY();
	struct vg_journal_options all;
	uint64_t begun = vg_clock_monotonic_ns();

	VG_NEEDED(node);
	VG_NEEDED(ret_list);
	enum vg_status status = check_options(options, &all);
	if (status)
		return status;
	for (;;) {
		status = ask(node, &all, ret_list);
		bool is_over = (double)(vg_clock_monotonic_ns() - begun) / 1e9 >= seconds;
		if (status || (*ret_list)->count || is_over)
			return status;
		bool has_more = (*ret_list)->more;
		// Continue after the events that the daemon has already examined and left out of the list.
		all.after = (*ret_list)->next;
		vg_journal_list_free(*ret_list);
		if (!has_more)
			nanosleep(&(struct timespec){.tv_nsec = POLL_MS * 1000000}, NULL);
	}
}

void vg_journal_list_free(struct vg_journal_list *list)
{
	if (!list)
		return;
	struct block *block = (struct block *)((char *)list - offsetof(struct block, list));
	json_decref(block->reply);
	free(block);
}

enum vg_status vg_daemon_info(struct vg_node *node, struct vg_daemon_info *ret_info)
{
	VG_ENTRY();
	json_t *reply;

	VG_NEEDED(node);
	VG_NEEDED(ret_info);
	if (ret_info->size != sizeof *ret_info)
		return vg_fail(VG_INVALID, 0, "vg_daemon_info.size is %zu, but must be %zu", ret_info->size,
			       sizeof *ret_info);
	enum vg_status status = vg_node_request(node, json_pack("{s:s}", "op", "status"), &reply);
	if (status)
		return status;
	struct vg_fields fields = {reply, NULL};
	struct vg_daemon_info info = {.size = sizeof info,
				      .pid = (int64_t)vg_field_size(&fields, "pid"),
				      .system = vg_field_truth(&fields, "system"),
				      .started = vg_field_seconds(&fields, "started"),
				      .cpu_seconds = vg_field_seconds(&fields, "cpu"),
				      .resident = vg_field_size(&fields, "resident"),
				      .connections = vg_field_size(&fields, "connections"),
				      .requests = vg_field_size(&fields, "requests"),
				      .events = vg_field_size(&fields, "events"),
				      .omitted = vg_field_size(&fields, "omitted"),
				      .journal_lost = vg_field_size(&fields, "journal_lost"),
				      .journal_errors = vg_field_size(&fields, "journal_errors"),
				      .journal_damaged = vg_field_size(&fields, "journal_damaged"),
				      .delay = vg_field_seconds(&fields, "delay")};
	if (fields.wrong)
		status = vg_fields_refuse(fields.wrong);
	else
		*ret_info = info;
	json_decref(reply);
	return status;
}
