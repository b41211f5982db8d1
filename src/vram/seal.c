// Seals regions and verifies the seals. The GPU hashes the contents, and only the 32 bytes of the root reach the host.
#include "vram/seal.h"

#include "base/clock.h"
#include "core/core.h"
#include "core/scope.h"
#include "core/error.h"
#include "vram/hash.h"
#include "vram/trust.h"

#include <string.h>

// Returns a generation that no other seal of this process has, even if the system clock is set back.
static uint64_t make_generation(void)
{
	static _Atomic uint64_t last;
	uint64_t before = atomic_load(&last), next;

	do {
		uint64_t now = vg_clock_realtime_ns();
		next = now > before ? now : before + 1;
	} while (!atomic_compare_exchange_weak(&last, &before, next));
	return next;
}

// Hashes the region. Call with the region pinned. Unless the region is also frozen, writes may change the contents
// meanwhile.
static enum vg_status hash_contents(struct vram_region *region, uint8_t ret_root[VRAM_ROOT_BYTES])
{
	CORE_SCOPE scope = {false};

	CUresult r = core_enter(&scope, region->vram->context->handle);
	if (r)
		return core_driver_failed(r, "cuCtxPushCurrent", "%s", "");
	enum vg_status status = vram_wait_for_writes(region);
	return status ? status
		      : vram_hash(region->vram->hasher, region->vram->thread_stream, region->address, region->size,
				  region->vram->keys->tree, ret_root);
}

// ---- seal ------------------------------------------------------------------------------------------------

static enum vg_status begin_seal(const struct vg_seal_options *options, struct vg_seal *seal)
{
	if (!options->id)
		return vg_fail(VG_INVALID, 0, "id is NULL: a seal has a name");
	const char *const texts[] = {options->id, options->model ? options->model : ""};
	char *const fields[] = {seal->id, seal->model};
	for (int i = 0; i < 2; i++) { // copy one character too many, so that vram_seal_check() rejects longer texts
		memset(fields[i], 0, VG_SEAL_ID_MAX + 1);
		memcpy(fields[i], texts[i], strnlen(texts[i], VG_SEAL_ID_MAX + 1));
	}
	seal->shard = options->shard;
	seal->shards = options->shards;
	return VG_OK;
}

// Makes the seal. Call with the region frozen.
static enum vg_status complete_seal(struct vram_region *region, struct vg_seal *seal)
{
	enum vg_status status = hash_contents(region, seal->root);

	if (status)
		return status;
	seal->sealed_ns = vg_clock_realtime_ns();
	vram_seal_compute_mac(seal, region->vram->keys, seal->mac);
	status = vram_record(region, VRAM_EVENT_SEALED, seal);
	if (status == VG_OK)
		atomic_store(&region->sealed, seal->generation);
	return status;
}

static enum vg_status seal_region(struct vram_region *region, const struct vg_seal_options *options,
				  struct vg_seal *ret_seal)
{
	struct vg_seal seal = {.size = sizeof seal, .bytes = region->size};

	enum vg_status status = vram_check_secret(region->vram);
	if (status)
		return status;
	status = begin_seal(options, &seal);
	if (status)
		return status;
	seal.generation = make_generation();
	memcpy(seal.device, region->vram->device_name, sizeof seal.device);
	status = vram_seal_check(&seal, "the seal", VG_INVALID);
	if (status)
		return status;
	status = vram_freeze(region);
	if (status == VG_POLICY)
		vram_record_failure(region, VRAM_EVENT_POLICY_VIOLATION, &seal);
	if (status)
		return status;
	status = complete_seal(region, &seal);
	if (status)
		vram_unfreeze(region);
	else
		*ret_seal = seal;
	return status;
}

enum vg_status vg_vram_seal(struct vg_vram_handle handle, const struct vg_seal_options *options,
			    struct vg_seal *ret_seal)
{
	VG_ENTRY();
	struct vg_seal_options o;
	struct vram_region *region;

	CORE_NEEDED(options);
	CORE_NEEDED(ret_seal);
	CORE_OPTIONS(o, options);
	enum vg_status status = vram_pin(handle, VRAM_READ, &region);
	if (status)
		return status;
	status = seal_region(region, &o, ret_seal);
	vram_unpin(region, VRAM_READ);
	return status;
}

static enum vg_status unseal_region(struct vram_region *region)
{
	// Clear `sealed` first. From then on verifications fail with STATE, and do not report the writes that follow as
	// damage.
	uint64_t generation = atomic_exchange(&region->sealed, 0);
	struct vg_seal seal = {.generation = generation};

