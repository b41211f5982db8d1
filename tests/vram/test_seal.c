// Tests sealing and verifying regions: every change is found, and the contents do not leave the device.
#include "sealed_test.h"

#include "core/core.h"
#include "vram/blake3.h"
#include "vram/key.h"

enum { KIB = 1024 };

// ---- seals -----------------------------------------------------------------------------------------------

TEST(root_is_the_keyed_hash_of_the_contents)
{
	static const size_t sizes[] = {1, 31, KIB - 1, KIB, KIB + 1, 5000, 256 * KIB - 1, 256 * KIB, 256 * KIB + 1};
	struct vg_vram *vram = open_sealing();
	struct vram_keys *keys;
	uint64_t before = 0;

	OK(vram_keys_open(path_of("secret"), NULL, "train", &keys));
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		struct vg_seal seal;
		uint8_t root[32];
		struct vg_vram_handle handle = allocate_sealed(vram, sizes[i], PLAIN, &seal);
		uint8_t *copy = malloc(sizes[i]);
		OK(vg_vram_read_at(handle, 0, copy, sizes[i]));
		vram_blake3(copy, sizes[i], keys->tree, root);
		free(copy);
		CHECK(memcmp(root, seal.root, sizeof root) == 0);
		CHECK_STR(seal.id, "layer-0");
		CHECK_STR(seal.model, "");
		CHECK_INT(seal.bytes, sizes[i]);
		CHECK_INT(strncmp(seal.device, "GPU-", 4), 0);
		CHECK_STR(seal.device + 4, vg_device_uuid(vg_vram_device(vram)));
		CHECK(seal.generation > before);
		before = seal.generation;
		OK(vg_vram_verify(handle, &seal));
		OK(vg_vram_verify(handle, &seal));
		OK(vg_vram_free(handle));
	}
	vram_keys_close(keys);
	close_vram(vram);
}

TEST(every_kind_of_region_can_be_sealed)
{
	const struct vg_vram_allocate_options *kinds[] = {PLAIN, GUARDED, SHAREABLE};
	struct vg_vram *vram = open_sealing();
	struct vg_seal seals[3];

	for (int i = 0; i < 3; i++) {
		struct vg_vram_handle handle = allocate_sealed(vram, 10001, kinds[i], &seals[i]);
		char text[VG_SEAL_TEXT_MAX];
		struct vg_seal back;
		size_t length;
		OK(vg_seal_encode(&seals[i], text, sizeof text, &length));
		OK(vg_seal_decode(text, length, &back));
		OK(vg_vram_verify(handle, &back)); // `back` is the seal that was decoded from the text
		OK(vg_vram_free(handle));
	}
	CHECK(memcmp(seals[0].root, seals[1].root, 32) == 0 && memcmp(seals[0].root, seals[2].root, 32) == 0);
	close_vram(vram);
}

// Seals equal bytes in two vGPUs. The root of a seal is a keyed hash of the contents. The two roots must differ,
// because equal roots would show that the contents are equal.
TEST(root_depends_on_the_vgpu)
{
	struct vg_vram *vram = open_sealing(), *other;
	struct vg_seal one, two;

	OK(open_with(KEY_DIGITS, "other", NULL, NULL, &other));
	struct vg_vram_handle a = allocate_sealed(vram, 100, PLAIN, &one), b = allocate_sealed(other, 100, PLAIN, &two);
	CHECK(memcmp(one.root, two.root, 32) != 0);
	OK(vg_vram_free(a));
	OK(vg_vram_free(b));
	close_vram(vram);
	close_vram(other);
}

TEST(seals_of_shards_form_a_set)
{
	struct vg_vram *vram = open_sealing();
	struct vg_vram_handle handles[3];
	struct vg_seal seals[3];
	char id[16];

	for (unsigned i = 0; i < 3; i++) {
		struct vg_seal_options options = {
			.size = sizeof options, .id = id, .model = "llama", .shard = 2 - i, .shards = 3};
		snprintf(id, sizeof id, "part_%u", i);
		handles[i] = allocate(vram, 100 + i);
		OK(vg_vram_seal(handles[i], &options, &seals[i]));
	}
	OK(vg_seal_check_set(seals, 3));
	REFUSED(vg_seal_check_set(seals, 2), VG_INVALID, "shard 0 of 3 is missing");
	for (int i = 0; i < 3; i++) {
		OK(vg_vram_verify(handles[i], &seals[i]));
		OK(vg_vram_free(handles[i]));
	}
	close_vram(vram);
}

