// Tests attestations: how the library makes them from the driver's answers, and how it checks them.
#include "sealed_test.h"

#include "core/core.h"
#include "vram/vram.h"

#define ATTESTATION                                   \
	{                                             \
		.size = sizeof(struct vg_attestation) \
	}

TEST(attest_accepts_every_kind_of_region)
{
	const struct vg_vram_allocate_options *kinds[] = {PLAIN, GUARDED, SHAREABLE};
	struct vg_vram *vram = open_sealing();

	for (int i = 0; i < 3; i++) {
		struct vg_attestation attestation = ATTESTATION;
		struct vg_vram_handle handle;
		struct vg_seal seal;
		OK(vg_vram_allocate(vram, 5000, kinds[i], &handle));
		OK(vg_vram_attest(handle, &attestation));
		CHECK_STR(attestation.device + 4, vg_device_uuid(vg_vram_device(vram)));
		CHECK_INT(attestation.handle, handle.value);
		CHECK_INT(attestation.bytes, 5000);
		CHECK(attestation.mapped >= 5000 && (i == 0 || attestation.mapped % (2 << 20) == 0));
		CHECK_INT(attestation.generation, 0);
		OK(vg_attestation_check(vram, &attestation));
		OK(vg_vram_seal(handle, &layer, &seal));
		OK(vg_vram_attest(handle, &attestation));
		CHECK_INT(attestation.generation, seal.generation);
		OK(vg_attestation_check(vram, &attestation));
		OK(vg_vram_free(handle));
		REFUSED(vg_vram_attest(handle, &attestation), VG_STALE, "names no region");
	}
	close_vram(vram);
}

#define CHANGED(field)                                                                      \
	do {                                                                                \
		struct vg_attestation changed = attestation;                                \
		*(uint8_t *)&changed.field ^= 1;                                            \
		REFUSED(vg_attestation_check(vram, &changed), VG_INTEGRITY, "not genuine"); \
	} while (0)

TEST(check_finds_changed_attestations)
{
	struct vg_vram *vram = open_sealing(), *other;
	struct vg_vram_handle handle = allocate(vram, 1);
	struct vg_attestation attestation;

	OK(vg_vram_attest(handle, &attestation));
	CHANGED(device[0]);
	CHANGED(device[39]);
	CHANGED(device[40]); // the terminator
	CHANGED(handle);
	CHANGED(bytes);
	CHANGED(mapped);
	CHANGED(generation);
	CHANGED(time_ns);
	CHANGED(mac[0]);
	CHANGED(mac[31]);
	OK(vg_attestation_check(vram, &attestation));
	OK(open_with(KEY_DIGITS, "other", NULL, NULL, &other));
	REFUSED(vg_attestation_check(other, &attestation), VG_INTEGRITY, "another vGPU");
	close_vram(other);
	other = open_vram();
	REFUSED(vg_attestation_check(other, &attestation), VG_STATE, "without a secret");
	close_vram(other);
	REFUSED(vg_attestation_check(NULL, &attestation), VG_INVALID, "vram is NULL");
	REFUSED(vg_attestation_check(vram, NULL), VG_INVALID, "attestation is NULL");
	REFUSED(vg_vram_attest(handle, NULL), VG_INVALID, "ret_attestation is NULL");
	attestation.size = 0;
	REFUSED(vg_attestation_check(vram, &attestation), VG_INVALID, "attestation->size is 0");
	OK(vg_vram_free(handle));
	close_vram(vram);
}

// ---- memory of the wrong kind ----------------------------------------------------------------------------

