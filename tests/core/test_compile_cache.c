#include "code_test.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

static const char source[] = "template <typename T> __global__ void set(T *p) { *p = 3; }\n";
static char directory[64];

static struct vg_compile_cache *cache_of(uint64_t bytes)
{
	struct vg_compile_cache_options options = {sizeof options, .path = directory, .bytes = bytes};
	struct vg_compile_cache *cache;

	if (!directory[0]) {
		strcpy(directory, "/tmp/test-cache-XXXXXX");
		CHECK(mkdtemp(directory) != NULL);
	}
	OK(vg_compile_cache_open(&options, &cache));
	return cache;
}

__attribute__((destructor)) static void remove_directory(void)
{
	char command[128];

	snprintf(command, sizeof command, "rm -rf %s", directory);
	if (directory[0] && getpid() == test_pid)
		(void)!system(command);
}

// Compiles with the cache; each program name has an entry of its own.
static struct vg_object_code *compile(struct vg_compile_cache *cache, const char *name, enum vg_code_type target)
{
	struct vg_program_options options = {sizeof options, .arch = "sm_90", .name = name};
	struct vg_compile_options how = {sizeof how, .cache = cache, .name_expressions = VG_TEXTS("set<int>")};
	struct vg_program *program;
	struct vg_object_code *code;

	enum vg_status status = vg_program_create(VG_SOURCE_CXX, source, strlen(source), &options, &program);
	if (status == VG_NOT_FOUND)
		SKIP("%s", vg_last_error()->text);
	OK(status);
	OK(vg_program_compile(program, target, &how, &code));
	vg_program_destroy(program);
	return code;
}

static struct vg_compile_cache_statistics statistics_of(struct vg_compile_cache *cache)
{
	struct vg_compile_cache_statistics statistics;

	OK(vg_compile_cache_get_statistics(cache, &statistics));
	return statistics;
}

static void expect_counts(struct vg_compile_cache *cache, uint64_t hits, uint64_t misses)
{
	CHECK_INT(statistics_of(cache).hits, hits);
	CHECK_INT(statistics_of(cache).misses, misses);
}

TEST(a_hit_returns_what_was_compiled)
{
	struct vg_compile_cache *cache = cache_of(0), *again = cache_of(0);
	size_t size[2];

	struct vg_object_code *first = compile(cache, "a", VG_CODE_CUBIN);
	expect_counts(cache, 0, 1);
	CHECK_INT(statistics_of(cache).entries, 1);
	struct vg_object_code *second = compile(again, "a", VG_CODE_CUBIN);
	expect_counts(again, 1, 0);
	const void *data[] = {vg_object_code_data(first, &size[0]), vg_object_code_data(second, &size[1])};
	CHECK(size[0] == size[1] && memcmp(data[0], data[1], size[0]) == 0);
	CHECK_STR(vg_object_code_symbol(second, "set<int>"), vg_object_code_symbol(first, "set<int>"));
	CHECK_STR(vg_object_code_name(second), "a");
	vg_object_code_destroy(first);
	vg_object_code_destroy(second);
	vg_compile_cache_destroy(again);
	vg_compile_cache_destroy(cache);
}

static bool is_hit(struct vg_compile_cache *cache, const struct vg_program_options *options,
		   const struct vg_compile_options *how, const char *text, enum vg_code_type target)
{
	uint64_t before = statistics_of(cache).hits;
	struct vg_compile_options cached = *how;
	struct vg_program *program;
	struct vg_object_code *code;

	cached.cache = cache;
	OK(vg_program_create(VG_SOURCE_CXX, text, strlen(text), options, &program));
	OK(vg_program_compile(program, target, &cached, &code));
	vg_object_code_destroy(code);
	vg_program_destroy(program);
	return statistics_of(cache).hits > before;
}

