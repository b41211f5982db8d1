// What an image says of itself, and to whom: the keys that it has are those of the table and of the page, list and
// inspect show them, and whatever else stands in virgate.json is refused by name.
#include "checkpoint/fit.h"
#include "checkpoint/image_text.h"
#include "checkpoint/inspect.h"
#include "checkpoint/schema.h"
#include "checkpoint/tenant_image.h"

#include "base/printable.h"

#include <ctype.h>
#include <jansson.h>

#include "checkpoint_test.h"
#include "virgate/image.h"

static pid_t dumped;

// An image of the subject, which is gone.
static const char *image(void)
{
	static char path[PATH_MAX];

	if (!*path) {
		setenv("VIRGATE_CRIU", STANDIN_PROGRAM, 1);
		snprintf(path, sizeof path, "%s", path_of("images/one"));
		CHECK_INT(mkdir(path_of("images"), 0700), 0);
		struct subject subject = start_subject(path_of("rounds"));
		check_goes_on(path_of("rounds"));
		dumped = subject.pid;
		if (run("dump --pid %d --dir %s", (int)subject.pid, path))
			FAIL("%s", said);
		end_subject(subject);
	}
	return path;
}

static json_t *description(void)
{
	char name[PATH_MAX + 32];

	snprintf(name, sizeof name, "%s/virgate.json", image());
	json_t *loaded = json_load_file(name, 0, NULL);
	CHECK(loaded != NULL);
	return loaded;
}

// ---- the table, the page, and what is written ---------------------------------------------------------

static const struct schema_row *row_of(const char *path)
{
	for (const struct schema_row *row = schema_rows; row->path; row++)
		if (strcmp(row->path, path) == 0)
			return row;
	return NULL;
}

// Every key of `value` stands in the table.
static void check_known(const json_t *value, const char *path)
{
	char inner[PATH_MAX];
	const char *key;
	json_t *item;
	size_t i;

	if (*path && !row_of(path))
		FAIL("the image has %s, and the table of keys does not", path);
	json_array_foreach((json_t *)value, i, item) {
		snprintf(inner, sizeof inner, "%s[]", path);
		check_known(item, inner);
	}
	json_object_foreach((json_t *)value, key, item) {
		snprintf(inner, sizeof inner, "%s%s?", path, *path ? "." : "");
		if (!row_of(inner))
			snprintf(inner, sizeof inner, "%s%s%s", path, *path ? "." : "", key);
		check_known(item, inner);
	}
}

TEST(an_image_has_no_key_that_the_table_lacks)
{
	json_t *said_by = description();

	check_known(said_by, "");
	json_decref(said_by);
}

TEST(the_page_names_every_key_with_its_type)
{
	static char page[65536];
	char line[256];

	CHECK(vg_file_read(MAN_DIR "/virgate-image.5.scd", page, sizeof page) > 0);
	for (const struct schema_row *row = schema_rows; row->path; row++) {
		snprintf(line, sizeof line, "\n*%s*, %s%s\n", row->path, schema_type_text(row->type),
			 row->may_be_unknown ? " or null" : "");
		CHECK_CONTAINS(page, line);
	}
	// And no other.
	for (char *at = page; (at = strstr(at, "\n*"));) {
		char *end = strchr(++at + 1, '*');
		if (!end || strncmp(end, "*, ", 3) != 0)
			continue;
		*end = '\0';
		if (!row_of(at + 1))
			FAIL("the page describes %s, and the table of keys does not", at + 1);
		*end = '*';
	}
}

