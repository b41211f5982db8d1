// What is offered, or was received: ranges of device memory with their descriptors. Not changed once it was sent or
// received, so any thread may read it.
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
	char *seal;	// its text; NULL: not sealed
	int descriptor; // ours
};

struct vg_share_offer {
	size_t count, capacity;
	struct share_range *ranges;
};

// Adds a range, whose seal and descriptor become the offer's also where it fails. 0 or -ENOMEM; -E2BIG: it is full.
int share_offer_append(struct vg_share_offer *offer, const struct share_range *range);

// Whether a range's seal is one, and of that range; `otherwise`, in `function`'s name, if not. *ret_seal may be NULL.
enum vg_status share_seal_check(const struct share_range *range, enum vg_status otherwise, struct vg_seal *ret_seal);

enum { SHARE_UUID_TEXT = 41 };
// "GPU-…" of 16 bytes.
const char *share_uuid_text(const uint8_t uuid[16], char ret_text[SHARE_UUID_TEXT]);
