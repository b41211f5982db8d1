// What CRIU writes comes back as it was, whatever its size, its zeros and its compression; and what is not as it was
// written is found.
#include "checkpoint/criu/image_tree.h"
#include "checkpoint/data/chunk.h"
#include "checkpoint/image/files.h"
#include "checkpoint/image/image.h"
#include "checkpoint/image/text.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>

#include "checkpoint_test.h"

static const struct criu criu = {.path = STREAMING_CRIU, .version = "4.2"};
static struct criu_work work = {0};
static const char *const methods[] = {"none", "lz4", "zstd"};

static uint64_t seed = 88172645463325252u;

static uint64_t next_random(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	return seed ^= seed << 17;
}

// ---- what is written ---------------------------------------------------------------------------------

enum content { ZERO, RANDOM, TEXT, SPARSE };

static void make_file(const char *name, size_t length, enum content content)
{
	char path[PATH_MAX];
	char *data = calloc(1, length + 8);

	CHECK(data != NULL);
	snprintf(path, sizeof path, "%s/%s", path_of("source"), name);
	for (size_t at = 0; at < length && content != ZERO; at += 8) {
		uint64_t word = content == TEXT ? at / 512 : next_random();
		// Every third page, and of some chunks none.
		if (content == SPARSE && (at / 4096 % 3 || at / CHUNK_BYTES % 2))
			word = 0;
		memcpy(data + at, &word, 8);
	}
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	CHECK(fd >= 0);
	CHECK_INT(vg_write_all(fd, data, length, -1), 0);
	close(fd);
	free(data);
}

static void empty(const char *name)
{
	char command[PATH_MAX + 64];

	snprintf(command, sizeof command, "rm -rf %s; mkdir %s", path_of(name), path_of(name));
	CHECK_INT(system(command), 0);
	setenv("SOURCE", path_of("source"), 1);
	setenv("TARGET", path_of("target"), 1);
	unsetenv("TRICK");
}

static void make_many(void)
{
	static const size_t sizes[] = {0,
				       1,
				       CHUNK_PAGE - 1,
				       CHUNK_PAGE,
				       CHUNK_PAGE + 1,
				       CHUNK_BYTES - 1,
				       CHUNK_BYTES,
				       CHUNK_BYTES + 1,
				       5 * CHUNK_BYTES,
				       3 * CHUNK_BYTES + 12345};
	char name[64];

	empty("source");
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		for (int content = ZERO; content <= SPARSE; content++) {
			snprintf(name, sizeof name, "pages-%zu%d.img", i, content);
			make_file(name, sizes[i], (enum content)content);
		}
	make_file("core-1.img", 100000, RANDOM);
	make_file("empty.img", 0, ZERO);
	make_file("inventory.img", 1, TEXT);
}

static void make_few(void)
{
	empty("source");
	make_file("pages-1.img", CHUNK_BYTES + 5000, SPARSE);
	make_file("pages-2.img", 10000, RANDOM);
	make_file("core-1.img", 700, RANDOM);
}

// Nothing of it fails here; `draft` is committed where `commit`.
static enum vg_status write_image(const char *path, enum vg_compression compression, struct image_draft *draft)
{
	enum vg_status status = image_begin(path, draft);

	draft->compression = compression;
	draft->threads = 3;
	return status ? status : image_dump_tree(draft, 0, &criu, &work, getpid());
}

static void make_image(const char *path, enum vg_compression compression)
{
	struct image_draft draft;
	json_t *description = json_pack("{s:i}", "version", IMAGE_VERSION);

	if (write_image(path, compression, &draft) || image_commit(&draft, description))
		FAIL("%s", vg_last_error()->text);
	image_finish(&draft);
	json_decref(description);
}

static enum vg_status verify(const char *path)
{
	json_t *description = NULL;
	struct image_dir dir;

	enum vg_status status = image_open(path, &dir);
	if (status)
		return status;
	status = image_read(&dir, &description);
	if (status == VG_OK)
		status = image_verify(&dir, description, 3, NULL, NULL);
	json_decref(description);
	image_close(&dir);
	return status;
}

static bool made;

static enum vg_status restore_from(const struct image_dir *dir)
{
	json_t *description;

	enum vg_status status = image_read(dir, &description);
	if (status)
		return status;
	status = image_restore_tree(dir, description, 0, &criu, &work, NULL, &made);
	json_decref(description);
	return status;
}

