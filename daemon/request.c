// The verbs, and what their requests have in common. Every refusal is a whole sentence with the figures and what to do
// about it.
#include "base/hint.h"
#include "base/parts.h"
#include "daemon/eviction.h"
#include "daemon/names.h"
#include "daemon/request_parts.h"
#include "daemon/terms.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

json_t *refuse(const char *code, const char *format, ...)
{
	char text[2048];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	return json_pack("{s:b, s:s, s:s}", "ok", 0, "code", code, "message", text);
}

static json_t *agree(void)
{
	return json_pack("{s:b}", "ok", 1);
}

json_t *answer_later(const struct request *request)
{
	request->node->later = true;
	return NULL;
}

json_t *agree_with(const char *key, json_t *value)
{
	return json_pack("{s:b, s:o}", "ok", 1, key, value);
}

const char *text_of(const struct request *request, const char *key)
{
	return json_string_value(json_object_get(request->object, key));
}

static json_t *not_allowed(const struct request *request, const struct vgpu *vgpu)
{
	static const char *const actions[AUTHORITY_VERBS] = {
		[AUTHORITY_ENTER] = "run programs in it",
		[AUTHORITY_SET] = "change it",
		[AUTHORITY_RM] = "remove it",
		[AUTHORITY_KILL] = "send signals to its programs",
		[AUTHORITY_SUSPEND] = "suspend its programs",
		[AUTHORITY_RESUME] = "resume its programs",
		[AUTHORITY_TENANTS] = "see its programs",
		[AUTHORITY_INSPECT] = "see its programs",
		[AUTHORITY_LOGS] = "see what it refused",
	};
	const char *action = actions[request->verb] ? actions[request->verb] : authority_verb_text(request->verb);
	bool for_group = vgpu->group != (gid_t)-1 && authority_allows(request->verb, AUTHORITY_GROUP);
	char members[96] = "";

	if (for_group)
		snprintf(members, sizeof members, ", members of the group %.60s", names_group(vgpu->group));
	return refuse("denied", "vGPU %s: only its owner (%s)%s and root may %s", vgpu->name,
		      names_user(vgpu->owner), members, action);
}

json_t *request_permit(const struct request *request, const struct vgpu *vgpu)
{
	bool is_allowed = authority_allows(request->verb, authority_classify(request->peer, vgpu->owner, vgpu->group));

	return is_allowed ? NULL : not_allowed(request, vgpu);
}

struct vgpu *request_vgpu(const struct request *request, const char *key, json_t **ret_refusal)
{
	const char *name = text_of(request, key);

	if (!name || !registry_name_is_valid(name)) {
		*ret_refusal = refuse("invalid", "\"%s\" has no proper name of a vGPU in \"%s\"",
				      authority_verb_text(request->verb), key);
		return NULL;
	}
	struct vgpu *vgpu = registry_find(request->node, name);
	if (!vgpu) {
		*ret_refusal = refuse("not_found", "there is no vGPU %s: `virgate ps%s` lists them", name, sim_flag());
		return NULL;
	}
	json_t *refusal = request_permit(request, vgpu);
	if (!refusal)
		return vgpu;
	*ret_refusal = refusal;
	return NULL;
}

const char *sim_flag(void)
{
	static char text[VG_HINT_SIM];

	return vg_hint_sim(vg_simulation_wanted(), text);
}

// Somebody who wants other GPUs than this daemon's must not get these unnoticed. "1" is content
// with any simulated one; who says nothing asks for none in particular.
json_t *other_gpus(const struct request *request)
{
	const char *wanted = text_of(request, "simulate"), *served = vg_simulation_wanted();
	const struct node *node = request->node;
	char instead[240] = "a real one", way[300] = "";

	if (!wanted || strcmp(wanted, served) == 0 || (strcmp(wanted, "1") == 0 && *served))
		return NULL;
	if (*wanted)
		snprintf(instead, sizeof instead, "\"%.200s\"", wanted);
	if (!*served)
		return refuse("invalid",
			      "the daemon in %.200s serves this machine's GPUs, not the simulated %s: name another "
			      "directory in VIRGATE_RUNTIME_DIR for that",
			      node->runtime_dir, instead);
	if (!node->system_wide) // --sim alone leads to a daemon of its own
		snprintf(way, sizeof way, " and VIRGATE_RUNTIME_DIR=%.200s", node->runtime_dir);
	return refuse("invalid",
		      "the daemon in %.200s serves the simulated GPU \"%.200s\", not %s: reach it with%s%s (its "
		      "node is in %.200s), or end it with `virgate shutdown%s`",
		      node->runtime_dir, served, instead, sim_flag(), way, vg_system_simulated_directory(node->system),
		      sim_flag());
}

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
	struct signalled signalled = tenant_signal_all(request->node, vgpu, (int)signal);
	say("vGPU %s: process %d of user %u had signal %d sent to %u process%s", vgpu->name, (int)request->peer->pid,
	    (unsigned int)request->peer->uid, (int)signal, signalled.count, signalled.count == 1 ? "" : "es");
	if (signalled.failed)
		return refuse("system", "vGPU %s: signal %d cannot be sent to process %d: %s (%u got it, %u did not)",
			      vgpu->name, (int)signal, (int)signalled.pid, strerror(signalled.error), signalled.count,
			      signalled.failed);
	return agree_with("signalled", json_integer(signalled.count));
}

