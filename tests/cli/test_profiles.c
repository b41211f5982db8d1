// Tests profiles with the real daemon, on two simulated GPUs of 4 GiB. The counts that are shown for a profile must be
// what the daemon then admits.
#include "live_node.h"

static const char sizes[] = "[profile 1g-25]\nmemory = 1G\nshare = 25\n"
			    "[profile third]\nshare = 33\nlimit = yes\nclass = latency\n"
			    "[profile plain]\nmemory = 700M\n"
			    "[profile moving]\nmemory = 2G\nfixed = 600M\nevictable = yes\nswap = 100M\n"
			    "[profile usual-fixed]\nmemory = 1G\nevictable = yes\nswap = 100M\n"
			    "[profile tiny]\nmemory = 1M\n"
			    "[profile huge]\nmemory = 64G\n";

static void write_config(const char *name, const char *text)
{
	char path[200];

	snprintf(path, sizeof path, "%s/%s", fixture.directory, name);
	FILE *file = fopen(path, "w");
	CHECK(file);
	fputs(text, file);
	CHECK_INT(fclose(file), 0);
}

static void start_with(const char *text)
{
	node_start();
	write_config("system.conf", text);
}

// Returns how many vGPUs of a profile fit on GPU 0: beside the existing vGPUs if `key` is "fit", or on the empty GPU if
// it is "of".
static int read_count(const char *profile, const char *key)
{
	json_t *json = read_listing(WORDS("devices", "--json")), *one;
	size_t i;
	int count = -1;

	json_array_foreach(json_object_get(json, "profiles"), i, one)
		if (strcmp(json_string_value(json_object_get(one, "name")), profile) == 0)
			count = (int)json_integer_value(
				json_object_get(json_array_get(json_object_get(one, "devices"), 0), key));
	json_decref(json);
	return count;
}

// Creates vGPUs of a profile on GPU 0 until one is refused, and removes them. Returns how many were created.
static int create_all(const char *profile)
{
	char name[32];
	int count = 0;

	for (;; count++) {
		snprintf(name, sizeof name, "fill-%d", count);
		if (VIRGATE_RUN("create", name, "--profile", profile, "--device", "0") != 0)
			break;
	}
	for (int i = 0; i < count; i++) {
		snprintf(name, sizeof name, "fill-%d", i);
		CHECK_VIRGATE("rm", name);
	}
	return count;
}

static void check_counts(const char *key, int least)
{
	static const char *const profiles[] = {"1g-25", "third", "plain", "moving", "usual-fixed", "tiny", "huge"};
	int sum = 0;

	for (size_t i = 0; i < sizeof profiles / sizeof *profiles; i++) {
		int counted = read_count(profiles[i], key), created = create_all(profiles[i]);
		if (counted != created)
			FAIL("profile %s: %s is %d, but %d were created", profiles[i], key, counted, created);
		sum += created;
	}
	CHECK(sum >= least); // if all counts were 0, the comparison would show nothing
}

TEST(as_many_are_admitted_as_counted)
{
	start_with(sizes);
	check_counts("of", 12);
	check_counts("fit", 12);
	CHECK_VIRGATE("create", "other", "--memory", "1500M", "--share", "40", "--device", "0");
	check_counts("fit", 5);
	CHECK_INT(
		VIRGATE_RUN("create", "evictable", "--memory", "1G", "--evictable", "--swap", "100M", "--device", "0"),
		0);
	check_counts("fit", 3);
	CHECK_INT(read_count("1g-25", "of"), 4);
	CHECK_INT(read_count("third", "of"), 3);
	CHECK_INT(read_count("tiny", "of"), 0);
	CHECK_INT(read_count("huge", "of"), 0);
}