TEST(every_input_is_part_of_the_key)
{
	struct vg_compile_cache *cache = cache_of(0);
	struct vg_program_options plain = {sizeof plain, .arch = "sm_90"}, other = plain;
	struct vg_compile_options none = {sizeof none}, how = none;
	static const char text[] = "__global__ void k() {}";

	vg_object_code_destroy(compile(cache, "z", VG_CODE_PTX));
	CHECK(!is_hit(cache, &plain, &none, text, VG_CODE_PTX));
	CHECK(is_hit(cache, &plain, &none, text, VG_CODE_PTX));
	CHECK(!is_hit(cache, &plain, &none, "__global__ void l() {}", VG_CODE_PTX));
	CHECK(!is_hit(cache, &plain, &none, text, VG_CODE_CUBIN));
	other.arch = "sm_80";
	CHECK(!is_hit(cache, &other, &none, text, VG_CODE_PTX));
	other = plain;
	other.lineinfo = 1;
	CHECK(!is_hit(cache, &other, &none, text, VG_CODE_PTX));
	other = plain;
	other.name = "other";
	CHECK(!is_hit(cache, &other, &none, text, VG_CODE_PTX));
	how.digest = "1";
	how.digest_size = 1;
	CHECK(!is_hit(cache, &plain, &how, text, VG_CODE_PTX));
	how.digest = "2";
	CHECK(!is_hit(cache, &plain, &how, text, VG_CODE_PTX));
	CHECK(is_hit(cache, &plain, &how, text, VG_CODE_PTX));
	how = none;
	how.name_expressions = (struct vg_texts)VG_TEXTS("k");
	CHECK(!is_hit(cache, &plain, &how, text, VG_CODE_PTX));
	CHECK(is_hit(cache, &plain, &none, text, VG_CODE_PTX));
	OK(vg_compile_cache_clear(cache));
	CHECK_INT(statistics_of(cache).entries, 0);
	CHECK(!is_hit(cache, &plain, &none, text, VG_CODE_PTX));
	vg_compile_cache_destroy(cache);
}

// The cache also keeps what other tools compile from PTX and NVVM IR.
TEST(ptx_is_cached_too)
{
	struct vg_compile_cache *cache = cache_of(0);
	struct vg_program_options options = {sizeof options, .arch = "sm_90"};
	struct vg_compile_options how = {sizeof how, .cache = cache};
	struct vg_program *program;
	struct vg_object_code *code;
	size_t size;

	char *ptx = read_built_file("kernels.ptx", &size);
	enum vg_status status = vg_program_create(VG_SOURCE_PTX, ptx, size, &options, &program);
	free(ptx);
	if (status == VG_NOT_FOUND)
		SKIP("%s", vg_last_error()->text);
	OK(status);
	for (uint64_t i = 0; i < 2; i++) {
		OK(vg_program_compile(program, VG_CODE_CUBIN, &how, &code));
		vg_object_code_destroy(code);
		expect_counts(cache, i, 1);
	}
	vg_program_destroy(program);
	vg_compile_cache_destroy(cache);
}

static void refuse_without_digest(struct vg_compile_cache *cache, const char *text,
				  const struct vg_program_options *options, const char *part)
{
	struct vg_compile_options how = {sizeof how, .cache = cache};
	struct vg_program *program;
	struct vg_object_code *code;

	OK(vg_program_create(VG_SOURCE_CXX, text, strlen(text), options, &program));
	REFUSED(vg_program_compile(program, VG_CODE_PTX, &how, &code), VG_INVALID, part);
	vg_program_destroy(program);
}

TEST(files_that_the_compiler_reads_need_a_digest)
{
	static const char *const including[] = {"#include <a.h>\n",	     "#  include \"a.h\"\n",
						"# /* x */ include <a.h>\n", "%:include <a.h>\n",
						"#\\\ninclude <a.h>\n",	     "#if __has_include(<a.h>)\n#endif\n",
						"#inc\\\nlude <a.h>\n",	     "#include_next <a.h>\n",
						"_Pragma(\"x\")\n",	     "#embed \"a\"\n"};
	struct vg_program_options options = {sizeof options, .arch = "sm_90"};
	struct vg_compile_cache *cache;

	vg_object_code_destroy(compile(cache = cache_of(0), "z", VG_CODE_PTX));
	for (size_t i = 0; i < sizeof including / sizeof *including; i++)
		refuse_without_digest(cache, including[i], &options,
				      "includes files, whose contents the cache cannot know");
	options.include_path = (struct vg_texts)VG_TEXTS("/nowhere");
	refuse_without_digest(cache, "x", &options, "the option include_path makes the compiler read or write files");
	options = (struct vg_program_options){sizeof options, .arch = "sm_90", .pch = 1};
	refuse_without_digest(cache, "x", &options, "the option pch makes");
	options = (struct vg_program_options){sizeof options, .arch = "sm_90", .time = "t.csv"};
	refuse_without_digest(cache, "x", &options, "the option time makes");
	options.time = NULL;
	setenv("NVRTC_APPEND_FLAGS", "-I/", 1);
	refuse_without_digest(cache, "x", &options, "NVRTC_APPEND_FLAGS adds options to the compiler's");
	unsetenv("NVRTC_APPEND_FLAGS");
	vg_compile_cache_destroy(cache);
}

