/* Seals: what a region of device memory holds, so that any change of it is found.
 *
 * A seal is a record: the root of a keyed hash of the region's contents, which the GPU computes, and a keyed MAC over
 * that, the region's name, size, device and generation, and the time. The contents never come to the host. Keys come
 * from the key file or kernel key that the context was opened with, another for every vGPU: who does not have it makes
 * no seal that passes.
 *
 * A sealed region is frozen: reads go on, and whatever would change it through this library is VG_POLICY until it is
 * unsealed. A kernel that has the region's address can write to it; vg_vram_verify() is what finds that. A region that
 * failed a verification is quarantined: it can be freed, and everything else is VG_INTEGRITY.
 *
 * A seal proves the contents at the time of the check. The layout of the MAC is in docs/seals.md. */
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
#define VG_SEAL_TEXT_MAX 2048 /* with the terminator */

/* A plain record: copy it, keep it, send it. */
struct vg_seal {
	size_t size;			/* sizeof(struct vg_seal) */
	char id[VG_SEAL_ID_MAX + 1];	/* 1 to 256 of A-Z a-z 0-9 - _ */
	char model[VG_SEAL_ID_MAX + 1]; /* likewise, or "": part of no model */
	uint32_t shard, shards;		/* which of how many, from 0; 0 and 0 without a model */
	uint64_t generation; /* of the contents: made of the clock, and higher with every seal of a process */
	char device[41];     /* "GPU-" and 36 characters */
	uint64_t bytes;	     /* of the region */
	uint64_t sealed_ns;  /* since the epoch */
	uint8_t root[32];    /* the contents' keyed hash (BLAKE3) */
	uint8_t mac[32];     /* of all of the above (BLAKE2b) */
};

struct vg_seal_options {
	size_t size;	   /* sizeof(struct vg_seal_options) */
	const char *id;	   /* as in the seal; must be given */
	const char *model; /* NULL: part of no model */
	uint32_t shard, shards;
};
/* Seals what the region holds, once what was queued for it by calls of this library has come. The context must have
 * been opened with a secret. Nothing writes to the region from here on, until vg_vram_unseal(). INVALID (the id, the
 * model, the shard), POLICY (it is sealed already), BUSY (a loan that may write is out), STATE (no secret; a stream
 * that is being captured), INTEGRITY (quarantined), STALE, NO_MEMORY, DRIVER; where it cannot be recorded, the region
 * is not sealed. Any thread. */
VG_PUBLIC enum vg_status vg_vram_seal(struct vg_vram_handle handle, const struct vg_seal_options *options,
				      struct vg_seal *ret_seal);
/* The region may be written again; its seals are worth nothing from here on. STATE (it is not sealed), and as above.
 * Any thread. */
VG_PUBLIC enum vg_status vg_vram_unseal(struct vg_vram_handle handle);
/* Whether the region still holds what the seal says, and the seal is this region's. VG_OK: it did when it was looked
 * at. INTEGRITY: a byte was changed, or the seal was; or it was made with another secret or for another vGPU, or is of
 * another device, size or generation, be it of the same contents: which of these, the text says. The region is
 * quarantined then, and freeing it is all that is left. Nothing was verified: STATE (the region is not sealed, or was
 * unsealed meanwhile; no secret), INVALID (no seal), STALE, NO_MEMORY, DRIVER; SYSTEM, BUSY: it is whole, and that
 * could not be recorded. Several threads may verify one region at once. Any thread. */
VG_PUBLIC enum vg_status vg_vram_verify(struct vg_vram_handle handle, const struct vg_seal *seal);

/* That a region is device memory, and where. A plain record. */
struct vg_attestation {
	size_t size;	     /* sizeof(struct vg_attestation) */
	char device[41];     /* whose memory it is: "GPU-" and 36 characters */
	uint64_t handle;     /* whose region */
	uint64_t bytes;	     /* of the region */
	uint64_t mapped;     /* that the driver has mapped for it, rounding included */
	uint64_t generation; /* of the seal that holds; 0: it is not sealed */
	uint64_t time_ns;    /* since the epoch */
	uint8_t mac[32];     /* of all of the above, with a key of its own */
};
/* Asks the driver, not our books: the region's first and last byte lie in one mapped piece of the device's own memory,
 * neither the host's nor managed nor another device's. INTEGRITY (they do not: the text says what they are), STATE (no
 * secret), STALE, DRIVER; as above where it cannot be recorded. Any thread. Sources: cuPointerGetAttributes,
 * cuMemGetAddressRange, cuMemGetAllocationPropertiesFromHandle. */
VG_PUBLIC enum vg_status vg_vram_attest(struct vg_vram_handle handle, struct vg_attestation *ret_attestation);
/* Whether an attestation was made with this context's secret, for its vGPU and device, and not changed since.
 * INTEGRITY, STATE (no secret), INVALID, CLOSED. Any thread. */
VG_PUBLIC enum vg_status vg_attestation_check(struct vg_vram *vram, const struct vg_attestation *attestation);

/* The seal as one line of JSON, without a newline, terminated; *ret_length, which may be NULL, is without the
 * terminator. The same seal is always the same text. INVALID (a field out of shape), LIMIT (`capacity` is too small;
 * VG_SEAL_TEXT_MAX is enough). Any thread. */
VG_PUBLIC enum vg_status vg_seal_encode(const struct vg_seal *seal, char *text, size_t capacity, size_t *ret_length);
/* A text from anywhere: exactly what vg_seal_encode() makes, a newline behind it allowed. That it is genuine, only
 * vg_vram_verify() says. PROTOCOL (what is wrong, and at which byte), INVALID (NULL). Any thread. */
VG_PUBLIC enum vg_status vg_seal_decode(const char *text, size_t length, struct vg_seal *ret_seal);

/* Whether the seals are all shards of one model, each there once, in any order. INVALID says what is missing, double or
 * of another model. It compares the records alone: verify each. NO_MEMORY. Any thread. */
VG_PUBLIC enum vg_status vg_seal_check_set(const struct vg_seal *seals, size_t count);

/* Makes a key file: 64 random hexadecimal digits and a newline, mode 0600. An existing file is not changed.
 * EXISTS, NOT_FOUND (the directory), DENIED, SYSTEM, INVALID. Any thread. */
VG_PUBLIC enum vg_status vg_seal_key_create(const char *path);

#ifdef __cplusplus
}
#endif
#endif
