/* The audit log of trusted device memory, and its verification.
 *
 * A context that was opened with an audit file appends a line of JSON for each operation on its memory. Each line has a
 * MAC over itself and the MAC of the line before. A small file beside the log, FILE.head, has the number of lines and
 * the MAC of the last one. Without the key, a line that is changed, added, removed, moved or cut off is detected.
 *
 * A log cannot show that it and its head were both restored from an old copy. To detect that, keep the head that a
 * verification reports in another place, and pass it to the next verification. docs/seals.md describes the formats. */
#ifndef VIRGATE_AUDIT_H
#define VIRGATE_AUDIT_H

#include <stddef.h>
#include <stdint.h>

#include <virgate/status.h>
#include <virgate/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

struct vg_audit_options {
	size_t size;	      /* sizeof(struct vg_audit_options) */
	const char *key_file; /* the key file of the contexts that wrote the log; NULL: none */
	const char *key_ring; /* the key ring of these contexts; one of the two must be given */
	const char *expect;   /* the head that an earlier verification reported: "COUNT:MAC"; NULL: none */
};

/* The first fault of the log. */
#define VG_AUDIT_FAULT_LIST(X)                                                                         \
	X(NONE, "whole")                                                                               \
	X(UNREADABLE, "not a record") /* the line has no valid form, or is too long */                 \
	X(CHANGED, "changed")	      /* the line was changed, or is of another log */                 \
	X(MISSING, "missing")	      /* lines before this one were removed or moved */                \
	X(REPEATED, "repeated")	      /* a line with this number came before */                        \
	X(CUT, "cut")		      /* the end is missing, or the last line is unfinished */         \
	X(HEAD, "head")		      /* FILE.head is missing, was changed, or is of another log */    \
	X(KEY, "key")		      /* neither the head nor the first line was made with this key */ \
	X(EXPECTED, "expected")	      /* the log does not continue the expected head */

enum vg_audit_fault {
#define X(name, text) VG_AUDIT_##name,
	VG_AUDIT_FAULT_LIST(X)
#undef X
};

#define VG_AUDIT_HEAD_MAX 96

struct vg_audit_report {
	size_t size;	  /* set before the call: sizeof(struct vg_audit_report) */
	uint64_t records; /* valid records before the first fault */
	enum vg_audit_fault fault;
	uint64_t line;		      /* line of the fault, from 1; 0: not in a line */
	char head[VG_AUDIT_HEAD_MAX]; /* "COUNT:MAC" of the last valid record; "0:" and zeros without a record */
	char first[32],
		last[32]; /* times of the first and last valid record: "2026-01-31T12:00:00.123456789Z", or "" */
};

/* Verifies the whole log; writers wait meanwhile. If the result is VG_OK or VG_INTEGRITY (the log has a fault, which
 * the last error describes), *ret_report is filled; `ret_report` may be NULL. NOT_FOUND (the log, the key), BUSY
 * (another process has kept the log locked for seconds), INVALID, DENIED, LIMIT, SYSTEM. Any thread. */
VG_PUBLIC enum vg_status vg_audit_verify(const char *path, const struct vg_audit_options *options,
					 struct vg_audit_report *ret_report);
/* Returns the name of a fault, "whole", "changed", …; "unknown" for a value outside the list. Any thread. */
VG_PUBLIC const char *vg_audit_fault_text(enum vg_audit_fault fault);

#ifdef __cplusplus
}
#endif
#endif
