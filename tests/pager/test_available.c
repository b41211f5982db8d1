#include "pager/available.h"

#include <inttypes.h>
#include <stdbool.h>

#include "test.h"

static const uint64_t MiB = 1 << 20;
static char root[] = "/tmp/virgate-groups-XXXXXX";

static void write_file(const char *group, const char *name, const char *text)
{
	char path[256];

	snprintf(path, sizeof path, "%s/%s/%s", root, group, name);
	FILE *file = fopen(path, "w");
	if (!file || fputs(text, file) < 0 || fclose(file) != 0)
		FAIL("%s: %m", path);
}

static void make_group(const char *group, const char *most, uint64_t used)
{
	char text[32], path[256];

	snprintf(path, sizeof path, "%s/%s", root, group);
	mkdir(path, 0700);
	if (most)
		write_file(group, "memory.max", most);
	snprintf(text, sizeof text, "%" PRIu64 "\n", used);
	write_file(group, "memory.current", text);
}

static uint64_t available(const char *groups)
{
	return pager_group_available(root, groups);
}

static void remove_root(void)
{
	char command[64];

	snprintf(command, sizeof command, "rm -rf %s", root);
	if (system(command) != 0)
		fprintf(stderr, "%s is left\n", root);
}

static void make_root(void)
{
	static bool is_made;

	if (!is_made && !mkdtemp(root))
		FAIL("mkdtemp: %m");
	if (!is_made)
		atexit(remove_root);
	is_made = true;
	make_group("", NULL, 900 * MiB); // the machine's: it has no limit
	make_group("outer", "83886080\n", 30 * MiB);
	make_group("outer/inner", "max\n", 20 * MiB);
	make_group("outer/tight", "41943040\n", 35 * MiB);
}

TEST(the_tightest_group_counts)
{
	make_root();
	CHECK_INT(available("9:name=systemd:/x\n0::/outer/inner\n"), 50 * MiB);
	CHECK_INT(available("0::/outer/tight\n"), 5 * MiB);
	CHECK_INT(available("0::/outer\n"), 50 * MiB);
}

TEST(files_are_dropped_first)
{
	make_root();
	write_file("outer/tight", "memory.stat", "anon 5\nactive_file 7\ninactive_file 10485760\nactive_anon 3\n");
	CHECK_INT(available("0::/outer/tight\n"), 15 * MiB);
	write_file("outer/tight", "memory.stat", "anon 5\n");
	CHECK_INT(available("0::/outer/tight\n"), 5 * MiB);
}

TEST(a_group_above_its_limit_has_none_left)
{
	make_root();
	make_group("outer/tight", "41943040\n", 60 * MiB);
	CHECK_INT(available("0::/outer/tight\n"), 0);
}

TEST(the_limit_at_which_the_kernel_slows_a_group_down_counts)
{
	make_root();
	make_group("outer/slow", "max\n", 20 * MiB);
	write_file("outer/slow", "memory.high", "31457280\n");
	CHECK_INT(available("0::/outer/slow\n"), 10 * MiB);
}

TEST(groups_of_version_1_count)
{
	char path[256];

	make_root();
	snprintf(path, sizeof path, "%s/memory", root);
	mkdir(path, 0700);
	snprintf(path, sizeof path, "%s/memory/box", root);
	mkdir(path, 0700);
	write_file("memory", "memory.limit_in_bytes", "9223372036854771712\n"); // none
	write_file("memory", "memory.usage_in_bytes", "12345\n");
	write_file("memory/box", "memory.limit_in_bytes", "52428800\n");
	write_file("memory/box", "memory.usage_in_bytes", "41943040\n");
	write_file("memory/box", "memory.stat", "inactive_file 1\ntotal_inactive_file 1048576\n");
	CHECK_INT(available("4:memory:/box\n0::/\n"), 11 * MiB);
	CHECK_INT(available("4:memory:/box/unseen\n"), 11 * MiB); // a container sees only what is around
}

TEST(without_limits_nothing_is_bounded)
{
	make_root();
	CHECK(available("0::/\n") == UINT64_MAX);
	CHECK(available("4:cpu:/docker\n") == UINT64_MAX);
	CHECK(available("") == UINT64_MAX);
}

TEST(this_process_has_some)
{
	uint64_t available = pager_host_available();

	CHECK(available > MiB);
	CHECK(available <= (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE));
}
