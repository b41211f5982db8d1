// Lets each driver call of sealing, verifying and attesting fail in turn: after a failed seal the region is not sealed,
// and a failed verification does not quarantine it.
#include "core/core_fault.h"
#include "sealed_test.h"

static struct vg_vram *vram;
static struct vg_vram_handle handle;
static struct vg_seal seal;
// true: the tested call may fail, but must not change the region, which clean() checks
static bool may_fail;

static enum vg_status open_it(void)
{
	return open_with(KEY_DIGITS, "train", NULL, path_of("log"), &vram);
}

static enum vg_status open_and_write(void)
{
	TRY(open_it());
	TRY(vg_vram_allocate(vram, 300000, NULL, &handle));
	return vg_vram_fill(handle, 0, 7, 300000);
}

static enum vg_status open_and_seal(void)
{
	TRY(open_and_write());
	return vg_vram_seal(handle, &layer, &seal);
}

static enum vg_status seal_it(void)
{
	seal.size = 1;
	enum vg_status status = vg_vram_seal(handle, &layer, &seal);
	if (status)
		CHECK_INT(seal.size, 1);
	return status;
}

static enum vg_status verify_it(void)
{
	return vg_vram_verify(handle, &seal);
}

static enum vg_status attest_it(void)
{
	struct vg_attestation attestation;

	return vg_vram_attest(handle, &attestation);
}

static void clean(void)
{
	char byte;

	// The failed call must have left the region unchanged.
	if (may_fail && handle.value) {
		CHECK_INT(vg_vram_read_at(handle, 0, &byte, 1), VG_OK);
		CHECK_INT(byte, 7);
	}
	if (handle.value && vg_vram_free(handle) && vg_vram_free(handle))
		FAIL("not freed: %s", vg_last_error()->text);
	vg_vram_destroy(vram);
}

TEST(open_survives_each_driver_failure)
{
	static const struct fault_subject subject = {NULL, open_it, clean};

	path_of("made here, for all children");
	FAULT_EVERY_CALL(&subject, "cuDevicePrimaryCtxRetain", "cuLibraryLoadData", "cuLibraryGetKernel");
}

TEST(seal_survives_each_driver_failure)
{
	static const struct fault_subject subject = {open_and_write, seal_it, clean};

	path_of("made here, for all children");
	FAULT_EVERY_CALL(&subject, "cuMemAlloc_v2", "cuLaunchKernel", "cuMemcpyDtoHAsync_v2", "cuStreamSynchronize");
}

TEST(verify_survives_each_driver_failure)
{
	static const struct fault_subject subject = {open_and_seal, verify_it, clean};

	path_of("made here, for all children");
	may_fail = true;
	FAULT_EVERY_CALL(&subject, "cuLaunchKernel", "cuMemcpyDtoHAsync_v2");
}

TEST(attest_survives_each_driver_failure)
{
	static const struct fault_subject subject = {open_and_write, attest_it, clean};

	path_of("made here, for all children");
	may_fail = true;
	FAULT_EVERY_CALL(&subject, "cuPointerGetAttributes", "cuMemGetAddressRange_v2");
}
