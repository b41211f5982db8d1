#include "options.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include "preload.h"
#include "base/suggest.h"
#include "test.h"

enum { MOST_WORDS = 16 };
static char *words[MOST_WORDS + 1];
static struct arguments arguments;

// Parses the words. Closes standard error meanwhile, because mistakes print messages.
static int parse_words(const struct verb *verb, const char *const *given)
{
	int count = 0, saved = dup(2);

	while (given[count]) {
		words[count] = (char *)given[count];
		count++;
	}
	words[count] = NULL;
	CHECK(freopen("/dev/null", "w", stderr));
	int r = options_parse(verb, count, words, &arguments);
	fflush(stderr);
	dup2(saved, 2);
	close(saved);
	return r;
}

#define PARSE(verb, ...) parse_words(verb, (const char *const[]){__VA_ARGS__, NULL})

TEST(value_is_next_word_or_after_equals)
{
	CHECK_INT(PARSE(&verb_create, "train", "--memory", "8G", "--share=30", "-d1"), 0);
	CHECK_INT(arguments.count, 1);
	CHECK_STR(arguments.words[0], "train");
	CHECK(!arguments.words[1]);
	CHECK_STR(option_value(&arguments, "memory"), "8G");
	CHECK_STR(option_value(&arguments, "share"), "30");
	CHECK_STR(option_value(&arguments, "device"), "1");
	CHECK(!option_value(&arguments, "group"));
	CHECK(!option_value(&arguments, "sim"));
}

TEST(sim_has_an_optional_value)
{
	CHECK_INT(PARSE(&verb_ps, "--sim"), 0);
	CHECK_STR(option_value(&arguments, "sim"), "");
	CHECK_INT(PARSE(&verb_ps, "--sim=memory=2G,sms=8", "--json"), 0);
	CHECK_STR(option_value(&arguments, "sim"), "memory=2G,sms=8");
	CHECK_STR(option_value(&arguments, "json"), "");
}

TEST(optional_number_may_be_next_word)
{
	CHECK_INT(PARSE(&verb_ps, "train", "--watch", "5"), 0);
	CHECK_STR(option_value(&arguments, "watch"), "5");
	CHECK_INT(arguments.count, 1);
	// "5a" and "5" count as names: --watch takes only a number, and --sim takes a value only after "="
	CHECK_INT(PARSE(&verb_ps, "-w", "5a", "--sim", "5"), 0);
	CHECK_STR(option_value(&arguments, "watch"), "");
	CHECK_INT(arguments.count, 2);
	CHECK_INT(PARSE(&verb_ps, "-w3", "4"), 0);
	CHECK_STR(option_value(&arguments, "watch"), "3");
	CHECK_STR(arguments.words[0], "4");
	CHECK_INT(PARSE(&verb_ps, "--watch"), 0);
	CHECK_STR(option_value(&arguments, "watch"), "");
}

TEST(words_of_program_are_not_parsed)
{
	CHECK_INT(PARSE(&verb_run, "-m", "1G", "--", "python", "--memory", "2G"), 0);
	CHECK_INT(arguments.count, 3);
	CHECK_STR(arguments.words[1], "--memory");
	CHECK_STR(option_value(&arguments, "memory"), "1G");
	CHECK_INT(PARSE(&verb_run, "-m", "1G", "python", "-m", "2G", "--", "--help"), 0);
	CHECK_INT(arguments.count, 5);
	CHECK_STR(arguments.words[3], "--");
	CHECK_STR(arguments.words[4], "--help");
	CHECK_INT(PARSE(&verb_run, "--memory=1G", "--", "--odd-name"), 0);
	CHECK_STR(arguments.words[0], "--odd-name");
}

TEST(single_dash_is_a_word)
{
	CHECK_INT(PARSE(&verb_inspect, "-"), 0);
	CHECK_STR(arguments.words[0], "-");
}

TEST(mistakes_return_usage_code)
{
	CHECK_INT(PARSE(&verb_create, "a", "--memroy", "1G"), EXIT_USAGE);
	CHECK_INT(PARSE(&verb_create, "a", "--memory"), EXIT_USAGE);
	CHECK_INT(PARSE(&verb_create, "a", "b", "--memory", "1G"), EXIT_USAGE);
	CHECK_INT(PARSE(&verb_create, "a", "-m1G", "--memory", "1G"), EXIT_USAGE);
	CHECK_INT(PARSE(&verb_create, "a", "-x"), EXIT_USAGE);
	CHECK_INT(PARSE(&verb_ps, "--json=yes"), EXIT_USAGE);
	CHECK_INT(PARSE(&verb_devices, "word"), EXIT_USAGE);
	CHECK_INT(parse_words(&verb_rm, (const char *const[]){NULL}), EXIT_USAGE);
	CHECK_INT(parse_words(&verb_run, (const char *const[]){NULL}), EXIT_RUN_FAILED);
	CHECK_INT(PARSE(&verb_run, "--zebra", "true"), EXIT_RUN_FAILED);
	CHECK_INT(PARSE(&verb_run, "--memory", "1G", "--"), EXIT_RUN_FAILED);
	CHECK_INT(PARSE(&verb_run, "--help"), OPTIONS_HELP);
}

TEST(distance_counts_edits)
{
	CHECK_INT(edit_distance("run", "run"), 0);
	CHECK_INT(edit_distance("run", "RUN"), 0);
	CHECK_INT(edit_distance("rnu", "run"), 1);
	CHECK_INT(edit_distance("", "run"), 3);
	CHECK_INT(edit_distance("inspect", "inspct"), 1);
	CHECK_INT(edit_distance("abc", "xyz"), 3);
	CHECK_INT(edit_distance("kitten", "sitting"), 3);
}

