// The files of the audit log, for appending and verifying: lines, the chain of MACs, and the head. Any thread.
#pragma once
#include "vram/audit.h"

#include <stdbool.h>

enum {
	AUDIT_LINE = 4096, // most bytes of a line, with the newline
	AUDIT_HEAD = 256,  // bytes of the head, which is rewritten in place, within one page
	AUDIT_TIME = 31,   // bytes of a time's text, with the terminator
	AUDIT_LOCK_MS = 10000,
};

// The end of the chain of records; all zero before the first record.
struct audit_chain {
	uint64_t count;
	uint8_t mac[VRAM_MAC]; // of the last record
};

struct audit_head {
	struct audit_chain chain;
	uint64_t bytes; // of the log, up to and with the last record
};

// ---- lines -----------------------------------------------------------------------------------------------

// Writes the line of the record that follows `chain`, and advances `chain`. Returns its length with the newline.
size_t audit_line_make(char line[AUDIT_LINE], const struct vram_event *event, const char *vgpu,
		       const struct vram_keys *keys, struct audit_chain *chain);

enum audit_line {
	AUDIT_LINE_NEXT = 0, // the record that follows `chain`
	AUDIT_LINE_GARBAGE,  // not a record
	AUDIT_LINE_EARLY,    // its number is too high
	AUDIT_LINE_LATE,     // its number is too low
	AUDIT_LINE_FALSE,    // its MAC is wrong
};
// Checks a line, given without its newline. Only for NEXT, advances `chain` and sets `ret_time`. Sets *ret_number for
// all but GARBAGE.
enum audit_line audit_line_check(const char *line, size_t length, const struct vram_keys *keys,
				 struct audit_chain *chain, uint64_t *ret_number, char ret_time[AUDIT_TIME]);

// ---- the head --------------------------------------------------------------------------------------------

void audit_head_make(char text[AUDIT_HEAD], const struct audit_head *head, const struct vram_keys *keys);
// Returns false if the text is not a head, or its MAC is not of this key.
bool audit_head_read(const char *text, size_t length, const struct vram_keys *keys, struct audit_head *ret_head);

// ---- files -----------------------------------------------------------------------------------------------

// Writes "FILE.head"; false if it does not fit in PATH_MAX bytes.
bool audit_head_path(const char *path, char *ret_path);
// Locks the log by flock(). -ETIMEDOUT: another process has had it locked for AUDIT_LOCK_MS; -errno.
int audit_lock(int fd, bool exclusive);
