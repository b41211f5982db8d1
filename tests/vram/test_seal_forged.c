// Tests wrong seals: seals that were changed, older ones, and seals of other regions. Each one must be refused, and the
// region must be quarantined.
#include "sealed_test.h"

enum { BYTES = 100 };

// Checks that verifying a wrong seal fails with this text.
static void is_refused(struct vg_vram *vram, struct vg_vram_handle handle, const struct vg_seal *seal,
		       const char *words)
{
	REFUSED(vg_vram_verify(handle, seal), VG_INTEGRITY, words);
	check_quarantined(vram, handle, seal);
}

// ---- changed ---------------------------------------------------------------------------------------------

static void change_one_bit(struct vg_vram *vram, size_t offset, size_t size)
{
	for (size_t at = offset; at<offset + size; at += size> 8 ? size / 5 : 1) {
		struct vg_seal seal;
		struct vg_vram_handle handle = allocate_sealed(vram, BYTES, PLAIN, &seal);
		((uint8_t *)&seal)[at] ^= (uint8_t)(1 << at % 8);
		is_refused(vram, handle, &seal, "the seal is not genuine");
	}
}
#define FIELD(name, bytes) change_one_bit(vram, offsetof(struct vg_seal, name), bytes)

TEST(every_field_is_authenticated)
{
	struct vg_vram *vram = open_sealing();

	FIELD(id, strlen("layer-0"));
	FIELD(id[7], 1); // byte 7 ends the name, so this change makes the name longer
	FIELD(model, 1);
	FIELD(shard, sizeof(uint32_t));
	FIELD(shards, sizeof(uint32_t));
	FIELD(generation, sizeof(uint64_t));
	FIELD(device, 40);
	FIELD(bytes, sizeof(uint64_t));
	FIELD(sealed_ns, sizeof(uint64_t));
	FIELD(root, 32);
	FIELD(mac, 32);
	close_vram(vram);
}

TEST(verify_refuses_invalid_records)
{
	struct vg_vram *vram = open_sealing();
	struct vg_seal seal, zeros = {.size = sizeof zeros}, ones;

	memset(&ones, 0xff, sizeof ones); // texts without terminators
	ones.size = sizeof ones;
	is_refused(vram, allocate_sealed(vram, BYTES, PLAIN, &seal), &zeros, "not genuine");
	is_refused(vram, allocate_sealed(vram, BYTES, PLAIN, &seal), &ones, "not genuine");
	struct vg_vram_handle handle = allocate_sealed(vram, BYTES, PLAIN, &seal);
	seal.size--;
	REFUSED(vg_vram_verify(handle, &seal), VG_INVALID, "it must be sizeof(struct vg_seal)");
	seal.size++;
	OK(vg_vram_verify(handle, &seal)); // a seal that is refused as VG_INVALID does not quarantine the region
	OK(vg_vram_free(handle));
	close_vram(vram);
}

TEST(decode_refuses_truncated_texts)
{
	struct vg_vram *vram = open_sealing();
	char text[VG_SEAL_TEXT_MAX];
	struct vg_seal seal, back;
	size_t length;
	struct vg_vram_handle handle = allocate_sealed(vram, BYTES, PLAIN, &seal);

	OK(vg_seal_encode(&seal, text, sizeof text, &length));
	for (size_t cut = 0; cut < length; cut++)
		CHECK_INT(vg_seal_decode(text, cut, &back), VG_PROTOCOL);
	OK(vg_vram_verify(handle, &seal));
	OK(vg_vram_free(handle));
	close_vram(vram);
}

// ---- replayed --------------------------------------------------------------------------------------------

TEST(verify_refuses_an_older_seal_of_the_same_contents)
{
	struct vg_vram *vram = open_sealing();
	struct vg_seal older, seal;
	struct vg_vram_handle handle = allocate_sealed(vram, BYTES, PLAIN, &older);

	OK(vg_vram_unseal(handle));
	OK(vg_vram_seal(handle, &layer, &seal));
	CHECK(memcmp(older.root, seal.root, 32) == 0);
	OK(vg_vram_verify(handle, &seal));
	is_refused(vram, handle, &older, "it is an older seal, or another region's");
	close_vram(vram);
}

