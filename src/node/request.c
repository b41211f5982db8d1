// Sends one request in JSON, and receives its reply.
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "node/node.h"
#include "wire/wire.h"

#define RESTART_NS 2000000000ull // how long requests wait for the system's daemon to be restarted

static const struct {
	const char *code;
	enum vg_status status;
} codes[] = {
	{"limit", VG_LIMIT},	     {"denied", VG_DENIED},	      {"not_found", VG_NOT_FOUND},
	{"exists", VG_EXISTS},	     {"invalid", VG_INVALID},	      {"busy", VG_BUSY},
	{"system", VG_SYSTEM},	     {"protocol", VG_PROTOCOL},	      {"driver", VG_DRIVER},
	{"no_driver", VG_NO_DRIVER}, {"unsupported", VG_UNSUPPORTED}, {"not_ready", VG_NOT_READY},
};

enum vg_status vg_node_refused(const json_t *reply)
{
	const char *code = json_string_value(json_object_get(reply, "code"));
	const char *message = json_string_value(json_object_get(reply, "message"));

	for (size_t i = 0; code && i < sizeof codes / sizeof *codes; i++)
		if (strcmp(code, codes[i].code) == 0)
			return vg_fail(codes[i].status, 0, "%s", message ? message : code);
	return vg_fail(VG_SYSTEM, 0, "%s", message ? message : "the daemon refused without saying why");
}

static bool has_no_listener(int r)
{
	return r == -ENOENT || r == -ENOTDIR || r == -ECONNREFUSED;
}

enum vg_status vg_node_unreached(const struct vg_node *node, int r)
{
	if (has_no_listener(r) && !node->own)
		return vg_fail(VG_NO_DAEMON, -r,
			       "the system's daemon has ended and left %s: start it again (systemctl start "
			       "virgated), or name a directory of your own in VIRGATE_RUNTIME_DIR",
			       node->socket);
	if (has_no_listener(r))
		return vg_fail(VG_NO_DAEMON, -r,
			       "no daemon listens on %s: start virgated, or allow it to start by itself", node->socket);
	if (r == -EACCES)
		return vg_fail(VG_DENIED, EACCES, "no right to connect to the daemon's socket %s", node->socket);
	if (r == -EPERM)
		return vg_fail(
			VG_DENIED, EPERM,
			"the process that listens on %s is of another user: only root's daemon and your own are used; "
			"remove the socket, or name a directory of yours in VIRGATE_RUNTIME_DIR",
			node->socket);
	if (r == -EMSGSIZE)
		return vg_fail(VG_INVALID, EMSGSIZE, "the request is longer than the protocol allows");
	if (r == -EAGAIN || r == -ETIMEDOUT)
		return vg_fail(VG_NO_DAEMON, ETIMEDOUT, "the daemon on %s did not answer within %u s", node->socket,
			       node->timeout);
	if (r == -ECONNRESET || r == -EPIPE)
		return vg_fail(
			VG_NO_DAEMON, -r,
			"the daemon on %s ended, or closed the connection, before it answered: try again; its log says "
			"why (%s/virgated.log, or the system's)",
			node->socket, node->runtime_dir);
	if (r == -EPROTO)
		return vg_fail(VG_PROTOCOL, EPROTO,
			       "the process that listens on %s does not speak this version's protocol: end it, and the "
			       "next call starts another",
			       node->socket);
	return vg_fail(VG_NO_DAEMON, -r, "the daemon on %s cannot be reached: %s", node->socket, strerror(-r));
}

// Returns whether the request only reads. If the daemon is killed before it answers, such a request can be sent again;
// one that changes something may have been carried out already.
static bool is_read_only(const json_t *request)
{
	static const char *const ops[] = {"list", "inspect", "devices", "logs", "ping", "publications"};
	const char *op = json_string_value(json_object_get(request, "op"));

	for (size_t i = 0; op && i < sizeof ops / sizeof *ops; i++)
		if (strcmp(op, ops[i]) == 0)
			return true;
	return false;
}

// The arguments of an attempt to connect or to send a request. The attempt is repeated until a daemon listens.
struct attempt {
	const struct vg_node *node;
	const char *request;
	int timeout_ms;	 // 0: without a limit
	bool may_repeat; // send the request again if the daemon ends before it answers
	char *answer;
};

static int send_request(struct attempt *attempt)
{
	int r = vg_wire_request(attempt->node->socket, attempt->request, attempt->timeout_ms, &attempt->answer);

	if (attempt->may_repeat && (r == -ECONNRESET || r == -EPIPE))
		r = vg_wire_request(attempt->node->socket, attempt->request, attempt->timeout_ms, &attempt->answer);
	return r;
}

