// kill: sends a signal to the programs of vGPUs.
#include <signal.h>
#include <stdio.h>

#include "options.h"
#include "say.h"
#include "session.h"
#include "signals.h"
#include "base/suggest.h"

static int read_signal(const struct arguments *arguments, int *ret_signal)
{
	const char *text = option_value(arguments, "signal");
	struct suggestion suggestion;

	*ret_signal = text ? signal_parse(text, &suggestion) : SIGTERM;
	if (*ret_signal)
		return 0;
	if (suggestion.best)
		say_usage(arguments->verb, "--signal: \"%s\" is not a signal: did you mean %s?", text, suggestion.best);
	else
		say_usage(arguments->verb, "--signal: \"%s\" is not a signal: give a name such as KILL, or 1 to %d",
			  text, SIGRTMAX);
	return EXIT_USAGE;
}

static int signal_vgpus(struct vg_node *node, const struct arguments *arguments, int signal)
{
	char name[SIGNAL_TEXT];
	int r = EXIT_OK;
	unsigned count;

	signal_name(signal, name);
	for (int i = 0; i < arguments->count; i++) {
		const char *vgpu = arguments->words[i];
		if (vg_vgpu_signal(node, vgpu, signal, &count))
			r = fail_with_last_error(arguments);
		else if (count == 0)
			print_line("%s: no process runs in it, %s was not sent", vgpu, name);
		else
			print_line("%s: sent %s to %u process%s", vgpu, name, count, count == 1 ? "" : "es");
	}
	return r;
}

static int run_kill(const struct arguments *arguments)
{
	struct session session;
	int signal;

	int r = read_signal(arguments, &signal);
	if (r == 0)
		r = session_open(&session, arguments);
	if (r)
		return r;
	r = signal_vgpus(session.node, arguments, signal);
	session_close(&session);
	return r;
}

static const struct option options[] = {
	{"signal", 's', "SIGNAL", "a name such as KILL or SIGKILL, or a number; default: TERM", COMPLETE_SIGNAL},
	OPTION_SIM,
	{0},
};

const struct verb verb_kill = {
	.name = "kill",
	.synopsis = "NAME... [--signal SIGNAL] [--sim]",
	.summary = "Send a signal to the programs of a vGPU",
	.details = "It goes to every process that runs in the vGPU, also in a container. Guests, and programs that "
		   "have not used CUDA yet, do not get it.",
	.options = options,
	.least = 1,
	.most = -1,
	.complete = COMPLETE_VGPU,
	.run = run_kill,
};