TEST(what_is_known_is_said)
{
	json_t *said_by = description(), *gpu, *process;
	const char *text;
	json_int_t held;

	CHECK_INT(json_unpack(said_by, "{s:[o!], s:[o!]}", "gpus", &gpu, "processes", &process), 0);
	CHECK_INT(json_unpack(gpu, "{s:s, s:I}", "name", &text, "held", &held), 0);
	CHECK_STR(text, "Virgate Simulated GPU");
	CHECK(held > (json_int_t)16 << 20);
	CHECK_STR(json_string_value(json_object_get(gpu, "compute_mode")), "default");
	CHECK(json_is_true(json_object_get(gpu, "ecc")));
	CHECK(json_is_false(json_object_get(gpu, "mig")));
	CHECK_INT(json_unpack(process, "{s:[{s:I}!]}", "gpus", "held", &held), 0);
	CHECK_INT(held, json_integer_value(json_object_get(gpu, "held")));
	// The driver has threads of its own.
	CHECK(json_array_size(json_object_get(process, "threads")) > 1);
	CHECK(json_integer_value(json_object_get(process, "host_memory")) > 3 << 20);
	bool driver = false, rounds = false;
	json_t *file;
	size_t i;
	json_array_foreach(json_object_get(said_by, "mapped_files"), i, file) {
		text = json_string_value(json_object_get(file, "path"));
		driver |= strstr(text, "/libcuda.so.1") && json_is_string(json_object_get(file, "build_id"));
	}
	json_array_foreach(json_object_get(said_by, "open_files"), i, file)
		rounds |= strcmp(json_string_value(json_object_get(file, "path")), path_of("rounds")) == 0 &&
			  json_is_true(json_object_get(file, "written")) &&
			  json_integer_value(json_object_get(file, "bytes")) == 4;
	CHECK(driver && rounds);
	json_decref(said_by);
}

// ---- list and inspect ---------------------------------------------------------------------------------

TEST(images_are_listed)
{
	char wanted[64];

	image();
	CHECK_INT(mkdir(path_of("images/deep"), 0700), 0);
	CHECK_INT(mkdir(path_of("images/deep/two.part-AbCdEf"), 0700), 0);
	CHECK_INT(mkdir(path_of("images/bad"), 0700), 0);
	write_text("images/bad/virgate.json", "[1]");
	CHECK_INT(symlink(".", path_of("images/round")), 0);
	CHECK_INT(run("image list %s", path_of("images")), 0);
	CHECK_CONTAINS(said, "/images/one\n");
	CHECK_CONTAINS(said, "subject");
	CHECK_CONTAINS(said, "two.part-AbCdEf is not an image: a dump writes it");
	CHECK_CONTAINS(said, "/images/bad is not an image: ");
	CHECK_INT(run("image list %s --json", path_of("images")), 0);
	json_t *listed = json_loads(said, 0, NULL), *images;
	CHECK_INT(json_unpack(listed, "{s:i, s:o}", "schema", &(int){0}, "images", &images), 0);
	CHECK_INT(json_array_size(images), 3);
	static const char *const states[] = {"unreadable", "part", "whole"}; // bad, deep/…, one
	for (size_t i = 0; i < 3; i++)
		CHECK_STR(json_string_value(json_object_get(json_array_get(images, i), "state")), states[i]);
	CHECK_INT(json_integer_value(json_object_get(json_array_get(images, 2), "cuda_processes")), 1);
	CHECK(json_is_null(json_object_get(json_array_get(images, 0), "bytes")));
	json_decref(listed);
	// One itself, none, and no folder.
	CHECK_INT(run("image list %s", image()), 0);
	CHECK_CONTAINS(said, "/images/one\n");
	CHECK_INT(mkdir(path_of("empty"), 0700), 0);
	CHECK_INT(run("image list %s --json", path_of("empty")), 0);
	CHECK_CONTAINS(said, "\"images\": []");
	CHECK_INT(run("image list %s", path_of("nowhere")), 1);
	CHECK_CONTAINS(said, "No such file");
	snprintf(wanted, sizeof wanted, "%d", (int)dumped);
	CHECK_INT(run("image inspect %s", image()), 0);
	CHECK_CONTAINS(said, wanted);
	CHECK_CONTAINS(said, "1 or more");
	CHECK_CONTAINS(said, "default");
	CHECK_CONTAINS(said, "libcuda.so.1");
	CHECK_INT(run("image inspect %s", path_of("images")), 1);
	CHECK_CONTAINS(said, "is no image");
	CHECK_INT(run("image inspect"), 2);
}

