/* Device memory behind handles: every access is checked against the region's bounds, the handle of a freed region stays
 * invalid, and memory is zeroed before it is freed.
 *
 * A handle names one region of one device in the whole process. It is a number that each call looks up, and never an
 * address. Any thread may use any handle at any time: a call that began before the region was freed completes, and one
 * that begins later fails with VG_STALE. Reads run concurrently, also of one handle.
 *
 * All calls return when their work is done. They run after work that was queued on the device's legacy default stream
 * before; the program must wait for work on other streams itself. Writes of less than 1 MiB run on that stream: while a
 * blocking stream is being captured, the driver refuses them, and invalidates the capture. If a call fails with
 * VG_BOUNDS, VG_STALE, VG_INTEGRITY or VG_POLICY, nothing was read or written. vg_status_is_retriable() returns which
 * errors may be temporary. In a forked child every call fails with VG_STATE, since the driver cannot be used there. */
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

struct vg_vram; /* a context: a set of regions of one device */

struct vg_vram_options {
	size_t size;		  /* sizeof(struct vg_vram_options) */
	struct vg_device *device; /* the device of the memory; NULL: the first device */
	/* The secret that the keys of seals, attestations and the audit log are derived from: a file with 64
	 * hexadecimal digits, with mode 0600 and owned by the caller (vg_seal_key_create() makes one); or the
	 * description of a kernel key of type "user" with these digits. NULL and NULL: no seals. Not both. */
	const char *key_file, *key_ring;
	/* The name of the vGPU that the keys are for: [A-Za-z0-9][A-Za-z0-9._-]{0,62}; NULL: the vGPU that this process
	 * runs in, or "host". */
	const char *vgpu;
	const char *audit_file; /* the audit log, <virgate/audit.h>; needs a secret. NULL: none */
};
/* Opens a context, which retains the device's primary context. `options` may be NULL. The caller owns *ret_vram and
 * ends it with vg_vram_destroy(). NO_DRIVER (no GPU here, and the simulated driver was not requested), NOT_FOUND (no
 * device, no key), INVALID, UNSUPPORTED (a device without virtual memory), NO_MEMORY, DRIVER; of the key: DENIED (mode,
 * owner, a link), LIMIT (memory that cannot be locked); of the audit log: INTEGRITY (it is damaged), BUSY, DENIED,
 * SYSTEM. Any thread. Source: cuDevicePrimaryCtxRetain.
 *
 * * With an audit file, an operation that cannot be recorded fails. An allocation or a seal is rolled back. A region
 * that was freed stays freed, and vg_vram_free() reports the error. An operation that failed already keeps its own
 * status, and the log callback gets a message. SYSTEM, BUSY and INTEGRITY then are about the log, which the text
 * names. */
VG_PUBLIC enum vg_status vg_vram_open(const struct vg_vram_options *options, struct vg_vram **ret_vram);

/* The regions that closing a context freed. */
struct vg_vram_report {
	size_t regions;	 /* number of regions that were still allocated */
	uint64_t bytes;	 /* bytes of these regions, as requested */
	size_t loans;	 /* number of loans of these regions that were still active */
	size_t failures; /* regions that the driver failed to zero or to free; the log callback gets each error */
};
/* Closes the context: frees all its regions as vg_vram_free() does. Its handles are then STALE, and other calls fail
 * with CLOSED. Regions on loan are freed after the device has done all its work. `ret_report` may be NULL; it is
 * written also if the result is DRIVER, which means that a region failed. A second call finds nothing. INVALID,
 * STATE; SYSTEM: the audit log could not be written to the disk. Any thread. */
VG_PUBLIC enum vg_status vg_vram_close(struct vg_vram *vram, struct vg_vram_report *ret_report);
/* Closes the context if it is not closed yet, logs regions that were left, and drops the caller's reference. Accepts
 * NULL. No other thread may be in a call that names `vram` itself. */
VG_PUBLIC void vg_vram_destroy(struct vg_vram *vram);

/* Memory figures in bytes. Inside a vGPU, `total` and `free` are those of its quota. */
struct vg_vram_capacity {
	uint64_t total; /* bytes of memory of the device */
	uint64_t free;	/* free bytes of the device; may change at any time */
	uint64_t used;	/* bytes that this context uses, rounding included */
	size_t regions; /* number of regions of this context */
};
/* Reads the memory figures of the device and of the context. INVALID, CLOSED, STATE, DRIVER. Any thread. Source:
 * cuMemGetInfo. */
VG_PUBLIC enum vg_status vg_vram_capacity(struct vg_vram *vram, struct vg_vram_capacity *ret_capacity);
/* Returns the device of the context's regions; NULL for NULL. */
VG_PUBLIC struct vg_device *vg_vram_device(const struct vg_vram *vram);

/* ---- regions -------------------------------------------------------------------------------------- */

struct vg_vram_handle {
	uint64_t value; /* names a region; 0: no region */
};

