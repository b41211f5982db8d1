// The audit log's writing side. Any thread, and any number of processes with a log each on the same file.
//
// What happens when something cannot be recorded: the caller gets a status for it, so that an operation which is not in
// the log is not done, or is undone; where that is not possible (memory that was freed, a verification that failed),
// its own result stands and the log callback hears of the failure: vram_audit_failure().
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
	X(RECOVERED, "recovered", true) /* the log itself: an unfinished line was taken off */

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
	const char *text;    // more, such as an error's words; NULL: none
};

// Makes the file and its head if they are not there, mode 0600. `keys` stay the caller's and outlive the log; `vgpu` is
// copied. INTEGRITY (the head does not fit the file: virgate audit verify says more), DENIED, NOT_FOUND (the folder),
// BUSY, SYSTEM, NO_MEMORY.
enum vg_status vram_audit_open(const char *path, const struct vram_keys *keys, const char *vgpu,
			       struct vram_audit **ret_audit);
// Syncs it; what fails goes to the log callback. NULL is fine.
void vram_audit_close(struct vram_audit *audit);

// All that was recorded is on the disk when it returns. VG_OK if `audit` is NULL; SYSTEM.
enum vg_status vram_audit_sync(struct vram_audit *audit);

// Appends a record; failures are on disk when it returns. Nothing is done, and that is VG_OK, if `audit` is NULL. BUSY,
// INTEGRITY, SYSTEM (a full disk, a file that was removed): then nothing was appended.
enum vg_status vram_audit(struct vram_audit *audit, const struct vram_event *event);
// For an operation whose result stands: the calling thread's last error stays what it is, and becomes the record's text
// where the event has none; that it could not be recorded goes to the log callback.
void vram_audit_failure(struct vram_audit *audit, const struct vram_event *event);
