#include "share/offer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/error.h"
#include "share/message.h"
#include "vram/vram.h"

static void finish_range(struct share_range *range)
{
	free(range->seal);
	close(range->descriptor);
}

int share_offer_append(struct vg_share_offer *offer, const struct share_range *range)
{
	struct share_range copy = *range;
	int r = offer->count == SHARE_RANGES_MAX ? -E2BIG : 0;

	if (r == 0 && offer->count == offer->capacity) {
		size_t capacity = offer->capacity ? 2 * offer->capacity : 4;
		struct share_range *grown = reallocarray(offer->ranges, capacity, sizeof *grown);
		if (grown) {
			offer->ranges = grown;
			offer->capacity = capacity;
		} else {
			r = -ENOMEM;
		}
	}
	if (r < 0)
		finish_range(&copy);
	else
		offer->ranges[offer->count++] = copy;
	return r;
}

enum vg_status vg_share_offer_create(struct vg_share_offer **ret_offer)
{
	VG_ENTRY();
	CORE_NEEDED(ret_offer);
	struct vg_share_offer *offer = calloc(1, sizeof *offer);
	if (!offer)
		return vg_fail(VG_NO_MEMORY, ENOMEM, "no memory for an offer");
	*ret_offer = offer;
	return VG_OK;
}

void vg_share_offer_destroy(struct vg_share_offer *offer)
{
	if (!offer)
		return;
	while (offer->count)
		finish_range(&offer->ranges[--offer->count]);
	free(offer->ranges);
	free(offer);
}

enum vg_status share_seal_check(const struct share_range *range, enum vg_status otherwise, struct vg_seal *ret_seal)
{
	char device[SHARE_UUID_TEXT], why[512];
	struct vg_seal seal;

	if (vg_seal_decode(range->seal, strlen(range->seal), &seal)) {
		snprintf(why, sizeof why, "%s", vg_last_error()->text);
		return vg_fail(otherwise, 0, "the seal is invalid: %s", why);
	}
	if (seal.bytes != range->bytes || strcmp(seal.device, share_uuid_text(range->uuid, device)) != 0)
		return vg_fail(otherwise, 0,
			       "seal %s is of %llu bytes on %s, and the range has %llu on %s: it is another region's",
			       seal.id, (unsigned long long)seal.bytes, seal.device, (unsigned long long)range->bytes,
			       device);
	if (seal.generation != range->generation)
		return vg_fail(otherwise, 0, "seal %s is of generation %llu, and the range of %llu", seal.id,
			       (unsigned long long)seal.generation, (unsigned long long)range->generation);
	if (ret_seal)
		*ret_seal = seal;
	return VG_OK;
}

// Describes a pinned region, and exports its memory as a descriptor.
static enum vg_status describe_region(struct vram_region *region, const struct vg_share_range_options *options,
				      struct share_range *ret_range)
{
	struct share_range range = {.bytes = region->size,
				    .mapped = region->mapped,
				    .address = region->address,
				    .granularity = region->vram->shareable->granularity,
				    .generation = options->generation,
				    .writable = options->writable != 0};
	CORE_SCOPE scope = {false};

	if (region->import.unmap)
		return vg_fail(VG_POLICY, 0, "the region is an import: the process that allocated it shares it");
	if (!region->memory || !region->memory->shareable)
		return vg_fail(
			VG_POLICY, 0,
			"the region was not allocated to be shared: set `shareable` of vg_vram_allocate()'s options");
	CUresult r = core_enter(&scope, region->vram->context->handle);
	if (r)
		return core_driver_failed(r, "cuCtxPushCurrent", "%s", "");
	// Earlier writes must have reached memory before another process gets the region. Later writes see `shared`,
	// and finish before they return.
	atomic_store(&region->shared, true);
	enum vg_status status = vram_wait_for_writes(region);
	if (status == VG_OK)
		status = vg_physical_memory_export(region->memory, &range.descriptor);
	if (status)
		return status;
	memcpy(range.uuid, vg_vram_device(region->vram)->uuid.bytes, sizeof range.uuid);
	*ret_range = range;
	return VG_OK;
}

// Adds the range to the offer, with a copy of the seal. Closes the descriptor on failure.
static enum vg_status append_region(struct vg_share_offer *offer, struct share_range *range, const char *seal)
{
	enum vg_status status = VG_OK;
	struct vg_seal record;

	range->seal = seal ? strdup(seal) : NULL;
	if (seal && !range->seal)
		status = vg_fail(VG_NO_MEMORY, ENOMEM, "no memory for a seal");
	else if (seal && range->generation == 0 && vg_seal_decode(seal, strlen(seal), &record) == VG_OK)
		range->generation = record.generation;
	if (status == VG_OK && seal)
		status = share_seal_check(range, VG_INVALID, NULL);
	if (status) {
		finish_range(range);
		return status;
	}
	int r = share_offer_append(offer, range);
	if (r == -E2BIG)
		return vg_fail(VG_INVALID, 0, "the offer has %d ranges, as many as there can be", SHARE_RANGES_MAX);
	return r ? vg_fail(VG_NO_MEMORY, -r, "no memory for a range") : VG_OK;
}

enum vg_status vg_share_offer_add(struct vg_share_offer *offer, struct vg_vram_handle handle,
				  const struct vg_share_range_options *options)
{
	VG_ENTRY();
	struct vg_share_range_options o;
	struct vram_region *region;
	struct share_range range;

	CORE_NEEDED(offer);
	CORE_OPTIONS(o, options);
	enum vg_status status = vram_pin(handle, VRAM_READ, &region);
	if (status)
		return status;
	status = describe_region(region, &o, &range);
	vram_unpin(region, VRAM_READ);
	return status ? status : append_region(offer, &range, o.seal);
}

size_t vg_share_offer_count(const struct vg_share_offer *offer)
{
	return offer ? offer->count : 0;
}

const char *share_uuid_text(const uint8_t uuid[16], char ret_text[SHARE_UUID_TEXT])
{
	static const int groups[] = {4, 6, 8, 10, 16};
	int length = snprintf(ret_text, SHARE_UUID_TEXT, "GPU");

	for (int group = 0, i = 0; group < 5; group++) {
		ret_text[length++] = '-';
		for (; i < groups[group]; i++)
			length += snprintf(ret_text + length, 3, "%02x", uuid[i]);
	}
	return ret_text;
}

enum vg_status vg_share_offer_range(const struct vg_share_offer *offer, size_t index, struct vg_share_range *ret_range)
{
	VG_ENTRY();
	CORE_NEEDED(offer);
	CORE_NEEDED(ret_range);
	if (index >= offer->count)
		return vg_fail(VG_INVALID, 0, "range %zu: the offer has %zu, from 0 up", index, offer->count);
	const struct share_range *range = &offer->ranges[index];
	struct vg_share_range known = {.bytes = range->bytes,
				       .mapped = range->mapped,
				       .granularity = range->granularity,
				       .generation = range->generation,
				       .address = range->address,
				       .writable = range->writable,
				       .seal = range->seal};
	share_uuid_text(range->uuid, known.device);
	*ret_range = known;
	return VG_OK;
}
