// Tests seals as records and as text: the MAC, and hostile input.
#include "seal_test.h"

#include "vram/seal.h"

#include <stdbool.h>

static struct vg_seal example(void)
{
	struct vg_seal seal = {
		.size = sizeof seal,
		.id = "layer-0",
		.model = "llama",
		.shard = 0,
		.shards = 4,
		.generation = 1763753000000000001,
		.device = "GPU-01234567-89ab-cdef-0123-456789abcdef",
		.bytes = 1 << 30,
		.sealed_ns = 1763753000000000002,
	};

	for (int i = 0; i < 32; i++) {
		seal.root[i] = (uint8_t)(i * 7);
		seal.mac[i] = (uint8_t)(255 - i);
	}
	return seal;
}

#define TEXT                                                                                                  \
	"{\"virgate_seal\":1,\"id\":\"layer-0\",\"model\":\"llama\",\"shard\":0,\"shards\":4,\"generation\":" \
	"1763753000000000001,\"device\":\"GPU-01234567-89ab-cdef-0123-456789abcdef\",\"bytes\":1073741824,"   \
	"\"sealed_ns\":1763753000000000002,\"root\":"                                                         \
	"\"00070e151c232a31383f464d545b626970777e858c939aa1a8afb6bdc4cbd2d9\","                               \
	"\"mac\":\"fffefdfcfbfaf9f8f7f6f5f4f3f2f1f0efeeedecebeae9e8e7e6e5e4e3e2e1e0\"}"

static bool same(const struct vg_seal *a, const struct vg_seal *b)
{
	return strcmp(a->id, b->id) == 0 && strcmp(a->model, b->model) == 0 && a->shard == b->shard &&
	       a->shards == b->shards && a->generation == b->generation && strcmp(a->device, b->device) == 0 &&
	       a->bytes == b->bytes && a->sealed_ns == b->sealed_ns && memcmp(a->root, b->root, 32) == 0 &&
	       memcmp(a->mac, b->mac, 32) == 0;
}

// ---- text ------------------------------------------------------------------------------------------------

TEST(decode_returns_the_encoded_seal)
{
	struct vg_seal seal = example(), back;
	char text[VG_SEAL_TEXT_MAX];
	size_t length;

	OK(vg_seal_encode(&seal, text, sizeof text, &length));
	CHECK_STR(text, TEXT);
	CHECK_INT(length, strlen(text));
	OK(vg_seal_decode(text, length, &back));
	CHECK(same(&seal, &back));
	CHECK_INT(back.size, sizeof back);
	OK(vg_seal_decode(TEXT "\n", length + 1, &back));
	OK(vg_seal_encode(&seal, text, length + 1, NULL));
	REFUSED(vg_seal_encode(&seal, text, length, NULL), VG_LIMIT, "with its terminator");
}

TEST(longest_text_fits)
{
	struct vg_seal seal = example(), back;
	char text[VG_SEAL_TEXT_MAX];
	size_t length;

	memset(seal.id, 'a', VG_SEAL_ID_MAX);
	memset(seal.model, 'Z', VG_SEAL_ID_MAX);
	seal.shard = UINT32_MAX - 1;
	seal.shards = UINT32_MAX;
	seal.generation = seal.bytes = seal.sealed_ns = UINT64_MAX;
	OK(vg_seal_encode(&seal, text, sizeof text, &length));
	OK(vg_seal_decode(text, length, &back));
	CHECK(same(&seal, &back));
}

TEST(decode_refuses_every_truncated_text)
{
	struct vg_seal seal = {.bytes = 12345};

	for (size_t length = 0; length < strlen(TEXT); length++) {
		// The block of memory ends with the text, so that a sanitizer finds reads beyond the text's end.
		char *exact = malloc(length + 1);
		memcpy(exact, TEXT, length);
		CHECK_INT(vg_seal_decode(exact, length, &seal), VG_PROTOCOL);
		free(exact);
	}
	CHECK_INT(seal.bytes, 12345);
}

// Changes each byte of a seal's text. The changed text must be invalid, or be the text of another seal, because no seal
// has two texts.
TEST(changed_byte_is_refused_or_another_seal)
{
	char text[] = TEXT, again[VG_SEAL_TEXT_MAX];
	struct vg_seal before = example(), seal;
	int taken = 0;

	for (size_t at = 0; at < sizeof text - 1; at++) {
		for (int byte = 0; byte < 256; byte++) {
			if (byte == (unsigned char)TEXT[at])
				continue;
			text[at] = (char)byte;
			enum vg_status status = vg_seal_decode(text, sizeof text - 1, &seal);
			CHECK(status == VG_OK || status == VG_PROTOCOL);
			if (status == VG_OK) {
				taken++;
				OK(vg_seal_encode(&seal, again, sizeof again, NULL));
				CHECK(memcmp(again, text, sizeof text) == 0);
				CHECK(!same(&before, &seal));
			}
		}
		text[at] = TEXT[at];
	}
	CHECK(taken > 64 * 15);
}

