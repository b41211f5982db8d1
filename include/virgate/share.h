/* Device memory in several processes: an offer has ranges of it, is sent over a unix socket with a descriptor for each
 * range, and is imported by the receiver as regions (vram.h). Nothing is copied, and no daemon is involved.
 *
 * * The memory is freed when the last reference is gone: the exporter's region, each descriptor in an offer or on
 * its way, and each import. The processes must coordinate reads and writes themselves; docs/sharing.md shows how. An
 * offer for reading binds only processes that use these functions: a descriptor can also be mapped for writing. */
#ifndef VIRGATE_SHARE_H
#define VIRGATE_SHARE_H

#include <virgate/vram.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- offers --------------------------------------------------------------------------------------- */

struct vg_share_offer; /* ranges, with their descriptors and descriptions */

/* Creates an empty offer. The caller owns *ret_offer. INVALID, NO_MEMORY. Any thread. */
VG_PUBLIC enum vg_status vg_share_offer_create(struct vg_share_offer **ret_offer);
/* Closes the offer's descriptors, and frees the offer. Regions and imports do not change. Accepts NULL. */
VG_PUBLIC void vg_share_offer_destroy(struct vg_share_offer *offer);

struct vg_share_range_options {
	size_t size;  /* sizeof(struct vg_share_range_options) */
	int writable; /* nonzero: importers may write, too */
	/* Generation of the contents, as the program counts them; 0 with a seal: the seal's generation. */
	uint64_t generation;
	const char *seal; /* seal of the range, as vg_seal_encode() writes it; NULL: no seal */
};
/* Adds the whole of a region that was allocated `shareable`. `options` may be NULL: for reading. Importers see the
 * writes of calls that have returned. The offer has a descriptor of the memory, and no reference to the region:
 * freeing the region zeroes the memory for importers, too. One thread fills an offer, and it does not change once
 * others use it. POLICY (not shareable, or an import: only the exporter can offer it), INVALID (a seal that is
 * invalid or of another region, more than 65536 ranges), STALE, INTEGRITY, STATE, NO_MEMORY, DRIVER. Source:
 * cuMemExportToShareableHandle. */
VG_PUBLIC enum vg_status vg_share_offer_add(struct vg_share_offer *offer, struct vg_vram_handle handle,
					    const struct vg_share_range_options *options);

struct vg_share_range {
	uint64_t bytes;	      /* size of the region */
	uint64_t mapped;      /* size of the descriptor's memory: `bytes`, rounded up to `granularity` */
	uint64_t granularity; /* granularity of the device's virtual memory */
	uint64_t generation;
	uint64_t address; /* address of the region in the exporter's process */
	char device[41];  /* UUID of the device, with "GPU-" before it */
	int writable;
	const char *seal; /* the exporter's seal, not verified; valid as long as the offer. NULL: none */
};
/* Returns the number of ranges; 0 for NULL. */
VG_PUBLIC size_t vg_share_offer_count(const struct vg_share_offer *offer);
/* Describes a range, counted from 0; for a received offer, with the peer's unverified values. INVALID. Any thread. */
VG_PUBLIC enum vg_status vg_share_offer_range(const struct vg_share_offer *offer, size_t index,
					      struct vg_share_range *ret_range);

/* ---- over a socket -------------------------------------------------------------------------------- */

struct vg_share_socket_options {
	size_t size;	/* sizeof(struct vg_share_socket_options) */
	int timeout_ms; /* timeout for the whole message; 0: 10 seconds; negative: no limit */
	int any_user;	/* nonzero: the peer may run as any user; 0: only as this user or root */
};
/* Sends the offer in packets over a connected unix socket (SOCK_STREAM or SOCK_SEQPACKET), which may carry other data
 * before and after it. `options` may be NULL. The offer does not change, and may be sent again. INVALID (an unsuitable
 * socket, no ranges), DENIED (the peer's user), NOT_READY (the peer did not receive in time), PROTOCOL (it stopped
 * during the message), SYSTEM (code ECONNRESET: the peer closed the connection). One thread at a time for each socket.
 * Source: unix(7), SCM_RIGHTS. */
VG_PUBLIC enum vg_status vg_share_send(int socket, const struct vg_share_offer *offer,
				       const struct vg_share_socket_options *options);
/* Waits for an offer. Checks every field, and that every descriptor is one of memory. `options` may be NULL. The caller
 * owns *ret_offer, and keeps the socket. INVALID, DENIED, NOT_READY (nothing arrived in time: a retry may succeed),
 * PROTOCOL (the message is no offer, or is truncated), SYSTEM (code ECONNRESET: the peer closed the connection; EMFILE:
 * too many open descriptors), NO_MEMORY, NO_DRIVER. One thread at a time for each socket. */
VG_PUBLIC enum vg_status vg_share_receive(int socket, const struct vg_share_socket_options *options,
					  struct vg_share_offer **ret_offer);

/* ---- imports -------------------------------------------------------------------------------------- */

struct vg_share_import_options {
	size_t size;	     /* sizeof(struct vg_share_import_options) */
	int writable;	     /* nonzero: map the range for writing, too; the offer must allow that */
	uint64_t address;    /* address for the mapping, a multiple of the granularity; 0: any address */
	int same_address;    /* nonzero: map the range at the exporter's address */
	uint64_t generation; /* refuse other generations; 0: accept any */
	int verify; /* nonzero: refuse contents that do not match the range's seal; then the region is sealed */
};
/* Maps a range as a region of `vram`: bounds-checked, and STALE after it was freed. vg_vram_free() unmaps it without
 * zeroing. `options` may be NULL: for reading, at any address. The offer may be destroyed afterwards. INVALID (no such
 * range, another device or generation, `address` with `same_address`), POLICY (it is not offered for writing), EXISTS
 * (the address is in use), PROTOCOL (the descriptor's memory does not match the offer, or it is no memory; the seal is
 * of another range), CLOSED, LIMIT, NO_MEMORY, INSUFFICIENT (the quota of a vGPU), INTEGRITY (the seal is not genuine,
 * or the contents do not match it), STATE (to verify, `vram` needs the secret that the seal was made with), DRIVER. Any
 * thread. Sources: cuMemImportFromShareableHandle, cuMemAddressReserve, cuMemMap, cuMemSetAccess. */
VG_PUBLIC enum vg_status vg_share_import(struct vg_vram *vram, const struct vg_share_offer *offer, size_t index,
					 const struct vg_share_import_options *options,
					 struct vg_vram_handle *ret_handle);

#ifdef __cplusplus
}
#endif
#endif
