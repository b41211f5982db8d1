#include "checkpoint/doctor/doctor.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

struct doctor_check *doctor_check(struct doctor_report *report, enum doctor_set set, const char *name)
{
	const bool last = report->count >= DOCTOR_CHECKS - 1;
	struct doctor_check *check = &report->checks[last ? DOCTOR_CHECKS - 1 : report->count];

	if (last)
		name = "more checks";
	report->count = last ? DOCTOR_CHECKS : report->count + 1;
	*check = (struct doctor_check){.set = set};
	snprintf(check->name, sizeof check->name, "%s", name);
	doctor_say(check, DOCTOR_FAILED, "not looked at");
	if (last)
		doctor_fix(check, "look at fewer GPUs at a time: NVIDIA_VISIBLE_DEVICES of a container");
	return check;
}

void doctor_say(struct doctor_check *check, enum doctor_verdict verdict, const char *format, ...)
{
	va_list list;

	check->verdict = verdict;
	va_start(list, format);
	vsnprintf(check->found, sizeof check->found, format, list);
	va_end(list);
}

void doctor_fix(struct doctor_check *check, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	vsnprintf(check->fix, sizeof check->fix, format, list);
	va_end(list);
}

const char *doctor_set_text(enum doctor_set set)
{
	return set == DOCTOR_CUDA ? "cuda" : set == DOCTOR_QUOTA ? "quota" : "toolkit";
}

const char *doctor_verdict_text(enum doctor_verdict verdict)
{
	static const char *const texts[] = {[DOCTOR_OK] = "ok",
					    [DOCTOR_WARNING] = "warning",
					    [DOCTOR_FAILED] = "failed",
					    [DOCTOR_NOT_APPLICABLE] = "n/a"};

	return texts[verdict];
}

size_t doctor_count(const struct doctor_report *report, enum doctor_verdict verdict)
{
	size_t count = 0;

	for (size_t i = 0; i < report->count; i++)
		count += report->checks[i].verdict == verdict;
	return count;
}

void doctor_examine(const struct doctor_options *options, struct doctor_report *ret_report)
{
	ret_report->count = 0;
	if (options->sets & DOCTOR_CUDA) {
		uint64_t used = 0;
		doctor_driver(ret_report);
		doctor_devices(ret_report, &used);
		doctor_criu(ret_report);
		doctor_kernel(ret_report);
		doctor_room(ret_report, options->directory ? options->directory : ".", used);
		doctor_left(ret_report);
	}
	if (options->sets & DOCTOR_QUOTA)
		doctor_quota(ret_report, options);
	if (options->sets & DOCTOR_TOOLKIT)
		doctor_toolkit(ret_report);
}
