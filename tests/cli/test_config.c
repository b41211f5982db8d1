#include "settings/config.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "test.h"

static struct config config;
static struct config_error error;

static int read_text(const char *text)
{
	config_finish(&config);
	error = (struct config_error){""};
	return config_read(&config, "some.conf", text, strlen(text), &error);
}

static void check_refused(const char *text, const char *words)
{
	CHECK_INT(read_text(text), 1);
	CHECK_CONTAINS(error.text, words);
}

TEST(every_key_is_read)
{
	CHECK_INT(read_text("# a comment\n[run]\nmemory = 8G\nshare=30 ; of one GPU\ndevice = 1\nlog: debug\n\n"
			    "evictable = yes\nswap = 44G\n"
			    "  [node]\r\n\tsimulate = memory=2G,sms=8\r\n runtime_dir = /a b\nlibdir=/c\nstart_daemon "
			    "= no\n"
			    "timeout = 5\n"),
		  0);
	CHECK_STR(config.values[CONFIG_MEMORY], "8G");
	CHECK_STR(config.values[CONFIG_SHARE], "30");
	CHECK_STR(config.values[CONFIG_DEVICE], "1");
	CHECK_STR(config.values[CONFIG_LOG], "debug");
	CHECK_STR(config.values[CONFIG_SIMULATE], "memory=2G,sms=8");
	CHECK_STR(config.values[CONFIG_RUNTIME_DIR], "/a b");
	CHECK_STR(config.values[CONFIG_LIBDIR], "/c");
	CHECK_STR(config.values[CONFIG_START], "no");
	CHECK_STR(config.values[CONFIG_TIMEOUT], "5");
	CHECK_STR(config.origins[CONFIG_TIMEOUT], "some.conf:15");
	CHECK_STR(config.values[CONFIG_EVICTABLE], "yes");
	CHECK_STR(config.values[CONFIG_SWAP], "44G");
}

TEST(empty_file_sets_nothing)
{
	CHECK_INT(read_text(""), 0);
	for (int i = 0; i < CONFIG_COUNT; i++)
		CHECK(!config.values[i]);
}

TEST(later_value_wins)
{
	CHECK_INT(read_text("[run]\nmemory = 8G\nmemory = 9G"), 0);
	CHECK_STR(config.values[CONFIG_MEMORY], "9G");
	CHECK_STR(config.origins[CONFIG_MEMORY], "some.conf:3");
}

TEST(invalid_line_is_reported_with_reason)
{
	check_refused("[run]\nmemory 8G\n", "some.conf:2: \"memory 8G\" is neither [section] nor key = value");
	check_refused("\n\n[run\n", "some.conf:3: \"[run\" has no closing bracket");
	check_refused("[rum]\nmemory = 1G\n", "some.conf:2: unknown section [rum]: did you mean [run]?");
	check_refused("[zebra]\nmemory = 1G\n", "unknown section [zebra]: there are [run], [profile NAME], [device "
						"GPU], [node], [audit], [user NAME] and [group");
	check_refused("[run]\nmemry = 1G\n", "some.conf:2: unknown key \"memry\" in [run]: did you mean \"memory\"?");
	check_refused("[run]\nxyzzy = 1G\n", "man virgate.conf");
	check_refused("memory = 1G\n", "some.conf:1: \"memory\" is before the first [section]");
	check_refused("[run]\nmemory =\n", "some.conf:2: memory: \"\" has no value");
	check_refused("[run]\nmemory = -1G\n", "is negative");
	check_refused("[run]\nmemory = 0\n", "is zero");
	check_refused("[run]\nmemory = 8 apples\n", "is not a size");
	check_refused("[run]\nmemory = 9999999999T\n", "more than 2^63");
	check_refused("[run]\nshare = 0\n", "from 1 to 100");
	check_refused("[run]\nshare = 101\n", "from 1 to 100");
	check_refused("[run]\nshare = 3.5\n", "from 1 to 100");
	check_refused("[run]\nlog = loud\n", "is not a level");
	check_refused("[run]\nevictable = maybe\n", "is neither yes nor no");
	check_refused("[run]\nswap = 0\n", "is zero");
	check_refused("[node]\nstart_daemon = maybe\n", "is neither yes nor no");
	check_refused("[node]\ntimeout = 0\n", "from 1 to 3600");
}

