// Sends an offer over a socket in packets, and receives an offer.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "core/object.h"
#include "share/channel.h"
#include "share/kind.h"
#include "share/offer.h"
#include "share/step.h"
#include "vram/vram.h"

enum { DEFAULT_TIMEOUT_MS = 10000 };

_Static_assert(SHARE_SEAL_MAX == VG_SEAL_TEXT_MAX - 1, "every seal fits into a packet, and no more");

static enum vg_status open_channel(int socket, const struct vg_share_socket_options *options,
				   struct share_channel *ret_channel)
{
	int timeout_ms = options->timeout_ms ? options->timeout_ms : DEFAULT_TIMEOUT_MS;
	enum vg_status status = share_channel_open(socket, timeout_ms, ret_channel);

	return status || options->any_user ? status : share_channel_check_peer(ret_channel);
}

// ---- sending --------------------------------------------------------------------------------------------

static void pack_ranges(const struct vg_share_offer *offer, size_t first, struct share_packet *packet)
{
	size_t left = offer->count - first, count = left < SHARE_PACKET_RANGES ? left : SHARE_PACKET_RANGES;

	packet->header = (struct share_header){.magic = SHARE_MAGIC,
					       .version = SHARE_VERSION,
					       .count = (uint16_t)count,
					       .first = (uint32_t)first,
					       .total = (uint32_t)offer->count,
					       .size = (uint32_t)(count * sizeof(struct share_entry))};
	for (size_t i = 0; i < count; i++) {
		const struct share_range *range = &offer->ranges[first + i];
		struct share_entry entry = {.bytes = range->bytes,
					    .mapped = range->mapped,
					    .granularity = range->granularity,
					    .generation = range->generation,
					    .address = range->address,
					    .access = range->writable,
					    .seal = range->seal ? (uint32_t)strlen(range->seal) : 0};
		memcpy(entry.uuid, range->uuid, sizeof entry.uuid);
		memcpy(packet->body + i * sizeof entry, &entry, sizeof entry);
		if (range->seal)
			memcpy(packet->body + packet->header.size, range->seal, entry.seal);
		packet->header.size += entry.seal;
		packet->rights.descriptors[i] = range->descriptor;
	}
	packet->rights.count = (unsigned)count;
}

enum vg_status vg_share_send(int socket, const struct vg_share_offer *offer,
			     const struct vg_share_socket_options *options)
{
	VG_ENTRY();
	struct vg_share_socket_options o;
	struct share_channel channel;

	CORE_NEEDED(offer);
	CORE_OPTIONS(o, options);
	if (offer->count == 0)
		return vg_fail(VG_INVALID, 0, "the offer has no ranges: add one with vg_share_offer_add()");
	enum vg_status status = open_channel(socket, &o, &channel);
	if (status)
		return status;
	struct share_packet *packet = malloc(sizeof *packet);
	if (!packet)
		return vg_fail(VG_NO_MEMORY, ENOMEM, "no memory for a packet");
	for (size_t first = 0; first < offer->count && status == VG_OK; first += packet->rights.count) {
		SHARE_STEP("before a packet is sent");
		pack_ranges(offer, first, packet);
		status = share_packet_send(&channel, packet);
	}
	SHARE_STEP("sent");
	free(packet);
	return status;
}

// ---- receiving ------------------------------------------------------------------------------------------

static enum vg_status check_kinds(const struct share_packet *packet)
{
	char what[300];

	for (unsigned i = 0; i < packet->rights.count; i++)
		if (!share_descriptor_is_memory(packet->rights.descriptors[i], what, sizeof what))
			return vg_fail(VG_PROTOCOL, 0, "the descriptor of range %u is %s, not one of device memory",
				       packet->header.first + i, what);
	return VG_OK;
}

// Adds the packet's ranges to the offer. Consumes the descriptors, also on failure.
static enum vg_status unpack_ranges(const struct share_packet *packet, struct vg_share_offer *offer)
{
	const char *seals = packet->body + packet->header.count * sizeof(struct share_entry);
	bool short_of_memory = false;
	struct share_entry entry;

	for (unsigned i = 0; i < packet->header.count; i++, seals += entry.seal) {
		memcpy(&entry, packet->body + i * sizeof entry, sizeof entry);
		struct share_range range = {.bytes = entry.bytes,
					    .mapped = entry.mapped,
					    .granularity = entry.granularity,
					    .generation = entry.generation,
					    .address = entry.address,
					    .writable = entry.access,
					    .seal = entry.seal ? strndup(seals, entry.seal) : NULL,
					    .descriptor = packet->rights.descriptors[i]};
		memcpy(range.uuid, entry.uuid, sizeof range.uuid);
		short_of_memory |= entry.seal && !range.seal;
		short_of_memory |= share_offer_append(offer, &range) < 0;
	}
	return short_of_memory ? vg_fail(VG_NO_MEMORY, ENOMEM, "no memory for an offer") : VG_OK;
}

// Receives the next packet, checks that it follows the previous one, and adds its ranges to the offer.
static enum vg_status receive_next(const struct share_channel *channel, struct share_packet *packet,
				   struct vg_share_offer *offer, uint32_t *total)
{
	enum vg_status status = share_packet_receive(channel, packet);
	const struct share_header *header = &packet->header;

	// After the first packet, a retry cannot succeed: return PROTOCOL.
	if (offer->count && (status == VG_NOT_READY || (status == VG_SYSTEM && vg_last_error()->code == ECONNRESET)))
		return vg_fail(VG_PROTOCOL, vg_last_error()->code, "the other end %s after %zu of %u ranges",
			       status == VG_SYSTEM ? "closed the connection" : "stopped", offer->count, *total);
	if (status)
		return status;
	if (offer->count == 0)
		*total = header->total;
	if (header->first != offer->count || header->total != *total)
		status = vg_fail(VG_PROTOCOL, 0, "a packet has range %u of %u where range %zu of %u comes next",
				 header->first, header->total, offer->count, *total);
	if (status == VG_OK)
		status = check_kinds(packet);
	if (status)
		share_rights_close(&packet->rights);
	return status ? status : unpack_ranges(packet, offer);
}

static enum vg_status receive_all(const struct share_channel *channel, struct vg_share_offer *offer)
{
	enum vg_status status = VG_OK;
	uint32_t total = 1;

	struct share_packet *packet = malloc(sizeof *packet);
	if (!packet)
		return vg_fail(VG_NO_MEMORY, ENOMEM, "no memory for a packet");
	while (status == VG_OK && offer->count < total) {
		status = receive_next(channel, packet, offer, &total);
		SHARE_STEP("a packet received");
	}
	free(packet);
	return status;
}

enum vg_status vg_share_receive(int socket, const struct vg_share_socket_options *options,
				struct vg_share_offer **ret_offer)
{
	VG_ENTRY();
	struct vg_share_socket_options o;
	struct share_channel channel;

	CORE_NEEDED(ret_offer);
	CORE_OPTIONS(o, options);
	enum vg_status status = core_open(); // check_kinds() must know which driver is used
	if (status == VG_OK)
		status = open_channel(socket, &o, &channel);
	if (status)
		return status;
	struct vg_share_offer *offer = calloc(1, sizeof *offer);
	if (!offer)
		return vg_fail(VG_NO_MEMORY, ENOMEM, "no memory for an offer");
	status = receive_all(&channel, offer);
	if (status)
		vg_share_offer_destroy(offer);
	else
		*ret_offer = offer;
	return status;
}
