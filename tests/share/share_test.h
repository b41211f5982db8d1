// Helpers of the tests of sharing. A process may import memory that it has exported itself, so most tests of refusals
// use only one process.
#pragma once
#include "../core/core_test.h"

#include <fcntl.h>
#include <sys/socket.h>

#include "share/offer.h"

enum { KIB = 1 << 10, MIB = 1 << 20 };

static struct vg_vram *vram; // this process's context for regions of the first device, which is opened on first use

static inline struct vg_vram *open_vram(void)
{
	if (!vram)
		OK(vg_vram_open(NULL, &vram));
	return vram;
}

static inline struct vg_vram_handle shareable(size_t bytes)
{
	const struct vg_vram_allocate_options options = {.size = sizeof options, .shareable = 1};
	struct vg_vram_handle handle;

	OK(vg_vram_allocate(open_vram(), bytes, &options, &handle));
	return handle;
}

// Makes an offer of `count` regions of `bytes` each. Each region begins with its number in the offer.
static inline struct vg_share_offer *offer_of(size_t count, size_t bytes, int writable,
					      struct vg_vram_handle *ret_handles)
{
	struct vg_share_range_options options = {.size = sizeof options, .writable = writable};
	struct vg_share_offer *offer;

	OK(vg_share_offer_create(&offer));
	for (uint32_t i = 0; i < count; i++) {
		ret_handles[i] = shareable(bytes);
		OK(vg_vram_write_at(ret_handles[i], 0, &i, sizeof i));
		options.generation = 100 + i;
		OK(vg_share_offer_add(offer, ret_handles[i], &options));
	}
	return offer;
}

// Sends the offer over a socket pair, and returns the received offer.
static inline struct vg_share_offer *sent(const struct vg_share_offer *offer, int kind)
{
	struct vg_share_offer *received;
	int ends[2];

	CHECK_INT(socketpair(AF_UNIX, kind | SOCK_CLOEXEC, 0, ends), 0);
	OK(vg_share_send(ends[0], offer, NULL));
	OK(vg_share_receive(ends[1], NULL, &received));
	close(ends[0]);
	close(ends[1]);
	return received;
}
