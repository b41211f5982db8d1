// Keeps the literals of a module. Each value and width has an array, in which all lanes of a warp have the value. The
// key of a literal is in the 64 bytes before its array. A hash table has the offsets of the arrays.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/ptx/decode.h"

enum { CONSTANT_LIMIT = 256 << 20, KEY_BYTES = 64 };

struct key {
	uint64_t low, high, bits;
};

static const struct key *key_of(const struct ptx_module *module, uint32_t offset)
{
	return (const struct key *)(module->constants + offset - KEY_BYTES);
}

static uint32_t *find_slot(const struct ptx_module *module, uint32_t *slots, uint32_t count, const struct key *key)
{
	for (uint32_t at = (uint32_t)((key->low * 0x9E3779B97F4A7C15ull + key->bits) >> 20);; at++) {
		uint32_t *slot = &slots[at & (count - 1)];
		if (!*slot || memcmp(key_of(module, *slot), key, sizeof *key) == 0)
			return slot;
	}
}

static int grow_slots(struct ptx_module *module)
{
	uint32_t count = module->constant_slot_count ? module->constant_slot_count * 2 : 64;

	if (module->constant_count * 2 < module->constant_slot_count)
		return 0;
	uint32_t *slots = calloc(count, sizeof *slots);
	if (!slots)
		return -ENOMEM;
	for (uint32_t i = 0; i < module->constant_slot_count; i++)
		if (module->constant_slots[i])
			*find_slot(module, slots, count, key_of(module, module->constant_slots[i])) =
				module->constant_slots[i];
	free(module->constant_slots);
	module->constant_slots = slots;
	module->constant_slot_count = count;
	return 0;
}

static int grow_constants(struct ptx_module *module, size_t bytes)
{
	size_t capacity = module->constant_capacity ? module->constant_capacity * 2 : 4096;

	if (module->constant_bytes + bytes <= module->constant_capacity)
		return 0;
	if (capacity > CONSTANT_LIMIT)
		return ptx_syntax(module, 0, "too many different literals");
	uint8_t *grown = aligned_alloc(64, capacity);
	if (!grown)
		return -ENOMEM;
	if (module->constant_bytes)
		memcpy(grown, module->constants, module->constant_bytes);
	free(module->constants);
	module->constants = grown;
	module->constant_capacity = capacity;
	return 0;
}

static void fill_lanes(uint8_t *lanes, const struct key *key)
{
	uint32_t predicate = key->low ? UINT32_MAX : 0;

	if (key->bits == 1) {
		memcpy(lanes, &predicate, sizeof predicate);
		return;
	}
	for (unsigned lane = 0; lane < PTX_LANES; lane++)
		memcpy(lanes + lane * (key->bits / 8), key, key->bits / 8); // the key begins with the value
}

ptx_ref ptx_constant(struct ptx_decoder *decoder, uint64_t low, uint64_t high, unsigned bits)
{
	struct ptx_module *module = decoder->module;
	struct key key = {bits < 64 ? low & ((1ull << bits) - 1) : low, bits == 128 ? high : 0, bits};
	size_t bytes = bits == 1 ? 64 : bits * (PTX_LANES / 8);

	if (decoder->error || ptx_fail(decoder, grow_slots(module)))
		return PTX_NO_REF;
	uint32_t *slot = find_slot(module, module->constant_slots, module->constant_slot_count, &key);
	if (*slot)
		return *slot | 1;
	if (ptx_fail(decoder, grow_constants(module, KEY_BYTES + bytes)))
		return PTX_NO_REF;
	uint32_t offset = (uint32_t)module->constant_bytes + KEY_BYTES;
	memcpy(module->constants + offset - KEY_BYTES, &key, sizeof key);
	fill_lanes(module->constants + offset, &key);
	module->constant_bytes = (offset + bytes + 63) & ~63ull;
	module->constant_count++;
	*slot = offset;
	return offset | 1;
}
