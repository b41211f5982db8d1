// Tests the description of an image, virgate.json. Its keys are those of the code's table and of the manual page. A
// description with other contents is refused, and the message has the name of the key.
#include "checkpoint/image/inspect.h"
#include "checkpoint/image/schema.h"
#include "checkpoint/image/text.h"
#include "checkpoint/machine/fit.h"
#include "checkpoint/tenant/image.h"

#include <ctype.h>

#include "image_test.h"
#include "virgate/image.h"

// ---- the table, the page, and what is written ---------------------------------------------------------

static const struct schema_row *row_of(const char *path)
{
	for (const struct schema_row *row = schema_rows; row->path; row++)
		if (strcmp(row->path, path) == 0)
			return row;
	return NULL;
}

// Checks that the table has every key of `value`.
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
	// The manual page must not describe any other key.
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

TEST(known_values_are_described)
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
	// The process has more than one thread, since the driver has threads of its own.
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

// ---- descriptions of an attacker --------------------------------------------------------------------

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

// Checks the schema of a description after setting the value at `path` to `text`, or removing the key if `text` is
// NULL.
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
	enum vg_status status = schema_check(changed, "virgate.json");
	json_decref(changed);
	return status;
}

TEST(invalid_descriptions_are_refused_with_the_key)
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

// Parses the description of an image after setting the value at `path` to `text`. Its checksum is valid.
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
	enum vg_status status = inspect_parse(sealed, strlen(sealed), "virgate.json", &read, NULL);
	if (status == VG_OK)
		json_decref(read);
	free(sealed);
	json_decref(changed);
	return status;
}

TEST(pids_outside_the_image_are_refused)
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
#define TENANT(pid, vgpu, slot, charged)                                                                         \
	"{\"pid\": " pid ", \"vgpu\": \"" vgpu "\", \"slot\": " slot ", \"address\": 4096, \"command\": \"c\", " \
	"\"program\": \"00000000000000010000000000000002\", \"entered\": 1, \"undeclared\": 0, "                 \
	"\"first_context\": false, \"host\": false, \"charged\": {" charged "}}"

// Tests descriptions in which a slot belongs to two tenants, or a charge has an unknown kind.
TEST(invalid_tenants_are_refused)
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
		snprintf(text, sizeof text, "{\"vgpus\": [%s, %s], \"tenants\": [%s]}", VGPU("a"), VGPU("b"),
			 cases[i].tenants);
		json_t *changed = json_loads(text, 0, NULL);
		CHECK(changed != NULL);
		enum vg_status status = tenants_read(changed, &tenants);
		if (status != cases[i].wanted)
			FAIL("%s: %s", cases[i].tenants, vg_status_text(status));
		if (status == VG_OK)
			tenants_free(&tenants);
		json_decref(changed);
	}
}

// Images of earlier versions lack the limit of the compute share and the class.
TEST(terms_of_compute_shares_are_read)
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
			 "{\"vgpus\": [{\"name\": \"a\", \"ledger\": \"/x\", \"uuid\": \"GPU-1\", \"memory\": 1024, "
			 "%s}], "
			 "\"tenants\": []}",
			 cases[i].fields);
		json_t *description = json_loads(text, 0, NULL);
		CHECK(description != NULL);
		enum vg_status status = tenants_read(description, &tenants);
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
	// Each root process must have a tenant.
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
	// null: the GPUs are unknown.
	CHECK_INT(read_with("processes/0/gpus", "null"), VG_OK);
}

// ---- values that pass the table -----------------------------------------------------------------------

static size_t values_left;

// Replaces one value of the description by `odd`. `values_left` is the number of values to skip before it. Of each
// list, only the first two items are visited. Returns false if the description has too few values.
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

// Changes every value of a description, with a valid checksum. This must crash no reader, and cause no error that a
// sanitizer reports.
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
	// No driver is loaded here, so the comparison of driver versions would fail.
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
			enum vg_status status = inspect_parse(text, strlen(text), "virgate.json", &read, NULL);
			free(text);
			if (status) {
				CHECK(status == VG_INTEGRITY || status == VG_UNSUPPORTED);
				refused++;
				continue;
			}
			passed++;
			(void)fit_pids(read);
			(void)fit_restore(read, &criu, NULL, 0, &(struct tenants){0});
			json_decref(read);
		}
	CHECK(refused > 500 && passed > 100);
	json_decref(original);
}

// A restore does not need a working directory that was removed.
TEST(a_removed_working_directory_is_not_needed)
{
	char here[PATH_MAX];
	json_t *loaded, *directory_of_it;

	image();
	CHECK(getcwd(here, sizeof here) != NULL);
	CHECK_INT(mkdir(path_of("gone"), 0700), 0);
	CHECK_INT(chdir(path_of("gone")), 0);
	struct subject subject = start_subject(path_of("rounds2"));
	CHECK_INT(chdir(here), 0);
	check_goes_on(path_of("rounds2"));
	CHECK_INT(rmdir(path_of("gone")), 0);
	CHECK_RUN("dump --pid %d --dir %s", (int)subject.pid, path_of("images/gone"));
	end_subject(subject);
	loaded = json_load_file(path_of("images/gone/virgate.json"), 0, NULL);
	CHECK(loaded != NULL);
	directory_of_it = json_object_get(json_array_get(json_object_get(loaded, "processes"), 0), "folder");
	CHECK(json_is_null(directory_of_it));
	json_decref(loaded);
	CHECK_INT(run("restore --dir %s --detach", path_of("images/gone")), 125);
	CHECK(strstr(said, "refused") == NULL);
}