static json_t *answer_list(const struct request *request)
{
	return agree_with("vgpus", listing_vgpus(request->node, request->peer));
}

static json_t *answer_inspect(const struct request *request)
{
	json_t *refusal = NULL;
	struct vgpu *vgpu = request_vgpu(request, "name", &refusal);

	return vgpu ? agree_with("vgpu", listing_vgpu(request->node, vgpu, true)) : refusal;
}

static json_t *answer_logs(const struct request *request)
{
	json_t *refusal = NULL;
	struct vgpu *vgpu = request_vgpu(request, "name", &refusal);

	return vgpu ? agree_with("refusals", listing_refusals(vgpu)) : refusal;
}

static json_t *answer_devices(const struct request *request)
{
	return agree_with("devices", listing_devices(request->node));
}

static json_t *answer_ping(const struct request *request)
{
	return json_pack("{s:b, s:i, s:s, s:s, s:s}", "ok", 1, "pid", (int)getpid(), "version", VIRGATE_VERSION,
			 "simulate", vg_simulation_wanted(), "simulate_dir",
			 vg_system_simulated_directory(request->node->system));
}

static json_t *answer_publications(const struct request *request)
{
	return agree_with("publications", listing_publications(request->node, request->peer));
}

static json_t *answer_shutdown(const struct request *request)
{
	enum authority_class class = authority_classify(request->peer, geteuid(), (gid_t)-1);

	if (!authority_allows(AUTHORITY_SHUTDOWN, class))
		return refuse("denied", "only root and the daemon's own user may end it");
	say("told to end by process %d", (int)request->peer->pid);
	request->node->leaving = true;
	request->node->told_to_end = true;
	// Before the answer: whoever connects after it must reach the next daemon, not this one.
	place_leave(request->node);
	return agree();
}

static const struct {
	enum authority_verb verb;
	json_t *(*answer)(const struct request *request);
} verbs[] = {
	{AUTHORITY_CREATE, answer_create}, {AUTHORITY_ENTER, answer_enter},	{AUTHORITY_SET, answer_set},
	{AUTHORITY_RM, removal_answer},	   {AUTHORITY_KILL, answer_kill},
	{AUTHORITY_EXEMPT, terms_exempt},  {AUTHORITY_SUSPEND, answer_suspend}, {AUTHORITY_RESUME, answer_resume},
	{AUTHORITY_LIST, answer_list},	   {AUTHORITY_INSPECT, answer_inspect},
	{AUTHORITY_LOGS, answer_logs},	   {AUTHORITY_DEVICES, answer_devices}, {AUTHORITY_PING, answer_ping},
	{AUTHORITY_SHUTDOWN, answer_shutdown}, {AUTHORITY_PUBLICATIONS, answer_publications},
};

bool request_is_ready(struct node *node, const struct authority_peer *peer, const char *text)
{
	json_t *object = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	bool is_ready = names_are_ready(&(struct request){.node = node, .peer = peer, .object = object});

	json_decref(object);
	return is_ready;
}

json_t *request_answer(struct node *node, const struct authority_peer *peer, const char *text)
{
	json_error_t error;
	json_t *object = json_loads(text, JSON_REJECT_DUPLICATES, &error), *answer = NULL;
	const char *op = json_string_value(json_object_get(object, "op"));
	struct request request = {.node = node, .peer = peer, .object = object};

	listing_begin();
	node->later = false;
	node->change = NULL;
	if (!json_is_object(object))
		answer = refuse("invalid", "the request is not a JSON object: %s",
				object ? "another kind of value" : error.text);
	else if (!op)
		answer = refuse("invalid", "the request has no \"op\"");
	for (size_t i = 0; !answer && i < sizeof verbs / sizeof *verbs; i++) {
		if (strcmp(op, authority_verb_text(verbs[i].verb)) != 0)
			continue;
		request.verb = verbs[i].verb;
		// Whichever daemon it is may be asked whether it is there, and told to end.
		bool is_for_any = request.verb == AUTHORITY_PING || request.verb == AUTHORITY_SHUTDOWN;
		if (!is_for_any)
			answer = other_gpus(&request);
		if (!answer && !is_for_any && !names_are_ready(&request))
			answer_later(&request);
		else if (!answer)
			answer = verbs[i].answer(&request);
		if (!answer && !node->later && !node->change)
			answer = refuse("system", "no memory for the answer");
		json_decref(object);
		return answer;
	}
	if (!answer)
		answer = refuse("invalid", "no such op: \"%.40s\"", op);
	json_decref(object);
	return answer;
}
