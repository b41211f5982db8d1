// Declares an offer: ranges of device memory with their descriptors. An offer does not change after it was sent or
// received; then any thread may read it.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "virgate/seal.h"
#include "virgate/share.h"

struct share_range {
	uint64_t bytes, mapped, granularity, generation, address;
	uint8_t uuid[16];
	bool writable;
	char *seal;	// text of the seal; NULL: no seal
	int descriptor; // descriptor of the memory, which the offer owns
};

struct vg_share_offer {
	size_t count, capacity;
	struct share_range *ranges;
};

// Adds a range. Consumes the seal and the descriptor, also on failure. -ENOMEM; -E2BIG: the offer is full.
int share_offer_append(struct vg_share_offer *offer, const struct share_range *range);

// Checks that the range has a valid seal that belongs to this range. If not, returns the status `otherwise`. `ret_seal`
// may be NULL.
enum vg_status share_seal_check(const struct share_range *range, enum vg_status otherwise, struct vg_seal *ret_seal);

enum { SHARE_UUID_TEXT = 41 };
// Writes a UUID of 16 bytes as "GPU-…".
const char *share_uuid_text(const uint8_t uuid[16], char ret_text[SHARE_UUID_TEXT]);
