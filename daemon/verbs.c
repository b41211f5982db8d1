// Finds a request's verb in a table, and contains the verbs that need no file of their own. Every refusal is a whole
// sentence with the figures and with what to do.
#include "daemon/verbs.h"

#include "base/parts.h"
#include "daemon/broker/broker.h"
#include "daemon/journal.h"
#include "daemon/json_text.h"
#include "daemon/listing.h"
#include "daemon/measure.h"
#include "daemon/names.h"
#include "daemon/directory.h"
#include "daemon/request_parts.h"
#include "daemon/say.h"
#include "daemon/signals.h"
#include "daemon/tenant.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

static json_t *answer_kill(const struct request *request)
{
	json_t *refusal = NULL;
	struct vgpu *vgpu = request_vgpu(request, "name", &refusal);
	json_int_t signal = json_integer_value(json_object_get(request->object, "signal"));

	if (!vgpu)
		return refusal;
	if (signal < 1 || signal > SIGRTMAX)
		return refuse("invalid", "\"signal\" must be a number from 1 to %d", SIGRTMAX);
	tenant_scan(request->node, vgpu);
	if (!tenant_are_proven(request->node, vgpu))
		return answer_later(request);
	struct signals_result result = signals_send(vgpu, (int)signal);
	say("vGPU %s: process %d of user %u had signal %d sent to %u process%s", vgpu->name, (int)request->peer->pid,
	    (unsigned int)request->peer->uid, (int)signal, result.sent, result.sent == 1 ? "" : "es");
	journal_add(request->node, JOURNAL_SIGNALLED, &(struct journal_note){.vgpu = vgpu, .actor = request->peer},
		    "signal %d to %u process%s", (int)signal, result.sent, result.sent == 1 ? "" : "es");
	if (result.failed)
		return refuse("system", "vGPU %s: signal %d cannot be sent to process %d: %s (%u got it, %u did not)",
			      vgpu->name, (int)signal, (int)result.pid, strerror(result.error), result.sent,
			      result.failed);
	return agree_with("signalled", json_integer(result.sent));
}

static json_t *answer_list(const struct request *request)
{
	measure_for_list(request->node, request->peer);
	return agree_with("vgpus", listing_vgpus(request->node, request->peer));
}

static json_t *answer_inspect(const struct request *request)
{
	json_t *refusal = NULL;
	struct vgpu *vgpu = request_vgpu(request, "name", &refusal);

	if (!vgpu)
		return refusal;
	measure_for_listing(request->node, vgpu);
	return agree_with("vgpu", listing_vgpu(request->node, vgpu, LISTING_FULL));
}

static json_t *answer_logs(const struct request *request)
{
	json_t *refusal = NULL;
	struct vgpu *vgpu = request_vgpu(request, "name", &refusal);

	return vgpu ? agree_with("refusals", listing_refusals(vgpu)) : refusal;
}

static json_t *answer_devices(const struct request *request)
{
	return agree_with("devices", listing_devices(request->node, request->peer->uid));
}

static json_t *answer_ping(const struct request *request)
{
	return json_pack("{s:b, s:i, s:s, s:s, s:s}", "ok", 1, "pid", (int)getpid(), "version", VIRGATE_VERSION,
			 "simulate", vg_simulation_wanted(), "simulate_dir",
			 vg_system_simulated_directory(request->node->system));
}

static json_t *answer_publications(const struct request *request)
{
	return agree_with("publications", broker_list(request->node, request->peer));
}

static json_t *answer_shutdown(const struct request *request)
{
	enum authority_class class = authority_classify(request->peer, geteuid(), (gid_t)-1);

	if (!authority_allows(AUTHORITY_SHUTDOWN, class))
		return refuse("denied", "only root and the daemon's own user may end it");
	say("shut down by process %d", (int)request->peer->pid);
	request->node->is_leaving = true;
	request->node->was_shut_down = true;
	// Remove the socket before the answer: a client that connects after the answer must reach the next daemon, not
	// this one.
	directory_leave(request->node);
	return agree();
}

