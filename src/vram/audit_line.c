// Writes and parses records as lines of text. docs/seals.md describes the layout: change both together.
#include "vram/audit_file.h"

#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NUMBER "{\"n\":"
#define MAC ",\"mac\":\""
#define END "\"}"
enum { TAIL = sizeof MAC - 1 + 2 * VRAM_MAC + sizeof END - 1 };

static const char *get_event_text(enum vram_event_kind kind)
{
	static const char *const texts[] = {
#define X(name, text, sync) text,
		VRAM_EVENT_LIST(X)
#undef X
	};

	return texts[kind];
}

// Writes a time in the form "2026-01-31T12:00:00.123456789Z".
static void format_time(uint64_t ns, char text[AUDIT_TIME])
{
	time_t seconds = (time_t)(ns / 1000000000);
	struct tm tm;

	gmtime_r(&seconds, &tm);
	size_t length = strftime(text, AUDIT_TIME, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(text + length, AUDIT_TIME - length, ".%09uZ", (unsigned)(ns % 1000000000));
}

// Writes as much of the text as fits, with escapes that make it a valid JSON string for any input.
static void quote_text(const char *text, char *quoted, size_t capacity)
{
	size_t at = 0;

	for (; text && *text && at + 7 < capacity; text++) {
		unsigned char c = (unsigned char)*text;
		if (c == '"' || c == '\\')
			quoted[at++] = '\\';
		if (c < 0x20 || c >= 0x7f)
			at += (size_t)snprintf(quoted + at, 7, "\\u%04x", c < 0x80 ? c : 0xfffd);
		else
			quoted[at++] = (char)c;
	}
	quoted[at] = '\0';
}

static void compute_record_mac(const char *body, size_t length, const struct vram_keys *keys,
			       const struct audit_chain *before, uint8_t ret_mac[VRAM_MAC])
{
	struct vram_mac mac;

	vram_mac_begin(&mac, keys->audit, "virgate audit record 1");
	vram_mac_bytes(&mac, before->mac, sizeof before->mac);
	vram_mac_bytes(&mac, body, length);
	vram_mac_end(&mac, ret_mac);
}

size_t audit_line_make(char line[AUDIT_LINE], const struct vram_event *event, const char *vgpu,
		       const struct vram_keys *keys, struct audit_chain *chain)
{
	char time[AUDIT_TIME], id[512], device[64], text[1536], name[128];

	format_time(vg_clock_realtime_ns(), time);
	quote_text(vgpu, name, sizeof name);
	quote_text(event->id, id, sizeof id);
	quote_text(event->device, device, sizeof device);
	quote_text(event->text, text, sizeof text);
	size_t length = (size_t)snprintf(
		line, AUDIT_LINE,
		NUMBER "%" PRIu64
		       ",\"time\":\"%s\",\"pid\":%d,\"uid\":%u,\"vgpu\":\"%s\",\"event\":\"%s\",\"handle\":\"%" PRIx64
		       "\",\"bytes\":%" PRIu64 ",\"device\":\"%s\",\"id\":\"%s\",\"generation\":%" PRIu64
		       ",\"text\":\"%s\"",
		chain->count + 1, time, (int)getpid(), (unsigned)geteuid(), name, get_event_text(event->kind),
		event->handle, event->bytes, device, id, event->generation, text);
	compute_record_mac(line, length, keys, chain, chain->mac);
	chain->count++;
	length += (size_t)snprintf(line + length, AUDIT_LINE - length, MAC);
	sodium_bin2hex(line + length, 2 * VRAM_MAC + 1, chain->mac, VRAM_MAC);
	length += 2 * VRAM_MAC;
	return length + (size_t)snprintf(line + length, AUDIT_LINE - length, END "\n");
}

// Parses a number without leading zeros. Returns the number of digits; 0 if the text is not a valid number.
static size_t read_number(const char *text, size_t length, uint64_t *ret_number)
{
	uint64_t number = 0;
	size_t digits = 0;

	for (; digits < length && digits < 19 && text[digits] >= '0' && text[digits] <= '9'; digits++)
		number = number * 10 + (uint64_t)(text[digits] - '0');
	*ret_number = number;
	return digits && text[0] != '0' ? digits : 0;
}

static bool read_mac(const char *text, uint8_t ret_mac[VRAM_MAC])
{
	return sodium_hex2bin(ret_mac, VRAM_MAC, text, 2 * VRAM_MAC, NULL, NULL, NULL) == 0;
}

enum audit_line audit_line_check(const char *line, size_t length, const struct vram_keys *keys,
				 struct audit_chain *chain, uint64_t *ret_number, char ret_time[AUDIT_TIME])
{
	static const char time[] = ",\"time\":\"";
	enum { START = sizeof NUMBER - 1, TIME = sizeof time - 1 };
	uint8_t stated[VRAM_MAC], due[VRAM_MAC];
	size_t digits;

	if (length < START + 1 + TIME + AUDIT_TIME - 1 + TAIL || memcmp(line, NUMBER, START) != 0)
		return AUDIT_LINE_GARBAGE;
	const char *tail = line + length - TAIL, *end = line + length - (sizeof END - 1);
	digits = read_number(line + START, length - TAIL - START, ret_number);
	const char *rest = line + START + digits;
	if (digits == 0 || (size_t)(tail - rest) < TIME + AUDIT_TIME - 1 || memcmp(rest, time, TIME) != 0 ||
	    memcmp(tail, MAC, sizeof MAC - 1) != 0 || memcmp(end, END, sizeof END - 1) != 0 ||
	    !read_mac(tail + sizeof MAC - 1, stated))
		return AUDIT_LINE_GARBAGE;
	if (*ret_number != chain->count + 1)
		return *ret_number > chain->count ? AUDIT_LINE_EARLY : AUDIT_LINE_LATE;
	compute_record_mac(line, (size_t)(tail - line), keys, chain, due);
	if (sodium_memcmp(stated, due, sizeof due) != 0)
		return AUDIT_LINE_FALSE;
	chain->count++;
	memcpy(chain->mac, due, sizeof due);
	memcpy(ret_time, rest + TIME, AUDIT_TIME - 1);
	ret_time[AUDIT_TIME - 1] = '\0';
	return AUDIT_LINE_NEXT;
}

// ---- the head --------------------------------------------------------------------------------------------

static void compute_head_mac(const struct audit_head *head, const struct vram_keys *keys, uint8_t ret_mac[VRAM_MAC])
{
	struct vram_mac mac;

	vram_mac_begin(&mac, keys->audit, "virgate audit head 1");
	vram_mac_number(&mac, head->chain.count);
	vram_mac_number(&mac, head->bytes);
	vram_mac_bytes(&mac, head->chain.mac, sizeof head->chain.mac);
	vram_mac_end(&mac, ret_mac);
}

void audit_head_make(char text[AUDIT_HEAD], const struct audit_head *head, const struct vram_keys *keys)
{
	char last[2 * VRAM_MAC + 1], own[2 * VRAM_MAC + 1], made[AUDIT_HEAD];
	uint8_t mac[VRAM_MAC];

	compute_head_mac(head, keys, mac);
	sodium_bin2hex(last, sizeof last, head->chain.mac, VRAM_MAC);
	sodium_bin2hex(own, sizeof own, mac, VRAM_MAC);
	int length = snprintf(made, sizeof made,
			      "{\"count\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"last\":\"%s\",\"mac\":\"%s\"}",
			      head->chain.count, head->bytes, last, own);
	memset(text, ' ', AUDIT_HEAD); // pad with spaces, which JSON allows at the end
	memcpy(text, made, (size_t)length);
	text[AUDIT_HEAD - 1] = '\n';
}

bool audit_head_read(const char *text, size_t length, const struct vram_keys *keys, struct audit_head *ret_head)
{
	struct audit_head head = {0};
	char copy[AUDIT_HEAD + 1] = "", again[AUDIT_HEAD], last[2 * VRAM_MAC + 1];

	if (length != AUDIT_HEAD)
		return false;
	memcpy(copy, text, AUDIT_HEAD);
	if (sscanf(copy, "{\"count\":%" SCNu64 ",\"bytes\":%" SCNu64 ",\"last\":\"%64[0-9a-f]\"", &head.chain.count,
		   &head.bytes, last) != 3 ||
	    strlen(last) != 2 * VRAM_MAC || !read_mac(last, head.chain.mac))
		return false;
	// Accept only the exact text that audit_head_make() writes for the parsed values.
	audit_head_make(again, &head, keys);
	if (sodium_memcmp(again, text, AUDIT_HEAD) != 0)
		return false;
	*ret_head = head;
	return true;
}
