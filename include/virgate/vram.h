/* Device memory behind handles: every access is checked against the region's bounds, a freed handle stays dead, and
 * what is freed is zeroed first.
 *
 * A handle names one region of one device, for the whole process: a number that is looked up at each use, never an
 * address. Any thread may use any handle at any time: a call that began before the region was freed completes, one that
 * begins later is VG_STALE. Reads run side by side, also of one handle.
 *
 * All calls return when the work is done. They come after what was queued before on the device's legacy default stream;
 * work on other streams is the program's to wait for. Writes of less than 1 MiB are on that stream themselves: while a
 * blocking stream is captured the driver refuses them, and the capture is spoilt. Where a call fails with VG_BOUNDS,
 * VG_STALE, VG_INTEGRITY or VG_POLICY nothing was read or written. vg_status_is_retriable() tells errors that may pass
 * from those that do not. In a forked child every call is VG_STATE: a driver is of no use there. */
#ifndef VIRGATE_VRAM_H
#define VIRGATE_VRAM_H

#include <stddef.h>
#include <stdint.h>

#include <virgate/cuda_handles.h>
#include <virgate/device.h>
#include <virgate/status.h>
#include <virgate/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- contexts ------------------------------------------------------------------------------------- */

struct vg_vram; /* the regions of one device that one owner in this process has */

struct vg_vram_options {
	size_t size;		  /* sizeof(struct vg_vram_options) */
	struct vg_device *device; /* where the memory lies; NULL: the first one */
	/* The secret that the keys of seals, attestations and the audit log are derived from: a file of 64 hexadecimal
	 * digits, mode 0600, the caller's (vg_seal_key_create() makes one); or the description of the kernel's key of
	 * type "user" that holds them. NULL and NULL: no seals. Not both. */
	const char *key_file, *key_ring;
	/* Whose keys these are: [A-Za-z0-9][A-Za-z0-9._-]{0,62}; NULL: the vGPU that this process runs in, or
	 * "host". */
	const char *vgpu;
	const char *audit_file; /* what happens is recorded there: <virgate/audit.h>; takes a secret. NULL: nowhere */
};
/* `options` may be NULL. Holds the device's primary context. The caller owns *ret_vram and ends it with
 * vg_vram_destroy(). NO_DRIVER (no GPU here, and the simulated driver was not asked for), NOT_FOUND (no device, no
 * key), INVALID, UNSUPPORTED (a device without virtual memory), NO_MEMORY, DRIVER; of the key: DENIED (mode, owner, a
 * link), LIMIT (memory that cannot be locked); of the audit log: INTEGRITY (it is damaged), BUSY, DENIED, SYSTEM. Any
 * thread. Source: cuDevicePrimaryCtxRetain.
 *
 * With an audit file, what cannot be recorded fails: an allocation or a seal is undone; a region that was freed stays
 * freed, and vg_vram_free() says so; what failed anyway keeps its own status, and the log callback is told. SYSTEM,
 * BUSY and INTEGRITY then mean the log, which the text names. */
VG_PUBLIC enum vg_status vg_vram_open(const struct vg_vram_options *options, struct vg_vram **ret_vram);

/* What was still there when a context was closed. */
struct vg_vram_report {
	size_t regions;	 /* that were still allocated */
	uint64_t bytes;	 /* in them, as they were asked for */
	size_t loans;	 /* of theirs that had not been given back */
	size_t failures; /* regions that the driver did not zero or take back, each told to the log callback */
};
/* Frees what is left, with the same care as vg_vram_free(), and ends the program's use of the context: its handles are
 * STALE, its other calls CLOSED. Regions on loan are freed when the device has done all its work. `ret_report` may be
 * NULL; it is written also where the result is DRIVER, which says that some region failed. Closing twice is fine, and
 * finds nothing. INVALID, STATE; SYSTEM: the audit log could not be brought to the disk. Any thread. */
VG_PUBLIC enum vg_status vg_vram_close(struct vg_vram *vram, struct vg_vram_report *ret_report);
/* Closes it if that was not done, telling the log callback what was left, and drops the caller's reference. NULL is
 * fine. No other thread may be in a call that names `vram` itself. */
VG_PUBLIC void vg_vram_destroy(struct vg_vram *vram);

/* In bytes; inside a vGPU `total` and `free` are of its quota. */
struct vg_vram_capacity {
	uint64_t total; /* of the device */
	uint64_t free;	/* of it: what can still be had; a moment later it may be less */
	uint64_t used;	/* by this context, what rounding adds included */
	size_t regions; /* of this context */
};
/* INVALID, CLOSED, STATE, DRIVER. Any thread. Source: cuMemGetInfo. */
VG_PUBLIC enum vg_status vg_vram_capacity(struct vg_vram *vram, struct vg_vram_capacity *ret_capacity);
/* Where its regions lie; NULL for NULL. */
VG_PUBLIC struct vg_device *vg_vram_device(const struct vg_vram *vram);

/* ---- regions -------------------------------------------------------------------------------------- */

struct vg_vram_handle {
	uint64_t value; /* 0: none */
};

