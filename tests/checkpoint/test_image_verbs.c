// Tests image list, inspect and verify: their output, and that texts of an image cannot control the terminal.
#include "checkpoint/image/text.h"

#include "base/printable.h"

#include "image_test.h"

TEST(images_are_listed)
{
	char wanted[64];

	image();
	CHECK_INT(mkdir(path_of("images/deep"), 0700), 0);
	CHECK_INT(mkdir(path_of("images/deep/two.part-AbCdEf"), 0700), 0);
	CHECK_INT(mkdir(path_of("images/bad"), 0700), 0);
	write_text("images/bad/virgate.json", "[1]");
	CHECK_INT(symlink(".", path_of("images/round")), 0);
	CHECK_RUN("image list %s", path_of("images"));
	CHECK_CONTAINS(said, "/images/one\n");
	CHECK_CONTAINS(said, "subject");
	CHECK_CONTAINS(said, "two.part-AbCdEf is not an image: a dump writes it");
	CHECK_CONTAINS(said, "/images/bad is not an image: ");
	CHECK_RUN("image list %s --json", path_of("images"));
	json_t *listed = json_loads(said, 0, NULL), *images;
	CHECK_INT(json_unpack(listed, "{s:i, s:o}", "schema", &(int){0}, "images", &images), 0);
	CHECK_INT(json_array_size(images), 3);
	// The expected states of the images in the order of their paths: images/bad, images/deep/two.part-AbCdEf,
	// images/one.
	static const char *const states[] = {"unreadable", "part", "whole"};
	for (size_t i = 0; i < 3; i++)
		CHECK_STR(json_string_value(json_object_get(json_array_get(images, i), "state")), states[i]);
	CHECK_INT(json_integer_value(json_object_get(json_array_get(images, 2), "cuda_processes")), 1);
	CHECK(json_is_null(json_object_get(json_array_get(images, 0), "bytes")));
	json_decref(listed);
	// List the directory of an image, an empty directory, and a missing one.
	CHECK_RUN("image list %s", image());
	CHECK_CONTAINS(said, "/images/one\n");
	CHECK_INT(mkdir(path_of("empty"), 0700), 0);
	CHECK_RUN("image list %s --json", path_of("empty"));
	CHECK_CONTAINS(said, "\"images\": []");
	CHECK_INT(run("image list %s", path_of("nowhere")), 1);
	CHECK_CONTAINS(said, "No such file");
	snprintf(wanted, sizeof wanted, "%d", (int)dumped);
	CHECK_RUN("image inspect %s", image());
	CHECK_CONTAINS(said, wanted);
	CHECK_CONTAINS(said, "1 or more");
	CHECK_CONTAINS(said, "default");
	CHECK_CONTAINS(said, "libcuda.so.1");
	CHECK_INT(run("image inspect %s", path_of("images")), 1);
	CHECK_CONTAINS(said, "is no image");
	CHECK_INT(run("image inspect"), 2);
}

TEST(a_flipped_bit_is_found)
{
	char core[64], path[PATH_MAX + 64];

	CHECK_RUN("image verify %s", image());
	CHECK_CONTAINS(said, "whole");
	CHECK_RUN("image verify %s --json", image());
	CHECK_CONTAINS(said, "\"whole\": true");
	snprintf(core, sizeof core, "tree-0/core-%d.img", (int)dumped);
	snprintf(path, sizeof path, "%s/%s", image(), core);
	flip_bit(path, 2, 2);
	CHECK_INT(run("image verify %s", image()), 1);
	CHECK_CONTAINS(said, core);
	CHECK_INT(run("image verify %s --json", image()), 1);
	CHECK_CONTAINS(said, "\"whole\": false");
	CHECK_CONTAINS(said, core);
	flip_bit(path, 2, 2);
	snprintf(path, sizeof path, "%s/virgate.json", image());
	flip_bit(path, 300, 2);
	CHECK_INT(run("image verify %s", image()), 1);
	CHECK_CONTAINS(said, "virgate.json");
	flip_bit(path, 300, 2);
	CHECK_INT(mkdir(path_of("images/one/tree-1"), 0700), 0);
	CHECK_INT(run("image verify %s", image()), 1);
	CHECK_CONTAINS(said, "tree-1 is not of this image");
	CHECK_INT(rmdir(path_of("images/one/tree-1")), 0);
	CHECK_RUN("image verify %s", image());
	CHECK_INT(run("image verify %s", path_of("nowhere")), 1);
	CHECK_CONTAINS(said, "is no image");
}

