// Finds similar names.
#include "compute/registry_read.h"

#include <stdio.h>
#include <string.h>

// LISTED: maximum number of names in a message. LONGEST: longer names are not compared, because they are mangled, and
// users do not type such names.
enum { LISTED = 4, LONGEST = 127 };

static unsigned get_least(unsigned a, unsigned b, unsigned c)
{
	unsigned ab = a < b ? a : b;

	return ab < c ? ab : c;
}

// Returns how many letters must be added, removed or changed to turn one name into the other (Levenshtein distance).
static unsigned count_edits(const char *a, const char *b, size_t b_length)
{
	unsigned row[LONGEST + 1];

	for (unsigned i = 0; i <= b_length; i++)
		row[i] = i;
	for (unsigned line = 1; *a; a++, line++) {
		unsigned diagonal = row[0];
		row[0] = line;
		for (size_t i = 1; i <= b_length; i++) {
			unsigned above = row[i];
			row[i] = get_least(row[i - 1] + 1, above + 1, diagonal + (*a != b[i - 1]));
			diagonal = above;
		}
	}
	return row[b_length];
}

bool compute_names_like(const char *name, struct compute_entry *const *entries, size_t count, char *ret_text,
			size_t capacity)
{
	struct {
		unsigned distance;
		const char *name;
	} best[LISTED];
	size_t length = strlen(name), listed = 0, used = 0;

	for (size_t i = 0; i < count && length <= LONGEST; i++) {
		size_t its = strlen(entries[i]->name), shorter = its < length ? its : length;
		bool begins = shorter >= 3 && strncmp(name, entries[i]->name, shorter) == 0;
		unsigned far = its > LONGEST ? UINT32_MAX : count_edits(name, entries[i]->name, its);
		if (its > LONGEST || (!begins && far > 2 + length / 4))
			continue;
		size_t at = listed < LISTED ? listed++ : LISTED;
		for (; at > 0 && best[at - 1].distance > far; at--)
			if (at < LISTED)
				best[at] = best[at - 1];
		if (at < LISTED) {
			best[at].distance = far;
			best[at].name = entries[i]->name;
		}
	}
	for (size_t i = 0; i < listed && used < capacity; i++)
		used += (size_t)snprintf(ret_text + used, capacity - used, "%s%s", i ? ", " : "", best[i].name);
	return listed > 0;
}
