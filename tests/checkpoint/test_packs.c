// Tests device memory in an image's packs: the reader gets what was written, images share packs, and damage is found.
#include <pthread.h>
#include <sched.h>
#include <sys/mount.h>

#include "checkpoint/image/directory.h"
#include "checkpoint/image/text.h"
#include "packs_test.h"
#include "virgate/image.h"

// ---- round trip ----------------------------------------------------------------------------------------

static enum vg_status verify(const char *path)
{
	return vg_image_verify(path, NULL);
}

TEST(memory_is_restored_unchanged)
{
	static const unsigned kinds[] = {1, 0, 2, 1001, 1001, 3, 1, 0, 1002, 4, 0};
	enum { COUNT = sizeof kinds / sizeof *kinds, KINDS = 6 };
	struct device_written written;

	must_make(path_of("plain"), kinds, COUNT, NULL, VG_COMPRESSION_NONE, &written);
	CHECK_INT(written.bytes, COUNT * (uint64_t)BLOCK);
	CHECK_INT(written.zero_bytes, 3 * (uint64_t)BLOCK);
	// The pack has one block for each kind, since equal blocks are stored once.
	CHECK_INT(stat_of(pack_of(path_of("plain"), 0)).st_size, KINDS * (off_t)BLOCK);
	check_holds(path_of("plain"), kinds, COUNT);
	CHECK_INT(verify(path_of("plain")), VG_OK);
	must_make(path_of("packed"), kinds, COUNT, NULL, VG_COMPRESSION_LZ4, NULL);
	CHECK(stat_of(pack_of(path_of("packed"), 0)).st_size < 4 * (off_t)BLOCK + BLOCK / 8);
	check_holds(path_of("packed"), kinds, COUNT);
	CHECK_INT(verify(path_of("packed")), VG_OK);
	CHECK_RUN("image verify %s", path_of("packed"));
	CHECK_RUN("image inspect %s", path_of("packed"));
	CHECK_CONTAINS(said, "in packs   22.0 MiB of device memory, of which 6.0 MiB is zero");
}

TEST(memory_of_zeroes_has_no_pack)
{
	static const unsigned kinds[] = {0, 0};

	must_make(path_of("zeroes"), kinds, 2, NULL, VG_COMPRESSION_NONE, NULL);
	CHECK_INT(count_packs(path_of("zeroes")), 0);
	check_holds(path_of("zeroes"), kinds, 2);
	CHECK_INT(verify(path_of("zeroes")), VG_OK);
}

TEST(random_memory_is_restored)
{
	unsigned kinds[40];

	srand(7);
	for (int round = 0; round < 4; round++) {
		char name[32], base[32];
		for (size_t i = 0; i < 40; i++)
			if (round == 0 || rand() % 4 == 0)
				kinds[i] = (unsigned)(rand() % 3 ? rand() % 60 : rand() % 2 * 1000 + rand() % 20);
		snprintf(name, sizeof name, "random%d", round);
		snprintf(base, sizeof base, "random%d", round - 1);
		must_make(path_of(name), kinds, 40, round ? path_of(base) : NULL,
			  round % 2 ? VG_COMPRESSION_LZ4 : VG_COMPRESSION_NONE, NULL);
		check_holds(path_of(name), kinds, 40);
		CHECK_INT(verify(path_of(name)), VG_OK);
	}
}

// A pack has at most 1 GiB: 600 blocks of 2 MiB take two. Slow disks make this the slowest of these tests.
TEST(large_memory_has_several_packs)
{
	static unsigned kinds[600];

#ifdef __SANITIZE_THREAD__
	SKIP("1.2 GiB take too long with the thread sanitizer");
#endif
	for (unsigned i = 0; i < 600; i++)
		kinds[i] = i + 1 < 1000 ? i + 1 : 1;
	must_make(path_of("large"), kinds, 600, NULL, VG_COMPRESSION_NONE, NULL);
	CHECK_INT(count_packs(path_of("large")), 2);
	CHECK_INT(stat_of(pack_of(path_of("large"), 0)).st_size, 1 << 30);
	check_holds(path_of("large"), kinds, 600);
	image_remove(path_of("large"));
}

