/* The audit log of trusted device memory, and whether it is whole.
 *
 * A context that was opened with an audit file writes a line of JSON for everything that happens to its memory. Each
 * line has a MAC over itself and the MAC of the line before, and a small file beside it, FILE.head, says how many lines
 * there are and what the last one's MAC is: so that no line can be changed, added, taken away, moved or cut off by
 * somebody without the key, and stay unnoticed. What no log can tell by itself is that it and its head were both put
 * back to what they once were: keep the head that a verification reports elsewhere, and give it to the next one. The
 * formats are in docs/seals.md. */
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
	const char *key_file; /* as the contexts that wrote it had; NULL: none */
	const char *key_ring; /* likewise; one of the two must be given */
	const char *expect;   /* a head of an earlier verification: "COUNT:MAC"; NULL: none */
};

/* What is wrong, at the first place where something is. */
#define VG_AUDIT_FAULT_LIST(X)                                                                                         \
	X(NONE, "whole")                                                                                               \
	X(UNREADABLE, "not a record") /* the line is none, or is too long */                                           \
	X(CHANGED, "changed")	      /* the line was changed, or came from elsewhere */                               \
	X(MISSING, "missing")	      /* lines were taken away or moved: this one comes too early */                   \
	X(REPEATED, "repeated")	      /* this line, or one of its number, stands here a second time */                 \
	X(CUT, "cut")		      /* the end is missing, or the last line is unfinished */                         \
	X(HEAD, "head")		      /* FILE.head is missing, was changed, or is of another log */                    \
	X(KEY, "key")		      /* neither the head nor the first line is of this key */                         \
	X(EXPECTED, "expected")	      /* it is not the log that the expected head was of */

enum vg_audit_fault {
#define X(name, text) VG_AUDIT_##name,
	VG_AUDIT_FAULT_LIST(X)
#undef X
};

#define VG_AUDIT_HEAD_MAX 96

struct vg_audit_report {
	size_t size;	  /* set before the call: sizeof(struct vg_audit_report) */
	uint64_t records; /* that are good, from the first on */
	enum vg_audit_fault fault;
	uint64_t line;		      /* where, from 1; 0: nowhere */
	char head[VG_AUDIT_HEAD_MAX]; /* "COUNT:MAC" of the last good record; "0:" and zeros if there is none */
	char first[32], last[32]; /* when: "2026-01-31T12:00:00.123456789Z" of the first and last good record, or "" */
};

/* Reads the whole log. Writers wait meanwhile. *ret_report, which may be NULL, is filled if the result is VG_OK or
 * VG_INTEGRITY: something is wrong, and the last error says it in words. NOT_FOUND (the log, the key), BUSY (somebody
 * holds its lock for seconds), INVALID, DENIED, LIMIT, SYSTEM, as the key's source may be. Any thread. */
VG_PUBLIC enum vg_status vg_audit_verify(const char *path, const struct vg_audit_options *options,
					 struct vg_audit_report *ret_report);
/* "whole", "changed", …; "unknown" for a value outside the list. Any thread. */
VG_PUBLIC const char *vg_audit_fault_text(enum vg_audit_fault fault);

#ifdef __cplusplus
}
#endif
#endif
