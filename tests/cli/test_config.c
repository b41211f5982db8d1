#include "config.h"

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
	check_refused("[zebra]\nmemory = 1G\n",
		      "unknown section [zebra]: there are [run], [device GPU], [node] and [audit]");
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
	CHECK_STR(config.devices[1].sharing, "time"); // the last one counts
	setenv("VIRGATE_SHARING", "mps", 1);
	config_finish(&config);
	CHECK_INT(config_load(&config, &error), 0);
	CHECK_INT(config.device_count, 0);
	CHECK_STR(config.values[CONFIG_SHARING], "mps");
	unsetenv("VIRGATE_SHARING");

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
