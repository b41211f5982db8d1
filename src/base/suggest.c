#include "base/suggest.h"

#include <ctype.h>
#include <limits.h>
#include <string.h>

enum { LONGEST = 63 };

static int minimum(int a, int b)
{
	return a < b ? a : b;
}

int edit_distance(const char *a, const char *b)
{
	size_t length_a = strlen(a), length_b = strlen(b);
	int rows[3][LONGEST + 1], *before = rows[0], *last = rows[1], *row = rows[2];

	if (length_a > LONGEST || length_b > LONGEST)
		return INT_MAX;
	for (size_t j = 0; j <= length_b; j++)
		last[j] = (int)j;
	for (size_t i = 1; i <= length_a; i++) {
		row[0] = (int)i;
		for (size_t j = 1; j <= length_b; j++) {
			int x = tolower((unsigned char)a[i - 1]), y = tolower((unsigned char)b[j - 1]);
			row[j] = minimum(last[j - 1] + (x != y), minimum(last[j], row[j - 1]) + 1);
			if (i > 1 && j > 1 && x == tolower((unsigned char)b[j - 2]) &&
			    y == tolower((unsigned char)a[i - 2]))
				row[j] = minimum(row[j], before[j - 2] + 1);
		}
		int *oldest = before;
		before = last;
		last = row;
		row = oldest;
	}
	return last[length_b];
}

void suggestion_init(struct suggestion *suggestion, const char *word)
{
	// Accept a candidate if at most a third of the word is wrong and at least one letter is right.
	int length = (int)strnlen(word, LONGEST);
	int worst = length <= 3 ? length - 1 : (length + 2) / 3;

	*suggestion = (struct suggestion){.word = word, .distance = worst + 1};
}

bool suggestion_offer(struct suggestion *suggestion, const char *candidate)
{
	int distance = edit_distance(suggestion->word, candidate);
	size_t length = strlen(suggestion->word);

	// Give a prefix ("dev" for "devices") the distance 1.
	if (length >= 2 && strncmp(suggestion->word, candidate, length) == 0)
		distance = 1;
	if (distance >= suggestion->distance)
		return false;
	suggestion->distance = distance;
	suggestion->best = candidate;
	return true;
}
