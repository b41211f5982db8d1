// Defines a packet of an offer: a header, an entry for each range, then the texts of the ranges' seals in the same
// order. One descriptor for each range is sent along (SCM_RIGHTS). Numbers are little-endian. Any thread.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	SHARE_MAGIC = 0x31534756, // "VGS1"
	SHARE_VERSION = 1,
	SHARE_PACKET_RANGES = 8,  // maximum number of ranges in a packet; a larger offer has several packets
	SHARE_RANGES_MAX = 65536, // maximum number of ranges in an offer
	SHARE_SEAL_MAX = 2047,	  // maximum size of a seal's text: VG_SEAL_TEXT_MAX without the terminator
};

struct share_header {
	uint32_t magic;
	uint16_t version;
	uint16_t count; // number of ranges in this packet
	uint32_t first; // index of the packet's first range in the offer
	uint32_t total; // number of ranges in the offer
	uint32_t size;	// size of the body in bytes
	uint32_t zero;	// must be 0
};

struct share_entry {
	uint64_t bytes;	 // size that the exporting program asked for
	uint64_t mapped; // size of the exported memory: `bytes`, rounded up to the granularity
	uint64_t granularity;
	uint64_t generation;
	uint64_t address; // address in the exporting process; 0: unknown
	uint8_t uuid[16]; // UUID of the device
	uint32_t access;  // 0: reading, 1: reading and writing
	uint32_t seal;	  // size of the seal's text in bytes; 0: no seal
};

enum { SHARE_BODY_MAX = SHARE_PACKET_RANGES * (sizeof(struct share_entry) + SHARE_SEAL_MAX) };

// Checks a header from a peer. If it is invalid, returns false with the reason in `problem`.
bool share_header_check(const struct share_header *header, char *problem, size_t capacity);
// Checks the body of `header->size` bytes. If it is invalid, returns false with the reason in `problem`. Call after the
// header was checked.
bool share_body_check(const struct share_header *header, const void *body, char *problem, size_t capacity);