// ---- rounds without an image -----------------------------------------------------------------------------

// Writes blocks into packs, as a precopy round of a migration does. Closes `consume_fd`.
static enum vg_status make_round(const char *path, int consume_fd, size_t count, const struct device_bases *bases,
				 struct image_draft *draft, struct device_written *ret_written,
				 struct device_base *ret_base)
{
	const struct device_source source = {dumped, consume_fd, count * (uint64_t)BLOCK, .is_loose = true};
	struct device_out *out;

	CHECK_INT(image_begin(path, draft), VG_OK);
	CHECK_INT(device_out_start(draft, &source, 1, bases, NULL, &out), VG_OK);
	return device_out_finish_base(out, NULL, ret_written, ret_base);
}

TEST(a_round_is_a_base_of_the_next_one)
{
	unsigned kinds[12];
	struct image_draft drafts[2];
	struct device_bases none = {0}, bases = {0};
	struct device_written written;
	struct device_base base;

	for (unsigned i = 0; i < 12; i++)
		kinds[i] = i + 1;
	CHECK_INT(make_round(path_of("round"), memory_of(kinds, 12), 12, &none, &drafts[0], &written, &base), VG_OK);
	CHECK_INT(written.new_bytes, 12 * (uint64_t)BLOCK);
	CHECK_INT(base.index.block_count, 12);
	CHECK_INT(device_bases_add(&bases, &base), VG_OK);
	kinds[3] = 500;
	CHECK_INT(make_round(path_of("round"), memory_of(kinds, 12), 12, &bases, &drafts[1], &written, &base), VG_OK);
	CHECK_INT(written.new_bytes, BLOCK);
	CHECK_INT(written.linked_bytes, 12 * (uint64_t)BLOCK);
	CHECK_INT(base.index.pack_count, 2);
	device_base_close(&base);
	device_bases_close(&bases);
	image_finish(&drafts[0]);
	image_finish(&drafts[1]);
}

struct writer {
	int fd;
	size_t blocks;
	_Atomic bool stop;
};

// Changes a word of every block again and again. No value is ever repeated.
static void *keep_writing(void *user)
{
	struct writer *writer = user;

	for (uint64_t word = 1; !writer->stop; word++)
		for (size_t i = 0; i < writer->blocks; i++)
			if (pwrite(writer->fd, &word, sizeof word, (off_t)i * BLOCK) != sizeof word)
				return NULL;
	return NULL;
}

// Tests blocks that change while they are read. The stored bytes of a block must match its digest, since other images
// find the block by its digest.
TEST(memory_that_changes_while_it_is_read_is_noticed)
{
	unsigned kinds[16];
	struct device_bases none = {0};
	struct device_written written;
	struct device_base base;
	struct image_draft draft;
	pthread_t thread;

	for (unsigned i = 0; i < 16; i++)
		kinds[i] = i + 1;
	int fd = memory_of(kinds, 16);
	struct writer writer = {.fd = dup(fd), .blocks = 16};
	CHECK_INT(pthread_create(&thread, NULL, keep_writing, &writer), 0);
	CHECK_INT(make_round(path_of("loose"), fd, 16, &none, &draft, &written, &base), VG_STATE);
	CHECK_CONTAINS(vg_last_error()->text, "changed while it was read");
	writer.stop = true;
	pthread_join(thread, NULL);
	close(writer.fd);
	image_finish(&draft);
}

// ---- bases ---------------------------------------------------------------------------------------------

enum { CHAIN = 3, CHAIN_BLOCKS = 12 };
static unsigned chain[CHAIN][CHAIN_BLOCKS];

static const char *chain_path(int number)
{
	char name[16];

	snprintf(name, sizeof name, "chain%d", number);
	return path_of(name);
}