// Returns the path of the only entry.
static const char *find_entry(void)
{
	static char path[512];
	DIR *stream = opendir(directory);
	struct dirent *file;

	path[0] = '\0';
	while ((file = readdir(stream)))
		if (file->d_name[0] != '.')
			snprintf(path, sizeof path, "%s/%s", directory, file->d_name);
	closedir(stream);
	return path;
}

static void flip_bit(const char *path, off_t at)
{
	unsigned char byte;
	int fd = open(path, O_RDWR);

	CHECK(fd >= 0 && pread(fd, &byte, 1, at) == 1);
	byte ^= 0x10;
	CHECK(pwrite(fd, &byte, 1, at) == 1);
	close(fd);
}

TEST(damaged_entries_are_compiled_again)
{
	struct vg_compile_cache *cache = cache_of(0);
	struct stat status;
	uint64_t damaged = 0;

	OK(vg_compile_cache_clear(cache));
	vg_object_code_destroy(compile(cache, "d", VG_CODE_PTX));
	CHECK_INT(stat(find_entry(), &status), 0);
	for (off_t at = 0; at < status.st_size; at += 1 + status.st_size / 40) {
		flip_bit(find_entry(), at);
		struct vg_object_code *code = compile(cache, "d", VG_CODE_PTX);
		CHECK_CONTAINS(vg_object_code_data(code, NULL), ".entry");
		vg_object_code_destroy(code);
		CHECK_INT(statistics_of(cache).damaged, ++damaged);
	}
	for (off_t size = 0; size < status.st_size; size += 1 + status.st_size / 20) {
		CHECK_INT(truncate(find_entry(), size), 0);
		vg_object_code_destroy(compile(cache, "d", VG_CODE_PTX));
		CHECK_INT(statistics_of(cache).damaged, ++damaged);
	}
	CHECK_INT(statistics_of(cache).hits, 0);
	vg_object_code_destroy(compile(cache, "d", VG_CODE_PTX));
	CHECK_INT(statistics_of(cache).hits, 1);
	CHECK_INT(statistics_of(cache).entries, 1);
	vg_compile_cache_destroy(cache);
}

// Compiles a program with this macro twice, and checks whether the cache keeps the result (`kept`). It must not keep
// the result if the program's text contains the time.
static void expect_of_time(struct vg_compile_cache *cache, const char *text, const char *macro, bool kept)
{
	struct vg_program_options options = {sizeof options, .arch = "sm_90", .name = "t"};
	struct vg_compile_options how = {sizeof how, .cache = cache};
	struct vg_object_code *codes[2];
	struct vg_program *program;
	size_t sizes[2];

	if (macro)
		options.define_macro = (struct vg_texts){&macro, 1};
	OK(vg_compile_cache_clear(cache));
	uint64_t hits_before = statistics_of(cache).hits;
	OK(vg_program_create(VG_SOURCE_CXX, text, strlen(text), &options, &program));
	for (int i = 0; i < 2; i++) {
		if (i && !kept)
			usleep(1100000);
		OK(vg_program_compile(program, VG_CODE_PTX, &how, &codes[i]));
	}
	const void *data[] = {vg_object_code_data(codes[0], &sizes[0]), vg_object_code_data(codes[1], &sizes[1])};
	bool same = sizes[0] == sizes[1] && memcmp(data[0], data[1], sizes[0]) == 0;
	CHECK_INT(same, kept);
	CHECK_INT(statistics_of(cache).entries, kept);
	CHECK_INT(statistics_of(cache).hits - hits_before, kept);
	vg_object_code_destroy(codes[0]);
	vg_object_code_destroy(codes[1]);
	vg_program_destroy(program);
}

TEST(programs_with_the_time_are_not_stored)
{
	struct vg_compile_cache *cache = cache_of(0);

	vg_object_code_destroy(compile(cache, "d", VG_CODE_PTX)); // skips the test without NVRTC
	expect_of_time(cache, "__device__ char t[] = __TIME__;", NULL, false);
	expect_of_time(cache, "__device__ char t[] = __DATE__ __TI\\\nME__;", NULL, false);
	expect_of_time(cache, "__device__ char t[] = NOW;", "NOW=__TIME__", false);
	expect_of_time(cache, "__device__ char t[] = \"__TIM__ __DAT E__\";", NULL, true);
	vg_compile_cache_destroy(cache);
}

struct listener {
	struct vg_compile_cache *cache;
	struct vg_program *program;
	int heard;
};

