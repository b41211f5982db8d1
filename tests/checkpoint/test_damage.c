// Damages eight bytes of an image at each position. The damaged image must be refused or reported, and other images
// must be unharmed. With VIRGATE_TEST_FULL, the test damages all positions. Otherwise it damages the beginning and the
// end of each file, and some positions between them.
#include "checkpoint/data/sum.h"
#include "checkpoint/image/files.h"
#include "checkpoint/image/image.h"
#include "virgate/image.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include "checkpoint_test.h"
#include "random.h"

enum { WORD = 8, MOST_FILES = 16, SECONDS = 20 };
enum pattern { ZEROS, ONES, RANDOM, NINES, PATTERNS };
#define MOST_MEMORY (UINT64_C(3) << 30)

static const char *const names[] = {"0", "0xff", "random", "9"};
static char hurt[PATH_MAX], other[PATH_MAX], listed[PATH_MAX];
// ---- two images -----------------------------------------------------------------------------------------

static void write_source(const char *name, size_t length, bool sparse)
{
	char path[PATH_MAX];
	uint64_t *words = calloc(length / 8 + 1, 8);

	CHECK(words != NULL);
	for (size_t i = 0; i < length / 8; i++)
		words[i] = sparse && i / 512 % 3 ? 0 : next_random();
	snprintf(path, sizeof path, "%s/%s", path_of("source"), name);
	CHECK_INT(vg_file_write_atomic(path, words, length, 0600), 0);
	free(words);
}

// Writes a script that replaces CRIU: it reads and writes files, and makes no process.
static void write_criu(void)
{
	char script[2048];

	snprintf(script, sizeof script,
		 "#!/bin/sh\n"
		 "[ \"$1\" = --version ] && { echo 'Version: 4.2'; exit 0; }\n"
		 "if [ \"$1\" = dump ]; then\n"
		 "	for word; do [ \"$last\" = -t ] && pid=$word; last=$word; done\n"
		 "	kill -STOP $pid; rm -f $SOURCE/core-*; head -c 600 /dev/urandom >$SOURCE/core-$pid.img\n"
		 "fi\n"
		 "exec %s \"$@\"\n",
		 STREAMING_CRIU);
	write_text("criu", script);
	CHECK_INT(chmod(path_of("criu"), 0755), 0);
	setenv("VIRGATE_CRIU", path_of("criu"), 1);
}

static void write_down(const char *vgpu, const char *image, const char *options)
{
	char rounds[PATH_MAX], command[2 * PATH_MAX + 32];
	pid_t runner;

	snprintf(rounds, sizeof rounds, "%s-%s", path_of("rounds"), vgpu);
	pid_t pid = start_in_vgpu(vgpu, rounds, "", &runner);
	CHECK_RUN("dump --pid %d --dir %s %s", (int)pid, image, options);
	CHECK_INT(end_of_run(runner), 75);
	// The script fails if the restored files differ from the files that it has written.
	snprintf(command, sizeof command, "cp -r %s %s.criu", path_of("source"), image);
	CHECK_INT(system(command), 0);
}

static void need_images(void)
{
	static bool made;

	if (made)
		return;
	made = true;
	snprintf(listed, sizeof listed, "%s", path_of("images"));
	snprintf(hurt, sizeof hurt, "%.*s/hurt", PATH_MAX - 8, listed);
	snprintf(other, sizeof other, "%.*s/other", PATH_MAX - 8, listed);
	CHECK_INT(mkdir(listed, 0700), 0);
	CHECK_INT(mkdir(path_of("source"), 0700), 0);
	CHECK_INT(mkdir(path_of("target"), 0700), 0);
	setenv("SOURCE", path_of("source"), 1);
	setenv("TARGET", path_of("target"), 1);
	write_criu();
	write_source("pages-1.img", 100000, true);
	write_source("pages-2.img", 12000, false);
	write_source("pstree.img", 200, false);
	write_source("inventory.img", 40, false);
	with_vgpu("other");
	with_vgpu("hurt");
	write_down("other", other, "");
	write_down("hurt", hurt, "--compress lz4");
}

// ---- damage ---------------------------------------------------------------------------------------------

struct file {
	char name[NAME_MAX + 32], path[PATH_MAX + NAME_MAX];
	unsigned char *data; // the original bytes
	size_t length;
	bool description, pages;
};

static struct file files[MOST_FILES];
static size_t file_count;

static void read_file(const char *name)
{
	struct file *file = &files[file_count++];
	struct stat info;

	CHECK(file_count < MOST_FILES);
	snprintf(file->name, sizeof file->name, "%s", name);
	snprintf(file->path, sizeof file->path, "%s/%s", hurt, name);
	file->description = strcmp(name, IMAGE_DESCRIPTION) == 0;
	file->pages = strstr(name, "pages-") != NULL;
	CHECK_INT(stat(file->path, &info), 0);
	file->length = (size_t)info.st_size;
	file->data = calloc(1, file->length + 1);
	_cleanup_close_ int fd = open(file->path, O_RDONLY | O_CLOEXEC);
	CHECK_INT(vg_read_all(fd, file->data, file->length, 0), file->length);
}