// Makes a chain of images, each of which has most blocks of the one before.
static void make_chain(void)
{
	struct device_written written;

	for (int number = 0; number < CHAIN; number++) {
		for (unsigned i = 0; i < CHAIN_BLOCKS; i++)
			chain[number][i] = number == 0 ? i + 1 : chain[number - 1][i];
		chain[number][number] = (unsigned)(100 + number);
		must_make(chain_path(number), chain[number], CHAIN_BLOCKS, number ? chain_path(number - 1) : NULL,
			  VG_COMPRESSION_NONE, &written);
		CHECK_INT(written.linked_bytes > 0, number > 0);
		CHECK_INT(written.copied_bytes, 0);
	}
}

static void check_chain_from(const bool *is_there)
{
	for (int number = 0; number < CHAIN; number++)
		if (is_there[number]) {
			check_holds(chain_path(number), chain[number], CHAIN_BLOCKS);
			CHECK_INT(verify(chain_path(number)), VG_OK);
		}
}

TEST(images_of_a_chain_are_deleted_in_any_order)
{
	static const int orders[][CHAIN] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

	for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
		bool is_there[CHAIN] = {true, true, true};
		make_chain();
		CHECK_INT(stat_of(pack_of(chain_path(2), 0)).st_nlink, 3);
		check_chain_from(is_there);
		for (int k = 0; k < CHAIN; k++) {
			image_remove(chain_path(orders[i][k]));
			CHECK(access(chain_path(orders[i][k]), F_OK) < 0);
			is_there[orders[i][k]] = false;
			check_chain_from(is_there);
		}
	}
}

TEST(only_changed_blocks_are_written)
{
	make_chain();
	CHECK_INT(count_packs(chain_path(1)), 2);
	CHECK_INT(stat_of(pack_of(chain_path(1), 0)).st_size, CHAIN_BLOCKS * (off_t)BLOCK);
	CHECK_INT(stat_of(pack_of(chain_path(1), 1)).st_size, BLOCK);
	CHECK_INT(count_packs(chain_path(2)), 3);
	// An image of the same memory needs no new pack, only a new index.
	must_make(path_of("same"), chain[2], CHAIN_BLOCKS, chain_path(2), VG_COMPRESSION_NONE, NULL);
	CHECK_INT(count_packs(path_of("same")), 3);
	check_holds(path_of("same"), chain[2], CHAIN_BLOCKS);
	for (int i = 0; i < CHAIN; i++)
		image_remove(chain_path(i));
	check_holds(path_of("same"), chain[2], CHAIN_BLOCKS);
}

TEST(a_pack_with_few_used_blocks_is_written_again)
{
	static const unsigned before[] = {1, 2, 3, 4, 5, 6, 7, 8}, half[] = {1, 2, 3, 4, 105, 106, 107, 108},
			      less[] = {1, 2, 3, 104, 105, 106, 107, 108};

	must_make(path_of("before"), before, 8, NULL, VG_COMPRESSION_NONE, NULL);
	must_make(path_of("half"), half, 8, path_of("before"), VG_COMPRESSION_NONE, NULL);
	CHECK_INT(count_packs(path_of("half")), 2);
	CHECK_INT(stat_of(pack_of(path_of("half"), 0)).st_nlink, 2);
	must_make(path_of("less"), less, 8, path_of("before"), VG_COMPRESSION_NONE, NULL);
	CHECK_INT(count_packs(path_of("less")), 1);
	CHECK_INT(stat_of(pack_of(path_of("less"), 0)).st_nlink, 1);
	check_holds(path_of("half"), half, 8);
	check_holds(path_of("less"), less, 8);
}

