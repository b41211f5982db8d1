// Appends records to the audit log. Any thread; any number of processes may have the same file open.
//
// If an operation cannot be recorded, the caller gets an error, and the operation is not done or is rolled back.
// Sometimes that is impossible (memory was freed, a verification failed). Then the operation keeps its own result, and
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
	X(RECOVERED, "recovered", true) /* the log file ended with an unfinished line, which the next writer removed */

enum vram_event_kind {
#define X(name, text, sync) VRAM_EVENT_##name,
	VRAM_EVENT_LIST(X)
#undef X
};

struct vram_event {
	enum vram_event_kind kind;
	uint64_t handle; // handle of the region; 0: none
	uint64_t bytes;
	uint64_t generation; // generation of the seal; 0: none
	const char *device;  // UUID of the device, "GPU-…"; NULL: none
	const char *id;	     // id of the seal; NULL: none
	const char *text;    // details, such as the text of an error; NULL: none
};

// Opens the log. Creates the file and its head with mode 0600 if they do not exist. The caller owns `keys`, which must
// outlive the log; `vgpu` is copied. Fails with INTEGRITY (the head does not match the file: virgate audit verify says
// more), DENIED, NOT_FOUND (the directory), BUSY, SYSTEM or NO_MEMORY.
enum vg_status vram_audit_open(const char *path, const struct vram_keys *keys, const char *vgpu,
			       struct vram_audit **ret_audit);
// Syncs and closes the log. Reports a failure to the log callback. Accepts NULL.
void vram_audit_close(struct vram_audit *audit);

// Syncs all records to the disk. Returns VG_OK if `audit` is NULL; SYSTEM.
enum vg_status vram_audit_sync(struct vram_audit *audit);

// Appends a record, and syncs the log if the event is a failure. Does nothing if `audit` is NULL. Fails with BUSY,
// INTEGRITY or SYSTEM (the disk is full, or the file was removed); then nothing was appended.
enum vg_status vram_audit_append(struct vram_audit *audit, const struct vram_event *event);
// Records an operation whose result cannot change any more. The thread's last error does not change; its text becomes
// the record's text if the event has none. If the record cannot be appended, calls the log callback.
void vram_audit_append_failure(struct vram_audit *audit, const struct vram_event *event);
