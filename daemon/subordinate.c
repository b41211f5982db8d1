#include "daemon/subordinate.h"

#include "base/clock.h"
#include "base/descriptor.h"
#include "daemon/names.h"
#include "daemon/say.h"
#include "daemon/work.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_RANGES = 16384, MOST_FILE = 1 << 20, CHECK_EVERY_S = 1 };
static const char path[] = "/etc/subuid";
// Reading the file looks up the names of many users, which can take long. So the thread of a user id that no user has
// reads it. There it delays no user's work.
static const uid_t READER = (uid_t)-1;

struct range {
	uint32_t first, count;
	uid_t owner;
};

struct table {
	struct work work;
	size_t count;
	bool is_cut;
	struct range ranges[];
};

static bool is_wanted;	    // true only in the system's daemon
static struct table *table; // NULL: the file was not read yet
static bool is_reading;
static struct stat seen;
static uint64_t next_check_ns;

// ---- in the thread --------------------------------------------------------------------------------------------

// Reads one line, "NAME:FIRST:COUNT", where NAME can be a number. Returns false if it is invalid or contains no ids. A
// range that belongs to root gets its own first id as the owner, because programs under these ids do not have root's
// rights.
static bool parse_line(char *line, struct range *ret_range)
{
	char *first = strchr(line, ':'), *count = first ? strchr(first + 1, ':') : NULL, *end;

	if (!count)
		return false;
	*first++ = *count++ = '\0';
	unsigned long long from = strtoull(first, &end, 10);
	if (end == first || *end || from == 0 || from >= UINT32_MAX)
		return false;
	unsigned long long many = strtoull(count, &end, 10);
	if (end == count || *end || many == 0)
		return false;
	if (many > UINT32_MAX - from)
		many = UINT32_MAX - from;
	uid_t owner;
	if (names_look_up_user(line, &owner) < 0)
		return false;
	*ret_range = (struct range){(uint32_t)from, (uint32_t)many, owner ? owner : (uid_t)from};
	return true;
}

static void run_reading(struct work *work)
{
	struct table *new = (struct table *)work;
	char *text = malloc(MOST_FILE), *rest = text;
	ssize_t length = text ? vg_file_read(path, text, MOST_FILE) : -1;

	for (char *line; length > 0 && (line = strsep(&rest, "\n"));) {
		struct range range;
		if (!parse_line(line, &range))
			continue;
		new->is_cut = new->count == MOST_RANGES;
		if (new->is_cut)
			break;
		new->ranges[new->count++] = range;
	}
	new->is_cut |= length == -EFBIG;
	free(text);
}

// ---- in the loop ----------------------------------------------------------------------------------------------

// Returns the user who owns the subordinate id, or `uid` itself.
static uid_t find_owner(uid_t uid)
{
	for (size_t i = 0; table && i < table->count; i++)
		if (uid - table->ranges[i].first < table->ranges[i].count && uid >= table->ranges[i].first)
			return table->ranges[i].owner;
	return uid;
}

static void end_reading(struct node *node, struct work *work)
{
	is_reading = false;
	free(table);
	table = (struct table *)work;
	if (table->is_cut)
		say("%s has more than %d ranges, or more than %d bytes: the limits of users do not count the others",
		    path, MOST_RANGES, MOST_FILE);
	struct table *smaller = realloc(table, sizeof *table + table->count * sizeof *table->ranges);
	if (smaller)
		table = smaller;
	user_set_owners(find_owner);
}

static void begin_reading(void)
{
	struct table *new = calloc(1, sizeof *new + MOST_RANGES * sizeof *new->ranges);

	if (!new)
		return;
	new->work = (struct work){.lane = WORK_NAMES, .run = run_reading, .done = end_reading};
	is_reading = work_post(READER, &new->work);
	if (!is_reading)
		free(new);
}

void subordinate_refresh(void)
{
	struct stat now = {0};
	uint64_t time = is_wanted ? vg_clock_monotonic_ns() : 0;

	if (!is_wanted || is_reading || time < next_check_ns)
		return;
	next_check_ns = time + CHECK_EVERY_S * 1000000000ull;
	if (stat(path, &now) < 0)
		now = (struct stat){0};
	if (table && now.st_ino == seen.st_ino && now.st_size == seen.st_size &&
	    memcmp(&now.st_mtim, &seen.st_mtim, sizeof now.st_mtim) == 0)
		return;
	seen = now;
	begin_reading();
}

void subordinate_start(const struct node *node)
{
	is_wanted = node->system_wide;
	subordinate_refresh();
}

bool subordinate_is_pending(void)
{
	return is_wanted && !table && is_reading;
}