static enum vg_status restore(const char *path)
{
	struct image_dir dir;

	enum vg_status status = image_open(path, &dir);
	if (status)
		return status;
	status = restore_from(&dir);
	image_close(&dir);
	return status;
}

static uint64_t blocks_of(const char *path)
{
	struct stat info;

	CHECK_INT(stat(path, &info), 0);
	CHECK_INT(info.st_mode & 07777, 0600);
	return (uint64_t)info.st_blocks * 512;
}

static void check_no_parts(void)
{
	char command[PATH_MAX + 64];

	snprintf(command, sizeof command, "ls -d %s*.part-* >/dev/null 2>&1", path_of("image"));
	CHECK(system(command) != 0);
}

TEST(everything_comes_back_by_every_method)
{
	char command[3 * PATH_MAX], name[64], path[PATH_MAX];

	make_many();
	for (int method = VG_COMPRESSION_NONE; method <= VG_COMPRESSION_ZSTD; method++) {
		snprintf(name, sizeof name, "image-%s", methods[method]);
		snprintf(path, sizeof path, "%s", path_of(name));
		make_image(path, (enum vg_compression)method);
		if (verify(path))
			FAIL("%s: %s", methods[method], vg_last_error()->text);
		empty("target");
		if (restore(path))
			FAIL("%s: %s", methods[method], vg_last_error()->text);
		snprintf(command, sizeof command, "diff -rq %s %s", path_of("source"), path_of("target"));
		CHECK_INT(system(command), 0);
		// Five chunks of zeros take nothing, and of a third of the pages the image takes no more than that.
		snprintf(path, sizeof path, "%s/tree-0/pages-80.img%s", path_of(name),
			 image_compression_suffix((enum vg_compression)method));
		CHECK_INT(blocks_of(path), 0);
		snprintf(path, sizeof path, "%s/tree-0/pages-83.img%s", path_of(name),
			 image_compression_suffix((enum vg_compression)method));
		CHECK(blocks_of(path) < CHUNK_BYTES + CHUNK_BYTES / 10);
	}
}

// ---- what is found -----------------------------------------------------------------------------------

static void flip(const char *path, uint64_t byte, int bit)
{
	_cleanup_close_ int fd = open(path, O_RDWR | O_CLOEXEC);
	unsigned char value;

	CHECK(fd >= 0);
	CHECK_INT(pread(fd, &value, 1, (off_t)byte), 1);
	value ^= (unsigned char)(1 << bit);
	CHECK_INT(pwrite(fd, &value, 1, (off_t)byte), 1);
}

static void check_flips(const char *image, const char *name, uint64_t step)
{
	char path[PATH_MAX];
	struct stat info;
	int bit = 0;

	snprintf(path, sizeof path, "%s/%s", image, name);
	CHECK_INT(stat(path, &info), 0);
	for (uint64_t at = 0; at < (uint64_t)info.st_size; at += step, bit++) {
		flip(path, at, bit % 8);
		enum vg_status status = verify(image);
		if (status != VG_INTEGRITY && !(status == VG_UNSUPPORTED && strcmp(name, IMAGE_DESCRIPTION) == 0))
			FAIL("%s, byte %llu, bit %d: %s", path, (unsigned long long)at, bit % 8,
			     vg_status_text(status));
		if (strcmp(name, IMAGE_DESCRIPTION) != 0)
			CHECK_CONTAINS(vg_last_error()->text, name);
		flip(path, at, bit % 8);
	}
	CHECK_INT(verify(image), VG_OK);
}

TEST(a_flipped_bit_is_found_wherever_it_is)
{
	char image[PATH_MAX], name[64];

	make_few();
	for (int method = VG_COMPRESSION_NONE; method <= VG_COMPRESSION_ZSTD; method++) {
		const char *suffix = image_compression_suffix((enum vg_compression)method);
		snprintf(name, sizeof name, "image-flip-%s", methods[method]);
		snprintf(image, sizeof image, "%s", path_of(name));
		make_image(image, (enum vg_compression)method);
		check_flips(image, IMAGE_DESCRIPTION, 1);
		check_flips(image, "tree-0/core-1.img", 7);
		snprintf(name, sizeof name, "tree-0/pages-1.img%s", suffix);
		check_flips(image, name, 9973);
		snprintf(name, sizeof name, "tree-0/pages-2.img%s", suffix);
		check_flips(image, name, 97);
	}
}