struct vg_vram_allocate_options {
	size_t size; /* sizeof(struct vg_vram_allocate_options) */
	/* Nonzero: the region ends where mapped memory ends, so that a kernel that reads or writes past its last byte
	 * faults. Takes whole granules (2 MiB). The address is a multiple of those powers of two that the size is a
	 * multiple of, and of no others. What this catches and what not: docs/vram.md. */
	int guard;
	int shareable; /* nonzero: other processes may get it by descriptor; takes whole granules. Not with guard */
};
/* `bytes` of zeros in the device's memory. `options` may be NULL. The caller ends the region with vg_vram_free().
 * INVALID (0 bytes, past what can be addressed, guard with shareable), INSUFFICIENT (vg_last_error() has `need` and
 * `have`), CLOSED, UNSUPPORTED, NO_MEMORY, LIMIT, STATE, DRIVER. Any thread. Sources: cuMemAlloc, cuMemCreate,
 * cuMemMap, cuMemsetD8. */
VG_PUBLIC enum vg_status vg_vram_allocate(struct vg_vram *vram, size_t bytes,
					  const struct vg_vram_allocate_options *options,
					  struct vg_vram_handle *ret_handle);
/* Waits for the calls that use the region, zeroes it, and gives it back. Of several threads that free one handle
 * exactly one succeeds: a second free is STALE, at any time. If the region ever was on loan, all the device's work
 * is waited for first, which spoils captures that are under way. STALE, BUSY (on loan), INVALID (no handle), STATE,
 * DRIVER: where zeroing failed the region stays as it was, and may be freed again; else the handle is dead; of the
 * audit log: SYSTEM, BUSY, INTEGRITY, after the region was freed. Any thread. */
VG_PUBLIC enum vg_status vg_vram_free(struct vg_vram_handle handle);

/* In bytes, as asked for. STALE, INVALID, STATE. Any thread. */
VG_PUBLIC enum vg_status vg_vram_size(struct vg_vram_handle handle, size_t *ret_bytes);
/* Where it lies. STALE, INVALID, STATE. Any thread. */
VG_PUBLIC enum vg_status vg_vram_handle_device(struct vg_vram_handle handle, struct vg_device **ret_device);

/* ---- access --------------------------------------------------------------------------------------- */

/* `bytes` of the program's memory into the region from byte `offset` on, or out of it. 0 bytes are fine anywhere from 0
 * to the region's size, also with NULL. BOUNDS, STALE, POLICY (writing what is frozen or was imported for reading),
 * INTEGRITY (quarantined), INVALID (NULL, no handle), BUSY (more than 1023 calls at once), STATE, DRIVER. Any thread.
 * Sources: cuMemcpyHtoD, cuMemcpyDtoH. */
VG_PUBLIC enum vg_status vg_vram_write_at(struct vg_vram_handle handle, size_t offset, const void *from, size_t bytes);
VG_PUBLIC enum vg_status vg_vram_read_at(struct vg_vram_handle handle, size_t offset, void *to, size_t bytes);
/* From one region to another, or to another place of the same one, also across devices and contexts; the contents do
 * not pass through the program. INVALID (the parts overlap, no handle); BOUNDS, STALE, POLICY, INTEGRITY, BUSY, STATE,
 * DRIVER as above, of whichever handle is named. Any thread. Sources: cuMemcpyDtoD, cuMemcpyPeer. */
VG_PUBLIC enum vg_status vg_vram_copy(struct vg_vram_handle to, size_t to_offset, struct vg_vram_handle from,
				      size_t from_offset, size_t bytes);
/* Sets `bytes` bytes from `offset` on to `value`, 0 to 255. As vg_vram_write_at(). Any thread. Source: cuMemsetD8. */
VG_PUBLIC enum vg_status vg_vram_fill(struct vg_vram_handle handle, size_t offset, int value, size_t bytes);

/* ---- loans ---------------------------------------------------------------------------------------- */

enum vg_vram_access { VG_VRAM_READ, VG_VRAM_READ_WRITE };

/* The address of a region, for kernels. It is the one way to get it, and the end of what handles guarantee: a kernel
 * that has it reaches whatever else is mapped in the process, unless the region was allocated with `guard`. */
struct vg_vram_loan {
	struct vg_vram_handle handle;
	enum vg_vram_access access; /* what was asked: a promise, not enforced by the device */
	vg_address address;	    /* valid until it is given back */
	size_t bytes;
	uint64_t ticket; /* no other loan has it */
};
/* What was written by calls that have returned lies in the region by then, and while the loan lasts each write waits
 * until it does, so that work on any stream finds it. The region cannot be freed until every loan was given back.
 * INVALID (access out of range, no handle), POLICY (READ_WRITE of what is frozen or was imported for reading),
 * INTEGRITY, STALE, BUSY (255 loans), NO_MEMORY, STATE, DRIVER. Any thread. */
VG_PUBLIC enum vg_status vg_vram_borrow(struct vg_vram_handle handle, enum vg_vram_access access,
					struct vg_vram_loan *ret_loan);
/* Work that uses the address has ended by now: that is the caller's to see to. Makes the loan all zero. INVALID (NULL,
 * or a loan that was not given out or was given back), STALE (the context was closed meanwhile), STATE. Any thread. */
VG_PUBLIC enum vg_status vg_vram_give_back(struct vg_vram_loan *loan);

#ifdef __cplusplus
}
#endif
#endif
