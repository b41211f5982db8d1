// Checks that an image that replaces an open one is not read, and that files that have moved are restored at their new
// paths.
#include "pages_test.h"

// ---- another image in its place ------------------------------------------------------------------------

static bool target_has_source(void)
{
	char command[3 * PATH_MAX];

	snprintf(command, sizeof command, "diff -rq %s %s >/dev/null", path_of("source"), path_of("target"));
	return system(command) == 0;
}

// Tests an image that is replaced after it was checked. A user who may write to the parent directory can put another
// image in its place.
TEST(an_open_image_is_read_after_it_is_replaced)
{
	char path[PATH_MAX], aside[PATH_MAX], other[PATH_MAX];
	struct image_dir dir;
	json_t *description;

	snprintf(path, sizeof path, "%s", path_of("image-mine"));
	snprintf(aside, sizeof aside, "%s", path_of("image-aside"));
	snprintf(other, sizeof other, "%s", path_of("image-other"));
	make_few();
	make_image(other, VG_COMPRESSION_NONE);
	make_few();
	make_image(path, VG_COMPRESSION_NONE);
	CHECK_INT(image_open(path, &dir), VG_OK);
	CHECK_INT(image_check_owner(&dir), VG_OK);
	CHECK_INT(rename(path, aside), 0);
	CHECK_INT(rename(other, path), 0);
	empty("target");
	if (restore_from(&dir))
		FAIL("%s", vg_last_error()->text);
	CHECK(target_has_source());
	CHECK_INT(image_read(&dir, &description), VG_OK);
	CHECK_INT(image_verify(&dir, description, 2, NULL, NULL), VG_OK);
	json_decref(description);
	empty("target");
	CHECK_INT(restore(path), VG_OK);
	CHECK(!target_has_source());
	image_close(&dir);
}

TEST(a_link_in_the_place_of_a_tree_is_not_followed)
{
	char path[PATH_MAX], tree[PATH_MAX + 8], elsewhere[PATH_MAX];
	struct image_dir dir;

	snprintf(path, sizeof path, "%s", path_of("image-linked"));
	snprintf(tree, sizeof tree, "%s/tree-0", path);
	snprintf(elsewhere, sizeof elsewhere, "%s", path_of("elsewhere"));
	make_few();
	make_image(path, VG_COMPRESSION_NONE);
	CHECK_INT(image_open(path, &dir), VG_OK);
	CHECK_INT(rename(tree, elsewhere), 0);
	CHECK_INT(symlink(elsewhere, tree), 0);
	empty("target");
	CHECK(restore_from(&dir) != VG_OK);
	CHECK(!target_has_source());
	CHECK(verify(path) != VG_OK);
	image_close(&dir);
}

TEST(a_draft_that_is_swapped_is_not_taken_for_the_image)
{
	char swapped[PATH_MAX];
	json_t *description = json_pack("{s:i}", "version", IMAGE_VERSION);
	struct image_draft draft;

	make_few();
	CHECK_INT(write_image(path_of("image-swapped"), VG_COMPRESSION_NONE, &draft), VG_OK);
	snprintf(swapped, sizeof swapped, "%s", path_of("swapped"));
	CHECK_INT(rename(draft.directory, swapped), 0);
	CHECK_INT(mkdir(draft.directory, 0700), 0);
	CHECK_INT(image_commit(&draft, description), VG_SYSTEM);
	CHECK_CONTAINS(vg_last_error()->text, "the image was replaced");
	image_finish(&draft);
	json_decref(description);
}

// ---- files at other paths -----------------------------------------------------------------------------

enum { MOST_RECORD = 4096 };

