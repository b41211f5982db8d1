// audit verify: verifies that an audit log is complete and unchanged.
#include <stdio.h>

#include "list.h"
#include "options.h"
#include "say.h"
#include "session.h"
#include "virgate/audit.h"

static int print_report(const char *path, const struct vg_audit_report *report)
{
	return print_json(
		json_pack("{s:{s:o, s:b, s:s, s:I, s:I, s:s, s:s?, s:s?}}", "audit", "file", text_json(path), "whole",
			  report->fault == VG_AUDIT_NONE, "fault", vg_audit_fault_text(report->fault), "line",
			  (json_int_t)report->line, "records", (json_int_t)report->records, "head", report->head,
			  "first", *report->first ? report->first : NULL, "last", *report->last ? report->last : NULL));
}

static void say_report(const char *path, const struct vg_audit_report *report)
{
	if (report->records == 0)
		print_line("%s: %s, 0 records", path, vg_audit_fault_text(report->fault));
	else if (report->fault != VG_AUDIT_NONE)
		print_line("%s: %s; the first %llu records are good, to %s", path, vg_audit_fault_text(report->fault),
			   (unsigned long long)report->records, report->last);
	else
		print_line("%s: whole, %llu records from %s to %s", path, (unsigned long long)report->records,
			   report->first, report->last);
	if (report->fault == VG_AUDIT_NONE && report->records)
		print_line("head: %s", report->head);
}

static int verify_log(const struct arguments *arguments, const struct vg_audit_options *options)
{
	struct vg_audit_report report = {.size = sizeof report};
	const char *path = arguments->words[0];

	enum vg_status status = vg_audit_verify(path, options, &report);
	if (status && status != VG_INTEGRITY)
		return fail_with_last_error(arguments);
	if (status)
		say_last_error();
	if (!option_value(arguments, "json"))
		say_report(path, &report);
	else if (print_report(path, &report))
		return verb_failure_code(arguments->verb);
	return status ? verb_failure_code(arguments->verb) : EXIT_OK;
}

static int run_audit_verify(const struct arguments *arguments)
{
	struct vg_audit_options options = {.size = sizeof options, .expect = option_value(arguments, "expect")};
	struct config_error error;
	struct config config;
	struct key key;

	if (config_load(&config, &error)) {
		say_error("%s", error.text);
		return verb_failure_code(arguments->verb);
	}
	int r = read_key(arguments, &config, "the key that the log was written with", &key);
	if (r == 0) {
		options.key_file = key.file;
		options.key_ring = key.ring;
		r = verify_log(arguments, &options);
	}
	config_finish(&config);
	return r;
}

static const struct option options[] = {
	{"key", 'k', "FILE", "the key file that the log was written with; default: VIRGATE_KEY", COMPLETE_FILE},
	{"key-ring", 0, "NAME", "the key of that name in the kernel's keyring", 0},
	{"expect", 'e', "COUNT:MAC", "the head that an earlier verification printed; the log must contain it", 0},
	OPTION_JSON,
	{0},
};

const struct verb verb_audit_verify = {
	.name = "audit verify",
	.synopsis = "FILE [--key FILE | --key-ring NAME] [--expect COUNT:MAC] [--json]",
	.summary = "Verify that nobody changed an audit log",
	.details = "Reports the first line that was changed, added, removed or moved, and an end that was cut off. "
		   "Only --expect shows that somebody replaced the log and its head by older ones: keep the head "
		   "that is printed. Exit status: 0 if the log is whole, 1 if not.",
	.options = options,
	.least = 1,
	.most = 1,
	.complete = COMPLETE_FILE,
	.run = run_audit_verify,
};