static void shell(const char *image, const char *command)
{
	char line[2 * PATH_MAX];

	snprintf(line, sizeof line, "cd %s/tree-0 && %s", image, command);
	CHECK_INT(system(line), 0);
}

TEST(a_file_too_many_or_too_few_is_found)
{
	static const struct {
		const char *done, *undone, *says;
	} cases[] = {
		{"mv core-1.img ..", "mv ../core-1.img .", "core-1.img is not of this image"},
		{"mv core-1.img ../../kept", "mv ../../kept core-1.img",
		 "lacks 1 of its 3 files: first tree-0/core-1.img"},
		{"touch more.img", "rm more.img", "tree-0/more.img is not of this image"},
		{"touch ../more", "rm ../more", "more is not of this image"},
		{"mkdir ../tree-1 && touch ../tree-1/core-1.img", "rm -r ../tree-1", "tree-1/core-1.img is not of"},
		{"mkdir inner", "rmdir inner", "tree-0/inner is not of this image"},
		{"touch .hidden", "rm .hidden", "tree-0/.hidden is not of this image"},
		{"mv core-1.img ../../kept && ln -s ../../kept core-1.img", "mv ../../kept core-1.img",
		 "core-1.img is no file"},
		{"mv core-1.img ../../kept && mkfifo core-1.img", "rm core-1.img && mv ../../kept core-1.img",
		 "core-1.img is no file"},
		{"cp pages-2.img.lz4 ../../kept && truncate -s -1 pages-2.img.lz4", "mv ../../kept pages-2.img.lz4",
		 "bytes, not"},
		{"cp pages-2.img.lz4 ../../kept && truncate -s +1 pages-2.img.lz4", "mv ../../kept pages-2.img.lz4",
		 "bytes, not"},
		{"mv core-1.img a && mv pages-2.img.lz4 core-1.img && mv a pages-2.img.lz4",
		 "mv core-1.img a && mv pages-2.img.lz4 core-1.img && mv a pages-2.img.lz4", "bytes, not"},
	};
	char image[PATH_MAX];

	make_few();
	snprintf(image, sizeof image, "%s", path_of("image-files"));
	make_image(image, VG_COMPRESSION_LZ4);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		shell(image, cases[i].done);
		enum vg_status status = verify(image);
		if (status != VG_INTEGRITY)
			FAIL("%s: %s", cases[i].done, vg_status_text(status));
		CHECK_CONTAINS(vg_last_error()->text, cases[i].says);
		shell(image, cases[i].undone);
		CHECK_INT(verify(image), VG_OK);
	}
}

// Between verification and restore: what CRIU gets is looked at again.
TEST(a_file_that_changes_while_it_is_restored_is_found)
{
	char image[PATH_MAX], path[PATH_MAX + 64];

	make_few();
	snprintf(image, sizeof image, "%s", path_of("image-late"));
	make_image(image, VG_COMPRESSION_ZSTD);
	snprintf(path, sizeof path, "%s/tree-0/pages-1.img.zst", image);
	empty("target");
	flip(path, 100000, 3);
	CHECK_INT(restore(image), VG_INTEGRITY);
	CHECK_CONTAINS(vg_last_error()->text, "pages-1.img.zst is damaged: chunk 0 of 2, from byte 0 on, has checksum");
	flip(path, 100000, 3);
	snprintf(path, sizeof path, "%s/tree-0/core-1.img", image);
	flip(path, 100, 3);
	CHECK_INT(restore(image), VG_INTEGRITY);
	CHECK_CONTAINS(vg_last_error()->text, "core-1.img has changed since it was looked at");
	// CRIU had it all by then.
	CHECK(made);
	flip(path, 100, 3);
	CHECK_INT(restore(image), VG_OK);
}

// ---- what fails --------------------------------------------------------------------------------------

TEST(a_criu_that_fails_says_why_and_leaves_nothing)
{
	static const struct {
		const char *trick, *says;
	} cases[] = {
		{"fail", "told to fail"},
		{"die", "told to die half way"},
		{"name", "CRIU's stream, after 0 B of it: Protocol error"},
		{"long", "CRIU's stream, after 0 B of it: Protocol error"},
	};
	struct image_draft draft;

	make_few();
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		setenv("TRICK", cases[i].trick, 1);
		CHECK_INT(write_image(path_of("image-trick"), VG_COMPRESSION_LZ4, &draft), VG_SYSTEM);
		CHECK_CONTAINS(vg_last_error()->text, cases[i].says);
		image_finish(&draft);
		check_no_parts();
	}
	CHECK(access(path_of("escaped"), F_OK) < 0);
}

