// share revoke: asks the readers of a publication to close it, then withdraws the publication.
#include <stdio.h>
#include <stdlib.h>

#include "list.h"
#include "options.h"
#include "say.h"
#include "session.h"
#include "virgate/broker.h"

static const char *const steps[][2] = {
	[VG_REVOKE_ASKED] = {"asked", "its readers were asked"},
	[VG_REVOKE_WITHDRAWN] = {"withdrawn", "it is withdrawn"},
	[VG_REVOKE_TERMINATED] = {"terminated", "its owner's readers were sent SIGTERM"},
	[VG_REVOKE_KILLED] = {"killed", "its owner's readers were sent SIGKILL"},
};

static int print_report(const struct vg_revoke_report *report)
{
	json_t *left = json_array();

	for (size_t i = 0; i < report->left; i++)
		json_array_append_new(left, json_pack("{s:I, s:s, s:b}", "pid", (json_int_t)report->holders_left[i].pid,
						      "user", report->holders_left[i].user, "owner",
						      report->holders_left[i].owner));
	return print_json(json_pack("{s:s, s:i, s:o}", "step", steps[report->step][0], "holders", (int)report->holders,
				    "left", left));
}

static void say_report(const char *name, const struct vg_revoke_report *report)
{
	if (report->holders == 0)
		print_line("%s is revoked: no process had it open", name);
	else if (report->left == 0)
		print_line("%s is revoked: %s, and %u closed it", name, steps[report->step][1], report->holders);
	if (report->left == 0)
		return;
	say_error("%s: %s, and %zu of %u still have it open", name, steps[report->step][1], report->left,
		  report->holders);
	for (size_t i = 0; i < report->left; i++)
		say_error("process %lld of user %s has %s open%s", (long long)report->holders_left[i].pid,
			  report->holders_left[i].user, name,
			  !report->holders_left[i].owner	? ": not a process of the owner, never ended"
			  : report->step < VG_REVOKE_TERMINATED ? ": --kill would end it"
								: "");
}

static int revoke_publication(struct vg_node *node, const struct arguments *arguments)
{
	const char *deadline = option_value(arguments, "deadline");
	struct vg_revoke_options options = {
		.size = sizeof options, .deadline = 10, .kill = option_value(arguments, "kill") != NULL};
	struct vg_revoke_report *report;
	char *end;

	if (deadline) {
		options.deadline = strtod(deadline, &end);
		if (!*deadline || *end || !(options.deadline >= 0) || options.deadline > 86400)
			return say_usage(arguments->verb,
					 "--deadline: \"%s\" is not a number of seconds from 0 to "
					 "86400",
					 deadline);
	}
	if (vg_share_revoke(node, arguments->words[0], &options, &report))
		return fail_with_last_error(arguments);
	int r = report->left ? EXIT_FAILED : EXIT_OK;
	if (!option_value(arguments, "json"))
		say_report(arguments->words[0], report);
	else if (print_report(report))
		r = EXIT_FAILED;
	vg_revoke_report_free(report);
	return r;
}

static int run_share_revoke(const struct arguments *arguments)
{
	return run_in_session(arguments, revoke_publication);
}

static const struct option options[] = {
	{"deadline", 0, "SECONDS", "how long its readers have to close it; default: 10", 0},
	{"kill", 'k', NULL, "then end the readers that are processes of the owner", 0},
	OPTION_JSON,
	OPTION_SIM,
	{0},
};

const struct verb verb_share_revoke = {
	.name = "share revoke",
	.synopsis = "NAME [--deadline SECONDS] [--kill] [--json] [--sim]",
	.summary = "Ask the readers of a publication to close it",
	.details = "Asks its readers, waits for the deadline, withdraws it, and with --kill sends SIGTERM and two "
		   "seconds later SIGKILL. Exit status: 0 if no process has it open any more, 1 otherwise.",
	.options = options,
	.least = 1,
	.most = 1,
	.complete = COMPLETE_PUBLICATION,
	.run = run_share_revoke,
};
