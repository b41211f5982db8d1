// The audit log's files, as both its sides see them: lines, the chain of MACs, the head beside the log.
#pragma once
#include "vram/audit.h"

#include <stdbool.h>

enum {
	AUDIT_LINE = 4096, // at most, with the newline
	AUDIT_HEAD = 256,  // exactly: it is rewritten in place, within one page
	AUDIT_TIME = 31,   // with the terminator
	AUDIT_LOCK_MS = 10000,
};

// Where the chain stands: after no record all is zero.
struct audit_chain {
	uint64_t count;
	uint8_t mac[VRAM_MAC]; // of the last record
};

struct audit_head {
	struct audit_chain chain;
	uint64_t bytes; // of the log, with that record
};

// ---- lines -----------------------------------------------------------------------------------------------

// A line of the record that follows `chain`, which goes on to it. Its length, newline included.
size_t audit_line_make(char line[AUDIT_LINE], const struct vram_event *event, const char *vgpu,
		       const struct vram_keys *keys, struct audit_chain *chain);

enum audit_line {
	AUDIT_LINE_NEXT = 0, // the record that follows: the chain goes on to it
	AUDIT_LINE_GARBAGE,
	AUDIT_LINE_EARLY, // its number is too high
	AUDIT_LINE_LATE,  // too low
	AUDIT_LINE_FALSE, // its MAC is not the one that is due
};
// `line` without its newline. `*ret_number`, from GARBAGE on, and `ret_time` are set.
enum audit_line audit_line_check(const char *line, size_t length, const struct vram_keys *keys,
				 struct audit_chain *chain, uint64_t *ret_number, char ret_time[AUDIT_TIME]);

// ---- the head --------------------------------------------------------------------------------------------

void audit_head_make(char text[AUDIT_HEAD], const struct audit_head *head, const struct vram_keys *keys);
// False: it is not one, or its MAC is not of this key.
bool audit_head_read(const char *text, size_t length, const struct vram_keys *keys, struct audit_head *ret_head);

// ---- files -----------------------------------------------------------------------------------------------

// "FILE.head", within PATH_MAX; false if it is too long.
bool audit_head_path(const char *path, char *ret_path);
// -ETIMEDOUT if somebody else has it for AUDIT_LOCK_MS; -errno.
int audit_lock(int fd, bool exclusive);