static void flip(const char *path, off_t at)
{
	_cleanup_close_ int fd = open(path, O_RDWR | O_CLOEXEC);
	char byte;

	CHECK(fd >= 0);
	CHECK_INT(pread(fd, &byte, 1, at), 1);
	byte ^= 4;
	CHECK_INT(pwrite(fd, &byte, 1, at), 1);
}

TEST(a_bit_that_is_another_is_found)
{
	char core[64], path[PATH_MAX + 64];

	CHECK_INT(run("image verify %s", image()), 0);
	CHECK_CONTAINS(said, "whole");
	CHECK_INT(run("image verify %s --json", image()), 0);
	CHECK_CONTAINS(said, "\"whole\": true");
	snprintf(core, sizeof core, "tree-0/core-%d.img", (int)dumped);
	snprintf(path, sizeof path, "%s/%s", image(), core);
	flip(path, 2);
	CHECK_INT(run("image verify %s", image()), 1);
	CHECK_CONTAINS(said, core);
	CHECK_INT(run("image verify %s --json", image()), 1);
	CHECK_CONTAINS(said, "\"whole\": false");
	CHECK_CONTAINS(said, core);
	flip(path, 2);
	snprintf(path, sizeof path, "%s/virgate.json", image());
	flip(path, 300);
	CHECK_INT(run("image verify %s", image()), 1);
	CHECK_CONTAINS(said, "virgate.json");
	flip(path, 300);
	CHECK_INT(mkdir(path_of("images/one/tree-1"), 0700), 0);
	CHECK_INT(run("image verify %s", image()), 1);
	CHECK_CONTAINS(said, "tree-1 is not of this image");
	CHECK_INT(rmdir(path_of("images/one/tree-1")), 0);
	CHECK_INT(run("image verify %s", image()), 0);
	CHECK_INT(run("image verify %s", path_of("nowhere")), 1);
	CHECK_CONTAINS(said, "is no image");
}

// ---- what anybody may have written --------------------------------------------------------------------

static json_t *slot(json_t *root, const char *path, char *ret_key)
{
	char step[64];

	while (strchr(path, '/')) {
		snprintf(step, sizeof step, "%.*s", (int)strcspn(path, "/"), path);
		path += strlen(step) + 1;
		root = isdigit((unsigned char)step[0]) ? json_array_get(root, (size_t)atoi(step))
						       : json_object_get(root, step);
		CHECK(root != NULL);
	}
	snprintf(ret_key, 64, "%s", path);
	return root;
}

// Something at that place, or nothing (NULL), in the schema's eyes.
static enum vg_status with(const char *path, const char *text)
{
	json_t *changed = description();
	char key[64];

	json_t *group = slot(changed, path, key);
	json_t *value = text ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;
	CHECK(!text || value);
	if (isdigit((unsigned char)key[0]))
		CHECK_INT(value ? json_array_set_new(group, (size_t)atoi(key), value)
				: json_array_remove(group, (size_t)atoi(key)),
			  0);
	else
		CHECK_INT(value ? json_object_set_new(group, key, value) : json_object_del(group, key), 0);
	enum vg_status status = schema_check(changed, "virgate.json", __func__);
	json_decref(changed);
	return status;
}

