// Checks what a machine supports. Each check has a name, what was found, a verdict, and advice. The checks change
// nothing and start no daemon. One thread.
#pragma once
#include <stddef.h>
#include <stdint.h>

struct vg_node;
struct vg_system_version;

enum doctor_verdict {
	DOCTOR_OK,
	DOCTOR_WARNING, // the checked feature works, but something is missing
	DOCTOR_FAILED,
	DOCTOR_NOT_APPLICABLE,
};
// What is checked: checkpoints of CUDA processes, quotas of vGPUs, and what a CUDA toolkit adds.
enum doctor_set { DOCTOR_CUDA = 1, DOCTOR_QUOTA = 2, DOCTOR_TOOLKIT = 4 };

struct doctor_check {
	enum doctor_set set;
	enum doctor_verdict verdict;
	char name[48];
	char found[256];
	char fix[256]; // advice: what the user can do; "": nothing is needed
};

enum { DOCTOR_CHECKS = 192 };
struct doctor_report {
	size_t count;
	struct doctor_check checks[DOCTOR_CHECKS];
};

struct doctor_options {
	unsigned sets;		// bits of enum doctor_set
	const char *directory;	// directory for images; NULL: the current directory
	struct vg_node *node;	// connection to the daemon, which is queried but not started; for DOCTOR_QUOTA
	const char *libdir;	// directory with the interposer; "": the usual places
	const char *mps_origin; // which setting chooses the mode mps, such as "virgate.conf:3"; NULL: none
};
void doctor_examine(const struct doctor_options *options, struct doctor_report *ret_report);
size_t doctor_count(const struct doctor_report *report, enum doctor_verdict verdict);
// Returns the name of a set: "cuda", "quota" or "toolkit".
const char *doctor_set_text(enum doctor_set set);
// Returns the text of a verdict: "ok", "warning", "failed" or "n/a".
const char *doctor_verdict_text(enum doctor_verdict verdict);

// ---- this directory only -------------------------------------------------------------------------------

// Adds a check to the report; doctor_say() fills in its result. If the report is full, the last check fails and says
// so.
struct doctor_check *doctor_check(struct doctor_report *report, enum doctor_set set, const char *name);
__attribute__((format(printf, 3, 4))) void doctor_say(struct doctor_check *check, enum doctor_verdict verdict,
						      const char *format, ...);
__attribute__((format(printf, 2, 3))) void doctor_fix(struct doctor_check *check, const char *format, ...);

void doctor_driver(struct doctor_report *report);
void doctor_driver_version(struct doctor_check *check, const struct vg_system_version *driver);
// Checks the devices. *ret_used: bytes that programs use now on all devices.
void doctor_devices(struct doctor_report *report, uint64_t *ret_used);
void doctor_criu(struct doctor_report *report);
void doctor_left(struct doctor_report *report);
void doctor_kernel(struct doctor_report *report);
void doctor_room(struct doctor_report *report, const char *directory, uint64_t used);
void doctor_quota(struct doctor_report *report, const struct doctor_options *options);
void doctor_toolkit(struct doctor_report *report);
