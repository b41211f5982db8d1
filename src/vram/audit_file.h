// Declares functions for the two files of the audit log: the log with one record per line, and the head, which
// states where the log ends. Appending and verifying use these functions. The records form a chain: the MAC of a record
// also covers the MAC of the record before it. Any thread may call the functions.
#pragma once
#include "vram/audit.h"

#include <stdbool.h>

enum {
	AUDIT_LINE = 4096, // maximum size of a line in bytes, with the newline
	AUDIT_HEAD = 256,  // size of the head in bytes; it is rewritten in place, within one page
	AUDIT_TIME = 31,   // size of the text of a time in bytes, with the terminator
	AUDIT_LOCK_MS = 10000,
};

// The last record: its number, which is the number of all records, and its MAC. All fields are zero before the first
// record.
struct audit_chain {
	uint64_t count;
	uint8_t mac[VRAM_MAC]; // MAC of the last record
};

struct audit_head {
	struct audit_chain chain;
	uint64_t bytes; // size of the log in bytes, up to the end of the last record
};

// ---- lines -----------------------------------------------------------------------------------------------

// Writes the line of the record that follows `chain`, and advances `chain`. Returns the line's length with the newline.
size_t audit_line_make(char line[AUDIT_LINE], const struct vram_event *event, const char *vgpu,
		       const struct vram_keys *keys, struct audit_chain *chain);

enum audit_line {
	AUDIT_LINE_NEXT = 0, // the line is the record that follows `chain`
	AUDIT_LINE_GARBAGE,  // the line is not a record
	AUDIT_LINE_EARLY,    // the record's number is too high
	AUDIT_LINE_LATE,     // the record's number is too low
	AUDIT_LINE_FALSE,    // the record's MAC is wrong
};
// Checks a line, given without its newline. Advances `chain` and sets *ret_time only if it returns AUDIT_LINE_NEXT.
// Sets *ret_number unless it returns AUDIT_LINE_GARBAGE.
enum audit_line audit_line_check(const char *line, size_t length, const struct vram_keys *keys,
				 struct audit_chain *chain, uint64_t *ret_number, char ret_time[AUDIT_TIME]);

// ---- the head --------------------------------------------------------------------------------------------

void audit_head_make(char text[AUDIT_HEAD], const struct audit_head *head, const struct vram_keys *keys);
// Parses a head. Returns false if the text is not a head, or if its MAC was not made with this key.
bool audit_head_read(const char *text, size_t length, const struct vram_keys *keys, struct audit_head *ret_head);

// ---- files -----------------------------------------------------------------------------------------------

// Writes the path of the head that belongs to the log at `path`: `path` with ".head" appended. Returns false if the
// path does not fit in PATH_MAX bytes.
bool audit_head_path(const char *path, char *ret_path);
// Locks the log with flock(). Returns -ETIMEDOUT if another process had it locked for AUDIT_LOCK_MS, or -errno.
int audit_lock(int fd, bool exclusive);