// Sets the region's address to `address`, and checks that an attestation then fails with this text.
static void is_not(struct vg_vram_handle handle, CUdeviceptr address, const char *words)
{
	struct vg_attestation attestation = {.bytes = 77};
	struct vram_region *region;

	OK(vram_look(handle, &region));
	region->address = address;
	enum vg_status status = vg_vram_attest(handle, &attestation);
	region->address = region->base;
	vram_unpin(region, VRAM_READ);
	CHECK_INT(status, VG_INTEGRITY);
	CHECK_CONTAINS(vg_last_error()->text, words);
	CHECK_INT(attestation.bytes, 77);
	// the region was not quarantined, so it can be attested with its right address
	OK(vg_vram_attest(handle, &attestation));
}

TEST(attest_refuses_memory_of_another_kind)
{
	struct vg_vram *vram = open_sealing();
	struct vg_vram_handle handle = allocate(vram, 1000);
	struct vg_context *context = first_context();
	struct CUctx_st *before;
	CUdeviceptr managed, plain;
	void *host;

	DRIVER(cuCtxPushCurrent_v2, (struct CUctx_st *), vg_context_handle(context));
	DRIVER(cuMemAllocManaged, (CUdeviceptr *, size_t, unsigned), &managed, 1 << 20, CU_MEM_ATTACH_GLOBAL);
	DRIVER(cuMemHostAlloc, (void **, size_t, unsigned), &host, 1 << 20, CU_MEMHOSTALLOC_DEVICEMAP);
	DRIVER(cuMemAlloc_v2, (CUdeviceptr *, size_t), &plain, 4 << 20);
	is_not(handle, managed, "managed memory, not the device's own");
	is_not(handle, (CUdeviceptr)(uintptr_t)host, "host memory, not the device's own");
	is_not(handle, (CUdeviceptr)(uintptr_t)&plain,
	       // Some drivers do not know the address of a local variable, and others report it as host memory. Check
	       // only words that are in the messages of both.
	       "the region");
	DRIVER(cuMemFree_v2, (CUdeviceptr), plain);
	is_not(handle, plain, "it is not mapped any more");
	DRIVER(cuMemFree_v2, (CUdeviceptr), managed);
	DRIVER(cuMemFreeHost, (void *), host);
	DRIVER(cuCtxPopCurrent_v2, (struct CUctx_st **), &before);
	vg_context_destroy(context);
	OK(vg_vram_free(handle));
	close_vram(vram);
}

TEST(attest_refuses_a_region_beyond_its_memory)
{
	struct vg_vram *vram = open_sealing();
	struct vg_vram_handle guarded;
	struct vram_region *region;
	struct vg_attestation attestation;

	OK(vg_vram_allocate(vram, 1000, GUARDED, &guarded));
	OK(vram_look(guarded, &region));
	region->size += 1; // the region now seems to include a byte of its guard
	REFUSED(vg_vram_attest(guarded, &attestation), VG_INTEGRITY, "");
	region->size -= 1;
	OK(vg_vram_attest(guarded, &attestation));
	vram_unpin(region, VRAM_READ);
	OK(vg_vram_free(guarded));
	close_vram(vram);
}

// Resets the primary context, so that the driver fails. The error differs from driver to driver. This must be the last
// test, because the process cannot use the context afterwards.
TEST(attest_fails_after_a_device_reset)
{
	struct vg_vram *vram = open_sealing();
	struct vg_vram_handle handle = allocate(vram, 1000);
	struct vg_attestation attestation;
	struct vg_seal seal;

	OK(vg_vram_attest(handle, &attestation));
	OK(vg_vram_seal(handle, &layer, &seal));
	DRIVER(cuDevicePrimaryCtxReset_v2, (int), 0);
	CHECK(vg_vram_attest(handle, &attestation) != VG_OK);
	CHECK(*vg_last_error()->text);
	CHECK(vg_vram_verify(handle, &seal) != VG_OK);
	CHECK(*vg_last_error()->text);
	vg_vram_close(vram, NULL);
	REFUSED(vg_vram_attest(handle, &attestation), VG_STALE, "names no region");
	REFUSED(vg_attestation_check(vram, &attestation), VG_CLOSED, "closed");
	vg_vram_destroy(vram);
}