static void read_files(void)
{
	json_t *description, *one;
	struct image_dir dir;
	size_t i;

	need_images();
	if (file_count)
		return;
	CHECK_INT(image_open(hurt, &dir), VG_OK);
	CHECK_INT(image_read(&dir, &description), VG_OK);
	image_close(&dir);
	read_file(IMAGE_DESCRIPTION);
	json_array_foreach(json_object_get(description, "files"), i, one)
		read_file(json_string_value(json_object_get(one, "name")));
	json_decref(description);
	CHECK_INT(file_count, 6);
}

// Returns the next position to damage after `at`.
static size_t next_position(const struct file *file, size_t at)
{
	static int full = -1;

	if (full < 0)
		full = getenv("VIRGATE_TEST_FULL") != NULL;
	if (full || at < 4 * WORD || at + 2 * WORD >= file->length)
		return at + WORD;
	// Descriptions consist of lines of text, the other files of pages and chunks: each kind has its own step.
	size_t step = file->description ? 37 : file->pages ? 4093 : 61;
	return at + step + WORD < file->length ? at + step : file->length - WORD;
}

static void put(const struct file *file, const unsigned char *data, size_t length, size_t at)
{
	_cleanup_close_ int fd = open(file->path, O_WRONLY | O_CLOEXEC);

	CHECK(fd >= 0);
	CHECK_INT(vg_write_all(fd, data, length, (off_t)at), 0);
}

// Damages the file at that position. Returns false if the file has those bytes already.
static bool damage(const struct file *file, size_t at, enum pattern pattern)
{
	size_t length = file->length - at < WORD ? file->length - at : WORD;
	unsigned char word[WORD];
	uint64_t random = next_random();

	memset(word, pattern == ZEROS ? 0 : pattern == ONES ? 0xff : '9', sizeof word);
	if (pattern == RANDOM)
		memcpy(word, &random, sizeof word);
	put(file, word, length, at);
	return memcmp(word, file->data + at, length) != 0;
}

static void mend(const struct file *file)
{
	put(file, file->data, file->length, 0);
}

// Writes a valid checksum into the damaged description, so that the reader must check the contents, too.
static void seal_again(const struct file *file)
{
	static const char key[] = "\"xxh3\": \"", end[] = "\",\n";
	unsigned char *data = malloc(file->length);
	char sum[IMAGE_SUM_TEXT];

	CHECK(data != NULL);
	_cleanup_close_ int fd = open(file->path, O_RDONLY | O_CLOEXEC);
	CHECK_INT(vg_read_all(fd, data, file->length, 0), file->length);
	const char *found = memmem(file->data, file->length, key, sizeof key - 1);
	CHECK(found != NULL);
	size_t digits = (size_t)(found - (const char *)file->data) + sizeof key - 1;
	size_t sealed = digits + IMAGE_SUM_TEXT - 1 + sizeof end - 1;
	image_sum_format(sum_bytes(data + sealed, file->length - sealed), sum);
	put(file, (const unsigned char *)sum, IMAGE_SUM_TEXT - 1, digits);
	free(data);
}

// ---- reports of damage ----------------------------------------------------------------------------------

static void check_text(enum vg_status status)
{
	if (status && !*vg_last_error()->text)
		FAIL("%s, and no sentence", vg_status_text(status));
}

// Checks `image list` and `image inspect`. If `told`, both must report the damage.
static void check_listed(bool told)
{
	struct vg_image_list *list;
	char *text = NULL;

	enum vg_status status = vg_image_inspect(hurt, &text);
	check_text(status);
	CHECK(!told || status);
	free(text);
	CHECK_INT(vg_image_list(listed, &list), VG_OK);
	CHECK_INT(list->count, 2);
	CHECK_STR(list->images[0].dir, hurt);
	CHECK_INT(list->images[0].state, status ? VG_IMAGE_UNREADABLE : VG_IMAGE_WHOLE);
	CHECK(!status || *list->images[0].problem);
	CHECK_STR(list->images[1].dir, other);
	CHECK_INT(list->images[1].state, VG_IMAGE_WHOLE);
	vg_image_list_free(list);
}

static void check_verified(bool told)
{
	enum vg_status status = vg_image_verify(hurt, NULL);

	check_text(status);
	CHECK(!told || status == VG_INTEGRITY || status == VG_UNSUPPORTED);
	CHECK_INT(vg_image_verify(other, NULL), VG_OK);
}

struct place {
	size_t at;
	enum pattern pattern;
};

static void bound_memory(void)
{
// Sanitizers reserve far more memory than they use.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	const struct rlimit most = {MOST_MEMORY, MOST_MEMORY};

	CHECK_INT(setrlimit(RLIMIT_AS, &most), 0);
#endif
}