// A log callback that compiles the same program again, and then makes a call that fails.
static void compile_again(void *user, enum vg_log_level level, const char *text)
{
	struct vg_compile_options how = {sizeof how, .cache = ((struct listener *)user)->cache};
	struct listener *it = user;
	struct vg_object_code *code;

	CHECK_CONTAINS(text, "is damaged: it is compiled again");
	it->heard++;
	OK(vg_program_compile(it->program, VG_CODE_PTX, &how, &code));
	vg_object_code_destroy(code);
	CHECK_INT(vg_compile_cache_clear(NULL), VG_INVALID);
}

TEST(log_callback_may_use_the_program)
{
	static const char text[] = "__global__ void k() {}";
	struct vg_program_options options = {sizeof options, .arch = "sm_90", .name = "listen"};
	struct listener it = {.cache = cache_of(0)};
	struct vg_compile_options how = {sizeof how, .cache = it.cache};
	struct vg_object_code *code;

	vg_object_code_destroy(compile(it.cache, "d", VG_CODE_PTX)); // skips the test without NVRTC
	OK(vg_compile_cache_clear(it.cache));
	OK(vg_program_create(VG_SOURCE_CXX, text, strlen(text), &options, &it.program));
	OK(vg_program_compile(it.program, VG_CODE_PTX, &how, &code));
	vg_object_code_destroy(code);
	flip_bit(find_entry(), 0);
	REFUSED(vg_program_compile(it.program, VG_CODE_PTX, &how, NULL), VG_INVALID, "ret_code is NULL");
	vg_log_set(compile_again, &it);
	alarm(60); // ends a deadlock
	OK(vg_program_compile(it.program, VG_CODE_PTX, &how, &code));
	alarm(0);
	vg_log_set(NULL, NULL);
	CHECK_INT(it.heard, 1);
	// the failure of the call in the callback is not the last error
	CHECK_CONTAINS(vg_last_error()->text, "ret_code is NULL");
	CHECK_INT(statistics_of(it.cache).damaged, 1);
	vg_object_code_destroy(code);
	vg_program_destroy(it.program);
	vg_compile_cache_destroy(it.cache);
}

static void set_age(const char *path, time_t seconds)
{
	struct timespec times[2] = {{seconds, 0}, {seconds, 0}};

	CHECK_INT(utimensat(AT_FDCWD, path, times, 0), 0);
}

TEST(least_recently_used_entries_are_removed_first)
{
	struct vg_compile_cache *cache = cache_of(0);

	OK(vg_compile_cache_clear(cache));
	vg_object_code_destroy(compile(cache, "a", VG_CODE_PTX));
	uint64_t one = statistics_of(cache).bytes;
	set_age(find_entry(), 1000);
	vg_compile_cache_destroy(cache);
	cache = cache_of(one * 5 / 2); // room for two entries
	vg_object_code_destroy(compile(cache, "b", VG_CODE_PTX));
	CHECK_INT(statistics_of(cache).entries, 2);
	vg_object_code_destroy(compile(cache, "a", VG_CODE_PTX)); // a is now the most recently used
	expect_counts(cache, 1, 1);
	usleep(20000);
	vg_object_code_destroy(compile(cache, "a", VG_CODE_PTX));
	usleep(20000);
	vg_object_code_destroy(compile(cache, "c", VG_CODE_PTX));
	CHECK_INT(statistics_of(cache).entries, 2);
	CHECK(statistics_of(cache).bytes <= one * 5 / 2);
	vg_object_code_destroy(compile(cache, "a", VG_CODE_PTX));
	expect_counts(cache, 3, 2);
	vg_object_code_destroy(compile(cache, "b", VG_CODE_PTX)); // b was removed from the cache
	expect_counts(cache, 3, 3);
	vg_compile_cache_destroy(cache);
	cache = cache_of(10); // no entry fits, but compiling works
	vg_object_code_destroy(compile(cache, "a2", VG_CODE_PTX));
	CHECK_INT(statistics_of(cache).failed, 1);
	vg_compile_cache_destroy(cache);
}

// After a clock was set back, entries have future times: the cache must not keep them instead of new entries.
TEST(entries_with_a_future_time_are_removed_first)
{
	struct vg_compile_cache *cache = cache_of(0);

	OK(vg_compile_cache_clear(cache));
	vg_object_code_destroy(compile(cache, "a", VG_CODE_PTX));
	uint64_t one = statistics_of(cache).bytes;
	set_age(find_entry(), time(NULL) + 1000000);
	vg_compile_cache_destroy(cache);
	cache = cache_of(one * 3 / 2); // room for one entry
	vg_object_code_destroy(compile(cache, "b", VG_CODE_PTX));
	CHECK_INT(statistics_of(cache).entries, 1);
	vg_object_code_destroy(compile(cache, "b", VG_CODE_PTX));
	expect_counts(cache, 1, 1);
	vg_compile_cache_destroy(cache);
}