TEST(what_criu_says_is_put_in_words)
{
	char text[512];

	write_text("log", "(00.1) Error (criu/cr-restore.c:1230): Can't fork for 29303: File exists\n");
	criu_reason(path_of("log"), text, sizeof text);
	CHECK_CONTAINS(text, "a pid of the image was taken meanwhile");
	CHECK_CONTAINS(text, "Can't fork for 29303: File exists");
	write_text("log", "(00.1) Error (criu/cr-restore.c:1230): Can't fork for 29303: Cannot allocate memory\n");
	criu_reason(path_of("log"), text, sizeof text);
	CHECK_STR(text, "Error (criu/cr-restore.c:1230): Can't fork for 29303: Cannot allocate memory");
}

// In a child, whose limits and mounts are its own. 0: it failed as it should.
static int fail_in_child(int (*prepare)(const char *directory), const char *directory, const char *says, int method)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		struct image_draft draft;
		char path[PATH_MAX];
		int r = prepare(directory);
		if (r)
			_exit(r);
		snprintf(path, sizeof path, "%s/image", directory);
		enum vg_status failed = write_image(path, (enum vg_compression)method, &draft);
		if (failed != VG_SYSTEM || !strstr(vg_last_error()->text, says)) {
			fprintf(stderr, "%s: %s\n", vg_status_text(failed), vg_last_error()->text);
			_exit(1);
		}
		image_finish(&draft);
		// Neither it nor a part of it.
		_exit(rmdir(directory) == 0 || errno == EBUSY ? 0 : 1);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static int limit_files(const char *directory)
{
	const struct rlimit limit = {1 << 20, 1 << 20};

	(void)directory;
	signal(SIGXFSZ, SIG_IGN);
	return setrlimit(RLIMIT_FSIZE, &limit) ? 1 : 0;
}

static int mount_small(const char *directory)
{
	if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("tmpfs", directory, "tmpfs", 0, "size=3m") < 0)
		return 77;
	return 0;
}

TEST(a_file_that_may_not_grow_is_named)
{
	empty("source");
	make_file("pages-1.img", 4 * CHUNK_BYTES, RANDOM);
	make_file("core-1.img", 100, RANDOM);
	for (int method = VG_COMPRESSION_NONE; method <= VG_COMPRESSION_ZSTD; method++) {
		empty("small");
		CHECK_INT(fail_in_child(limit_files, path_of("small"), "of it: File too large", method), 0);
	}
}

TEST(a_disk_that_is_full_is_named)
{
	empty("source");
	make_file("pages-1.img", 4 * CHUNK_BYTES, RANDOM);
	make_file("core-1.img", 100, RANDOM);
	for (int method = VG_COMPRESSION_NONE; method <= VG_COMPRESSION_ZSTD; method++) {
		empty("small");
		int r = fail_in_child(mount_small, path_of("small"), "of it: No space left on device", method);
		if (r == 77)
			SKIP("a small file system needs rights that this user has not");
		CHECK_INT(r, 0);
	}
}

TEST(levels_and_threads_have_bounds)
{
	CHECK_INT(image_check_compression(VG_COMPRESSION_ZSTD, 22), VG_OK);
	CHECK_INT(image_check_compression(VG_COMPRESSION_ZSTD, 0), VG_OK);
	CHECK_INT(image_check_compression(VG_COMPRESSION_ZSTD, 23), VG_INVALID);
	CHECK_CONTAINS(vg_last_error()->text, "zstd at level 23: there are 1 to 22");
	CHECK_INT(image_check_compression(VG_COMPRESSION_ZSTD, -1), VG_INVALID);
	CHECK_INT(image_check_compression(VG_COMPRESSION_LZ4, 1), VG_INVALID);
	CHECK_CONTAINS(vg_last_error()->text, "it has no levels");
	CHECK_INT(image_check_compression((enum vg_compression)3, 0), VG_INVALID);
	CHECK_INT(image_check_compression((enum vg_compression) - 1, 0), VG_INVALID);
	CHECK_INT(image_check_threads(256), VG_OK);
	CHECK_INT(image_check_threads(257), VG_INVALID);
}

// ---- what is killed ----------------------------------------------------------------------------------

