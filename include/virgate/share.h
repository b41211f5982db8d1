/* Device memory in several processes: an offer names ranges of it, crosses a unix socket with a descriptor a range, and
 * is imported on the other side as regions of vram.h. Nothing is copied, and no daemon takes part.
 *
 * The memory lives until the last holder goes: the exporter's region, every descriptor (an offer has one a range, on
 * either side and on the way), every import. Who shares memory agrees by other means on when it may be read and when
 * written; docs/sharing.md shows how. A range that is offered for reading is a wish among processes that keep it: the
 * descriptor lets its holder map it for writing too. */
#ifndef VIRGATE_SHARE_H
#define VIRGATE_SHARE_H

#include <virgate/vram.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- offers --------------------------------------------------------------------------------------- */

struct vg_share_offer; /* ranges, with their descriptors and what is known of them */

/* An offer of no ranges. The caller owns *ret_offer. INVALID, NO_MEMORY. Any thread. */
VG_PUBLIC enum vg_status vg_share_offer_create(struct vg_share_offer **ret_offer);
/* Closes its descriptors. Regions and imports stay as they are. NULL is fine. */
VG_PUBLIC void vg_share_offer_destroy(struct vg_share_offer *offer);

struct vg_share_range_options {
	size_t size;	     /* sizeof(struct vg_share_range_options) */
	int writable;	     /* nonzero: importers are meant to write, too */
	uint64_t generation; /* which of its contents these are, in the program's own count; with a seal: the seal's */
	const char *seal;    /* that goes with the range, as vg_seal_encode() writes it; NULL: none */
};
/* Adds the whole of a region that was allocated `shareable`. `options` may be NULL: for reading. What was written by
 * calls that have returned is there for importers. The offer holds a descriptor of the memory, not the handle: freeing
 * the region zeroes what importers see. An offer is filled by one thread,
 * and not changed once others use it. POLICY (not shareable, or an import: the exporter alone shares), INVALID (a seal
 * that is none or another region's, more than 65536 ranges), STALE, INTEGRITY, STATE, NO_MEMORY, DRIVER. Source:
 * cuMemExportToShareableHandle. */
VG_PUBLIC enum vg_status vg_share_offer_add(struct vg_share_offer *offer, struct vg_vram_handle handle,
					    const struct vg_share_range_options *options);

struct vg_share_range {
	uint64_t bytes;	      /* that the region has */
	uint64_t mapped;      /* that lie behind the descriptor: bytes, rounded up to granularity */
	uint64_t granularity; /* of the device's virtual memory */
	uint64_t generation;
	uint64_t address; /* of the region in the exporter's process */
	char device[41];  /* "GPU-" and the UUID */
	int writable;
	const char *seal; /* the exporter's word, to be verified; valid as long as the offer. NULL: none */
};
/* 0 for NULL. */
VG_PUBLIC size_t vg_share_offer_count(const struct vg_share_offer *offer);
/* What is known of a range, from 0 up; for a received offer: the peer's word. INVALID. Any thread. */
VG_PUBLIC enum vg_status vg_share_offer_range(const struct vg_share_offer *offer, size_t index,
					      struct vg_share_range *ret_range);

/* ---- over a socket -------------------------------------------------------------------------------- */

struct vg_share_socket_options {
	size_t size;	/* sizeof(struct vg_share_socket_options) */
	int timeout_ms; /* for all of the message; 0: 10 seconds; negative: as long as it takes */
	int any_user;	/* nonzero: the peer may be any user's process. Otherwise it must be this user's, or root's */
};
/* One message, of as many packets as it takes, over a connected unix socket (SOCK_STREAM or SOCK_SEQPACKET) that may
 * carry other things before and after it. `options` may be NULL. The offer stays as it is, and may go to others.
 * INVALID (no such socket, an offer of nothing), DENIED (the peer's user), NOT_READY (the peer did not take it),
 * PROTOCOL (it stopped in the middle), SYSTEM (code ECONNRESET: the peer is gone). One thread at a time a socket.
 * Source: unix(7), SCM_RIGHTS. */
VG_PUBLIC enum vg_status vg_share_send(int socket, const struct vg_share_offer *offer,
				       const struct vg_share_socket_options *options);
/* Waits for one. Every field is checked, and every descriptor must be one of memory. `options` may be NULL. The caller
 * owns *ret_offer, and its socket. INVALID, DENIED, NOT_READY (nothing came in time: the same call may succeed later),
 * PROTOCOL (what came is not, or is cut), SYSTEM (code ECONNRESET: the peer is gone; EMFILE: no more descriptors may be
 * open), NO_MEMORY, NO_DRIVER. One thread at a time a socket. */
VG_PUBLIC enum vg_status vg_share_receive(int socket, const struct vg_share_socket_options *options,
					  struct vg_share_offer **ret_offer);

/* ---- imports -------------------------------------------------------------------------------------- */

struct vg_share_import_options {
	size_t size;	     /* sizeof(struct vg_share_import_options) */
	int writable;	     /* nonzero: map it for writing too; the offer must say so */
	uint64_t address;    /* map it there, a multiple of the granularity; 0: anywhere */
	int same_address;    /* nonzero: map it where the exporter has it */
	uint64_t generation; /* refuse any other; 0: take what there is */
	int verify; /* nonzero: refuse contents that are not what the range's seal says; the region is sealed then */
};
/* Maps a range as a region of `vram`: bounds-checked, and STALE once it was freed. vg_vram_free() unmaps it, and leaves
 * the contents alone. `options` may be NULL: for reading, anywhere. The offer may be destroyed after. INVALID (no such
 * range, another device, another generation, both addresses asked for), POLICY (writable is not offered), EXISTS (the
 * address is taken), PROTOCOL (what is behind the descriptor is not what the offer says: its size, or that it is memory
 * at all; a seal that is another range's), CLOSED, LIMIT, NO_MEMORY, INSUFFICIENT (the quota of a vGPU), INTEGRITY
 * (the seal is not genuine, or the contents are not its), STATE (to verify, `vram` must have the secret that the seal
 * was made with), DRIVER. Any thread. Sources: cuMemImportFromShareableHandle, cuMemAddressReserve, cuMemMap,
 * cuMemSetAccess. */
VG_PUBLIC enum vg_status vg_share_import(struct vg_vram *vram, const struct vg_share_offer *offer, size_t index,
					 const struct vg_share_import_options *options,
					 struct vg_vram_handle *ret_handle);

#ifdef __cplusplus
}
#endif
#endif