TEST(other_files_in_the_directory_are_kept)
{
	struct vg_compile_cache *cache = cache_of(0);
	static const char *const names[] = {"new-ideas.txt", "new-0123456789abcdef.c", "new-0123456789abcdef"};
	char path[128];

	for (int i = 0; i < 3; i++) {
		snprintf(path, sizeof path, "%s/%s", directory, names[i]);
		int fd = open(path, O_WRONLY | O_CREAT, 0600);
		CHECK(fd >= 0);
		close(fd);
		set_age(path, 1000);
	}
	OK(vg_compile_cache_clear(cache));
	for (int i = 0; i < 3; i++) {
		snprintf(path, sizeof path, "%s/%s", directory, names[i]);
		CHECK_INT(access(path, F_OK), i < 2 ? 0 : -1);
		unlink(path);
	}
	vg_compile_cache_destroy(cache);
}

TEST(many_processes_use_one_cache)
{
	enum { CHILDREN = 6, ROUNDS = 12 };
	struct vg_compile_cache *cache = cache_of(0);
	int status;

	OK(vg_compile_cache_clear(cache));
	vg_object_code_destroy(compile(cache, "n0", VG_CODE_PTX));
	uint64_t limit = statistics_of(cache).bytes * 3;
	fflush(stdout);
	for (int child = 0; child < CHILDREN; child++) {
		if (fork())
			continue;
		struct vg_compile_cache *mine = cache_of(limit);
		for (int i = 0; i < ROUNDS; i++) {
			char name[8];
			snprintf(name, sizeof name, "n%d", (i * (child + 1)) % 5);
			struct vg_object_code *code = compile(mine, name, VG_CODE_PTX);
			CHECK_CONTAINS(vg_object_code_data(code, NULL), ".entry");
			CHECK_STR(vg_object_code_name(code), name);
			vg_object_code_destroy(code);
		}
		CHECK_INT(statistics_of(mine).damaged, 0);
		CHECK_INT(statistics_of(mine).failed, 0);
		_exit(0);
	}
	for (int child = 0; child < CHILDREN; child++) {
		CHECK(wait(&status) > 0);
		CHECK_INT(status, 0);
	}
	CHECK(statistics_of(cache).entries >= 1);
	CHECK(statistics_of(cache).bytes <= limit);
	vg_compile_cache_destroy(cache);
}

TEST(cache_directories)
{
	struct vg_compile_cache_options options = {sizeof options, .path = "cache"};
	struct vg_compile_cache *cache = NULL;
	char path[128];

	REFUSED(vg_compile_cache_open(&options, &cache), VG_INVALID, "path \"cache\" is relative");
	options.path = "/proc/cache";
	REFUSED(vg_compile_cache_open(&options, &cache), VG_SYSTEM, "no cache in /proc/cache: ");
	options.path = "/tmp";
	REFUSED(vg_compile_cache_open(&options, &cache), VG_DENIED, "no cache in /tmp: others may write there");
	REFUSED(vg_compile_cache_open(NULL, NULL), VG_INVALID, "ret_cache is NULL");
	CHECK(cache == NULL);
	vg_compile_cache_destroy(cache_of(0));
	CHECK_INT(setenv("XDG_CACHE_HOME", directory, 1), 0);
	OK(vg_compile_cache_open(NULL, &cache));
	snprintf(path, sizeof path, "%s/virgate/programs", directory);
	CHECK_STR(vg_compile_cache_path(cache), path);
	CHECK_INT(access(path, F_OK), 0);
	OK(vg_compile_cache_close(cache));
	OK(vg_compile_cache_close(cache));
	REFUSED(vg_compile_cache_clear(cache), VG_CLOSED, "the compile cache has been closed");
	vg_compile_cache_destroy(cache);
	vg_compile_cache_destroy(NULL);
	unsetenv("XDG_CACHE_HOME");
	setenv("HOME", directory, 1);
	OK(vg_compile_cache_open(NULL, &cache));
	CHECK_CONTAINS(vg_compile_cache_path(cache), "/.cache/virgate/programs");
	vg_compile_cache_destroy(cache);
	unsetenv("HOME");
	REFUSED(vg_compile_cache_open(NULL, &cache), VG_SYSTEM, "neither XDG_CACHE_HOME nor HOME is an absolute path");
}