static const char *find_nearest(const char *first)
{
	const char *name = verb_nearest(first, NULL);

	return name ? name : "(none)";
}

TEST(nearest_verb_is_suggested)
{
	CHECK_STR(find_nearest("rnu"), "run");
	CHECK_STR(find_nearest("creat"), "create");
	CHECK_STR(find_nearest("dev"), "devices");
	CHECK_STR(find_nearest("log"), "logs");
	CHECK_STR(find_nearest("INSPECT"), "inspect");
	CHECK_STR(find_nearest("sp"), "ps");
	CHECK_STR(find_nearest("zebra"), "(none)");
	CHECK_STR(find_nearest(""), "(none)");
}

TEST(every_verb_has_all_fields)
{
	for (int i = 0; verbs[i]; i++) {
		CHECK(verbs[i]->name && verbs[i]->synopsis && verbs[i]->summary && verbs[i]->run);
		const struct family *family = verb_family(verbs[i]);
		CHECK(!family == !strchr(verbs[i]->name, ' '));
		if (family)
			CHECK(verb_find(family->name, family_word(family, verbs[i])) == verbs[i]);
		else
			CHECK(verb_find(verbs[i]->name, NULL) == verbs[i]);
		int count = 0;
		while (verbs[i]->options && verbs[i]->options[count].name)
			count++;
		CHECK(count <= MAX_OPTIONS);
		// The synopsis must name every option.
		for (int j = 0; j < count; j++) {
			char option[64];
			snprintf(option, sizeof option, "--%s", verbs[i]->options[j].name);
			CHECK_CONTAINS(verbs[i]->synopsis, option);
		}
	}
}

static void make_file(const char *path, const void *data, size_t length)
{
	FILE *file = fopen(path, "w");

	CHECK(file && fwrite(data, 1, length, file) == length);
	fclose(file);
}

static enum preload kind_of(const char *path)
{
	struct preload_program program;

	preload_inspect(path, &program);
	return program.preload;
}

TEST(kinds_of_programs_are_detected)
{
	char directory[] = "/tmp/virgate-test-XXXXXX", path[128], text[256];
	unsigned char odd[64] = "\177ELF\1\1\1"; // 32 bits

	CHECK_INT(kind_of("/proc/self/exe"), PRELOAD_WORKS);
	CHECK_INT(kind_of(STATIC_PROGRAM), PRELOAD_STATIC);
	CHECK_CONTAINS(preload_text(PRELOAD_STATIC), "statically linked");
	CHECK(!preload_text(PRELOAD_WORKS));
	CHECK(mkdtemp(directory));
	snprintf(path, sizeof path, "%s/file", directory);
	snprintf(text, sizeof text, "#! %s -x\n", STATIC_PROGRAM);
	make_file(path, text, strlen(text));
	CHECK_INT(kind_of(path), PRELOAD_STATIC);
	make_file(path, "#!/bin/sh\n", 10);
	CHECK_INT(kind_of(path), PRELOAD_WORKS);
	make_file(path, odd, sizeof odd);
	CHECK_INT(kind_of(path), PRELOAD_OTHER_ABI);
	make_file(path, odd, 5);
	CHECK_INT(kind_of(path), PRELOAD_UNKNOWN);
	snprintf(text, sizeof text, "#!%s\n", path); // a script that is its own interpreter
	make_file(path, text, strlen(text));
	CHECK_INT(kind_of(path), PRELOAD_UNKNOWN);
	make_file(path, "", 0);
	CHECK_INT(kind_of(path), PRELOAD_UNKNOWN);
	CHECK_INT(kind_of(directory), PRELOAD_UNKNOWN);
	if (geteuid() == 0 && chown(path, 12345, 12345) == 0) {
		make_file(path, "\177ELF\2\1\1", 8);
		chmod(path, 04755);
		struct statvfs mount;
		CHECK_INT(statvfs(path, &mount), 0);
		CHECK_INT(kind_of(path), mount.f_flag & ST_NOSUID ? PRELOAD_UNKNOWN : PRELOAD_PRIVILEGED);
	}
	unlink(path);
	CHECK_INT(kind_of(path), PRELOAD_UNKNOWN);
	rmdir(directory);
}

// Overwrites the headers of a program at random. The inspection of the program must not crash.
TEST(damaged_program_is_inspected_safely)
{
	char directory[] = "/tmp/virgate-test-XXXXXX", path[128];
	struct preload_program program;
	unsigned char *data = calloc(1, 1 << 16);
	FILE *file = fopen("/bin/true", "r");

	CHECK(mkdtemp(directory) && data && file);
	snprintf(path, sizeof path, "%s/file", directory);
	size_t length = fread(data, 1, 1 << 16, file);
	fclose(file);
	CHECK(length > 2048);
	for (size_t at = 0; at < 1024; at += 4)
		for (int byte = 0; byte < 256; byte += 255) {
			unsigned char before[8];
			memcpy(before, data + at, sizeof before);
			memset(data + at, byte, sizeof before);
			make_file(path, data, length);
			preload_inspect(path, &program);
			CHECK(program.preload <= PRELOAD_UNKNOWN);
			memcpy(data + at, before, sizeof before);
		}
	make_file(path, data, length);
	preload_inspect(path, &program);
	CHECK_INT(program.preload, PRELOAD_WORKS);
	CHECK_CONTAINS(program.linker, "ld-linux");
	CHECK(!program.asan);
	free(data);
	unlink(path);
	rmdir(directory);
}