TEST(device_section_is_read)
{
	CHECK_INT(read_text("[run]\nsharing = time\n[device 1]\nsharing = mps\n"
			    "[device\tGPU-01234567-89ab-cdef-0123-456789abcdef]\nsharing = mps\nsharing = time\n"),
		  0);
	CHECK_STR(config.values[CONFIG_SHARING], "time");
	CHECK_INT(config.device_count, 3);
	CHECK_STR(config.devices[0].gpu, "1");
	CHECK_STR(config.devices[0].sharing, "mps");
	CHECK_STR(config.devices[0].origin, "some.conf:4");
	CHECK_STR(config.devices[1].gpu, "GPU-01234567-89ab-cdef-0123-456789abcdef");
	CHECK_STR(config.devices[2].sharing, "time");
	check_refused("[device]\nsharing = mps\n", "some.conf:2: [device] names no GPU: use [device INDEX]");
	check_refused("[device -1]\nsharing = mps\n", "\"-1\" is neither the index nor the UUID of a GPU");
	check_refused("[device A100]\nsharing = mps\n", "\"A100\" is neither");
	check_refused("[device GPU-0123]\nsharing = mps\n", "\"GPU-0123\" is neither");
	check_refused("[device 0]\nsharing = mp\n", "sharing: \"mp\" is not a mode: use time or mps");
	check_refused("[device 0]\nsharing =\n", "sharing: \"\" has no value");
	check_refused("[device 0]\nshare = 30\n", "unknown key \"share\" in [device 0]: there is \"sharing\"");
	check_refused("[devise 0]\nsharing = mps\n", "unknown section [devise 0]");
	check_refused("[devices]\nsharing = mps\n", "unknown section [devices]: did you mean [device]?");
	check_refused("[run]\nsharing = mp\n", "is not a mode");
}

static const struct vg_profile *find_profile(const char *name)
{
	return vg_profile_find(&(struct vg_profile_list){config.profile_count, config.profiles}, name);
}

TEST(profile_section_is_read)
{
	CHECK_INT(read_text("[profile 8g-25]\nmemory = 8G\nshare = 25\nclass = latency\nlimit = yes\n"
			    "[run]\nmemory = 1G\n[profile\te.v_1]\nmemory = 2G\nevictable = yes\nswap = 3G\n"
			    "fixed = 1G\nidle_suspend = 60\nsharing = mps\n"),
		  0);
	CHECK_INT(config.profile_count, 2);
	CHECK_STR(config.values[CONFIG_MEMORY], "1G");
	const struct vg_profile *first = find_profile("8g-25"), *second = find_profile("e.v_1");
	CHECK(first && second && !find_profile("8g") && !find_profile(""));
	CHECK_INT(first->memory, 8LL << 30);
	CHECK_INT(first->share, 25);
	CHECK_INT(first->share_limit, 1);
	CHECK_INT(first->scheduling_class, VG_CLASS_LATENCY);
	CHECK_INT(first->mode_given, 0);
	CHECK_INT(first->evictable, 0);
	CHECK_STR(first->origin, "some.conf:1");
	CHECK_STR(second->origin, "some.conf:8");
	CHECK_INT(second->evictable, 1);
	CHECK_INT(second->swap, 3LL << 30);
	CHECK_INT(second->fixed, 1LL << 30);
	CHECK_INT(second->idle_suspend, 60);
	CHECK_INT(second->mode_given, 1);
	CHECK_INT(second->mode, VG_MODE_MPS);
	CHECK_INT(second->share, 0);
}

TEST(wrong_profile_is_refused)
{
	check_refused("[profile]\nmemory = 1G\n", "some.conf:1: [profile] has no name: use [profile NAME]");
	check_refused("[profile ]\nmemory = 1G\n", "some.conf:1: [profile] has no name");
	check_refused("[profile -a]\nmemory = 1G\n", "[profile -a]: the name must have 1 to 63 letters");
	check_refused("[profile a b]\nmemory = 1G\n", "[profile a b]: the name must have");
	check_refused("[profile a/b]\nmemory = 1G\n", "[profile a/b]: the name must have");
	check_refused("[profile \xc3\xa4]\nmemory = 1G\n", "the name must have");
	check_refused("[profiles a]\nmemory = 1G\n", "unknown section [profiles a]");
	check_refused("[profile a]\nmemory = 1G\n\n[profile a]\nshare = 1\n",
		      "some.conf:4: [profile a] is there twice: the first is in line 1");
	check_refused("\n[profile a]\n[run]\nmemory = 1G\n", "some.conf:2: [profile a] has neither memory nor share");
	check_refused("[profile a]\nmemory = 1G\nlimit = yes\n",
		      "some.conf:1: [profile a] has limit = yes and no share");
	check_refused("[profile a]\nmemory = 1G\nswap = 1G\n", "has swap, which is for evictable vGPUs");
	check_refused("[profile a]\nmemory = 1G\nfixed = 1G\n", "has fixed, which is for evictable vGPUs");
	check_refused("[profile a]\nmemory = 1G\nidle_suspend = 1\n", "has idle_suspend, which is for evictable");
	check_refused("[profile a]\nmemory = 1G\nevictable = yes\nfixed = 2G\n", "has more fixed than memory");
	check_refused("[profile a]\nmemory = big\n", "some.conf:2: memory: \"big\" is not a size");
	check_refused("[profile a]\nshare = 101\n", "some.conf:2: share: \"101\" is not a share");
	check_refused("[profile a]\nclass = fast\n", "class: \"fast\" is not a class: use batch or latency");
	check_refused("[profile a]\nmemory =\n", "memory: \"\" has no value");
	check_refused("[profile a]\nmemroy = 1G\n", "unknown key \"memroy\" in [profile a]: did you mean \"memory\"?");
	check_refused("[profile a]\nxyzzy = 1G\n", "unknown key \"xyzzy\" in [profile a]: man virgate.conf");
}

