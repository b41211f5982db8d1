// Packets of an offer, and bytes, over a connected unix socket by a deadline. Failures set the last error in
// `function`'s name: INVALID (no such socket), DENIED, NOT_READY (the deadline passed before anything came), PROTOCOL,
// SYSTEM (code ECONNRESET: the peer is gone). Any thread, one at a time for each direction.
#pragma once
#include <stdbool.h>

#include "base/status.h"
#include "share/message.h"

struct share_channel {
	int socket;
	bool stream;	   // bytes in a row; else a packet is a packet
	int timeout_ms;	   // negative: none
	uint64_t deadline; // on the monotonic clock
};

// `timeout_ms` from now for all that follows; negative: as long as it takes. INVALID: not a connected unix socket, or
// one for datagrams.
enum vg_status share_channel_open(int socket, int timeout_ms, struct share_channel *ret_channel);
// DENIED unless the peer runs as this process's user or as root.
enum vg_status share_channel_check_peer(const struct share_channel *channel);

// Descriptors beside a packet.
struct share_rights {
	int descriptors[SHARE_PACKET_RANGES];
	unsigned count;
	unsigned came; // received: what there was no room for was closed
};

void share_rights_close(struct share_rights *rights);

struct share_packet {
	struct share_header header;
	char body[SHARE_BODY_MAX + 1]; // one byte more than there can be, to see what is too long
	struct share_rights rights;    // as many as the header has ranges
};

// All of it, or a failure; the descriptors stay the caller's.
enum vg_status share_packet_send(const struct share_channel *channel, const struct share_packet *packet);
// Checked, and with a descriptor a range, which become the caller's. After a failure none is left open.
enum vg_status share_packet_receive(const struct share_channel *channel, struct share_packet *ret_packet);

// Exactly `size` bytes; descriptors that come with them are refused.
enum vg_status share_bytes_send(const struct share_channel *channel, const void *bytes, size_t size);
enum vg_status share_bytes_receive(const struct share_channel *channel, void *ret_bytes, size_t size);
