#include "share/message.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct problem {
	char *text;
	size_t capacity;
};

__attribute__((format(printf, 2, 3))) static bool refuse_packet(const struct problem *problem, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(problem->text, problem->capacity, format, arguments);
	va_end(arguments);
	return false;
}

bool share_header_check(const struct share_header *header, char *text, size_t capacity)
{
	const struct problem problem = {text, capacity};

	if (header->magic != SHARE_MAGIC)
		return refuse_packet(&problem, "this is no offer of memory: it begins with 0x%08x, not with 0x%08x",
				     header->magic, SHARE_MAGIC);
	if (header->version != SHARE_VERSION)
		return refuse_packet(
			&problem,
			"the offer is written in version %u, and this library knows version %d: use the same "
			"release of Virgate on both sides",
			header->version, SHARE_VERSION);
	if (header->zero != 0)
		return refuse_packet(&problem, "a field of the header that must be 0 is %u", header->zero);
	if (header->total == 0 || header->total > SHARE_RANGES_MAX)
		return refuse_packet(&problem, "the offer has %u ranges: 1 to %d can be", header->total,
				     SHARE_RANGES_MAX);
	if (header->count == 0 || header->count > SHARE_PACKET_RANGES)
		return refuse_packet(&problem, "a packet has %u ranges: 1 to %d can be", header->count,
				     SHARE_PACKET_RANGES);
	if (header->first >= header->total || header->count > header->total - header->first)
		return refuse_packet(&problem, "a packet has ranges %u to %llu of an offer of %u", header->first,
				     (unsigned long long)header->first + header->count - 1, header->total);
	if (header->size < header->count * sizeof(struct share_entry) || header->size > SHARE_BODY_MAX)
		return refuse_packet(&problem, "a packet of %u ranges has %u bytes: %zu to %d can be", header->count,
				     header->size, header->count * sizeof(struct share_entry), (int)SHARE_BODY_MAX);
	return true;
}

static bool check_entry(const struct share_entry *entry, uint32_t number, const struct problem *problem)
{
	uint64_t granularity = entry->granularity;

	if (granularity < 4096 || (granularity & (granularity - 1)))
		return refuse_packet(problem,
				     "range %u: its granularity is %llu: it must be a power of two, from 4096 up",
				     number, (unsigned long long)granularity);
	if (entry->bytes == 0)
		return refuse_packet(problem, "range %u has no bytes", number);
	if (entry->mapped % granularity)
		return refuse_packet(problem,
				     "range %u: %llu bytes are mapped, which is no multiple of the granularity %llu",
				     number, (unsigned long long)entry->mapped, (unsigned long long)granularity);
	if (entry->bytes > entry->mapped || entry->mapped - entry->bytes >= granularity)
		return refuse_packet(problem, "range %u: %llu bytes cannot be what %llu mapped bytes were made for",
				     number, (unsigned long long)entry->bytes, (unsigned long long)entry->mapped);
	if (entry->address % granularity || entry->address > UINT64_MAX - entry->mapped)
		return refuse_packet(problem, "range %u: the exporter cannot have it at 0x%llx", number,
				     (unsigned long long)entry->address);
	if (entry->access > 1)
		return refuse_packet(problem, "range %u: its access is %u: 0 is reading, 1 is reading and writing",
				     number, entry->access);
	if (entry->seal > SHARE_SEAL_MAX)
		return refuse_packet(problem, "range %u: its seal has %u bytes: %d at most", number, entry->seal,
				     SHARE_SEAL_MAX);
	return true;
}

// Checks that the text of a seal is one line of printable ASCII, because programs print and log it.
static bool check_seal(const char *text, uint32_t length, uint32_t number, const struct problem *problem)
{
	for (uint32_t i = 0; i < length; i++)
		if ((unsigned char)text[i] < ' ' || (unsigned char)text[i] > '~')
			return refuse_packet(problem, "range %u: its seal is not one line of plain text", number);
	return true;
}

bool share_body_check(const struct share_header *header, const void *body, char *text, size_t capacity)
{
	const struct problem problem = {text, capacity};
	size_t used = header->count * sizeof(struct share_entry);
	struct share_entry entry;

	for (uint32_t i = 0; i < header->count; i++) {
		memcpy(&entry, (const char *)body + i * sizeof entry, sizeof entry);
		if (!check_entry(&entry, header->first + i, &problem))
			return false;
		if (entry.seal > header->size - used)
			return refuse_packet(&problem, "range %u: its seal ends past the packet", header->first + i);
		if (!check_seal((const char *)body + used, entry.seal, header->first + i, &problem))
			return false;
		used += entry.seal;
	}
	if (used != header->size)
		return refuse_packet(&problem, "a packet has %zu bytes behind its ranges that belong to none",
				     header->size - used);
	return true;
}
