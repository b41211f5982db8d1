// Sends and receives packets of an offer, and plain bytes, over a connected unix socket until a deadline. Errors:
// INVALID (unsuitable socket), DENIED, NOT_READY (nothing arrived before the deadline), PROTOCOL, SYSTEM (code
// ECONNRESET: the peer closed the connection). One thread at a time for each direction.
#pragma once
#include <stdbool.h>

#include "base/status.h"
#include "share/message.h"

struct share_channel {
	int socket;
	bool stream;	   // true: SOCK_STREAM; false: SOCK_SEQPACKET, which keeps the bounds of packets
	int timeout_ms;	   // negative: no timeout
	uint64_t deadline; // time on the monotonic clock
};

// Opens a channel. All later calls must end within `timeout_ms` from now; negative: no limit. Fails with INVALID if the
// socket is not a unix socket, or is a datagram socket.
enum vg_status share_channel_open(int socket, int timeout_ms, struct share_channel *ret_channel);
// Fails with DENIED unless the peer runs as the same user as this process, or as root.
enum vg_status share_channel_check_peer(const struct share_channel *channel);

// The descriptors that travel with a packet.
struct share_rights {
	int descriptors[SHARE_PACKET_RANGES];
	unsigned count;
	// How many descriptors arrived, including those that were closed because `descriptors` was full.
	unsigned came;
};

void share_rights_close(struct share_rights *rights);

struct share_packet {
	struct share_header header;
	char body[SHARE_BODY_MAX + 1]; // one byte more than allowed, to detect a longer packet
	struct share_rights rights;    // one descriptor for each range
};

// Sends the whole packet. The caller still owns the descriptors.
enum vg_status share_packet_send(const struct share_channel *channel, const struct share_packet *packet);
// Receives a packet and checks it. The packet has one descriptor for each range, which the caller then owns. After a
// failure no descriptor is open.
enum vg_status share_packet_receive(const struct share_channel *channel, struct share_packet *ret_packet);

// Send or receive exactly `size` bytes. Receiving descriptors with these bytes is an error.
enum vg_status share_bytes_send(const struct share_channel *channel, const void *bytes, size_t size);
enum vg_status share_bytes_receive(const struct share_channel *channel, void *ret_bytes, size_t size);