// Killed at the system call `number` of the commit. False: it came to its end before.
static bool kill_at(const char *path, int number)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		struct image_draft draft;
		json_t *description = json_pack("{s:i}", "version", IMAGE_VERSION);
		if (write_image(path, VG_COMPRESSION_LZ4, &draft))
			_exit(2);
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		_exit(image_commit(&draft, description) ? 3 : 0);
	}
	CHECK_INT(waitpid(pid, &status, 0), pid);
	CHECK(WIFSTOPPED(status));
	ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_EXITKILL);
	for (int i = 0; i < number; i++) {
		ptrace(PTRACE_SYSCALL, pid, NULL, NULL);
		CHECK_INT(waitpid(pid, &status, 0), pid);
		if (WIFEXITED(status)) {
			CHECK_INT(WEXITSTATUS(status), 0);
			return false;
		}
	}
	kill(pid, SIGKILL);
	CHECK_INT(waitpid(pid, &status, 0), pid);
	return true;
}

TEST(a_kill_at_any_step_of_the_commit_leaves_a_whole_image_or_none)
{
	char path[PATH_MAX], command[PATH_MAX + 64];
	int whole = 0, none = 0, number = 0;
	bool killed = true;

	make_few();
	snprintf(path, sizeof path, "%s", path_of("image-killed"));
	while (killed) {
		killed = kill_at(path, ++number);
		enum vg_status status = verify(path);
		if (status != VG_OK && status != VG_NOT_FOUND)
			FAIL("killed at call %d of the commit: %s", number, vg_last_error()->text);
		whole += status == VG_OK;
		none += status == VG_NOT_FOUND;
		snprintf(command, sizeof command, "rm -rf %s", path);
		CHECK_INT(system(command), 0);
		// The next one of that name removes what was left.
		struct image_draft draft;
		CHECK_INT(image_begin(path, &draft), VG_OK);
		image_finish(&draft);
		check_no_parts();
	}
	CHECK(whole > 1 && none > 10);
}

// Whatever has such a name, and is none.
TEST(what_only_looks_like_a_draft_is_left_alone)
{
	static const char *const makers[] = {
		"mkdir -m 755 %s.part-000001 && mkdir %s.part-000001/tree-0",
		"mkdir -m 700 %s.part-000002 && touch %s.part-000002/tree-0 %s.part-000002/data",
		"mkdir -m 700 %s.part-000003x && touch %s.part-000003x/tree-0",
		"mkdir -m 700 %s.part-away && touch %s.part-away/tree-0",
		"mkdir -m 700 %s.target && touch %s.target/tree-0 && ln -s %s.target %s.part-000004",
	};
	static const char *const kept[] = {"likeness.part-000001/tree-0",  "likeness.part-000002/data",
					   "likeness.part-000003x/tree-0", "likeness.part-away/tree-0",
					   "likeness.target/tree-0",	   "likeness.part-000004"};
	char path[64], command[1024];
	struct image_draft draft;
	struct stat info;

	snprintf(path, sizeof path, "%.60s", path_of("likeness"));
	for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) {
		snprintf(command, sizeof command, makers[i], path, path, path, path);
		CHECK_INT(system(command), 0);
	}
	CHECK_INT(image_begin(path, &draft), VG_OK);
	image_finish(&draft);
	for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
		CHECK_INT(lstat(path_of(kept[i]), &info), 0);
}

TEST(a_draft_that_somebody_writes_is_left_alone)
{
	struct image_draft first, second;

	make_few();
	CHECK_INT(image_begin(path_of("image-held"), &first), VG_OK);
	CHECK_INT(image_begin(path_of("image-held"), &second), VG_OK);
	CHECK_INT(access(first.directory, F_OK), 0);
	image_finish(&second);
	CHECK_INT(access(first.directory, F_OK), 0);
	image_finish(&first);
	check_no_parts();
}

// ---- another image in its place ------------------------------------------------------------------------

static bool target_has_source(void)
{
	char command[3 * PATH_MAX];

	snprintf(command, sizeof command, "diff -rq %s %s >/dev/null", path_of("source"), path_of("target"));
	return system(command) == 0;
}

// Whoever may write to the directory above can put another image there after this one was looked at.
TEST(what_was_opened_is_what_is_read)
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

// A record of files.img: a regular file of that name, with CRIU's other fields about it; `mode` 0: without one.
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
	if (!mode) {						// the new name comes last
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

TEST(files_at_other_paths_are_told_to_criu)
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
	// What is no such list is not passed on unread.
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
