// Checks that a set of seals has every shard of a model exactly once.
#include "vram/seal.h"

#include <stdlib.h>
#include <string.h>

static enum vg_status check_each(const struct vg_seal *seals, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		enum vg_status status = vram_seal_check(&seals[i], "a seal of the set", VG_INVALID);
		if (status)
			return status;
		if (!*seals[i].model)
			return vg_fail(VG_INVALID, 0, "seal %zu of the set, %s, is part of no model", i, seals[i].id);
		if (strcmp(seals[i].model, seals[0].model) != 0)
			return vg_fail(VG_INVALID, 0,
				       "seal %zu of the set, %s, is of model %s, and seal 0 is of model %s", i,
				       seals[i].id, seals[i].model, seals[0].model);
		if (seals[i].shards != seals[0].shards)
			return vg_fail(VG_INVALID, 0,
				       "model %s: seal %zu, %s, is one of %u shards, and seal 0 is one of %u",
				       seals[i].model, i, seals[i].id, seals[i].shards, seals[0].shards);
	}
	return VG_OK;
}

enum vg_status vg_seal_check_set(const struct vg_seal *seals, size_t count)
{
	VG_ENTRY();
	if (!seals || count == 0)
		return vg_fail(VG_INVALID, 0, seals ? "the set has no seal" : "seals is NULL");
	enum vg_status status = check_each(seals, count);
	if (status)
		return status;
	// `where` has, for each shard, 1 + the index of its seal; 0: missing. Shard numbers up to `count` are enough:
	// if no shard occurs twice, an incomplete set misses one of these numbers.
	size_t slots = count + 1, *where = calloc(slots, sizeof *where);
	if (!where)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a set of %zu seals", count);
	for (size_t i = 0; i < count && status == VG_OK; i++) {
		if (seals[i].shard >= slots)
			continue;
		size_t *there = &where[seals[i].shard];
		if (*there)
			status = vg_fail(VG_INVALID, 0, "model %s: shard %u of %u is there twice, as %s and as %s",
					 seals[i].model, seals[i].shard, seals[i].shards, seals[*there - 1].id,
					 seals[i].id);
		*there = i + 1;
	}
	for (uint32_t shard = 0; shard < seals[0].shards && status == VG_OK; shard++)
		if (!where[shard])
			status = vg_fail(VG_INVALID, 0, "model %s: shard %u of %u is missing, and %zu seals are there",
					 seals[0].model, shard, seals[0].shards, count);
	free(where);
	return status;
}