TEST(whatever_is_no_description_is_refused_by_the_key)
{
	static const char *const odd[] = {"null", "-1", "1e300", "[]", "{}", "\"\"", "true", "4194305", "[[[[]]]]"};
	static const struct {
		const char *path, *good;
	} rows[] = {
		{"version", "3"},
		{"created", "1.5"},
		{"kernel", "{\"release\": \"6\", \"machine\": \"x\"}"},
		{"kernel/machine", "\"x\""},
		{"gpus", "[]"},
		{"gpus/0", "{\"uuid\": \"a\", \"name\": \"b\"}"},
		{"gpus/0/uuid", "\"GPU\""},
		{"gpus/0/held", "null"},
		{"gpus/0/ecc", "false"},
		{"processes/0/pid", "4194304"},
		{"processes/0/threads", "[7]"},
		{"processes/0/threads/0", "7"},
		{"processes/0/gpus", "null"},
		{"processes/0/gpus/0/kinds", "{\"device\": 5}"},
		{"processes/0/command_line/0", "\"x\""},
		{"mapped_files/0/bytes", "0"},
		{"open_files/0/path", "\"/x\""},
	};

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		size_t refused = 0;
		if (with(rows[i].path, rows[i].good))
			FAIL("%s: %s", rows[i].path, vg_last_error()->text);
		for (size_t o = 0; o < sizeof odd / sizeof *odd; o++)
			refused += with(rows[i].path, odd[o]) == VG_INTEGRITY;
		if (refused < 4)
			FAIL("%s takes almost anything", rows[i].path);
	}
	CHECK_INT(with("processes/0/gpus/0/kinds", "{\"device\": -5}"), VG_INTEGRITY);
	CHECK_CONTAINS(vg_last_error()->text, "processes[].gpus[].kinds.?");
	CHECK_INT(with("processes/0/threads/0", "\"x\""), VG_INTEGRITY);
	CHECK_CONTAINS(vg_last_error()->text, "virgate.json: \"processes[].threads[]\" is missing, or no pid");
	CHECK_INT(with("kernel/release", NULL), VG_INTEGRITY);
	CHECK_INT(with("host", NULL), VG_OK);
}

// Something at that place, in the eyes of who reads an image.
static enum vg_status read_with(const char *path, const char *text)
{
	json_t *changed = description(), *read = NULL;
	char key[64];

	json_t *group = slot(changed, path, key);
	CHECK_INT(isdigit((unsigned char)key[0])
			  ? json_array_set_new(group, (size_t)atoi(key), json_loads(text, JSON_DECODE_ANY, NULL))
			  : json_object_set_new(group, key, json_loads(text, JSON_DECODE_ANY, NULL)),
		  0);
	json_object_del(changed, "xxh3");
	char *sealed = image_text_seal(changed);
	enum vg_status status = inspect_parse(sealed, strlen(sealed), "virgate.json", __func__, &read, NULL);
	if (status == VG_OK)
		json_decref(read);
	free(sealed);
	json_decref(changed);
	return status;
}

TEST(nobody_is_named_whom_the_image_does_not_make)
{
	static const char tenant[] =
		"[{\"pid\": %d, \"vgpu\": \"v\", \"slot\": 1, \"address\": 4096, \"command\": \"c\", "
		"\"program\": \"p\", \"entered\": 1, \"undeclared\": 0, \"first_context\": false, "
		"\"host\": false, \"charged\": {}}]";
	char text[512];

	snprintf(text, sizeof text, "%d", (int)(image(), dumped));
	CHECK_INT(read_with("roots/0", text), VG_OK);
	CHECK_INT(read_with("roots/0", "1"), VG_INTEGRITY);
	CHECK_CONTAINS(vg_last_error()->text, "process 1 is a root or a tenant");
	snprintf(text, sizeof text, tenant, (int)dumped);
	CHECK_INT(read_with("tenants", text), VG_OK);
	snprintf(text, sizeof text, tenant, 1);
	CHECK_INT(read_with("tenants", text), VG_INTEGRITY);
	CHECK_CONTAINS(vg_last_error()->text, "process 1 is a root or a tenant");
}

TEST(no_process_is_made_twice)
{
	json_t *said_by = (image(), description()), *list = json_object_get(said_by, "processes");

	json_array_append_new(list, json_deep_copy(json_array_get(list, 0)));
	char *processes = json_dumps(list, 0);
	CHECK_INT(read_with("processes", processes), VG_INTEGRITY);
	CHECK_CONTAINS(vg_last_error()->text, "is in \"processes\" twice");
	free(processes);
	json_decref(said_by);
}