TEST(profile_gives_size_and_terms)
{
	start_with(sizes);
	CHECK_VIRGATE("create", "a", "--profile", "third");
	CHECK_STR(result.out, "a: 1.3 GiB, share at most 33 %, latency class\n");
	CHECK_VIRGATE("create", "b", "--profile=moving");
	json_t *json = read_listing(WORDS("inspect", "b", "--json")), *vgpu = json_object_get(json, "vgpu");
	CHECK_INT(json_integer_value(json_object_get(vgpu, "memory")), 2 * GIB);
	CHECK(json_is_true(json_object_get(vgpu, "evictable")));
	CHECK_INT(json_integer_value(json_object_get(vgpu, "swap")), 100 << 20);
	CHECK_INT(json_integer_value(json_object_get(vgpu, "fixed")), 600 << 20);
	json_decref(json);
	setenv("VIRGATE_SHARE", "77", 1); // a vGPU with a profile does not use the settings of [run]
	setenv("VIRGATE_EVICTABLE", "yes", 1);
	CHECK_VIRGATE("run", "--profile", "plain", "--", VIRGATE, "ps");
	CHECK_CONTAINS(result.out, "700.0 MiB");
	CHECK(!strstr(result.out, "77 %"));
	unsetenv("VIRGATE_SHARE");
	unsetenv("VIRGATE_EVICTABLE");
}

TEST(mistakes_are_refused_with_what_there_is)
{
	start_with("");
	CHECK_REFUSAL(2, "there is no profile \"x\", since virgate.conf has no section [profile NAME]", "create", "a",
		      "--profile", "x");
	write_config("system.conf", sizes);
	CHECK_REFUSAL(2, "there is no profile \"plane\": did you mean plain? virgate.conf has 1g-25, third, ", "create",
		      "a", "--profile", "plane");
	CHECK_REFUSAL(125, "there is no profile \"xyzzy\": virgate.conf has 1g-25, third, plain, ", "run", "--profile",
		      "xyzzy", "true");
	CHECK_REFUSAL(2, "--profile plain describes the whole size, and so does --memory", "create", "a", "--profile",
		      "plain", "--memory", "2G");
	CHECK_REFUSAL(125, "and so does --limit", "run", "--profile", "plain", "--limit", "true");
	CHECK_REFUSAL(125, "--vgpu names a vGPU that exists, --profile describes a new one", "run", "--vgpu", "a",
		      "--profile", "plain", "true");
	CHECK_REFUSAL(1, "asked for 64.0 GiB, larger than GPU 0 (4.0 GiB)", "create", "a", "--profile", "huge");
	CHECK_CONTAINS(result.err, "GPU 0 has room for 0 more of profile huge, and for 0 when it is empty");
}

TEST(more_than_fit_is_refused_with_counts)
{
	start_with("[profile half]\nmemory = 2G\n");
	CHECK_INT(create_all("half"), 2);
	CHECK_VIRGATE("create", "a", "--profile", "half", "--device", "0");
	CHECK_VIRGATE("create", "b", "--profile", "half", "--device", "0");
	CHECK_REFUSAL(1, "GPU 0: asked for 2.0 GiB, but nothing is left", "create", "c", "--profile", "half",
		      "--device", "0");
	CHECK_CONTAINS(result.err, "GPU 0 has room for 0 more of profile half, and for 2 when it is empty");
	CHECK_CONTAINS(result.err, "GPU 1 has room for 2 more of profile half, and for 2 when it is empty");
}

TEST(devices_lists_profiles)
{
	start_with("");
	CHECK_VIRGATE("devices");
	CHECK(!strstr(result.out, "PROFILE"));
	write_config("system.conf", "[profile half]\nmemory = 2G\nshare = 50\n");
	CHECK_VIRGATE("devices");
	CHECK_CONTAINS(result.out, "PROFILE   MEMORY  SHARE  EVICTABLE  DEVICE  FIT  OF\n"
				   "half     2.0 GiB  50 %   no         0         2   2\n"
				   "half     2.0 GiB  50 %   no         1         2   2\n");
	CHECK_VIRGATE("complete", "--", "create", "--profile", "");
	CHECK_CONTAINS(result.out, "half\t");
}
