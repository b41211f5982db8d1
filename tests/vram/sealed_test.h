// Helpers of the tests of sealed regions: contexts with a secret, sealed regions, and writes that bypass the library.
#pragma once
#include "region_test.h"
#include "seal_test.h"

#define PLAIN NULL

static inline enum vg_status open_with(const char *digits, const char *vgpu, struct vg_device *device,
				       const char *audit, struct vg_vram **ret_vram)
{
	struct vg_vram_options options = {.size = sizeof options,
					  .device = device,
					  .key_file = digits ? key_file("secret", digits) : NULL,
					  .vgpu = vgpu,
					  .audit_file = audit};

	return vg_vram_open(&options, ret_vram);
}

static inline struct vg_vram *open_sealing(void)
{
	struct vg_vram *vram = NULL;

	OK(open_with(KEY_DIGITS, "train", NULL, NULL, &vram));
	return vram;
}

static const struct vg_seal_options layer = {.size = sizeof layer, .id = "layer-0"};

// Allocates a region, fills it with words that all differ, and seals it.
static inline struct vg_vram_handle allocate_sealed(struct vg_vram *vram, size_t bytes,
						    const struct vg_vram_allocate_options *kind,
						    struct vg_seal *ret_seal)
{
	struct vg_vram_handle handle = {0};
	unsigned char *data = malloc(bytes);

	for (size_t i = 0; i < bytes; i++)
		data[i] = (unsigned char)(i * 31 + (i >> 8) * 7 + (i >> 16));
	OK(vg_vram_allocate(vram, bytes, kind, &handle));
	OK(vg_vram_write_at(handle, 0, data, bytes));
	free(data);
	OK(vg_vram_seal(handle, &layer, ret_seal));
	return handle;
}

// Changes a byte of the region behind the library's back: the driver writes to the address of a loan that permits only
// reads.
static inline void write_unseen(struct vg_vram_handle handle, size_t offset, int byte)
{
	struct vg_context *context = first_context();
	struct CUctx_st *before;
	struct vg_vram_loan loan;

	OK(vg_vram_borrow(handle, VG_VRAM_READ, &loan));
	DRIVER(cuCtxPushCurrent_v2, (struct CUctx_st *), vg_context_handle(context));
	DRIVER(cuMemsetD8_v2, (vg_address, unsigned char, size_t), loan.address + offset, (unsigned char)byte, 1);
	DRIVER(cuCtxSynchronize, (void));
	DRIVER(cuCtxPopCurrent_v2, (struct CUctx_st **), &before);
	OK(vg_vram_give_back(&loan));
	vg_context_destroy(context);
}

// Checks that the region is quarantined: every call but freeing it is refused.
static inline void check_quarantined(struct vg_vram *vram, struct vg_vram_handle handle, const struct vg_seal *seal)
{
	struct vg_vram_handle other = allocate(vram, 1);
	struct vg_attestation attestation;
	struct vg_vram_loan loan;
	struct vg_seal again;
	size_t bytes;
	char byte = 0;

	REFUSED(vg_vram_read_at(handle, 0, &byte, 1), VG_INTEGRITY, "quarantined");
	REFUSED(vg_vram_write_at(handle, 0, &byte, 1), VG_INTEGRITY, "quarantined");
	REFUSED(vg_vram_fill(handle, 0, 0, 1), VG_INTEGRITY, "quarantined");
	REFUSED(vg_vram_copy(other, 0, handle, 0, 1), VG_INTEGRITY, "quarantined");
	REFUSED(vg_vram_copy(handle, 0, other, 0, 1), VG_INTEGRITY, "quarantined");
	REFUSED(vg_vram_borrow(handle, VG_VRAM_READ, &loan), VG_INTEGRITY, "quarantined");
	REFUSED(vg_vram_borrow(handle, VG_VRAM_READ_WRITE, &loan), VG_INTEGRITY, "quarantined");
	REFUSED(vg_vram_seal(handle, &layer, &again), VG_INTEGRITY, "quarantined");
	REFUSED(vg_vram_unseal(handle), VG_INTEGRITY, "quarantined");
	REFUSED(vg_vram_verify(handle, seal), VG_INTEGRITY, "quarantined");
	REFUSED(vg_vram_attest(handle, &attestation), VG_INTEGRITY, "quarantined");
	OK(vg_vram_size(handle, &bytes));
	OK(vg_vram_free(handle));
	REFUSED(vg_vram_verify(handle, seal), VG_STALE, "names no region");
	OK(vg_vram_free(other));
}