TEST(blocks_may_come_from_several_bases)
{
	static const unsigned left[] = {1, 2, 3, 0}, right[] = {11, 12, 13, 14},
			      both[] = {1, 2, 3, 11, 12, 13, 14, 0, 99};
	struct device_bases bases;
	struct device_out *out;
	struct image_draft draft;
	struct device_written written;
	char left_path[PATH_MAX], right_path[PATH_MAX];

	snprintf(left_path, sizeof left_path, "%s", path_of("left"));
	snprintf(right_path, sizeof right_path, "%s", path_of("right"));
	must_make(left_path, left, 4, NULL, VG_COMPRESSION_NONE, NULL);
	must_make(right_path, right, 4, NULL, VG_COMPRESSION_LZ4, NULL);
	const char *const paths[] = {left_path, right_path};
	CHECK_INT(device_bases_open(paths, 2, &bases), VG_OK);
	CHECK_INT(image_begin(path_of("both"), &draft), VG_OK);
	const struct device_source source = {dumped, memory_of(both, 9), 9 * (uint64_t)BLOCK};
	json_t *text = json_object();
	CHECK_INT(device_out_start(&draft, &source, 1, &bases, NULL, &out), VG_OK);
	CHECK_INT(device_out_finish(out, text, NULL, &written), VG_OK);
	CHECK_INT(written.linked_bytes, 7 * (uint64_t)BLOCK);
	CHECK_INT(count_packs(draft.directory), 3);
	json_decref(text);
	image_finish(&draft);
	device_bases_close(&bases);
}

// /dev/shm is on another file system than the test's directory.
TEST(packs_of_another_file_system_are_copied)
{
	static const unsigned kinds[] = {1, 2, 3};
	char base[] = "/dev/shm/virgate-packs.XXXXXX", path[64];
	struct device_written written;

	if (!mkdtemp(base) || stat_of(base).st_dev == stat_of(directory).st_dev)
		SKIP("no other file system at /dev/shm");
	snprintf(path, sizeof path, "%s/one", base);
	must_make(path, kinds, 3, NULL, VG_COMPRESSION_NONE, NULL);
	must_make(path_of("copied"), kinds, 3, path, VG_COMPRESSION_NONE, &written);
	CHECK_INT(written.linked_bytes, 0);
	CHECK_INT(written.copied_bytes, 3 * (uint64_t)BLOCK);
	image_remove(path);
	CHECK_INT(rmdir(base), 0);
	check_holds(path_of("copied"), kinds, 3);
}

static void check_refused(const char *base, enum vg_status status, const char *why)
{
	static const unsigned kinds[] = {1};
	struct made made = make_packs(path_of("never"), kinds, 1, base, VG_COMPRESSION_NONE);

	CHECK_INT(made.status, status);
	CHECK_CONTAINS(made.text, "base image");
	CHECK_CONTAINS(made.text, why);
	CHECK(access(path_of("never"), F_OK) < 0);
}

static const char *fresh(const char *name)
{
	static const unsigned kinds[] = {1, 2, 0, 1001};
	const char *path = path_of(name);

	image_remove(path);
	must_make(path, kinds, 4, NULL, VG_COMPRESSION_LZ4, NULL);
	return path;
}

static const char *index_of(const char *path)
{
	static char name[PATH_MAX + 32];

	snprintf(name, sizeof name, "%s/" DEVICE_INDEX, path);
	return name;
}

TEST(an_invalid_base_is_refused)
{
	check_refused(path_of("nowhere"), VG_NOT_FOUND, "is no image");
	const char *path = fresh("base1");
	flip_bit(index_of(path), 100, 0);
	check_refused(path, VG_INTEGRITY, "has another checksum");
	path = fresh("base2");
	CHECK_INT(truncate(pack_of(path, 0), BLOCK), 0);
	check_refused(path, VG_INTEGRITY, "it has 2097152 bytes");
	path = fresh("base3");
	CHECK_INT(unlink(pack_of(path, 0)), 0);
	check_refused(path, VG_INTEGRITY, "No such file");
	path = fresh("base4");
	CHECK_INT(unlink(index_of(path)), 0);
	check_refused(path, VG_INTEGRITY, "No such file");
	path = fresh("base5");
	CHECK_INT(truncate(index_of(path), 64), 0);
	check_refused(path, VG_INTEGRITY, "another length");
}

// An image without packs may be a base, but no packs can be shared with it.
TEST(an_image_without_packs_may_be_a_base)
{
	static const unsigned kinds[] = {1};

	must_make(path_of("onto-plain"), kinds, 1, image(), VG_COMPRESSION_NONE, NULL);
	check_holds(path_of("onto-plain"), kinds, 1);
}