// Writes a record of files.img for a regular file of that name, with CRIU's other fields around the name. `mode` 0: no
// mode.
static size_t put_entry(unsigned char *out, unsigned id, const char *name, unsigned mode)
{
	unsigned char entry[MOST_RECORD], *at = entry;
	uint32_t length;

	*at++ = 1 << 3, *at++ = (unsigned char)id;	     // id
	*at++ = 2 << 3, *at++ = 2;			     // flags
	*at++ = 5 << 3 | 2, *at++ = 2, *at++ = 8, *at++ = 0; // fown
	if (mode) {
		*at++ = 6 << 3 | 2, *at++ = (unsigned char)strlen(name);
		memcpy(at, name, strlen(name));
		at += strlen(name);
	}
	*at++ = 7 << 3, *at++ = 0x33; // mnt_id
	if (mode)
		*at++ = 10 << 3, *at++ = (unsigned char)(mode | 0x80), *at++ = (unsigned char)(mode >> 7);
	*at++ = 11 << 3, *at++ = 1, *at++ = 11 << 3, *at++ = 2; // build_id, twice
	// Without a mode, the name is the last field.
	if (!mode) {
		*at++ = 6 << 3 | 2;
		if (strlen(name) >= 128)
			*at++ = (unsigned char)(strlen(name) | 0x80), *at++ = (unsigned char)(strlen(name) >> 7);
		else
			*at++ = (unsigned char)strlen(name);
		memcpy(at, name, strlen(name));
		at += strlen(name);
	}
	size_t inner = (size_t)(at - entry);
	unsigned char *record = out + sizeof length;
	*record++ = 1 << 3, *record++ = 1; // REG
	*record++ = 2 << 3, *record++ = (unsigned char)id;
	*record++ = 3 << 3 | 2;
	if (inner >= 128)
		*record++ = (unsigned char)(inner | 0x80), *record++ = (unsigned char)(inner >> 7);
	else
		*record++ = (unsigned char)inner;
	memcpy(record, entry, inner);
	length = (uint32_t)(record + inner - out - sizeof length);
	memcpy(out, &length, sizeof length);
	return sizeof length + length;
}

static size_t put_magic(unsigned char *out)
{
	const uint32_t magic[] = {0x54564319, 0x56303138};

	memcpy(out, magic, sizeof magic);
	return sizeof magic;
}

static void write_source(const char *name, const unsigned char *data, size_t length)
{
	char path[PATH_MAX];

	snprintf(path, sizeof path, "%s/%s", path_of("source"), name);
	CHECK_INT(vg_file_write_atomic(path, (const char *)data, length, 0600), 0);
}

TEST(criu_gets_the_new_paths_of_files)
{
	static unsigned char before[8 * MOST_RECORD], after[8 * MOST_RECORD];
	char far[200] = "/run/far/", path[PATH_MAX];
	char read[sizeof after];

	memset(far + 9, 'x', sizeof far - 10);
	const struct criu_move moves[] = {{"/run/old", "/run/new-and-longer"}, {"/run/other", far}};
	size_t length = put_magic(before), expected = put_magic(after);
	length += put_entry(before + length, 1, "/run/old", 0600);
	expected += put_entry(after + expected, 1, "/run/new-and-longer", 0);
	length += put_entry(before + length, 2, "/run/older", 0600);
	expected += put_entry(after + expected, 2, "/run/older", 0600);
	length += put_entry(before + length, 3, "/run/other", 0660);
	expected += put_entry(after + expected, 3, far, 0);
	make_few();
	write_source("files.img", before, length);
	snprintf(path, sizeof path, "%s", path_of("image-moved"));
	make_image(path, VG_COMPRESSION_NONE);
	empty("target");
	work.moves = moves;
	work.move_count = 2;
	if (restore(path))
		FAIL("%s", vg_last_error()->text);
	snprintf(path, sizeof path, "%s/files.img", path_of("target"));
	CHECK_INT(vg_file_read(path, read, sizeof read), expected);
	CHECK(memcmp(read, after, expected) == 0);
	// CRIU must not get the list of files if it is damaged.
	before[0] ^= 1;
	write_source("files.img", before, length);
	snprintf(path, sizeof path, "%s", path_of("image-no-list"));
	make_image(path, VG_COMPRESSION_NONE);
	empty("target");
	CHECK_INT(restore(path), VG_INTEGRITY);
	CHECK_CONTAINS(vg_last_error()->text, "files.img");
	work.move_count = 0;
	CHECK_INT(restore(path), VG_OK);
}