struct vg_vram_allocate_options {
	size_t size; /* sizeof(struct vg_vram_allocate_options) */
	/* Nonzero: the region ends where mapped memory ends, so that a kernel that reads or writes past its last byte
	 * faults. Takes whole granules (2 MiB). The address is aligned only to the powers of two that divide the size.
	 * docs/vram.md describes which errors this detects. */
	int guard;
	/* Nonzero: the region can be offered to other processes, and takes whole granules. Not possible with a
	 * guard. */
	int shareable;
};
/* Allocates `bytes` bytes of zeros in the device's memory. `options` may be NULL. The caller ends the region with
 * vg_vram_free(). INVALID (0 bytes, too many for the address space, guard with shareable), INSUFFICIENT
 * (vg_last_error() has `need` and `have`), CLOSED, UNSUPPORTED, NO_MEMORY, LIMIT, STATE, DRIVER. Any thread.
 * Sources: cuMemAlloc, cuMemCreate, cuMemMap, cuMemsetD8. */
VG_PUBLIC enum vg_status vg_vram_allocate(struct vg_vram *vram, size_t bytes,
					  const struct vg_vram_allocate_options *options,
					  struct vg_vram_handle *ret_handle);
/* Waits for the calls that use the region, zeroes it, and frees it. Of several threads that free one handle exactly one
 * succeeds: a second free always fails with STALE. If the region ever was on loan, waits for all work of the device
 * first, which invalidates captures. STALE, BUSY (on loan), INVALID (no handle), STATE, DRIVER (if zeroing failed, the
 * region stays, and may be freed again; otherwise the handle is stale); of the audit log, after the region was freed:
 * SYSTEM, BUSY, INTEGRITY. Any thread. */
VG_PUBLIC enum vg_status vg_vram_free(struct vg_vram_handle handle);

/* Returns the size in bytes, as requested. STALE, INVALID, STATE. Any thread. */
VG_PUBLIC enum vg_status vg_vram_size(struct vg_vram_handle handle, size_t *ret_bytes);
/* Returns the region's device. STALE, INVALID, STATE. Any thread. */
VG_PUBLIC enum vg_status vg_vram_handle_device(struct vg_vram_handle handle, struct vg_device **ret_device);

/* ---- access --------------------------------------------------------------------------------------- */

/* Copies `bytes` bytes from the program's memory to the region from byte `offset` on, or from the region. 0 bytes
 * are allowed at offsets from 0 to the region's size, also with NULL. BOUNDS, STALE, POLICY (writing to a region
 * that is frozen or was imported for reading), INTEGRITY (quarantined), INVALID (NULL, no handle), BUSY (more than
 * 1023 calls at once), STATE, DRIVER. Any thread. Sources: cuMemcpyHtoD, cuMemcpyDtoH. */
VG_PUBLIC enum vg_status vg_vram_write_at(struct vg_vram_handle handle, size_t offset, const void *from, size_t bytes);
VG_PUBLIC enum vg_status vg_vram_read_at(struct vg_vram_handle handle, size_t offset, void *to, size_t bytes);
/* Copies from one region to another, or within one region, also between devices and contexts; the contents do not
 * pass through the program. INVALID (the ranges overlap, no handle); BOUNDS, STALE, POLICY, INTEGRITY, BUSY, STATE,
 * DRIVER as above, of either handle. Any thread. Sources: cuMemcpyDtoD, cuMemcpyPeer. */
VG_PUBLIC enum vg_status vg_vram_copy(struct vg_vram_handle to, size_t to_offset, struct vg_vram_handle from,
				      size_t from_offset, size_t bytes);
/* Sets `bytes` bytes from `offset` on to `value`, 0 to 255. Errors: see vg_vram_write_at(). Any thread. Source:
 * cuMemsetD8. */
VG_PUBLIC enum vg_status vg_vram_fill(struct vg_vram_handle handle, size_t offset, int value, size_t bytes);

/* ---- loans ---------------------------------------------------------------------------------------- */

enum vg_vram_access { VG_VRAM_READ, VG_VRAM_READ_WRITE };

/* The address of a region, for kernels. Only a loan gives it, and it bypasses the checks: a kernel that runs past the
 * region reaches other memory that is mapped in the process, unless the region was allocated with `guard`. */
struct vg_vram_loan {
	struct vg_vram_handle handle;
	enum vg_vram_access access; /* the access that was requested; the device does not enforce it */
	vg_address address;	    /* valid until the loan ends */
	size_t bytes;
	uint64_t ticket; /* a number that no other loan has */
};
/* Begins a loan. Waits until the writes of earlier calls are in memory; during the loan each write waits for that,
 * too, so that work on any stream sees it. The region cannot be freed before all loans have ended. INVALID (access
 * out of range, no handle), POLICY (READ_WRITE for a region that is frozen or was imported for reading), INTEGRITY,
 * STALE, BUSY (255 loans), NO_MEMORY, STATE, DRIVER. Any thread. */
VG_PUBLIC enum vg_status vg_vram_borrow(struct vg_vram_handle handle, enum vg_vram_access access,
					struct vg_vram_loan *ret_loan);
/* Ends a loan, and sets it to zeros. The caller has ensured that all work with the address is done. INVALID (NULL, or a
 * loan that does not exist or has ended), STALE (the context was closed meanwhile), STATE. Any thread. */
VG_PUBLIC enum vg_status vg_vram_give_back(struct vg_vram_loan *loan);

#ifdef __cplusplus
}
#endif
#endif