#define VGPU(name) "{\"name\": \"" name "\", \"ledger\": \"/x\", \"uuid\": \"GPU-1\", \"memory\": 1024, \"share\": 0}"
#define TENANT(pid, vgpu, slot, charged)                                                                                \
	"{\"pid\": " pid ", \"vgpu\": \"" vgpu "\", \"slot\": " slot ", \"address\": 4096, \"command\": \"c\", "                \
	"\"program\": \"00000000000000010000000000000002\", \"entered\": 1, \"undeclared\": 0, "                            \
	"\"first_context\": false, \"host\": false, \"charged\": {" charged "}}"

// A place in a vGPU is one tenant's, and what he is charged is of a kind that there is.
TEST(tenants_are_not_believed)
{
	static const struct {
		const char *tenants;
		enum vg_status wanted;
	} cases[] = {
		{TENANT("5", "a", "1", ""), VG_OK},
		{TENANT("5", "a", "1", "\"context\": 7"), VG_OK},
		{TENANT("5", "a", "1", "") "," TENANT("6", "a", "2", ""), VG_OK},
		{TENANT("5", "a", "1", "") "," TENANT("5", "b", "1", ""), VG_OK},
		{TENANT("5", "a", "1", "") "," TENANT("5", "a", "2", ""), VG_INTEGRITY},
		{TENANT("5", "a", "1", "") "," TENANT("7", "b", "1", "") "," TENANT("6", "a", "1", ""), VG_INTEGRITY},
		{TENANT("5", "a", "1", "\"nosuch\": 7"), VG_INTEGRITY},
		{TENANT("5", "a", "1", "\"context\": -7"), VG_INTEGRITY},
		{TENANT("5", "c", "1", ""), VG_INTEGRITY},
		{TENANT("5", "a", "100000", ""), VG_INTEGRITY},
	};
	char text[2048];

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct tenants tenants;
		snprintf(text, sizeof text, "{\"vgpus\": [%s, %s], \"tenants\": [%s]}", VGPU("a"), VGPU("b"), cases[i].tenants);
		json_t *changed = json_loads(text, 0, NULL);
		CHECK(changed != NULL);
		enum vg_status status = tenants_read(changed, __func__, &tenants);
		if (status != cases[i].wanted)
			FAIL("%s: %s", cases[i].tenants, vg_status_text(status));
		if (status == VG_OK)
			tenants_free(&tenants);
		json_decref(changed);
	}
}

// The share's limit and the class are missing in images of earlier versions.
TEST(terms_of_shares_are_read)
{
	static const struct {
		const char *fields;
		enum vg_status wanted;
		bool share_limit, latency;
	} cases[] = {
		{"\"share\": 30", VG_OK, false, false},
		{"\"share\": 30, \"share_limit\": null, \"class\": null", VG_OK, false, false},
		{"\"share\": 30, \"share_limit\": true, \"class\": \"batch\"", VG_OK, true, false},
		{"\"share\": 0, \"share_limit\": false, \"class\": \"latency\"", VG_OK, false, true},
		{"\"share\": 0, \"share_limit\": true, \"class\": \"batch\"", VG_INTEGRITY, false, false},
		{"\"share\": 30, \"share_limit\": true, \"class\": \"fast\"", VG_INTEGRITY, false, false},
		{"\"share\": 101, \"share_limit\": true, \"class\": \"batch\"", VG_INTEGRITY, false, false},
		{"\"share\": 30, \"evictable\": true, \"swap\": 7, \"fixed\": 5", VG_OK, false, false},
		{"\"share\": 30, \"evictable\": false, \"swap\": null", VG_OK, false, false},
		{"\"share\": 30, \"evictable\": true", VG_INTEGRITY, false, false},
		{"\"share\": 30, \"evictable\": true, \"swap\": 0, \"fixed\": 5", VG_INTEGRITY, false, false},
		{"\"share\": 30, \"evictable\": true, \"swap\": 7", VG_INTEGRITY, false, false},
	};
	char text[512];

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct tenants tenants;
		snprintf(text, sizeof text,
			 "{\"vgpus\": [{\"name\": \"a\", \"ledger\": \"/x\", \"uuid\": \"GPU-1\", \"memory\": 1024, %s}], "
			 "\"tenants\": []}",
			 cases[i].fields);
		json_t *description = json_loads(text, 0, NULL);
		CHECK(description != NULL);
		enum vg_status status = tenants_read(description, __func__, &tenants);
		if (status != cases[i].wanted)
			FAIL("%s: %s", cases[i].fields, vg_status_text(status));
		if (status == VG_OK) {
			CHECK_INT(tenants.vgpus[0].share_limit, cases[i].share_limit);
			CHECK_INT(tenants.vgpus[0].class == VG_CLASS_LATENCY, cases[i].latency);
			CHECK_INT(tenants.vgpus[0].evictable, strstr(cases[i].fields, "true, \"swap\"") != NULL);
			CHECK_INT(tenants.vgpus[0].swap, tenants.vgpus[0].evictable ? 7 : 0);
			CHECK_INT(tenants.vgpus[0].fixed, tenants.vgpus[0].evictable ? 5 : 0);
			tenants_free(&tenants);
		}
		json_decref(description);
	}
}