// ---- control characters ----------------------------------------------------------------------------------

TEST(control_characters_are_escaped)
{
	json_t *changed = description();

	json_object_del(changed, "xxh3");
	CHECK_INT(json_object_set_new(json_array_get(json_object_get(changed, "processes"), 0), "command",
				      json_string("\033[2J\302\233bad\n")),
		  0);
	CHECK_INT(json_object_set_new(changed, "host", json_string("\033]0;title\a")), 0);
	char *text = image_text_seal(changed);
	CHECK(text != NULL);
	CHECK_INT(mkdir(path_of("odd"), 0700), 0);
	write_text("odd/virgate.json", text);
	free(text);
	json_decref(changed);
	static const char *const verbs[] = {"list", "inspect"};
	for (size_t i = 0; i < 2; i++) {
		CHECK_RUN("image %s %s", verbs[i], path_of("odd"));
		CHECK(!strchr(said, '\033') && !strstr(said, "\302\233") && !strchr(said, '\a'));
	}
	CHECK_CONTAINS(said, "?]0;title?");
	CHECK_RUN("image list %s", path_of("odd"));
	CHECK_CONTAINS(said, "?[2J?bad?");
}

#define HOSTILE            \
	"\033[31m\xc2\x9b" \
	"2J\177\n\xe2\x80\xaex"

// Puts control characters into every text, except into the names of files, which are restricted.
static void make_hostile(json_t *value)
{
	const char *key;
	json_t *item;
	size_t i;

	if (json_is_string(value))
		json_string_set(value, HOSTILE);
	json_array_foreach(value, i, item)
		make_hostile(item);
	json_object_foreach(value, key, item)
		if (strcmp(key, "files") != 0)
			make_hostile(item);
}

static void run_clean(const char *words, const char *dir)
{
	unsigned character;

	run("%s '%s'", words, dir);
	for (const char *at = said; *at; at += vg_character_read(at, &character))
		if ((vg_character_read(at, &character), !vg_is_printable(character) && character != '\n'))
			FAIL("%s puts character %x out: %s", words, character, said);
}

TEST(a_hostile_image_cannot_control_the_terminal)
{
	char dir[PATH_MAX], name[PATH_MAX + 32];
	json_t *changed = description(), *one;
	bool found = false;
	size_t i;

	make_hostile(changed);
	json_object_del(changed, "xxh3");
	char *sealed = image_text_seal(changed);
	json_decref(changed);
	snprintf(dir, sizeof dir, "%.3000s/hostile-" HOSTILE, path_of("images"));
	CHECK_INT(mkdir(dir, 0700), 0);
	snprintf(name, sizeof name, "%s/virgate.json", dir);
	CHECK_INT(vg_file_write_atomic(name, sealed, strlen(sealed), 0600), 0);
	free(sealed);
	snprintf(name, sizeof name,
		 "%s/\x9b"
		 "bad\xff",
		 path_of("images"));
	CHECK_INT(mkdir(name, 0700), 0);
	strcat(name, "/virgate.json");
	CHECK_INT(vg_file_write_atomic(name, "{}", 2, 0600), 0);
	run_clean("image list", path_of("images"));
	CHECK_CONTAINS(said, "/hostile-?[31m?2J???x\n");
	CHECK_CONTAINS(said, "/?bad? is not an image");
	run_clean("image list --json", path_of("images"));
	json_t *listed = json_loads(said, 0, NULL);
	CHECK(listed != NULL);
	json_array_foreach(json_object_get(listed, "images"), i, one)
		found |= strcmp(json_string_value(json_object_get(one, "dir")), dir) == 0 &&
			 strcmp(json_string_value(json_object_get(one, "command")), HOSTILE) == 0;
	CHECK(found);
	json_decref(listed);
	run_clean("image inspect", dir);
	CHECK_CONTAINS(said, "?[31m?2J???x");
	run_clean("image inspect --json", dir);
	listed = json_loads(said, 0, NULL);
	CHECK_STR(json_string_value(json_object_get(json_object_get(listed, "image"), "host")), HOSTILE);
	json_decref(listed);
	run_clean("image verify", dir);
	CHECK_CONTAINS(said, "?[31m?2J???x");
	run_clean("image verify --json", dir);
	run_clean("restore", dir);
	run_clean("migrate --pid 1 --to", dir);
}
