// shutdown: ends the user's daemon. The next request starts a new daemon.
#include <errno.h>
#include <stdio.h>

#include "say.h"
#include "session.h"

static int run_shutdown(const struct arguments *arguments)
{
	struct session session;

	int r = session_open_quietly(&session, arguments);
	if (r)
		return r;
	enum vg_status status = vg_node_shutdown(session.node);
	int code = vg_last_error()->code;
	if (status == VG_NO_DAEMON && (code == ENOENT || code == ENOTDIR || code == ECONNREFUSED)) {
		say_error("no daemon listens on %s: nothing to end", vg_node_socket(session.node));
		r = EXIT_FAILED;
	} else if (status) {
		r = fail_with_last_error(arguments);
	}
	session_close(&session);
	return r;
}

static const struct option options[] = {OPTION_SIM, {0}};

const struct verb verb_shutdown = {
	.name = "shutdown",
	.synopsis = "[--sim]",
	.summary = "End the daemon; the next request starts a new one",
	.details = "Running programs continue under their quotas.",
	.options = options,
	.run = run_shutdown,
};