TEST(every_root_has_a_tree_of_its_own)
{
	char text[256], *files;

	snprintf(text, sizeof text, "[%d, %d]", (int)(image(), dumped), (int)dumped);
	CHECK_INT(read_with("roots", text), VG_INTEGRITY);
	CHECK_CONTAINS(vg_last_error()->text, "is a root twice");
	json_t *said_by = description(), *list = json_object_get(said_by, "files"), *file;
	size_t i;
	json_array_foreach(list, i, file) {
		json_t *fewer = json_deep_copy(list);
		json_array_remove(fewer, i);
		const char *name = json_string_value(json_object_get(file, "name"));
		bool needed = !strstr(name, "pages");
		files = json_dumps(fewer, 0);
		CHECK_INT(read_with("files", files), needed ? VG_INTEGRITY : VG_OK);
		if (needed)
			CHECK_CONTAINS(vg_last_error()->text, name);
		free(files);
		json_decref(fewer);
	}
	json_decref(said_by);
	CHECK(i >= 4);
	// And no root has none.
	said_by = description();
	list = json_object_get(said_by, "files");
	json_array_append_new(list, json_pack("{s:s, s:i, s:s}", "name", "tree-1/pstree.img", "bytes", 0, "xxh3",
					      "2d06800538d394c2"));
	files = json_dumps(list, 0);
	CHECK_INT(read_with("files", files), VG_INTEGRITY);
	CHECK_CONTAINS(vg_last_error()->text, "tree-1/pstree.img is of no root's tree");
	free(files);
	json_decref(said_by);
}

TEST(a_processs_gpu_is_one_of_the_image)
{
	CHECK_INT(read_with("gpus", "[]"), VG_INTEGRITY);
	CHECK_CONTAINS(vg_last_error()->text, "which is none of \"gpus\"");
	CHECK_INT(read_with("gpus/0/uuid", "\"GPU-00000000-0000-0000-0000-000000000000\""), VG_INTEGRITY);
	CHECK_INT(read_with("processes/0/gpus/0/uuid", "\"GPU-0\""), VG_INTEGRITY);
	CHECK_CONTAINS(vg_last_error()->text, "is on GPU-0, which is none of");
	CHECK_INT(read_with("processes/0/gpus", "null"), VG_OK); // not known
}

// ---- and what of it comes past the table --------------------------------------------------------------

static size_t values_left;

// Puts `odd` in place of one value, counted over all. Of long lists the first items stand for the others.
static bool replace_one(json_t *group, json_t *odd)
{
	const char *key;
	json_t *item;
	size_t i;

	json_array_foreach(group, i, item) {
		if (i == 2)
			break;
		if (values_left-- == 0)
			return json_array_set(group, i, odd) == 0;
		if (replace_one(item, odd))
			return true;
	}
	json_object_foreach(group, key, item) {
		if (values_left-- == 0)
			return json_object_set(group, key, odd) == 0;
		if (replace_one(item, odd))
			return true;
	}
	return false;
}

