// Lets requests for new vGPUs wait for room. connection.c keeps the requests, in the order of their arrival.
#include "daemon/request_parts.h"

#include <stdio.h>
#include <string.h>

enum { WAIT_MOST_S = 1000000 };

json_t *check_wait(const struct request *request)
{
	const json_t *wait = json_object_get(request->object, "wait");

	if (!wait || json_is_null(wait))
		return NULL;
	if (request->verb != AUTHORITY_ENTER)
		return refuse("invalid", "only a request to run a program can wait for room");
	if (json_is_true(wait) ||
	    (json_is_integer(wait) && json_integer_value(wait) >= 1 && json_integer_value(wait) <= WAIT_MOST_S))
		return NULL;
	return refuse("invalid", "\"wait\" must be true, or a number of seconds from 1 to %d", WAIT_MOST_S);
}

bool is_queueing(const struct request *request)
{
	const json_t *wait = json_object_get(request->object, "wait");

	return json_is_true(wait) || json_is_integer(wait);
}

// Returns whether the request may succeed later: refusals with the codes "limit" and "busy" can go away.
static bool is_temporary(const json_t *refusal)
{
	const char *code = json_string_value(json_object_get(refusal, "code"));

	return code && (strcmp(code, "limit") == 0 || strcmp(code, "busy") == 0);
}

// Adds to the refusal how long the request has waited.
static json_t *describe_wait(const struct request *request, json_t *refusal)
{
	const char *message = json_string_value(json_object_get(refusal, "message"));
	char text[1200];

	snprintf(text, sizeof text, "no room within %d s: %s",
		 (int)json_integer_value(json_object_get(request->object, "wait")), message ? message : "");
	json_object_set_new(refusal, "message", json_string(text));
	return refusal;
}

json_t *wait_instead(const struct request *request, const struct vgpu *wanted, json_t *refusal)
{
	struct queue *queue = &request->node->queue;
	const json_t *wait = json_object_get(request->object, "wait");

	if (!is_queueing(request) || !is_temporary(refusal) || queue->is_final)
		return refusal;
	if (queue->is_over)
		return describe_wait(request, refusal);
	uint64_t possible = find_possible(request, wanted);
	if (!possible)
		return refusal;
	const char *reason = json_string_value(json_object_get(refusal, "message"));
	snprintf(queue->reason, sizeof queue->reason, "%s", reason ? reason : "");
	snprintf(queue->vgpu, sizeof queue->vgpu, "%s", wanted->name);
	queue->must_wait = true;
	queue->wanted = queue->is_held ? 0 : possible;
	queue->wait_ns = json_is_true(wait) ? UINT64_MAX : (uint64_t)json_integer_value(wait) * 1000000000;
	json_decref(refusal);
	return NULL;
}