	if (generation == 0)
		return vg_fail(VG_STATE, 0, "the region is not sealed");
	enum vg_status status = vram_record(region, VRAM_EVENT_UNSEALED, &seal);
	if (status)
		atomic_store(&region->sealed, generation);
	else
		vram_unfreeze(region);
	return status;
}

enum vg_status vg_vram_unseal(struct vg_vram_handle handle)
{
	VG_ENTRY();
	struct vram_region *region;

	enum vg_status status = vram_pin(handle, VRAM_READ, &region);
	if (status)
		return status;
	status = unseal_region(region);
	vram_unpin(region, VRAM_READ);
	return status;
}

// ---- verify ----------------------------------------------------------------------------------------------

// Checks everything in the seal but the contents.
static enum vg_status check_record(const struct vram_region *region, const struct vg_seal *seal, uint64_t generation)
{
	if (!vram_seal_is_genuine(seal, region->vram->keys))
		return vg_fail(
			VG_INTEGRITY, 0,
			"the seal is not genuine: it was changed, or made with another secret or for another vGPU");
	if (strcmp(seal->device, region->vram->device_name) != 0)
		return vg_fail(VG_INTEGRITY, 0, "seal %s is of %s, and the region lies on %s", seal->id, seal->device,
			       region->vram->device_name);
	if (seal->bytes != region->size)
		return vg_fail(VG_INTEGRITY, 0, "seal %s is of %llu bytes, and the region has %zu", seal->id,
			       (unsigned long long)seal->bytes, region->size);
	if (seal->generation != generation)
		return vg_fail(VG_INTEGRITY, 0,
			       "seal %s is of generation %llu, and the region of %llu: it is an older seal, or another "
			       "region's",
			       seal->id, (unsigned long long)seal->generation, (unsigned long long)generation);
	return VG_OK;
}

static enum vg_status fail_unsealed(const char *when)
{
	return vg_fail(VG_STATE, 0, "the region %s: there is nothing that it should hold", when);
}

static enum vg_status check_contents(struct vram_region *region, const struct vg_seal *seal)
{
	uint8_t root[VRAM_ROOT_BYTES];

	enum vg_status status = hash_contents(region, root);
	if (status)
		return status;
	bool same = sodium_memcmp(root, seal->root, sizeof root) == 0;
	if (atomic_load(&region->sealed) != seal->generation) // the region may have been written since it was sealed
		return fail_unsealed("was unsealed meanwhile");
	if (same)
		return VG_OK;
	return vg_fail(VG_INTEGRITY, 0, "the region does not hold what was sealed as %s: its contents were changed",
		       seal->id);
}

static enum vg_status verify_region(struct vram_region *region, const struct vg_seal *seal)
{
	enum vg_status status = vram_check_secret(region->vram);

	if (status)
		return status;
	uint64_t generation = atomic_load(&region->sealed);
	if (generation == 0)
		return fail_unsealed("is not sealed");
	status = check_record(region, seal, generation);
	if (status == VG_OK)
		status = check_contents(region, seal);
	if (status == VG_INTEGRITY) {
		vram_quarantine(region);
		vram_record_failure(region, VRAM_EVENT_VERIFICATION_FAILED, seal);
	}
	return status ? status : vram_record(region, VRAM_EVENT_VERIFIED, seal);
}

enum vg_status vg_vram_verify(struct vg_vram_handle handle, const struct vg_seal *seal)
{
	VG_ENTRY();
	struct vram_region *region;

	CORE_NEEDED(seal);
	if (seal->size != sizeof *seal)
		return vg_fail(VG_INVALID, 0, "seal->size is %zu: it must be sizeof(struct vg_seal), %zu", seal->size,
			       sizeof *seal);
	enum vg_status status = vram_pin(handle, VRAM_READ, &region);
	if (status)
		return status;
	status = verify_region(region, seal);
	vram_unpin(region, VRAM_READ);
	return status;
}

// ---- seals of another process ----------------------------------------------------------------------------

static enum vg_status adopt_seal(struct vram_region *region, const struct vg_seal *seal)
{
	enum vg_status status = vram_check_secret(region->vram);

	if (status)
		return status;
	status = check_record(region, seal, seal->generation);
	if (status)
		return status;
	status = vram_freeze(region);
	if (status)
		return status;
	atomic_store(&region->sealed, seal->generation);
	return VG_OK;
}

enum vg_status vram_adopt_seal(struct vg_vram_handle handle, const struct vg_seal *seal)
{
	struct vram_region *region;

	enum vg_status status = vram_pin(handle, VRAM_READ, &region);
	if (status)
		return status;
	status = adopt_seal(region, seal);
	vram_unpin(region, VRAM_READ);
	return status;
}
