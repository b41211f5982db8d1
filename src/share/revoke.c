// Revokes a publication. The daemon takes the steps, from asking the readers to killing them. This function waits for
// the last step.
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "core/object.h"
#include "node/fields.h"
#include "share/link.h"

enum { MOST_SECONDS = 24 * 3600, KILL_SECONDS = 4 };

struct block {
	json_t *reply; // owns the strings in the report
	struct vg_revoke_holder *left;
	struct vg_revoke_report report;
};

static const char *const step_words[] = {[VG_REVOKE_ASKED] = "asked",
					 [VG_REVOKE_WITHDRAWN] = "withdrawn",
					 [VG_REVOKE_TERMINATED] = "terminated",
					 [VG_REVOKE_KILLED] = "killed"};

static const char *read_report(struct block *block)
{
	struct vg_fields fields = {block->reply, NULL};
	const json_t *left = json_object_get(block->reply, "left"), *one;
	const char *word = vg_field_text(&fields, "step");
	size_t i;

	block->report.holders = (unsigned)vg_field_size(&fields, "holders");
	block->report.left = json_array_size(left);
	block->report.holders_left = block->left;
	while (block->report.step < VG_REVOKE_KILLED && strcmp(word, step_words[block->report.step]) != 0)
		block->report.step++;
	if (strcmp(word, step_words[block->report.step]) != 0)
		return "step";
	json_array_foreach(left, i, one) {
		fields.object = one;
		block->left[i].pid = (int64_t)vg_field_size(&fields, "pid");
		block->left[i].user = vg_field_text(&fields, "user");
		block->left[i].owner = vg_field_truth(&fields, "owner");
	}
	return json_is_array(left) ? fields.wrong : "left";
}

static enum vg_status make_report(json_t *reply, struct vg_revoke_report **ret_report)
{
	struct block *block = calloc(1, sizeof *block);

	if (!block) {
		json_decref(reply);
		return vg_fail(VG_NO_MEMORY, ENOMEM, "no memory for the report");
	}
	block->reply = reply;
	block->left = calloc(json_array_size(json_object_get(reply, "left")) + 1, sizeof *block->left);
	const char *wrong = block->left ? read_report(block) : NULL;
	if (block->left && !wrong) {
		*ret_report = &block->report;
		return VG_OK;
	}
	bool short_of_memory = !block->left;
	vg_revoke_report_free(&block->report);
	return short_of_memory ? vg_fail(VG_NO_MEMORY, ENOMEM, "no memory for the report") : vg_fields_refuse(wrong);
}

enum vg_status vg_share_revoke(struct vg_node *node, const char *name, const struct vg_revoke_options *options,
			       struct vg_revoke_report **ret_report)
{
	VG_ENTRY();
	struct vg_revoke_options o;
	struct share_link link;
	json_t *reply;

	VG_NEEDED(node);
	VG_NEEDED(name);
	VG_NEEDED(ret_report);
	CORE_OPTIONS(o, options);
	enum vg_status status = vg_check_name(name);
	if (status)
		return status;
	if (!(o.deadline >= 0) || o.deadline > MOST_SECONDS)
		return vg_fail(VG_INVALID, 0, "a deadline of %g s makes no sense: 0 to %d", o.deadline, MOST_SECONDS);
	share_link_init(&link, node, name);
	link.node.timeout += (unsigned)o.deadline + KILL_SECONDS + 1; // the daemon replies after the last step
	status = share_link_begin(&link, SHARE_MAY_START,
				  json_pack("{s:s, s:s, s:f, s:b}", "op", "revoke", "name", name, "deadline",
					    o.deadline, "kill", o.kill != 0),
				  &reply);
	share_link_finish(&link);
	return status ? status : make_report(reply, ret_report);
}

void vg_revoke_report_free(struct vg_revoke_report *report)
{
	if (!report)
		return;
	struct block *block = (struct block *)((char *)report - offsetof(struct block, report));
	json_decref(block->reply);
	free(block->left);
	free(block);
}