// ---- changes ---------------------------------------------------------------------------------------------

enum { LARGE = 2 * 256 * KIB + 5 * KIB + 3 };

static const size_t places[] = {0,
				1,
				63,
				64,
				KIB - 1,
				KIB,
				KIB + 1,
				100 * KIB + 17,
				256 * KIB - 1,
				256 * KIB,
				256 * KIB + 1,
				LARGE / 2,
				2 * 256 * KIB - 1,
				2 * 256 * KIB,
				LARGE - KIB,
				LARGE - 2,
				LARGE - 1};

static void change_is_found(size_t place, const struct vg_vram_allocate_options *kind,
			    void (*write)(struct vg_vram_handle handle, size_t offset, int byte))
{
	struct vg_vram *vram = open_sealing();
	struct vg_seal seal;
	struct vg_vram_handle handle = allocate_sealed(vram, LARGE, kind, &seal);
	unsigned char byte;

	OK(vg_vram_read_at(handle, place, &byte, 1));
	write(handle, place, byte ^ 1);
	if (vg_vram_verify(handle, &seal) != VG_INTEGRITY)
		FAIL("a changed bit of byte %zu was not found: %s", place, vg_last_error()->text);
	CHECK_CONTAINS(vg_last_error()->text, "does not hold what was sealed as layer-0: its contents were changed");
	check_quarantined(vram, handle, &seal);
	close_vram(vram);
}

TEST(verify_finds_one_changed_bit_anywhere)
{
	for (size_t i = 0; i < sizeof places / sizeof *places; i++)
		change_is_found(places[i], i % 3 == 0 ? PLAIN : i % 3 == 1 ? GUARDED : SHAREABLE, write_unseen);
}

static void write_by_kernel(struct vg_vram_handle handle, size_t offset, int byte)
{
	struct work work = open_work("put_byte");
	struct vg_vram_loan loan;

	OK(vg_vram_borrow(handle, VG_VRAM_READ, &loan));
	OK(vg_launch(work.stream, CONFIG(1, 1), work.kernel,
		     VG_ARGUMENTS(loan.address, (uint64_t)offset, (unsigned char)byte)));
	OK(vg_stream_sync(work.stream));
	OK(vg_vram_give_back(&loan));
	close_work(&work);
}

TEST(verify_finds_changes_by_a_kernel)
{
	change_is_found(0, PLAIN, write_by_kernel);
	change_is_found(LARGE - 1, GUARDED, write_by_kernel);
	change_is_found(256 * KIB, SHAREABLE, write_by_kernel);
}

TEST(verify_accepts_restored_contents)
{
	struct vg_vram *vram = open_sealing();
	struct vg_seal seal;
	struct vg_vram_handle handle = allocate_sealed(vram, 3000, PLAIN, &seal);
	unsigned char byte;

	OK(vg_vram_read_at(handle, 2000, &byte, 1));
	write_unseen(handle, 2000, byte ^ 0x80);
	write_unseen(handle, 2000, byte);
	// verification examines only the present contents, which are the sealed ones again
	OK(vg_vram_verify(handle, &seal));
	OK(vg_vram_free(handle));
	close_vram(vram);
}

// ---- frozen ----------------------------------------------------------------------------------------------

TEST(sealed_region_is_frozen)
{
	struct vg_vram *vram = open_sealing();
	struct vg_seal seal, next;
	struct vg_vram_handle handle = allocate_sealed(vram, 3000, PLAIN, &seal), other = allocate(vram, 3000);
	struct vg_vram_loan loan;
	char byte = 1;

	REFUSED(vg_vram_write_at(handle, 0, &byte, 1), VG_POLICY, "sealed");
	REFUSED(vg_vram_fill(handle, 0, 1, 1), VG_POLICY, "sealed");
	REFUSED(vg_vram_copy(handle, 0, other, 0, 1), VG_POLICY, "sealed");
	REFUSED(vg_vram_borrow(handle, VG_VRAM_READ_WRITE, &loan), VG_POLICY, "sealed");
	REFUSED(vg_vram_seal(handle, &layer, &next), VG_POLICY, "sealed already");
	OK(vg_vram_read_at(handle, 0, &byte, 1));
	OK(vg_vram_copy(other, 0, handle, 0, 3000));
	OK(vg_vram_borrow(handle, VG_VRAM_READ, &loan));
	OK(vg_vram_verify(handle, &seal)); // a region can be verified while it is on loan
	OK(vg_vram_give_back(&loan));
	OK(vg_vram_unseal(handle));
	REFUSED(vg_vram_unseal(handle), VG_STATE, "not sealed");
	REFUSED(vg_vram_verify(handle, &seal), VG_STATE, "not sealed");
	OK(vg_vram_write_at(handle, 0, &byte, 1)); // the region is neither frozen nor quarantined
	OK(vg_vram_seal(handle, &layer, &next));
	CHECK(next.generation > seal.generation);
	OK(vg_vram_verify(handle, &next));
	OK(vg_vram_free(handle));
	OK(vg_vram_free(other));
	close_vram(vram);
}

