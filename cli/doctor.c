// doctor: checks what this machine supports, and says how to fix what is missing.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/doctor/doctor.h"
#include "list.h"
#include "options.h"
#include "say.h"
#include "session.h"
#include "share.h"

static void print_json_report(const struct doctor_report *report, size_t failed, size_t warnings)
{
	json_t *checks = json_array();

	for (size_t i = 0; i < report->count; i++) {
		const struct doctor_check *check = &report->checks[i];
		json_array_append_new(checks,
				      json_pack("{s:s, s:s, s:o, s:s, s:o}", "set", doctor_set_text(check->set), "name",
						check->name, "found", text_json(check->found), "status",
						doctor_verdict_text(check->verdict), "fix", text_or_null(check->fix)));
	}
	print_json(json_pack("{s:o, s:I, s:I}", "checks", checks, "failed", (json_int_t)failed, "warnings",
			     (json_int_t)warnings));
}

static void print_report(const struct doctor_report *report, size_t failed, size_t warnings)
{
	size_t width = 0;

	for (size_t i = 0; i < report->count; i++)
		width = strlen(report->checks[i].name) > width ? strlen(report->checks[i].name) : width;
	for (size_t i = 0; i < report->count; i++) {
		const struct doctor_check *check = &report->checks[i];
		print_line("%-*s  %-7s  %s%s%s", (int)width, check->name, doctor_verdict_text(check->verdict),
			   check->found, *check->fix ? "; " : "", check->fix);
	}
	const char *some = warnings == 1 ? "" : "s";
	if (failed)
		printf("Failed with %zu error%s and %zu warning%s\n", failed, failed == 1 ? "" : "s", warnings, some);
	else if (warnings)
		printf("Looks good, with %zu warning%s\n", warnings, some);
	else
		printf("Looks good\n");
}

static int read_set(const struct arguments *arguments, unsigned *ret_sets)
{
	*ret_sets = DOCTOR_CUDA | DOCTOR_QUOTA | DOCTOR_TOOLKIT;
	if (arguments->count == 0)
		return 0;
	for (unsigned set = DOCTOR_CUDA; set <= DOCTOR_TOOLKIT; set <<= 1)
		if (strcmp(arguments->words[0], doctor_set_text(set)) == 0) {
			*ret_sets = set;
			return 0;
		}
	return say_usage(arguments->verb,
			 "\"%s\" is not a set of checks: give cuda (checkpoints), quota (vGPUs) or "
			 "toolkit",
			 arguments->words[0]);
}

// Returns where the configuration first sets the mode mps; NULL: nowhere.
static const char *find_mps(const struct config *config)
{
	const char *usual = config->values[CONFIG_SHARING];

	if (usual && strcmp(usual, "mps") == 0)
		return config->origins[CONFIG_SHARING];
	for (size_t i = 0; i < config->device_count; i++)
		if (strcmp(config->devices[i].sharing, "mps") == 0)
			return config->devices[i].origin;
	return NULL;
}

static int run_doctor(const struct arguments *arguments)
{
	static struct doctor_report report;
	struct doctor_options options = {.directory = option_value(arguments, "dir")};
	struct session session;

	int r = read_set(arguments, &options.sets);
	if (r == 0)
		r = session_open_quietly(&session, arguments);
	if (r)
		return r;
	r = share_choose_driver(&session, arguments);
	if (r == 0) {
		options.node = session.node;
		options.libdir = session.config.values[CONFIG_LIBDIR];
		options.mps_origin = find_mps(&session.config);
		doctor_examine(&options, &report);
		size_t failed = doctor_count(&report, DOCTOR_FAILED), warnings = doctor_count(&report, DOCTOR_WARNING);
		if (option_value(arguments, "json"))
			print_json_report(&report, failed, warnings);
		else
			print_report(&report, failed, warnings);
		r = failed ? EXIT_FAILED : EXIT_OK;
	}
	session_close(&session);
	return r;
}

static const struct option options[] = {
	{"dir", 0, "DIR", "the directory for images; default: the current one", COMPLETE_FILE},
	OPTION_JSON,
	OPTION_SIM,
	{0},
};

const struct verb verb_doctor = {
	.name = "doctor",
	.synopsis = "[--dir DIR] [--json] [--sim] [cuda|quota|toolkit]",
	.summary = "Check this machine for what checkpoints and quotas need",
	.details = "Prints a line for each check: its name, ok, warning, failed or n/a, what was found, and what to "
		   "do. cuda: what checkpoints of CUDA processes need. quota: what vGPUs need. toolkit: what "
		   "a CUDA toolkit adds. Without a word: all of them. Exit status: 1 if a check failed.",
	.options = options,
	.most = 1,
	.run = run_doctor,
};