// Whoever sealed it: nothing crashes, and what is whole is told from what is not. Under the sanitizers this shows more.
TEST(no_description_crashes_its_readers)
{
	static const char *const odds[] = {"null",   "-1",   "9223372036854775807", "[]",
					   "{}",     "\"\"", "[[{}], \"x\"]",	    "\"\\u009b31m/../\\u007f\"",
					   "4194304"};
	const struct criu criu = {.path = "/nonexistent/criu", .version = "4.2"};
	size_t refused = 0, passed = 0;
	json_t *original = description();
	bool more = true;

	json_object_del(original, "xxh3");
	// No driver is loaded here: the comparison of drivers would be the end.
	json_object_set_new(json_object_get(original, "driver"), "version", json_null());
	for (size_t place = 0; more; place++)
		for (size_t o = 0; o < sizeof odds / sizeof *odds; o++) {
			json_t *changed = json_deep_copy(original), *odd = json_loads(odds[o], JSON_DECODE_ANY, NULL),
			       *read;
			values_left = place;
			more = replace_one(changed, odd);
			char *text = image_text_seal(changed);
			json_decref(changed);
			json_decref(odd);
			CHECK(text != NULL);
			enum vg_status status =
				inspect_parse(text, strlen(text), "virgate.json", __func__, &read, NULL);
			free(text);
			if (status) {
				CHECK(status == VG_INTEGRITY || status == VG_UNSUPPORTED);
				refused++;
				continue;
			}
			passed++;
			(void)fit_pids(read, __func__);
			(void)fit_restore(read, &criu, NULL, 0, &(struct tenants){0}, __func__);
			json_decref(read);
		}
	CHECK(refused > 500 && passed > 100);
	json_decref(original);
}

// Its terminal is not told what to do.
TEST(control_characters_stay_where_they_are)
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
		CHECK_INT(run("image %s %s", verbs[i], path_of("odd")), 0);
		CHECK(!strchr(said, '\033') && !strstr(said, "\302\233") && !strchr(said, '\a'));
	}
	CHECK_CONTAINS(said, "?]0;title?");
	CHECK_INT(run("image list %s", path_of("odd")), 0);
	CHECK_CONTAINS(said, "?[2J?bad?");
}

// A working directory that is gone: nobody could put it back under its name, and nobody has to.
TEST(a_folder_that_is_gone_is_not_asked_for)
{
	char here[PATH_MAX];
	json_t *loaded, *folder_of_it;

	image();
	CHECK(getcwd(here, sizeof here) != NULL);
	CHECK_INT(mkdir(path_of("gone"), 0700), 0);
	CHECK_INT(chdir(path_of("gone")), 0);
	struct subject subject = start_subject(path_of("rounds2"));
	CHECK_INT(chdir(here), 0);
	check_goes_on(path_of("rounds2"));
	CHECK_INT(rmdir(path_of("gone")), 0);
	CHECK_INT(run("dump --pid %d --dir %s", (int)subject.pid, path_of("images/gone")), 0);
	end_subject(subject);
	loaded = json_load_file(path_of("images/gone/virgate.json"), 0, NULL);
	CHECK(loaded != NULL);
	folder_of_it = json_object_get(json_array_get(json_object_get(loaded, "processes"), 0), "folder");
	CHECK(json_is_null(folder_of_it));
	json_decref(loaded);
	CHECK_INT(run("restore --dir %s --detach", path_of("images/gone")), 125);
	CHECK(strstr(said, "refused") == NULL);
}

// ---- what another user wrote, on the terminal ----------------------------------------------------------

#define HOSTILE "\033[31m\xc2\x9b" "2J\177\n\xe2\x80\xaex"

// Makes every text hostile but those of the list of files, which restrict what they may be.
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

TEST(a_hostile_image_does_not_reach_the_terminal)
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
	snprintf(name, sizeof name, "%s/\x9b" "bad\xff", path_of("images"));
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
