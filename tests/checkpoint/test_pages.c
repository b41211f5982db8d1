// Checks that a restore gets the files that CRIU wrote unchanged, for all sizes, zeros and compressions, and that
// damage is found.
#include <sched.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>

#include "pages_test.h"

static const char *const methods[] = {"none", "lz4", "zstd"};

// ---- round trip --------------------------------------------------------------------------------------

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

TEST(every_compression_restores_everything)
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
		// The first file has five chunks of zeros, and takes no disk blocks. The second file has data in a
		// third of its pages, and takes little more than one chunk.
		snprintf(path, sizeof path, "%s/tree-0/pages-80.img%s", path_of(name),
			 image_compression_suffix((enum vg_compression)method));
		CHECK_INT(blocks_of(path), 0);
		snprintf(path, sizeof path, "%s/tree-0/pages-83.img%s", path_of(name),
			 image_compression_suffix((enum vg_compression)method));
		CHECK(blocks_of(path) < CHUNK_BYTES + CHUNK_BYTES / 10);
	}
}

// ---- damage ------------------------------------------------------------------------------------------

static void check_flips(const char *image, const char *name, uint64_t step)
{
	char path[PATH_MAX];
	struct stat info;
	int bit = 0;

	snprintf(path, sizeof path, "%s/%s", image, name);
	CHECK_INT(stat(path, &info), 0);
	for (uint64_t at = 0; at < (uint64_t)info.st_size; at += step, bit++) {
		flip_bit(path, at, bit % 8);
		enum vg_status status = verify(image);
		if (status != VG_INTEGRITY && !(status == VG_UNSUPPORTED && strcmp(name, IMAGE_DESCRIPTION) == 0))
			FAIL("%s, byte %llu, bit %d: %s", path, (unsigned long long)at, bit % 8,
			     vg_status_text(status));
		if (strcmp(name, IMAGE_DESCRIPTION) != 0)
			CHECK_CONTAINS(vg_last_error()->text, name);
		flip_bit(path, at, bit % 8);
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

// Damages files after their verification and before the restore. The damage must be found when CRIU reads the files.
TEST(a_file_that_changes_while_it_is_restored_is_found)
{
	char image[PATH_MAX], path[PATH_MAX + 64];

	make_few();
	snprintf(image, sizeof image, "%s", path_of("image-late"));
	make_image(image, VG_COMPRESSION_ZSTD);
	snprintf(path, sizeof path, "%s/tree-0/pages-1.img.zst", image);
	empty("target");
	flip_bit(path, 100000, 3);
	CHECK_INT(restore(image), VG_INTEGRITY);
	CHECK_CONTAINS(vg_last_error()->text, "pages-1.img.zst is damaged: chunk 0 of 2, from byte 0 on, has checksum");
	flip_bit(path, 100000, 3);
	snprintf(path, sizeof path, "%s/tree-0/core-1.img", image);
	flip_bit(path, 100, 3);
	CHECK_INT(restore(image), VG_INTEGRITY);
	CHECK_CONTAINS(vg_last_error()->text, "core-1.img has changed since it was looked at");
	// CRIU had read all files before.
	CHECK(made);
	flip_bit(path, 100, 3);
	CHECK_INT(restore(image), VG_OK);
}

// ---- failures ----------------------------------------------------------------------------------------

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

TEST(errors_of_criu_are_explained)
{
	char text[512];

	write_text("log", "(00.1) Error (criu/cr-restore.c:1230): Can't fork for 29303: File exists\n");
	criu_reason(path_of("log"), text, sizeof text);
	CHECK_CONTAINS(text, "a pid of the image was taken meanwhile");
	CHECK_CONTAINS(text, "Can't fork for 29303: File exists");
	write_text("log", "(00.1) Error (criu/cr-restore.c:1230): Can't fork for 29303: Cannot allocate memory\n");
	criu_reason(path_of("log"), text, sizeof text);
	CHECK_STR(text, "Error (criu/cr-restore.c:1230): Can't fork for 29303: Cannot allocate memory");
	write_text("log",
		   "Error (criu/files-reg.c:2175): File run/virgate/ledgers/a has bad size 1142784 (expect 1011712)\n");
	criu_reason(path_of("log"), text, sizeof text);
	CHECK_CONTAINS(text, "the programs ran in a vGPU of another version of Virgate");
	write_text("log", "Error (criu/files-reg.c:2175): File usr/bin/true has bad size 8 (expect 9)\n");
	criu_reason(path_of("log"), text, sizeof text);
	CHECK_STR(text, "Error (criu/files-reg.c:2175): File usr/bin/true has bad size 8 (expect 9)");
}

// Runs a failing dump in a child with limits and mounts of its own. Returns 0 if the dump failed as expected.
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
		// rmdir() fails if the directory has an image or a draft. With EBUSY the directory is a mount point,
		// and its contents are not checked.
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

// ---- killed commits ----------------------------------------------------------------------------------

// Kills the process that commits the image at its system call `number`. Returns false if the commit ended before that
// call.
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
		// The next draft of the same name removes what the killed commit left.
		struct image_draft draft;
		CHECK_INT(image_begin(path, &draft), VG_OK);
		image_finish(&draft);
		check_no_parts();
	}
	CHECK(whole > 1 && none > 10);
}

// Files whose names look like those of drafts must stay if they are no drafts.
TEST(files_with_names_of_drafts_stay)
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

TEST(a_draft_in_use_stays)
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
