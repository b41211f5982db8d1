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

static uint64_t read_available(const char *groups)
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
	make_group("", NULL, 900 * MiB); // the root control group has no limit
	make_group("outer", "83886080\n", 30 * MiB);
	make_group("outer/inner", "max\n", 20 * MiB);
	make_group("outer/tight", "41943040\n", 35 * MiB);
}

TEST(smallest_remainder_of_group_and_parents_counts)
{
	make_root();
	CHECK_INT(read_available("9:name=systemd:/x\n0::/outer/inner\n"), 50 * MiB);
	CHECK_INT(read_available("0::/outer/tight\n"), 5 * MiB);
	CHECK_INT(read_available("0::/outer\n"), 50 * MiB);
}

TEST(inactive_page_cache_counts_as_available)
{
	make_root();
	write_file("outer/tight", "memory.stat", "anon 5\nactive_file 7\ninactive_file 10485760\nactive_anon 3\n");
	CHECK_INT(read_available("0::/outer/tight\n"), 15 * MiB);
	write_file("outer/tight", "memory.stat", "anon 5\n");
	CHECK_INT(read_available("0::/outer/tight\n"), 5 * MiB);
}

TEST(group_above_its_limit_has_nothing_left)
{
	make_root();
	make_group("outer/tight", "41943040\n", 60 * MiB);
	CHECK_INT(read_available("0::/outer/tight\n"), 0);
}

TEST(memory_high_counts_as_limit)
{
	make_root();
	make_group("outer/slow", "max\n", 20 * MiB);
	write_file("outer/slow", "memory.high", "31457280\n");
	CHECK_INT(read_available("0::/outer/slow\n"), 10 * MiB);
}

TEST(version_1_groups_are_read)
{
	char path[256];

	make_root();
	snprintf(path, sizeof path, "%s/memory", root);
	mkdir(path, 0700);
	snprintf(path, sizeof path, "%s/memory/box", root);
	mkdir(path, 0700);
	write_file("memory", "memory.limit_in_bytes", "9223372036854771712\n"); // no limit
	write_file("memory", "memory.usage_in_bytes", "12345\n");
	write_file("memory/box", "memory.limit_in_bytes", "52428800\n");
	write_file("memory/box", "memory.usage_in_bytes", "41943040\n");
	write_file("memory/box", "memory.stat", "inactive_file 1\ntotal_inactive_file 1048576\n");
	CHECK_INT(read_available("4:memory:/box\n0::/\n"), 11 * MiB);
	// The directory of this group does not exist here, as in a container that does not show it. So the group's
	// limit is unknown.
	CHECK_INT(read_available("4:memory:/box/unseen\n"), 11 * MiB);
}

TEST(no_limit_is_unbounded)
{
	make_root();
	CHECK(read_available("0::/\n") == UINT64_MAX);
	CHECK(read_available("4:cpu:/docker\n") == UINT64_MAX);
	CHECK(read_available("") == UINT64_MAX);
}

TEST(this_process_has_available_memory)
{
	uint64_t available = pager_host_available();

	CHECK(available > MiB);
	CHECK(available <= (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE));
}