TEST(decode_refuses_invalid_texts)
{
	static const struct {
		const char *text, *part;
	} rows[] = {
		{"", "at byte 0 of 0"},
		{"{}", "at byte 0 of 2 there should be {\"virgate_seal\":1"},
		{"{\"virgate_seal\":2,\"id\":\"a\"", "at byte 0"},
		{TEXT "x", "there should be the end"},
		{TEXT "\n\n", "there should be the end"},
		{"{\"virgate_seal\":1,\"id\":\"a\",\"model\":\"\",\"shard\":00", "a number without leading zeros"},
		{"{\"virgate_seal\":1,\"id\":\"a\",\"model\":\"\",\"shard\":-1", "a number"},
		{"{\"virgate_seal\":1,\"id\":\"a\",\"model\":\"\",\"shard\":4294967296", "a smaller number"},
		{"{\"virgate_seal\":1,\"id\":\"a\",\"model\":\"\",\"shard\":0,\"shards\":0,\"generation\":"
		 "18446744073709551616",
		 "a smaller number"},
	};
	struct vg_seal seal;

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		REFUSED(vg_seal_decode(rows[i].text, strlen(rows[i].text), &seal), VG_PROTOCOL, rows[i].part);
	REFUSED(vg_seal_decode("{\"virgate_seal\":1,\"id\":\"a\0b\",", 30, &seal), VG_PROTOCOL, "a shorter text");
	REFUSED(vg_seal_decode(NULL, 0, &seal), VG_INVALID, "text is NULL");
	REFUSED(vg_seal_decode(TEXT, strlen(TEXT), NULL), VG_INVALID, "ret_seal is NULL");
}

#define FIELD(change, part)                                                                \
	do {                                                                               \
		struct vg_seal seal = example();                                           \
		char text[VG_SEAL_TEXT_MAX] = "as it was";                                 \
		change;                                                                    \
		REFUSED(vg_seal_encode(&seal, text, sizeof text, NULL), VG_INVALID, part); \
		CHECK_STR(text, "as it was");                                              \
	} while (0)

TEST(encode_refuses_invalid_fields)
{
	FIELD(seal.size--, "seal.size is");
	FIELD(seal.size = 0, "seal.size is 0");
	FIELD(*seal.id = '\0', "seal.id must be 1 to 256");
	FIELD(strcpy(seal.id, "a b"), "seal.id");
	FIELD(strcpy(seal.id, "a/b"), "seal.id");
	FIELD(strcpy(seal.id, "\xc3\xa4"), "seal.id");
	FIELD(memset(seal.id, 'a', sizeof seal.id), "seal.id");
	FIELD(memset(seal.model, 'a', sizeof seal.model), "seal.model");
	FIELD(strcpy(seal.model, "\"}"), "seal.model");
	FIELD(seal.shard = 4, "seal is shard 4 of 4: they count from 0");
	FIELD(seal.shards = 0, "they count from 0");
	FIELD(*seal.model = '\0', "of no model");
	FIELD(strcpy(seal.device, "GPU-"), "seal.device");
	FIELD(seal.device[4] = 'G', "seal.device");
	FIELD(seal.device[4] = 'A', "seal.device");
	FIELD(seal.device[40] = 'a', "seal.device");
	FIELD(seal.bytes = 0, "seal.bytes is 0");
	FIELD(seal.generation = 0, "seal.generation is 0");
	struct vg_seal seal = example();
	char text[8];
	REFUSED(vg_seal_encode(NULL, text, sizeof text, NULL), VG_INVALID, "seal is NULL");
	REFUSED(vg_seal_encode(&seal, NULL, 0, NULL), VG_INVALID, "text is NULL");
	REFUSED(vg_seal_encode(&seal, text, sizeof text, NULL), VG_LIMIT, "there are 8");
}

// ---- authentication --------------------------------------------------------------------------------------

static struct vram_keys *keys_of(const char *digits, const char *vgpu)
{
	struct vram_keys *keys;

	OK(vram_keys_open(key_file("key", digits), NULL, vgpu, &keys));
	return keys;
}

// The expected MAC was computed by Python's hashlib.blake2b, with the layout that docs/seals.md gives.
TEST(mac_matches_the_documented_layout)
{
	struct vram_keys *keys = keys_of(KEY_DIGITS, "train");
	struct vg_seal seal = example();
	char text[65];

	vram_seal_compute_mac(&seal, keys, seal.mac);
	CHECK_STR(sodium_bin2hex(text, sizeof text, seal.mac, 32),
		  "c0a9bef0031a013f03540839cec84cf0844ff1b6ebf9478f35f4d349921178a9");
	CHECK(vram_seal_is_genuine(&seal, keys));
	vram_keys_close(keys);
}