__attribute__((noreturn)) static void sweep_in_child(const struct file *file, bool sealed, struct place *place)
{
	bound_memory();
	for (size_t at = 0; at < file->length; at = next_position(file, at))
		for (enum pattern pattern = ZEROS; pattern < PATTERNS; pattern++) {
			// The reader has SECONDS for each position. The alarm ends the test if it hangs.
			alarm(SECONDS);
			*place = (struct place){at, pattern};
			bool changed = damage(file, at, pattern);
			if (sealed)
				seal_again(file);
			check_listed(changed && file->description && !sealed);
			check_verified(changed && !sealed);
			mend(file);
		}
	_exit(0);
}

// Tests all positions of a file. Runs in a child process, since the reader may crash.
static void sweep(const struct file *file, bool sealed)
{
	struct place *place = mmap(NULL, sizeof *place, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status;

	CHECK(place != MAP_FAILED);
	fflush(stdout);
	pid_t child = fork();
	if (child == 0)
		sweep_in_child(file, sealed, place);
	CHECK_INT(waitpid(child, &status, 0), child);
	mend(file);
	if (status)
		FAIL("%s%s with %s at byte %zu: %s %d", file->name, sealed ? " (sealed again)" : "",
		     names[place->pattern], place->at, WIFSIGNALED(status) ? "ended by signal" : "exit code",
		     WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	munmap(place, sizeof *place);
}

TEST(damage_is_found_wherever_it_is)
{
	read_files();
	for (size_t i = 0; i < file_count; i++)
		sweep(&files[i], false);
	CHECK_INT(vg_image_verify(hurt, NULL), VG_OK);
}

TEST(a_damaged_description_with_a_valid_checksum_does_no_harm)
{
	read_files();
	sweep(&files[0], true);
	CHECK_INT(vg_image_verify(hurt, NULL), VG_OK);
}

// ---- the verbs ------------------------------------------------------------------------------------------

// Runs the program on the image. Checks that no signal ends it and that it prints lines of text.
static int run_soundly(const char *verb, const char *image)
{
	char source[PATH_MAX + 8];

	snprintf(source, sizeof source, "%s.criu", image);
	setenv("SOURCE", source, 1);
	int code = run("%s %s", verb, image);
	if (code >= 126)
		FAIL("%s %s: %d: %s", verb, image, code, said);
	for (const char *at = said; *at; at++)
		if ((unsigned char)*at < ' ' && *at != '\n' && *at != '\t')
			FAIL("%s %s says the character %d", verb, image, *at);
	return code;
}

// Checks that the undamaged image is restored with the same result as before. The script creates no process, so none is
// left.
static void check_other(const char *as_before)
{
	char command[2 * PATH_MAX + 64];

	snprintf(command, sizeof command, "rm -f %s/*", path_of("target"));
	CHECK_INT(system(command), 0);
	CHECK_INT(run_soundly("restore --detach --dir", other), 125);
	CHECK_STR(said, as_before);
	snprintf(command, sizeof command, "cmp %s/pages-1.img %s/pages-1.img", path_of("source"), path_of("target"));
	CHECK_INT(system(command), 0);
	CHECK_INT(run_soundly("image verify", other), 0);
	CHECK_INT(run_soundly("ps", ""), 0);
}

TEST(verbs_refuse_only_the_damaged_image)
{
	static char as_before[sizeof said], plain[sizeof said];

	read_files();
	CHECK_INT(run_soundly("restore --detach --dir", other), 125);
	strcpy(as_before, said);
	CHECK_INT(run_soundly("restore --detach --dir", hurt), 125);
	strcpy(plain, said);
	for (size_t i = 0; i < file_count; i++) {
		const struct file *file = &files[i];
		for (enum pattern pattern = ZEROS; pattern <= RANDOM; pattern++) {
			size_t at = pattern == ZEROS ? 0 : pattern == ONES ? file->length / 2 : file->length - WORD;
			// The position may have these bytes already, for example in a hole. Then there is nothing to
			// test.
			if (!damage(file, at, pattern))
				damage(file, at, RANDOM);
			CHECK_INT(run_soundly("image verify", hurt), 1);
			CHECK_CONTAINS(said, file->name);
			CHECK_INT(run_soundly("image list", listed), 0);
			CHECK_CONTAINS(said, other);
			CHECK_INT(run_soundly("image list --json", listed), 0);
			CHECK_INT(run_soundly("image inspect", hurt), file->description ? 1 : 0);
			CHECK_INT(run_soundly("image inspect --json", hurt), file->description ? 1 : 0);
			CHECK_INT(run_soundly("restore --detach --dir", hurt), 125);
			CHECK_CONTAINS(said, file->name);
			CHECK(strcmp(said, plain) != 0);
			if (pattern == ZEROS)
				check_other(as_before);
			mend(file);
		}
	}
	CHECK_INT(run_soundly("restore --detach --dir", hurt), 125);
	CHECK_STR(said, plain);
}

TEST(zz_shut_down_the_daemon)
{
	run("shutdown");
}