TEST(a_base_of_another_user_is_refused)
{
	if (geteuid() != 0)
		SKIP("only root can give files away");
	const char *path = fresh("theirs");
	CHECK_INT(chown(pack_of(path, 0), 12345, 12345), 0);
	check_refused(path, VG_DENIED, "refused (other-owner)");
	path = fresh("theirs2");
	CHECK_INT(chmod(path, 0777), 0);
	check_refused(path, VG_DENIED, "refused (other-owner)");
}

// ---- damage --------------------------------------------------------------------------------------------

TEST(damage_is_found_wherever_it_is)
{
	const char *path = fresh("damaged");
	off_t length = stat_of(pack_of(path, 0)).st_size;

	for (off_t at = 0; at < length; at += length / 9) {
		flip_bit(pack_of(path, 0), at, 0);
		CHECK_INT(verify(path), VG_INTEGRITY);
		CHECK_CONTAINS(vg_last_error()->text, "device/pack-0000 is damaged");
		CHECK_INT(read_back(path), -1);
		CHECK_CONTAINS(vg_last_error()->text, "device/pack-0000 is damaged");
		flip_bit(pack_of(path, 0), at, 0);
	}
	CHECK_INT(verify(path), VG_OK);
	length = stat_of(index_of(path)).st_size;
	for (off_t at = 0; at < length; at++) {
		flip_bit(index_of(path), at, 0);
		CHECK_INT(verify(path), VG_INTEGRITY);
		CHECK_CONTAINS(vg_last_error()->text, "device/index is damaged");
		CHECK_INT(read_back(path), -1);
		flip_bit(index_of(path), at, 0);
	}
	CHECK_INT(truncate(pack_of(path, 0), 4096), 0);
	CHECK_INT(verify(path), VG_INTEGRITY);
	CHECK_INT(read_back(path), -1);
}

static struct image_files two_packs(void)
{
	static struct image_file list[] = {{.name = "device/index", .bytes = 1},
					   {.name = "device/pack-0000", .bytes = 3 * BLOCK, .is_pack = true},
					   {.name = "device/pack-0001", .bytes = BLOCK, .is_pack = true}};

	return (struct image_files){.files = list, .count = 3};
}

struct raw_index {
	uint64_t magic;
	uint32_t version, block_bytes, memory_count, pack_count;
	uint64_t block_count;
	struct device_memory memories[2];
	struct device_block blocks[4];
};

static struct raw_index sound_index(void)
{
	struct raw_index raw = {.magic = UINT64_C(0x5844495645444756),
				.version = 1,
				.block_bytes = BLOCK,
				.memory_count = 2,
				.pack_count = 2,
				.block_count = 4};

	raw.memories[0] = (struct device_memory){10, 3 * BLOCK};
	raw.memories[1] = (struct device_memory){11, BLOCK};
	raw.blocks[0] = (struct device_block){.codec = DEVICE_RAW, .length = BLOCK, .offset = 2 * BLOCK};
	raw.blocks[2] = (struct device_block){.codec = DEVICE_LZ4, .length = 100, .offset = 5, .pack = 1};
	raw.blocks[3] = raw.blocks[0];
	return raw;
}

static const char *parse(const struct raw_index *raw, size_t length)
{
	const struct image_files files = two_packs();
	struct device_index index;
	const char *wrong = device_index_parse(raw, length, &files, &index);

	if (!wrong)
		device_index_free(&index);
	return wrong;
}