// ---- invalid options -------------------------------------------------------------------------------------

#define OPTIONS(...)                                    \
	(&(struct vg_seal_options){                     \
		.size = sizeof(struct vg_seal_options), \
		__VA_ARGS__,                            \
	})

TEST(seal_refuses_invalid_options)
{
	struct vg_vram *vram = open_sealing();
	struct vg_vram_handle handle = allocate(vram, 10), none = {0};
	struct vg_vram_loan loan;
	struct vg_seal seal = {.size = 1};
	char id[VG_SEAL_ID_MAX + 2];

	memset(id, 'i', sizeof id);
	id[sizeof id - 1] = '\0';
	REFUSED(vg_vram_seal(handle, NULL, &seal), VG_INVALID, "options is NULL");
	REFUSED(vg_vram_seal(handle, &layer, NULL), VG_INVALID, "ret_seal is NULL");
	REFUSED(vg_vram_seal(handle, OPTIONS(.id = NULL), &seal), VG_INVALID, "id is NULL");
	REFUSED(vg_vram_seal(handle, OPTIONS(.id = ""), &seal), VG_INVALID, "id must be 1 to 256");
	REFUSED(vg_vram_seal(handle, OPTIONS(.id = id), &seal), VG_INVALID, "id must be 1 to 256");
	REFUSED(vg_vram_seal(handle, OPTIONS(.id = "a b"), &seal), VG_INVALID, "A-Z a-z 0-9 - _");
	REFUSED(vg_vram_seal(handle, OPTIONS(.id = "a", .model = id), &seal), VG_INVALID, "model must be empty, or 1");
	REFUSED(vg_vram_seal(handle, OPTIONS(.id = "a", .model = "m"), &seal), VG_INVALID, "shard 0 of 0");
	REFUSED(vg_vram_seal(handle, OPTIONS(.id = "a", .model = "m", .shard = 3, .shards = 3), &seal), VG_INVALID,
		"shard 3 of 3");
	REFUSED(vg_vram_seal(handle, OPTIONS(.id = "a", .shards = 3), &seal), VG_INVALID, "of no model");
	REFUSED(vg_vram_seal(none, &layer, &seal), VG_INVALID, "none");
	REFUSED(vg_vram_unseal(none), VG_INVALID, "none");
	REFUSED(vg_vram_verify(none, &seal), VG_INVALID, "seal->size is 1");
	REFUSED(vg_vram_verify(handle, NULL), VG_INVALID, "seal is NULL");
	CHECK_INT(seal.size, 1);
	OK(vg_vram_borrow(handle, VG_VRAM_READ_WRITE, &loan));
	REFUSED(vg_vram_seal(handle, &layer, &seal), VG_BUSY, "1 loans of the region that may write are out");
	OK(vg_vram_give_back(&loan));
	id[VG_SEAL_ID_MAX] = '\0';
	OK(vg_vram_seal(handle, OPTIONS(.id = id, .model = id, .shards = 1), &seal));
	OK(vg_vram_verify(handle, &seal));
	OK(vg_vram_free(handle));
	REFUSED(vg_vram_seal(handle, &layer, &seal), VG_STALE, "names no region");
	REFUSED(vg_vram_unseal(handle), VG_STALE, "names no region");
	REFUSED(vg_vram_verify(handle, &seal), VG_STALE, "names no region");
	REFUSED(vg_vram_allocate(vram, 0, NULL, &handle), VG_INVALID,
		"bytes is 0"); // a region cannot be empty, so there is no test of sealing an empty one
	close_vram(vram);
}