static const struct {
	enum authority_verb verb;
	json_t *(*answer)(const struct request *request);
} verbs[] = {
	{AUTHORITY_CREATE, answer_create},
	{AUTHORITY_ENTER, answer_enter},
	{AUTHORITY_SET, answer_set},
	{AUTHORITY_RM, answer_remove},
	{AUTHORITY_KILL, answer_kill},
	{AUTHORITY_EXEMPT, answer_exempt},
	{AUTHORITY_DUMPED, answer_dumped},
	{AUTHORITY_SUSPEND, answer_suspend},
	{AUTHORITY_RESUME, answer_resume},
	{AUTHORITY_LIST, answer_list},
	{AUTHORITY_INSPECT, answer_inspect},
	{AUTHORITY_LOGS, answer_logs},
	{AUTHORITY_DEVICES, answer_devices},
	{AUTHORITY_DRAIN, answer_drain},
	{AUTHORITY_EVENTS, answer_events},
	{AUTHORITY_HISTORY, answer_history},
	{AUTHORITY_STATUS, answer_status},
	{AUTHORITY_TRACE, answer_trace},
	{AUTHORITY_PING, answer_ping},
	{AUTHORITY_SHUTDOWN, answer_shutdown},
	{AUTHORITY_PUBLICATIONS, answer_publications},
};

bool verbs_are_ready(const struct authority_peer *peer, const json_t *object)
{
	return names_are_ready(peer->uid, json_string_value(json_object_get(object, "owner")),
			       json_string_value(json_object_get(object, "group")));
}

static json_t *answer_verb(const struct request *request, json_t *(*answer_it)(const struct request *request))
{
	// A client for other GPUs may also ask any daemon whether it runs, and may end it.
	bool is_for_any = request->verb == AUTHORITY_PING || request->verb == AUTHORITY_SHUTDOWN;
	json_t *answer = is_for_any ? NULL : request_check_gpus(request);

	if (answer)
		return answer;
	if (!is_for_any && !verbs_are_ready(request->peer, request->object))
		return answer_later(request);
	answer = answer_it(request);
	if (!answer && !request->node->is_deferred && !request->node->change)
		answer = refuse("system", "no memory for the answer");
	return answer;
}

// Adds an event for a request that would change something and is refused for lack of room or rights.
static void note_denial(const struct request *request, const json_t *answer)
{
	static const enum authority_verb changes[] = {AUTHORITY_CREATE, AUTHORITY_ENTER, AUTHORITY_SET,
						      AUTHORITY_RM,	AUTHORITY_KILL,	 AUTHORITY_SUSPEND,
						      AUTHORITY_RESUME, AUTHORITY_DRAIN};
	const char *code = json_string_value(json_object_get(answer, "code"));
	bool is_change = false;

	for (size_t i = 0; i < sizeof changes / sizeof *changes; i++)
		is_change |= request->verb == changes[i];
	if (!is_change || !code || (strcmp(code, "limit") != 0 && strcmp(code, "denied") != 0))
		return;
	journal_add(request->node, JOURNAL_DENIED, &(struct journal_note){.actor = request->peer}, "%s: %s",
		    authority_verb_text(request->verb), json_string_value(json_object_get(answer, "message")));
}

static json_t *answer_object(struct request *request, const char *op)
{
	for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
		if (strcmp(op, authority_verb_text(verbs[i].verb)) != 0)
			continue;
		request->verb = verbs[i].verb;
		request->node->requests++;
		json_t *answer = answer_verb(request, verbs[i].answer);
		note_denial(request, answer);
		return answer;
	}
	return refuse("invalid", "no such op: \"%.40s\"", op);
}

json_t *verbs_answer(struct node *node, const struct authority_peer *peer, const json_t *object)
{
	const char *op = json_string_value(json_object_get(object, "op"));
	struct request request = {.node = node, .peer = peer, .object = object};

	json_begin_answer();
	node->is_deferred = false;
	node->change = NULL;
	if (!json_is_object(object))
		return refuse("invalid", "the request is not a JSON object: another kind of value");
	return op ? answer_object(&request, op) : refuse("invalid", "the request has no \"op\"");
}