TEST(verify_refuses_a_seal_of_an_equal_region)
{
	struct vg_vram *vram = open_sealing();
	struct vg_seal one, other;
	struct vg_vram_handle a = allocate_sealed(vram, BYTES, PLAIN, &one),
			      b = allocate_sealed(vram, BYTES, PLAIN, &other);

	CHECK(memcmp(one.root, other.root, 32) == 0);
	is_refused(vram, a, &other, "it is an older seal, or another region's");
	OK(vg_vram_verify(b, &other));
	is_refused(vram, b, &one, "it is an older seal, or another region's");
	close_vram(vram);
}

TEST(verify_refuses_another_name_or_size)
{
	struct vg_seal_options options = {.size = sizeof options, .id = "layer-1"};
	struct vg_vram *vram = open_sealing();
	struct vg_vram_handle named = allocate(vram, BYTES), longer = allocate(vram, BYTES + 1);
	struct vg_seal seal, of_named, of_longer;

	OK(vg_vram_seal(named, &options, &of_named));
	OK(vg_vram_seal(longer, &options, &of_longer));
	is_refused(vram, allocate_sealed(vram, BYTES, PLAIN, &seal), &of_named, "seal layer-1 is of generation");
	is_refused(vram, named, &of_longer, "seal layer-1 is of 101 bytes, and the region has 100");
	OK(vg_vram_free(longer));
	close_vram(vram);
}

// Frees a sealed region. Verifies its seal with the freed handle, and with the handle of a new region that has the same
// entry in the table of regions.
TEST(verify_refuses_a_seal_of_a_freed_region)
{
	struct vg_vram *vram = open_sealing();
	struct vg_seal older, seal;

	OK(vg_vram_free(allocate_sealed(vram, BYTES, PLAIN, &older)));
	is_refused(vram, allocate_sealed(vram, BYTES, PLAIN, &seal), &older,
		   "it is an older seal, or another region's");
	close_vram(vram);
}

// ---- another key or device -------------------------------------------------------------------------------

TEST(verify_refuses_another_secret_or_vgpu)
{
	struct vg_vram *vram = open_sealing(), *others[2];
	struct vg_seal seal, theirs;

	OK(open_with(OTHER_DIGITS, "train", NULL, NULL, &others[0]));
	OK(open_with(KEY_DIGITS, "evaluate", NULL, NULL, &others[1]));
	for (int i = 0; i < 2; i++) {
		struct vg_vram_handle handle = allocate_sealed(others[i], BYTES, PLAIN, &theirs);
		OK(vg_vram_verify(handle, &theirs));
		is_refused(vram, allocate_sealed(vram, BYTES, PLAIN, &seal), &theirs,
			   "made with another secret or for another vGPU");
		OK(vg_vram_free(handle));
		close_vram(others[i]);
	}
	close_vram(vram);
}

// Both contexts have the same secret and the same vGPU, so their keys are the same. The seal of one context's region
// must still not fit a region of the other.
TEST(verify_refuses_a_genuine_seal_of_another_region)
{
	struct vg_vram *vram = open_sealing(), *same = open_sealing();
	struct vg_seal seal, theirs;
	struct vg_vram_handle handle = allocate_sealed(same, BYTES, PLAIN, &theirs);

	is_refused(vram, allocate_sealed(vram, BYTES, PLAIN, &seal), &theirs,
		   "it is an older seal, or another region's");
	OK(vg_vram_free(handle));
	close_vram(same);
	close_vram(vram);
}

TEST(verify_refuses_another_device)
{
	struct vg_vram *vram = open_sealing(), *other;
	struct vg_seal seal, theirs;
	struct vg_device *device;
	int count;

	OK(vg_device_count(&count));
	if (count < 2) {
		close_vram(vram);
		SKIP("needs 2 devices, there is 1");
	}
	OK(vg_device_get(1, &device));
	OK(open_with(KEY_DIGITS, "train", device, NULL, &other));
	struct vg_vram_handle handle = allocate_sealed(other, BYTES, PLAIN, &theirs);
	OK(vg_vram_verify(handle, &theirs));
	struct vg_vram_handle own = allocate_sealed(vram, BYTES, PLAIN, &seal);
	CHECK(memcmp(seal.root, theirs.root, 32) == 0);
	is_refused(vram, own, &theirs, "and the region lies on GPU-");
	OK(vg_vram_free(handle));
	close_vram(other);
	close_vram(vram);
}