TEST(seals_need_a_secret)
{
	struct vg_vram *vram = open_vram();
	struct vg_vram_handle handle = allocate(vram, 10);
	struct vg_attestation attestation;
	struct vg_seal seal = {.size = sizeof seal};

	REFUSED(vg_vram_seal(handle, &layer, &seal), VG_STATE, "opened without a secret");
	REFUSED(vg_vram_verify(handle, &seal), VG_STATE, "opened without a secret");
	REFUSED(vg_vram_attest(handle, &attestation), VG_STATE, "opened without a secret");
	REFUSED(vg_vram_unseal(handle), VG_STATE, "not sealed");
	check_bytes(handle, 0, 10, 0); // the region is unchanged
	OK(vg_vram_free(handle));
	close_vram(vram);
}

TEST(open_refuses_invalid_secrets)
{
	struct vg_vram_options options = {.size = sizeof options, .audit_file = "/tmp/none"};
	struct vg_vram *vram = NULL;
	char name[100];

	REFUSED(vg_vram_open(&options, &vram), VG_INVALID, "neither key_file nor key_ring");
	options.key_file = key_file("secret", KEY_DIGITS);
	options.key_ring = "virgate";
	REFUSED(vg_vram_open(&options, &vram), VG_INVALID, "both given");
	options.key_ring = NULL;
	options.audit_file = path_of("no/folder");
	REFUSED(vg_vram_open(&options, &vram), VG_NOT_FOUND, "No such file");
	options.audit_file = NULL;
	memset(name, 'n', sizeof name);
	name[64] = '\0';
	static const char *const names[] = {"", "a b", "-a", ".a", "\xc3\xa4"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		options.vgpu = names[i];
		REFUSED(vg_vram_open(&options, &vram), VG_INVALID, "a name is [A-Za-z0-9]");
	}
	options.vgpu = name;
	REFUSED(vg_vram_open(&options, &vram), VG_INVALID, "a name is [A-Za-z0-9]");
	options.vgpu = NULL;
	options.key_file = path_of("no-key");
	REFUSED(vg_vram_open(&options, &vram), VG_NOT_FOUND, "there is no key file");
	CHECK(!vram);
}

// ---- the contents stay on the device ---------------------------------------------------------------------

static struct vg_driver counting;
static size_t copied;

static CUresult count_sync(void *to, CUdeviceptr from, size_t size)
{
	copied += size;
	return core_driver->cuMemcpy((CUdeviceptr)(uintptr_t)to, from, size);
}

static CUresult count_queued(void *to, CUdeviceptr from, size_t size, CUstream stream)
{
	copied += size;
	return core_driver->cuMemcpyAsync((CUdeviceptr)(uintptr_t)to, from, size, stream);
}

static CUresult no_other_copy(void)
{
	FAIL("a copy that this test does not count");
}

TEST(verify_copies_only_the_root_to_the_host)
{
	struct vg_vram *vram = open_sealing();
	struct vg_seal seal;
	struct vg_vram_handle handle = allocate_sealed(vram, LARGE, PLAIN, &seal);
	const struct vg_driver *before = core_driver;
	char bytes[100];

	counting = *before;
	counting.cuMemcpyDtoH_v2 = counting.cuMemcpyDtoH_v2_ptds = count_sync;
	counting.cuMemcpyDtoHAsync_v2 = counting.cuMemcpyDtoHAsync_v2_ptsz = count_queued;
#define NONE(entry) *(void **)&counting.entry = (void *)no_other_copy
	NONE(cuMemcpy_ptds);
	NONE(cuMemcpyAsync_ptsz);
	NONE(cuMemcpy2D_v2);
	NONE(cuMemcpy2DAsync_v2);
	NONE(cuMemcpy2DUnaligned_v2);
	NONE(cuMemcpy3D_v2);
	NONE(cuMemcpy3DAsync_v2);
	// the tested calls must not use page-locked host memory either, since kernels could write contents into it
	NONE(cuMemAllocHost_v2);
	NONE(cuMemHostAlloc);
	NONE(cuMemHostRegister_v2);
	NONE(cuMemAllocManaged);
	core_driver = &counting;
	OK(vg_vram_read_at(handle, 0, bytes, sizeof bytes));
	CHECK_INT(copied, sizeof bytes); // the counter counts this read, so it would count other copies, too
	copied = 0;
	OK(vg_vram_verify(handle, &seal));
	CHECK_INT(copied, 32);
	OK(vg_vram_unseal(handle));
	copied = 0;
	OK(vg_vram_seal(handle, &layer, &seal));
	CHECK_INT(copied, 32);
	core_driver = before;
	OK(vg_vram_free(handle));
	close_vram(vram);
}
