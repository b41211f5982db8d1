// Writes and parses a seal as a line of text. Each seal has exactly one text, and the parser accepts no other.
#include "vram/seal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// ---- form of the fields ----------------------------------------------------------------------------------

static bool is_letter_or_digit(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool vram_seal_is_id(const char *id, size_t capacity)
{
	size_t length = strnlen(id, capacity);

	if (length == 0 || length > VG_SEAL_ID_MAX || length == capacity)
		return false;
	for (size_t i = 0; i < length; i++)
		if (!is_letter_or_digit(id[i]) && id[i] != '-' && id[i] != '_')
			return false;
	return true;
}

// Returns whether the text is "GPU-" and 8-4-4-4-12 lower case hexadecimal digits.
static bool is_device(const char device[41])
{
	static const char shape[] = "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";

	for (size_t i = 0; i < sizeof shape; i++) {
		bool digit = (device[i] >= '0' && device[i] <= '9') || (device[i] >= 'a' && device[i] <= 'f');
		if (shape[i] == 'x' ? !digit : device[i] != shape[i])
			return false;
	}
	return true;
}

enum vg_status vram_seal_check(const struct vg_seal *seal, const char *what, enum vg_status otherwise)
{
	if (seal->size != sizeof *seal)
		return vg_fail(otherwise, 0, "%s.size is %zu: it must be sizeof(struct vg_seal), %zu", what, seal->size,
			       sizeof *seal);
	if (!vram_seal_is_id(seal->id, sizeof seal->id))
		return vg_fail(otherwise, 0, "%s.id must be 1 to %d of A-Z a-z 0-9 - _", what, VG_SEAL_ID_MAX);
	if (*seal->model && !vram_seal_is_id(seal->model, sizeof seal->model))
		return vg_fail(otherwise, 0, "%s.model must be empty, or 1 to %d of A-Z a-z 0-9 - _", what,
			       VG_SEAL_ID_MAX);
	if (*seal->model ? seal->shard >= seal->shards : seal->shard || seal->shards)
		return vg_fail(otherwise, 0,
			       *seal->model ? "%s is shard %u of %u: they count from 0"
					    : "%s is shard %u of %u, and of no model",
			       what, seal->shard, seal->shards);
	if (!is_device(seal->device))
		return vg_fail(otherwise, 0, "%s.device is not the UUID of a GPU", what);
	if (seal->bytes == 0 || seal->generation == 0)
		return vg_fail(otherwise, 0, "%s.%s is 0", what, seal->bytes ? "generation" : "bytes");
	return VG_OK;
}

// ---- writing ---------------------------------------------------------------------------------------------

enum vg_status vg_seal_encode(const struct vg_seal *seal, char *text, size_t capacity, size_t *ret_length)
{
	VG_ENTRY();
	char root[2 * sizeof seal->root + 1], mac[2 * sizeof seal->mac + 1];

	if (!seal || !text)
		return vg_fail(VG_INVALID, 0, seal ? "text is NULL" : "seal is NULL");
	enum vg_status status = vram_seal_check(seal, "seal", VG_INVALID);
	if (status)
		return status;
	sodium_bin2hex(root, sizeof root, seal->root, sizeof seal->root);
	sodium_bin2hex(mac, sizeof mac, seal->mac, sizeof seal->mac);
	char made[VG_SEAL_TEXT_MAX];
	int length = snprintf(made, sizeof made,
			      "{\"virgate_seal\":1,\"id\":\"%s\",\"model\":\"%s\",\"shard\":%" PRIu32
			      ",\"shards\":%" PRIu32 ",\"generation\":%" PRIu64 ",\"device\":\"%s\",\"bytes\":%" PRIu64
			      ",\"sealed_ns\":%" PRIu64 ",\"root\":\"%s\",\"mac\":\"%s\"}",
			      seal->id, seal->model, seal->shard, seal->shards, seal->generation, seal->device,
			      seal->bytes, seal->sealed_ns, root, mac);
	if (capacity <= (size_t)length)
		return vg_fail(VG_LIMIT, 0, "the text takes %d bytes with its terminator, and there are %zu",
			       length + 1, capacity);
	memcpy(text, made, (size_t)length + 1);
	if (ret_length)
		*ret_length = (size_t)length;
	return VG_OK;
}

// ---- parsing ---------------------------------------------------------------------------------------------

struct reader {
	const char *text;
	size_t length, at;
	const char *wanted; // what the parser expected at `at`; NULL: no error so far
};

static bool refuse_text(struct reader *reader, const char *wanted)
{
	if (!reader->wanted)
		reader->wanted = wanted;
	return false;
}

static bool read_literal(struct reader *reader, const char *literal)
{
	size_t length = strlen(literal);

	if (reader->wanted || reader->length - reader->at < length ||
	    memcmp(reader->text + reader->at, literal, length) != 0)
		return refuse_text(reader, literal);
	reader->at += length;
	return true;
}

static void read_text(struct reader *reader, const char *before, char *ret_text, size_t capacity)
{
	size_t length = 0;

	if (!read_literal(reader, before))
		return;
	while (length < capacity && reader->at + length < reader->length && reader->text[reader->at + length] != '"')
		length++;
	if (length == capacity || memchr(reader->text + reader->at, '\0', length)) {
		refuse_text(reader, "a shorter text");
		return;
	}
	memcpy(ret_text, reader->text + reader->at, length);
	ret_text[length] = '\0';
	reader->at += length;
	read_literal(reader, "\"");
}

static void read_number(struct reader *reader, const char *before, uint64_t most, uint64_t *ret_number)
{
	uint64_t number = 0;
	size_t digits = 0;

	if (!read_literal(reader, before))
		return;
	for (; reader->at + digits < reader->length; digits++) {
		unsigned digit = (unsigned char)reader->text[reader->at + digits] - '0';
		if (digit > 9)
			break;
		if (digits == 1 && number == 0) { // reject leading zeros: 007 would be a second text for 7
			refuse_text(reader, "a number without leading zeros");
			return;
		}
		if (number > most / 10 || number * 10 > most - digit) {
			refuse_text(reader, "a smaller number");
			return;
		}
		number = number * 10 + digit;
	}
	if (digits == 0) {
		refuse_text(reader, "a number");
		return;
	}
	reader->at += digits;
	*ret_number = number;
}

static void read_hash(struct reader *reader, const char *before, uint8_t ret_hash[32])
{
	char text[65] = "", again[65];

	read_text(reader, before, text, sizeof text);
	if (reader->wanted)
		return;
	if (strlen(text) != 64 || sodium_hex2bin(ret_hash, 32, text, 64, NULL, NULL, NULL) ||
	    strcmp(sodium_bin2hex(again, sizeof again, ret_hash, 32), text) != 0)
		refuse_text(reader, "64 hexadecimal digits in lower case");
}

enum vg_status vg_seal_decode(const char *text, size_t length, struct vg_seal *ret_seal)
{
	VG_ENTRY();
	struct reader reader = {text, length, 0, NULL};
	struct vg_seal seal = {.size = sizeof seal};
	uint64_t shard = 0, shards = 0;

	if (!text || !ret_seal)
		return vg_fail(VG_INVALID, 0, text ? "ret_seal is NULL" : "text is NULL");
	read_text(&reader, "{\"virgate_seal\":1,\"id\":\"", seal.id, sizeof seal.id);
	read_text(&reader, ",\"model\":\"", seal.model, sizeof seal.model);
	read_number(&reader, ",\"shard\":", UINT32_MAX, &shard);
	read_number(&reader, ",\"shards\":", UINT32_MAX, &shards);
	read_number(&reader, ",\"generation\":", UINT64_MAX, &seal.generation);
	read_text(&reader, ",\"device\":\"", seal.device, sizeof seal.device);
	read_number(&reader, ",\"bytes\":", UINT64_MAX, &seal.bytes);
	read_number(&reader, ",\"sealed_ns\":", UINT64_MAX, &seal.sealed_ns);
	read_hash(&reader, ",\"root\":\"", seal.root);
	read_hash(&reader, ",\"mac\":\"", seal.mac);
	read_literal(&reader, "}");
	if (!reader.wanted && reader.at + 1 == length && text[reader.at] == '\n')
		reader.at++;
	if (!reader.wanted && reader.at != length)
		refuse_text(&reader, "the end");
	if (reader.wanted)
		return vg_fail(VG_PROTOCOL, 0, "not a seal: at byte %zu of %zu there should be %s", reader.at, length,
			       reader.wanted);
	seal.shard = (uint32_t)shard;
	seal.shards = (uint32_t)shards;
	enum vg_status status = vram_seal_check(&seal, "the text's seal", VG_PROTOCOL);
	if (status == VG_OK)
		*ret_seal = seal;
	return status;
}
