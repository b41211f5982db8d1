// Handles the verb drain. Refuses new vGPUs and new programs on a drained GPU.
#include "base/clock.h"
#include "daemon/journal.h"
#include "daemon/names.h"
#include "daemon/request_parts.h"
#include "daemon/save.h"
#include "daemon/say.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

json_t *refuse_drained(const struct request *request, size_t device)
{
	const struct drain *drain = &request->node->drains[device];
	time_t since = (time_t)drain->since;
	struct tm local;
	char when[32];

	if (!drain->is_set)
		return NULL;
	localtime_r(&since, &local);
	strftime(when, sizeof when, "%Y-%m-%d %H:%M", &local);
	return refuse(
		"busy",
		"GPU %zu is drained (by %s since %s): no new vGPUs and programs start on it; choose another GPU, or "
		"wait until `virgate drain --undo%s %zu`",
		device, names_user(drain->user), when, sim_flag(), device);
}

static json_t *describe_drain(const struct node *node, size_t device)
{
	return json_pack("{s:b, s:i, s:b}", "ok", 1, "index", (int)device, "drained", (int)node->drains[device].is_set);
}

static json_t *finish_drain(struct node *node, const struct change *change, int error)
{
	const char *what = node->drains[change->device].is_set ? "drained" : "not drained any more";

	if (error)
		return refuse("system", "GPU %zu is %s, but this cannot be saved: %s: %s", change->device, what,
			      node->state_path, strerror(-error));
	return describe_drain(node, change->device);
}

json_t *answer_drain(const struct request *request)
{
	enum authority_class class = authority_classify(request->peer, geteuid(), (gid_t)-1);
	bool is_undone = json_is_true(json_object_get(request->object, "undo"));
	const char *text = request_text(request, "device");
	struct node *node = request->node;
	size_t device = 0;

	if (!authority_allows(AUTHORITY_DRAIN, class))
		return refuse("denied", "only root and the daemon's own user may drain a GPU, or undo that");
	if (!text || !*text)
		return refuse("invalid", "\"device\" must be a GPU's index or UUID");
	json_t *refusal = find_device(node, text, &device);
	if (refusal)
		return refusal;
	if (node->drains[device].is_set == !is_undone)
		return describe_drain(node, device);
	node->drains[device] = (struct drain){!is_undone, request->peer->uid, (double)vg_clock_realtime_ns() / 1e9};
	node->must_retry = true; // requests may wait for the GPU
	say("GPU %zu: process %d of user %u %s it", device, (int)request->peer->pid, (unsigned int)request->peer->uid,
	    is_undone ? "ended the drain of" : "drains");
	journal_add(node, is_undone ? JOURNAL_UNDRAINED : JOURNAL_DRAINED,
		    &(struct journal_note){.actor = request->peer}, "GPU %zu", device);
	return save_change(node, &(struct change){.finish = finish_drain, .device = device});
}
