// Tests packs on a full disk, sources that shrink while they are read, and digests of blocks.
#include <sched.h>
#include <sys/mount.h>

#include "checkpoint/data/digest.h"
#include "packs_test.h"
#include "vram/blake3.h"

// ---- digests -------------------------------------------------------------------------------------------

TEST(digests_are_blake3)
{
	// The published digest of 16 KiB in which byte i is i % 251.
	static const uint8_t published[DIGEST_BYTES] = {
		0xf8, 0x75, 0xd6, 0x64, 0x6d, 0xe2, 0x89, 0x85, 0x64, 0x6f, 0x34, 0xee, 0x13, 0xbe, 0x9a, 0x57,
		0x6f, 0xd5, 0x15, 0xf7, 0x6b, 0x5b, 0x0a, 0x26, 0xbb, 0x32, 0x47, 0x35, 0x04, 0x1d, 0xdd, 0xe4};
	uint8_t *data = malloc(BLOCK), digest[DIGEST_BYTES], wanted[DIGEST_BYTES], key[DIGEST_BYTES];

	for (size_t i = 0; i < BLOCK; i++)
		data[i] = (uint8_t)(i % 251);
	digest_block(data, 16384, digest);
	CHECK(memcmp(digest, published, sizeof digest) == 0);
	// For the keyed hash, compare with vram_blake3(), which another test compares with the published test vectors.
	fill_random(data, 1);
	memcpy(key, data, sizeof key);
	for (size_t size = DIGEST_LEAST; size <= DIGEST_MOST; size *= 2) {
		digest_block_keyed(data, size, key, digest);
		vram_blake3(data, size, key, wanted);
		CHECK(memcmp(digest, wanted, sizeof digest) == 0);
	}
	free(data);
}

// ---- the disk ------------------------------------------------------------------------------------------

static int make_in_child(int (*prepare_child)(void), const char *path, const char *why)
{
	static const unsigned kinds[] = {1, 2, 3, 4, 5, 6};
	int status;

	// Make the image before the disk is full.
	image();
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		if (prepare_child())
			_exit(77);
		struct made made = make_packs(path, kinds, 6, NULL, VG_COMPRESSION_NONE);
		if (made.status != VG_SYSTEM || !strstr(made.text, why)) {
			fprintf(stderr, "%d: %s\n", (int)made.status, made.text);
			_exit(1);
		}
		_exit(access(path, F_OK) == 0);
	}
	CHECK_INT(waitpid(child, &status, 0), child);
	return WEXITSTATUS(status);
}

static int mount_small(void)
{
	return unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	       mount("tmpfs", path_of("small"), "tmpfs", 0, "size=8m") < 0;
}

TEST(a_full_disk_leaves_no_image)
{
	char path[PATH_MAX];

	CHECK_INT(mkdir(path_of("small"), 0700), 0);
	snprintf(path, sizeof path, "%s/image", path_of("small"));
	int r = make_in_child(mount_small, path, "device/pack-0000: No space left on device");
	if (r == 77)
		SKIP("no rights to mount a file system");
	CHECK_INT(r, 0);
}

TEST(a_source_that_shrinks_fails_the_dump)
{
	static const unsigned kinds[] = {1, 2};
	struct device_bases none = {0};
	struct device_written written;
	struct image_draft draft;
	struct device_out *out;
	json_t *text = json_object();

	CHECK_INT(image_begin(path_of("shrinks"), &draft), VG_OK);
	const struct device_source source = {1, memory_of(kinds, 2), 3 * (uint64_t)BLOCK};
	CHECK_INT(device_out_start(&draft, &source, 1, &none, NULL, &out), VG_OK);
	CHECK_INT(device_out_finish(out, text, NULL, &written), VG_SYSTEM);
	CHECK_CONTAINS(vg_last_error()->text, "the host memory of a process cannot be read");
	json_decref(text);
	image_finish(&draft);
}

TEST(an_abort_leaves_nothing_behind)
{
	static unsigned kinds[60];
	struct device_bases none = {0};
	struct image_draft draft;
	struct device_out *out;

	for (unsigned i = 0; i < 60; i++)
		kinds[i] = i + 1;
	CHECK_INT(image_begin(path_of("aborted"), &draft), VG_OK);
	const struct device_source source = {1, memory_of(kinds, 60), 60 * (uint64_t)BLOCK};
	CHECK_INT(device_out_start(&draft, &source, 1, &none, NULL, &out), VG_OK);
	device_out_abort(out);
	char part[PATH_MAX];
	snprintf(part, sizeof part, "%s", draft.directory);
	image_finish(&draft);
	CHECK(access(part, F_OK) < 0);
}
