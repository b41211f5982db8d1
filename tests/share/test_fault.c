// Lets each driver call of an offer and of an import fail in turn.
#include "../core/core_fault.h"

#include <fcntl.h>

#include "virgate/share.h"

static struct vg_vram *vram;
static struct vg_vram_handle handle, imported;
static struct vg_share_offer *offer;

static enum vg_status make_region(void)
{
	const struct vg_vram_allocate_options options = {.size = sizeof options, .shareable = 1};

	TRY(vg_vram_open(NULL, &vram));
	TRY(vg_vram_allocate(vram, 1 << 20, &options, &handle));
	TRY(vg_vram_write_at(handle, 0, "word", 4)); // later, offering the region waits for this write
	return vg_share_offer_create(&offer);
}

static enum vg_status add(void)
{
	int next = dup(0);

	close(next);
	enum vg_status status = vg_share_offer_add(offer, handle, NULL);
	if (status) {
		CHECK_INT(vg_share_offer_count(offer), 0);
		CHECK_INT(dup(0), next); // no descriptor was leaked
		close(next);
	}
	return status;
}

static enum vg_status make_offer(void)
{
	TRY(make_region());
	return vg_share_offer_add(offer, handle, NULL);
}

static enum vg_status import(void)
{
	enum vg_status status = vg_share_import(vram, offer, 0, NULL, &imported);

	if (status)
		CHECK_INT(imported.value, 0);
	return status;
}

static void clean(void)
{
	if (imported.value)
		(void)vg_vram_free(imported);
	vg_share_offer_destroy(offer);
	if (handle.value)
		(void)vg_vram_free(handle);
	vg_vram_destroy(vram);
	imported = handle = (struct vg_vram_handle){0};
	offer = NULL;
	vram = NULL;
}

TEST(offer_survives_each_driver_failure)
{
	const struct fault_subject subject = {make_region, add, clean};

	FAULT_EVERY_CALL(&subject, "cuStreamSynchronize", "cuMemExportToShareableHandle");
}

TEST(import_survives_each_driver_failure)
{
	const struct fault_subject subject = {make_offer, import, clean};

	FAULT_EVERY_CALL(&subject, "cuMemImportFromShareableHandle", "cuMemGetAllocationPropertiesFromHandle",
			 "cuMemAddressReserve", "cuMemMap", "cuMemSetAccess");
}

// In a child, makes an import fail by an injected driver error, and checks the status and the text.
static void import_with(const char *fault, enum vg_status expected, const char *words)
{
	if (!getenv("VIRGATE_SIM"))
		SKIP("faults are injected by the simulated driver");
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		setenv("VIRGATE_SIM_FAULT", fault, 1);
		OK(make_offer());
		REFUSED(import(), expected, words);
		clean();
		exit(0);
	}
	CHECK_CHILD(child);
}

TEST(full_device_differs_from_an_invalid_offer)
{
	import_with("cuMemImportFromShareableHandle=CUDA_ERROR_OUT_OF_MEMORY", VG_INSUFFICIENT,
		    "counts as 2097152 bytes here");
	import_with("cuMemMap:2=CUDA_ERROR_OUT_OF_MEMORY", VG_INSUFFICIENT, "counts as 2097152 bytes here");
	import_with("cuMemImportFromShareableHandle=CUDA_ERROR_INVALID_VALUE", VG_PROTOCOL,
		    "is not one of memory that was exported");
	import_with("cuMemImportFromShareableHandle=CUDA_ERROR_UNKNOWN", VG_PROTOCOL,
		    "is not one of memory that was exported");
	import_with("cuMemMap:2=CUDA_ERROR_NOT_SUPPORTED", VG_PROTOCOL, "has another size than the 2097152 bytes");
	import_with("cuMemMap:2=CUDA_ERROR_INVALID_VALUE", VG_PROTOCOL, "has another size than the 2097152 bytes");
	import_with("cuMemMap:2=CUDA_ERROR_UNKNOWN", VG_DRIVER, "CUDA_ERROR_UNKNOWN");
}

static void free_with_fault(void)
{
	OK(make_offer());
	OK(import());
	CHECK_INT(vg_vram_free(imported), VG_DRIVER);
	CHECK_INT(vg_last_error()->code, CUDA_ERROR_OPERATING_SYSTEM);
	CHECK_INT(vg_vram_free(imported), VG_STALE); // the first call failed, but the handle is stale all the same
	imported.value = 0;
	clean();
	_exit(0); // skips the checks at exit, because the driver still has the mapping
}

TEST(import_is_freed_if_unmapping_fails)
{
	if (!getenv("VIRGATE_SIM"))
		SKIP("faults are injected by the simulated driver");
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		setenv("VIRGATE_SIM_FAULT", "cuMemUnmap:1=CUDA_ERROR_OPERATING_SYSTEM", 1);
		free_with_fault();
	}
	CHECK_CHILD(child);
}
