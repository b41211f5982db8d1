// What one packet of an offer holds: a header, an entry for each of its ranges, and behind the entries the texts of
// their seals in the same order. The descriptors travel beside it, one a range. All numbers are little-endian, as the
// processes of one machine have them. Any thread.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	SHARE_MAGIC = 0x31534756, // "VGS1"
	SHARE_VERSION = 1,
	SHARE_PACKET_RANGES = 8,  // in one packet; an offer of more takes more packets
	SHARE_RANGES_MAX = 65536, // of one offer
	SHARE_SEAL_MAX = 2047,	  // of a seal's text: VG_SEAL_TEXT_MAX without its end
};

struct share_header {
	uint32_t magic;
	uint16_t version;
	uint16_t count; // ranges in this packet
	uint32_t first; // the number of its first range in the offer
	uint32_t total; // ranges of the offer
	uint32_t size;	// of what follows
	uint32_t zero;
};

struct share_entry {
	uint64_t bytes;	 // that the exporter's program asked for
	uint64_t mapped; // that lie behind the descriptor: bytes, rounded up to the granularity
	uint64_t granularity;
	uint64_t generation;
	uint64_t address; // where the exporter has it; 0: it does not say
	uint8_t uuid[16]; // of the device
	uint32_t access;  // 0: reading, 1: reading and writing
	uint32_t seal;	  // bytes of the seal's text; 0: not sealed
};

enum { SHARE_BODY_MAX = SHARE_PACKET_RANGES * (sizeof(struct share_entry) + SHARE_SEAL_MAX) };

// Whether the peer's header can be one, with a sentence for people in `problem` if not.
bool share_header_check(const struct share_header *header, char *problem, size_t capacity);
// The same for the body of a header that was found good, which has `header->size` bytes.
bool share_body_check(const struct share_header *header, const void *body, char *problem, size_t capacity);