TEST(longest_profile_name_is_read_in_full)
{
	char text[200], name[65];

	memset(name, 'x', sizeof name);
	name[63] = '\0';
	snprintf(text, sizeof text, "[profile %s]\nmemory = 1G\n", name);
	CHECK_INT(read_text(text), 0);
	CHECK(find_profile(name));
	name[63] = 'x';
	name[64] = '\0';
	snprintf(text, sizeof text, "[profile %s]\nmemory = 1G\n", name);
	check_refused(text, "the name must have 1 to 63 letters");
}

TEST(first_mistake_is_reported)
{
	check_refused("[run]\nshare = 0\nmemory = x\n[", "some.conf:2: share");
}

TEST(long_line_is_reported)
{
	char text[600] = "[run]\nmemory = ";

	memset(text + strlen(text), '1', 300);
	check_refused(text, "some.conf:2: the line is longer than");
}

TEST(zero_byte_is_reported)
{
	static const char text[] = "[run]\nmem\0ory = 1G\n";

	config_finish(&config);
	CHECK_INT(config_read(&config, "some.conf", text, sizeof text - 1, &error), 1);
	CHECK_CONTAINS(error.text, "some.conf:2: the line has a zero byte");
}

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	CHECK(fd >= 0);
	CHECK_INT(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

// Options override the environment, the user's file and the system's file. test_verbs.c tests the options.
TEST(environment_overrides_user_overrides_system)
{
	char directory[] = "/tmp/virgate-test-XXXXXX", path[256], user[256];

	CHECK(mkdtemp(directory));
	for (int i = 0; i < CONFIG_COUNT; i++)
		unsetenv(config_rows[i].variable);
	setenv("XDG_CONFIG_HOME", directory, 1);
	snprintf(path, sizeof path, "%s/system.conf", directory);
	setenv("VIRGATE_SYSTEM_CONFIG", path, 1);
	write_file(path, "[run]\nmemory = 1G\nshare = 10\ndevice = 0\n");
	snprintf(user, sizeof user, "%s/virgate", directory);
	mkdir(user, 0700);
	snprintf(user, sizeof user, "%s/virgate/virgate.conf", directory);
	write_file(user, "[run]\nmemory = 2G\nshare = 20\n");
	setenv("VIRGATE_MEMORY", "3G", 1);

	config_finish(&config);
	CHECK_INT(config_load(&config, &error), 0);
	CHECK_STR(config.values[CONFIG_MEMORY], "3G");
	CHECK_STR(config.origins[CONFIG_MEMORY], "VIRGATE_MEMORY");
	CHECK_STR(config.values[CONFIG_SHARE], "20");
	CHECK_STR(config.values[CONFIG_DEVICE], "0");
	CHECK_STR(config.origins[CONFIG_SHARE] + strlen(directory), "/virgate/virgate.conf:3");

	write_file(path, "[device 0]\nsharing = mps\n");
	write_file(user, "[run]\nsharing = time\n[device 0]\nsharing = time\n");
	config_finish(&config);
	CHECK_INT(config_load(&config, &error), 0);
	CHECK_INT(config.device_count, 2);
	// the user's file is read after the system's, so its setting counts
	CHECK_STR(config.devices[1].sharing, "time");
	setenv("VIRGATE_SHARING", "mps", 1);
	config_finish(&config);
	CHECK_INT(config_load(&config, &error), 0);
	CHECK_INT(config.device_count, 0);
	CHECK_STR(config.values[CONFIG_SHARING], "mps");
	unsetenv("VIRGATE_SHARING");

	write_file(path, "[profile a]\nmemory = 1G\nclass = latency\n[profile b]\nmemory = 2G\n");
	write_file(user, "[profile c]\nmemory = 3G\n\n[profile a]\nshare = 30\n");
	struct vg_profile_list *list;
	CHECK_INT(vg_profile_list_read(&list), VG_OK);
	CHECK_INT(list->count, 3);
	// the user's profile replaces the system's profile of the same name completely
	CHECK_STR(list->profiles[0].name, "a");
	CHECK_INT(list->profiles[0].memory, 0);
	CHECK_INT(list->profiles[0].share, 30);
	CHECK_INT(list->profiles[0].scheduling_class, VG_CLASS_BATCH);
	CHECK_STR(list->profiles[0].origin + strlen(directory), "/virgate/virgate.conf:4");
	CHECK_STR(list->profiles[1].name, "b");
	CHECK_STR(list->profiles[2].name, "c");
	vg_profile_list_free(list);
	write_file(user, "[profile c]\nmemory = 3X\n");
	CHECK_INT(vg_profile_list_read(&list), VG_INVALID);
	CHECK_CONTAINS(vg_last_error()->text, "/virgate/virgate.conf:2: memory: \"3X\" is not a size");
	CHECK_STR(vg_last_error()->function, "vg_profile_list_read");
	CHECK_INT(vg_profile_list_read(NULL), VG_INVALID);
	write_file(user, "");

	write_file(path, "[run]\nmemory = 1G\n");
	setenv("VIRGATE_MEMORY", "much", 1);
	config_finish(&config);
	CHECK_INT(config_load(&config, &error), 1);
	CHECK_CONTAINS(error.text, "VIRGATE_MEMORY: \"much\" is not a size");
	unsetenv("VIRGATE_MEMORY");

	write_file(user, "[run]\nmemory = 2Q\n");
	CHECK_INT(config_load(&config, &error), 1);
	CHECK_CONTAINS(error.text, "/virgate/virgate.conf:2: memory");

	CHECK_INT(unlink(user), 0);
	CHECK_INT(mkdir(user, 0700), 0); // a directory
	CHECK_INT(config_load(&config, &error), 1);
	CHECK_CONTAINS(error.text, "is not a regular file");
	rmdir(user);
	CHECK_INT(config_load(&config, &error), 0);
	CHECK_STR(config.values[CONFIG_MEMORY], "1G");
	unlink(path);
	config_finish(&config);
	CHECK_INT(config_load(&config, &error), 0);
	CHECK(!config.values[CONFIG_MEMORY]);
	snprintf(user, sizeof user, "%s/virgate", directory);
	rmdir(user);
	rmdir(directory);
}

TEST(limit_sections_are_read)
{
	CHECK_INT(
		read_text(
			"[user alice]\nmemory = 8G\nvgpus = 0\n[group users]\nshare = 150\nclass = batch\n[user *]\n"),
		0);
	CHECK_INT(config.limit_count, 3);
	CHECK_STR(config.limits[0].name, "alice");
	CHECK_INT(config.limits[0].memory, 8LL << 30);
	CHECK_INT(config.limits[0].vgpus, 0);
	CHECK(!config.limits[0].is_group && !config.limits[0].only_batch);
	CHECK(config.limits[1].is_group && config.limits[1].only_batch);
	CHECK_INT(config.limits[1].share, 150);
	CHECK_INT(config.limits[1].vgpus, -1);
	CHECK_STR(config.limits[2].name, "*");
	CHECK_STR(config.limits[1].origin, "some.conf:4");
	check_refused("[user]\nmemory = 1G\n", "some.conf:1: [user] has no name: use [user NAME], or [user *]");
	check_refused("[group ]\nmemory = 1G\n", "has no name: use [group NAME]");
	check_refused("[user a]\nvgpus = -1\n", "some.conf:2: vgpus: \"-1\" is not a count");
	check_refused("[user a]\nshare = 0\n", "share: \"0\" is not a sum of shares");
	check_refused("[user a]\nmemroy = 1G\n", "unknown key \"memroy\" in [user a]: did you mean \"memory\"?");
	check_refused("[user a]\nxyzzy = 1G\n", "there are memory, share, vgpus and class");
	check_refused("[user a]\nvgpus = 1\n[user a]\nvgpus = 2\n",
		      "[user a] is there twice: the first is in some.conf:1");
}

TEST(limits_are_only_for_the_systems_file)
{
	char directory[] = "/tmp/virgate-test-XXXXXX", path[256];

	CHECK(mkdtemp(directory));
	setenv("XDG_CONFIG_HOME", directory, 1);
	snprintf(path, sizeof path, "%s/virgate", directory);
	mkdir(path, 0700);
	snprintf(path, sizeof path, "%s/virgate/virgate.conf", directory);
	write_file(path, "[run]\nmemory = 1G\n[user alice]\nvgpus = 1\n");
	setenv("VIRGATE_SYSTEM_CONFIG", "/nonexistent/virgate.conf", 1);
	config_finish(&config);
	CHECK_INT(config_load(&config, &error), 1);
	CHECK_CONTAINS(error.text, "/virgate/virgate.conf:3: [user alice] is only for the system's file");
	setenv("VIRGATE_SYSTEM_CONFIG", path, 1);
	CHECK_INT(config_load_system(&config, &error), 0);
	CHECK_INT(config.limit_count, 1);
	unlink(path);
}