#define CHECK_WRONG(field, value, why)                                \
	do {                                                          \
		struct raw_index raw = sound_index();                 \
		raw.field = (value);                                  \
		const char *wrong = parse(&raw, sizeof raw);          \
		if (!wrong)                                           \
			FAIL("%s = %s was believed", #field, #value); \
		CHECK_CONTAINS(wrong, why);                           \
	} while (0)

TEST(a_forged_index_is_refused)
{
	struct raw_index sound = sound_index();

	CHECK(parse(&sound, sizeof sound) == NULL);
	CHECK(parse(&sound, sizeof sound - 1) != NULL);
	CHECK(parse(&sound, 10) != NULL);
	CHECK_WRONG(magic, 1, "is none");
	CHECK_WRONG(version, 2, "another version");
	CHECK_WRONG(block_bytes, 4096, "another size of blocks");
	CHECK_WRONG(memory_count, 0, "invalid count");
	CHECK_WRONG(memory_count, UINT32_MAX, "invalid count");
	CHECK_WRONG(memory_count, 1, "another length");
	CHECK_WRONG(block_count, UINT64_MAX, "invalid count");
	CHECK_WRONG(block_count, 3, "another length");
	CHECK_WRONG(pack_count, UINT32_MAX, "invalid count");
	CHECK_WRONG(pack_count, 3, "a pack that the image lacks");
	CHECK_WRONG(pack_count, 1, "all packs");
	CHECK_WRONG(memories[0].pid, 0, "invalid process");
	CHECK_WRONG(memories[0].pid, UINT64_MAX, "invalid process");
	CHECK_WRONG(memories[0].pid, 11, "twice");
	CHECK_WRONG(memories[0].bytes, 3 * BLOCK + 1, "invalid size");
	CHECK_WRONG(memories[0].bytes, UINT64_MAX - BLOCK + 1, "invalid size");
	CHECK_WRONG(memories[0].bytes, 2 * BLOCK, "more or fewer blocks");
	CHECK_WRONG(blocks[0].length, BLOCK - 1, "invalid length");
	CHECK_WRONG(blocks[0].offset, 2 * BLOCK + 1, "behind the end");
	CHECK_WRONG(blocks[0].offset, UINT64_MAX, "behind the end");
	CHECK_WRONG(blocks[0].pack, 2, "no pack");
	CHECK_WRONG(blocks[0].codec, 3, "unknown codec");
	CHECK_WRONG(blocks[0].reserved, 1, "no pack");
	CHECK_WRONG(blocks[1].length, 1, "block of zeroes");
	CHECK_WRONG(blocks[1].digest[3], 1, "block of zeroes");
	CHECK_WRONG(blocks[2].length, 0, "invalid length");
	CHECK_WRONG(blocks[2].length, BLOCK, "invalid length");
	CHECK_WRONG(blocks[2].length, UINT32_MAX, "invalid length");
}

// A block with a valid checksum that cannot be decompressed is reported as damage.
TEST(a_block_that_does_not_unpack_is_damaged)
{
	unsigned char stored[100] = {0xff}, *data = malloc(BLOCK);
	const struct device_block block = {.codec = DEVICE_LZ4, .length = sizeof stored};

	srand(3);
	for (int i = 0; i < 2000; i++) {
		for (size_t k = 0; k < sizeof stored; k++)
			stored[k] = (unsigned char)rand();
		CHECK(!device_block_unpack(&block, stored, data));
	}
	free(data);
}

// The description has a valid checksum, but false contents.
TEST(packs_without_an_index_are_refused)
{
	const char *path = fresh("indexless");
	struct image_dir dir;
	json_t *text, *files;

	CHECK_INT(image_open(path, &dir), VG_OK);
	CHECK_INT(image_read(&dir, &text), VG_OK);
	files = json_object_get(text, "files");
	for (size_t i = json_array_size(files); i-- > 0;)
		if (strcmp(json_string_value(json_object_get(json_array_get(files, i), "name")), DEVICE_INDEX) == 0)
			json_array_remove(files, i);
	json_object_del(text, "xxh3");
	char *sealed = image_text_seal(text), name[PATH_MAX + 32];
	snprintf(name, sizeof name, "%s/virgate.json", path);
	CHECK_INT(unlink(name), 0);
	CHECK_INT(image_text_write(dir.fd, sealed, strlen(sealed)), 0);
	json_decref(text);
	free(sealed);
	CHECK_INT(inspect_read(&dir, &text, NULL), VG_INTEGRITY);
	CHECK_CONTAINS(vg_last_error()->text, "device/index is missing from \"files\"");
	image_close(&dir);
}
