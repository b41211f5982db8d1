// Appends records to the audit log. Any thread; any number of processes may have the same file open.
//
// If an operation cannot be recorded, the caller gets a status and does not do it, or rolls it back. Where that is
// impossible (memory was freed, a verification failed), the operation keeps its own result, and
// vram_audit_append_failure() reports to the log callback that the record is missing.
#pragma once
#include "vram/key.h"

struct vram_audit;

#define VRAM_EVENT_LIST(X)                                  \
	X(ALLOCATED, "allocated", false)                    \
	X(ALLOCATION_FAILED, "allocation failed", true)     \
	X(DEALLOCATED, "deallocated", false)                \
	X(SEALED, "sealed", false)                          \
	X(UNSEALED, "unsealed", false)                      \
	X(VERIFIED, "verified", false)                      \
	X(VERIFICATION_FAILED, "verification failed", true) \
	X(ATTESTED, "attested", false)                      \
	X(POLICY_VIOLATION, "policy violation", true)       \
	X(RECOVERED, "recovered", true) /* of the log itself: an unfinished line was removed */

enum vram_event_kind {
#define X(name, text, sync) VRAM_EVENT_##name,
	VRAM_EVENT_LIST(X)
#undef X
};

struct vram_event {
	enum vram_event_kind kind;
	uint64_t handle; // 0: none
	uint64_t bytes;
	uint64_t generation; // of a seal; 0: none
	const char *device;  // "GPU-…"; NULL: none
	const char *id;	     // of a seal; NULL: none
	const char *text;    // details, such as the text of an error; NULL: none
};

// Opens the log; creates the file and its head with mode 0600 if they do not exist. `keys` stay the caller's and must
// outlive the log; `vgpu` is copied. INTEGRITY (the head does not match the file: virgate audit verify says more),
// DENIED, NOT_FOUND (the directory), BUSY, SYSTEM, NO_MEMORY.
enum vg_status vram_audit_open(const char *path, const struct vram_keys *keys, const char *vgpu,
			       struct vram_audit **ret_audit);
// Syncs and closes the log; a failure goes to the log callback. Accepts NULL.
void vram_audit_close(struct vram_audit *audit);

// Writes all records to the disk. VG_OK if `audit` is NULL; SYSTEM.
enum vg_status vram_audit_sync(struct vram_audit *audit);

// Appends a record, and syncs it if the event is a failure. Does nothing if `audit` is NULL. BUSY, INTEGRITY, SYSTEM (a
// full disk, a file that was removed): then nothing was appended.
enum vg_status vram_audit_append(struct vram_audit *audit, const struct vram_event *event);
// Records an operation that keeps its own result. The thread's last error does not change; it becomes the record's text
// if the event has none. If the record cannot be appended, the log callback gets a message.
void vram_audit_append_failure(struct vram_audit *audit, const struct vram_event *event);
