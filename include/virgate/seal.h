/* Seals: signed digests of regions of device memory, which detect every change.
 *
 * * A seal is a record with the root of a keyed hash of the region's contents, and a keyed MAC over the root, the
 * region's name, size, device and generation, and the time. The GPU computes the hash; the contents never reach the
 * host. The keys are derived from the key file or kernel key that the context was opened with, and differ for each
 * vGPU. Without that secret no valid seal can be made.
 *
 * * A sealed region is frozen: it can be read, and calls of this library that would change it fail with VG_POLICY until
 * it is unsealed. A kernel that has the region's address can still write to it; vg_vram_verify() detects that. A region
 * that failed a verification is quarantined: it can only be freed, and all other calls fail with VG_INTEGRITY.
 *
 * * A seal proves the contents at the time of the check. The layout of the MAC is in docs/seals.md. */
#ifndef VIRGATE_SEAL_H
#define VIRGATE_SEAL_H

#include <stddef.h>
#include <stdint.h>

#include <virgate/status.h>
#include <virgate/visibility.h>
#include <virgate/vram.h>

#ifdef __cplusplus
extern "C" {
#endif

#define VG_SEAL_ID_MAX 256
#define VG_SEAL_TEXT_MAX 2048 /* maximum size of a seal's text, with the terminator */

/* A plain record without pointers: it may be copied, stored and sent. */
struct vg_seal {
	size_t size;		     /* sizeof(struct vg_seal) */
	char id[VG_SEAL_ID_MAX + 1]; /* id of 1 to 256 characters of A-Z a-z 0-9 - _ */
	/* Name of the model, with the same characters; "": the region belongs to no model. */
	char model[VG_SEAL_ID_MAX + 1];
	/* Number of this shard, from 0, and number of all shards; both are 0 without a model. */
	uint32_t shard, shards;
	/* Generation of the contents: from the clock, and higher with every seal of a process. */
	uint64_t generation;
	char device[41];    /* UUID of the region's device: "GPU-" and 36 characters */
	uint64_t bytes;	    /* size of the region */
	uint64_t sealed_ns; /* time since the epoch */
	uint8_t root[32];   /* keyed hash of the contents (BLAKE3) */
	uint8_t mac[32];    /* MAC over all fields above (BLAKE2b) */
};

struct vg_seal_options {
	size_t size;	   /* sizeof(struct vg_seal_options) */
	const char *id;	   /* the id in the seal; must be given */
	const char *model; /* name of the model; NULL: the region belongs to no model */
	uint32_t shard, shards;
};
/* Seals the region's contents, after writes by earlier calls of this library. The context must have been opened with
 * a secret. Then the region is frozen until vg_vram_unseal(). INVALID (the id, the model, the shard), POLICY (it is
 * sealed already), BUSY (a loan allows writing), STATE (no secret; a stream is being captured), INTEGRITY
 * (quarantined), STALE, NO_MEMORY, DRIVER. If the audit log cannot be written, the region is not sealed, and the
 * error is the log's. Any thread. */
VG_PUBLIC enum vg_status vg_vram_seal(struct vg_vram_handle handle, const struct vg_seal_options *options,
				      struct vg_seal *ret_seal);
/* Unseals the region: it may be written again, and its seals become invalid. STATE (it is not sealed), and as above.
 * Any thread. */
VG_PUBLIC enum vg_status vg_vram_unseal(struct vg_vram_handle handle);
/* Verifies that the seal is of this region, and that the contents have not changed. VG_OK: this was true at the time of
 * the check. INTEGRITY: the contents or the seal were changed, or the seal was made with another secret or for another
 * vGPU, or is of another device, size or generation, even if the contents are equal; the text says which. The region is
 * then quarantined, and can only be freed. If nothing could be verified: STATE (the region is not sealed, or was
 * unsealed meanwhile; no secret), INVALID (no seal), STALE, NO_MEMORY, DRIVER. SYSTEM, BUSY: the contents are
 * unchanged, but the audit log could not be written. Several threads may verify one region at once. Any thread. */
VG_PUBLIC enum vg_status vg_vram_verify(struct vg_vram_handle handle, const struct vg_seal *seal);

/* A signed statement that a region is device memory of a device. A plain record without pointers. */
struct vg_attestation {
	size_t size;	     /* sizeof(struct vg_attestation) */
	char device[41];     /* UUID of the memory's device: "GPU-" and 36 characters */
	uint64_t handle;     /* handle of the region */
	uint64_t bytes;	     /* size of the region */
	uint64_t mapped;     /* bytes that the driver has mapped for the region, rounding included */
	uint64_t generation; /* generation of the valid seal; 0: the region is not sealed */
	uint64_t time_ns;    /* time since the epoch */
	uint8_t mac[32];     /* MAC over all fields above, with a separate key */
};
/* Attests a region from the driver's answers: its first and last byte are in one mapped range of the device's own
 * memory, and not host memory, managed memory or another device's. INTEGRITY (they are not: the text says what they
 * are), STATE (no secret), STALE, DRIVER, and the errors of the audit log. Any thread. Sources: cuPointerGetAttributes,
 * cuMemGetAddressRange, cuMemGetAllocationPropertiesFromHandle. */
VG_PUBLIC enum vg_status vg_vram_attest(struct vg_vram_handle handle, struct vg_attestation *ret_attestation);
/* Checks that an attestation was made with this context's secret, for its vGPU and device, and was not changed since.
 * INTEGRITY, STATE (no secret), INVALID, CLOSED. Any thread. */
VG_PUBLIC enum vg_status vg_attestation_check(struct vg_vram *vram, const struct vg_attestation *attestation);

/* Writes the seal as one line of JSON, without a newline, terminated. *ret_length is without the terminator;
 * `ret_length` may be NULL. Equal seals have equal texts. INVALID (an invalid field), LIMIT (`capacity` is too small;
 * VG_SEAL_TEXT_MAX is enough). Any thread. */
VG_PUBLIC enum vg_status vg_seal_encode(const struct vg_seal *seal, char *text, size_t capacity, size_t *ret_length);
/* Parses a text from any source. It must be exactly as vg_seal_encode() writes it; a newline may follow. Does not check
 * that the seal is genuine: vg_vram_verify() does. PROTOCOL (the text says what is wrong, and at which byte), INVALID
 * (NULL). Any thread. */
VG_PUBLIC enum vg_status vg_seal_decode(const char *text, size_t length, struct vg_seal *ret_seal);

/* Checks that the seals are of all shards of one model, each once, in any order. INVALID: the text says which shard is
 * missing, repeated or of another model. Compares only the records: verify each seal, too. NO_MEMORY. Any thread. */
VG_PUBLIC enum vg_status vg_seal_check_set(const struct vg_seal *seals, size_t count);

/* Makes a key file: 64 random hexadecimal digits and a newline, mode 0600. An existing file is not changed.
 * EXISTS, NOT_FOUND (the directory), DENIED, SYSTEM, INVALID. Any thread. */
VG_PUBLIC enum vg_status vg_seal_key_create(const char *path);

#ifdef __cplusplus
}
#endif
#endif