static void flip_all(struct vg_seal *seal, const struct vram_keys *keys, void *field, size_t size)
{
	uint8_t *bytes = field;

	for (size_t bit = 0; bit < 8 * size; bit++) {
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		CHECK(!vram_seal_is_genuine(seal, keys));
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
}

TEST(mac_covers_every_bit_of_every_field)
{
	struct vram_keys *keys = keys_of(KEY_DIGITS, "train");
	struct vg_seal seal = example();

	vram_seal_compute_mac(&seal, keys, seal.mac);
	flip_all(&seal, keys, seal.id, strlen(seal.id));
	flip_all(&seal, keys, seal.model, strlen(seal.model));
	flip_all(&seal, keys, &seal.shard, sizeof seal.shard);
	flip_all(&seal, keys, &seal.shards, sizeof seal.shards);
	flip_all(&seal, keys, &seal.generation, sizeof seal.generation);
	flip_all(&seal, keys, seal.device, strlen(seal.device));
	flip_all(&seal, keys, &seal.bytes, sizeof seal.bytes);
	flip_all(&seal, keys, &seal.sealed_ns, sizeof seal.sealed_ns);
	flip_all(&seal, keys, seal.root, sizeof seal.root);
	flip_all(&seal, keys, seal.mac, sizeof seal.mac);
	CHECK(vram_seal_is_genuine(&seal, keys));
	vram_keys_close(keys);
}

// Moves bytes from one field of a seal to the next. The MAC must change, so its input must include the lengths of the
// fields. Otherwise "ab" + "c" and "a" + "bc" would be the same.
TEST(moving_bytes_between_fields_changes_the_mac)
{
	struct vram_keys *keys = keys_of(KEY_DIGITS, "train");
	struct vg_seal one = example(), other = example();

	strcpy(one.id, "ab"), strcpy(one.model, "c");
	strcpy(other.id, "a"), strcpy(other.model, "bc");
	vram_seal_compute_mac(&one, keys, one.mac);
	vram_seal_compute_mac(&other, keys, other.mac);
	CHECK(memcmp(one.mac, other.mac, 32) != 0);
	vram_keys_close(keys);
}

TEST(mac_depends_on_the_key)
{
	struct vram_keys *keys[3] = {keys_of(KEY_DIGITS, "train"), keys_of(KEY_DIGITS, "other"),
				     keys_of(OTHER_DIGITS, "train")};
	struct vg_seal seal = example();

	vram_seal_compute_mac(&seal, keys[0], seal.mac);
	CHECK(vram_seal_is_genuine(&seal, keys[0]));
	CHECK(!vram_seal_is_genuine(&seal, keys[1]));
	CHECK(!vram_seal_is_genuine(&seal, keys[2]));
	for (int i = 0; i < 3; i++)
		vram_keys_close(keys[i]);
}

// ---- sets ------------------------------------------------------------------------------------------------

enum { SHARDS = 4 };

static void make_set(struct vg_seal seals[SHARDS])
{
	for (unsigned i = 0; i < SHARDS; i++) {
		seals[i] = example();
		snprintf(seals[i].id, sizeof seals[i].id, "layer-%u", i);
		seals[i].shard = (i + 2) % SHARDS; // the seals of a model's shards (parts) may have any order
	}
}

TEST(complete_set_is_accepted)
{
	struct vg_seal seals[SHARDS];

	make_set(seals);
	OK(vg_seal_check_set(seals, SHARDS));
	seals[0].shard = 0;
	seals[0].shards = 1;
	OK(vg_seal_check_set(seals, 1));
}

#define SET(count, change, part)                                            \
	do {                                                                \
		struct vg_seal seals[SHARDS + 1];                           \
		make_set(seals);                                            \
		seals[SHARDS] = seals[0];                                   \
		change;                                                     \
		REFUSED(vg_seal_check_set(seals, count), VG_INVALID, part); \
	} while (0)

TEST(incomplete_sets_are_refused)
{
	SET(0, , "no seal");
	SET(SHARDS - 1, , "shard 1 of 4 is missing, and 3 seals are there");
	SET(1, , "shard 0 of 4 is missing, and 1 seals are there");
	SET(SHARDS, seals[1].shard = seals[0].shard, "shard 2 of 4 is there twice, as layer-0 and as layer-1");
	SET(SHARDS + 1, , "is there twice, as layer-0 and as layer-0");
	SET(SHARDS, strcpy(seals[3].model, "llama2"), "seal 3 of the set, layer-3, is of model llama2");
	SET(SHARDS, seals[2].shards = 5, "seal 2, layer-2, is one of 5 shards");
	SET(SHARDS, seals[0].shard = 9, "they count from 0");
	SET(1, (*seals[0].model = '\0', seals[0].shard = seals[0].shards = 0), "part of no model");
	SET(SHARDS, for (int i = 0; i < SHARDS; i++) seals[i].shards = UINT32_MAX, "shard 4 of 4294967295 is missing");
	REFUSED(vg_seal_check_set(NULL, 3), VG_INVALID, "seals is NULL");
}