static int connect_attempt(struct attempt *attempt)
{
	return vg_node_connect(attempt->node);
}

static enum vg_status try_attempt(int (*what)(struct attempt *), struct attempt *attempt, int *ret_result)
{
	const struct vg_node *node = attempt->node;
	int r = what(attempt);

	uint64_t patience = vg_clock_monotonic_ns() + RESTART_NS;
	while (has_no_listener(r) && !node->own && node->may_start && vg_clock_monotonic_ns() < patience) {
		poll(NULL, 0, 50); // wait a little, because systemd restarts the daemon
		r = what(attempt);
	}
	if (has_no_listener(r) && node->own && node->may_start) {
		enum vg_status status = vg_node_start(node);
		if (status)
			return status;
		r = what(attempt);
	}
	*ret_result = r;
	return r < 0 ? vg_node_unreached(node, r) : VG_OK;
}

enum vg_status vg_node_reach(const struct vg_node *node, int *ret_descriptor)
{
	return try_attempt(connect_attempt, &(struct attempt){.node = node}, ret_descriptor);
}

// Sends the request and receives the answer as text.
static enum vg_status exchange(struct vg_node *node, const json_t *request, char **ret_answer)
{
	char *text = json_dumps(request, JSON_COMPACT);
	const json_t *wait = json_object_get(request, "wait");
	struct attempt attempt = {
		.node = node,
		.request = text,
		.may_repeat = is_read_only(request),
		.timeout_ms = json_is_true(wait) ? 0 : (int)(node->timeout + json_integer_value(wait)) * 1000,
	};

	if (!text) // NULL also if a string is not UTF-8, which jansson refuses
		return vg_fail(VG_INVALID, 0, "the request cannot be put in JSON: its names must be UTF-8");
	enum vg_status status = try_attempt(send_request, &attempt, &(int){0});
	free(text);
	*ret_answer = attempt.answer;
	return status;
}

static bool has_lost_daemon(enum vg_status status)
{
	int code = vg_last_error()->code;

	return status == VG_NO_DAEMON && (code == ECONNRESET || code == EPIPE);
}

// Updates the member "wait" of a request: for how many seconds the request may wait in the daemon's queue. Sets it to
// the time that is left until the deadline.
static void shorten_wait(json_t *request, uint64_t deadline)
{
	uint64_t now = vg_clock_monotonic_ns(), left = now < deadline ? (deadline - now) / 1000000000 : 0;

	if (json_is_integer(json_object_get(request, "wait")))
		json_object_set_new(request, "wait", json_integer((json_int_t)left + 1));
}

// Sends a request that may wait in the daemon's queue. If the daemon ends meanwhile, for example for an update, sends
// the request to the next daemon.
static enum vg_status exchange_waiting(struct vg_node *node, json_t *request, char **ret_answer)
{
	uint64_t begun = vg_clock_monotonic_ns();
	uint64_t wait_ns = (uint64_t)json_integer_value(json_object_get(request, "wait")) * 1000000000;

	enum vg_status status = exchange(node, request, ret_answer);
	while (has_lost_daemon(status) && json_object_get(request, "wait")) {
		shorten_wait(request, begun + wait_ns);
		poll(NULL, 0, 50);
		status = exchange(node, request, ret_answer);
	}
	return status;
}

enum vg_status vg_node_request(struct vg_node *node, json_t *request, json_t **ret_reply)
{
	bool whole = request && json_object_set_new(request, "simulate", json_string(node->simulate)) == 0;
	json_t *reply = NULL;
	char *answer = NULL;

	enum vg_status status = exchange_waiting(node, whole ? request : NULL, &answer);
	json_decref(request);
	if (status == VG_OK) {
		reply = json_loads(answer, JSON_REJECT_DUPLICATES, NULL);
		if (!json_is_object(reply))
			status = vg_fail(VG_PROTOCOL, 0, "the daemon's reply is not a JSON object");
		else if (!json_is_true(json_object_get(reply, "ok")))
			status = vg_node_refused(reply);
	}
	free(answer);
	if (status) {
		json_decref(reply);
		return status;
	}
	*ret_reply = reply;
	return VG_OK;
}

enum vg_status vg_node_order(struct vg_node *node, json_t *request)
{
	json_t *reply;

	enum vg_status status = vg_node_request(node, request, &reply);
	if (status == VG_OK)
		json_decref(reply);
	return status;
}
