// "Did you mean …": the candidate nearest to a mistyped word.
#pragma once
#include <stdbool.h>

struct suggestion {
	const char *word;
	const char *best; // NULL while no candidate is near enough
	int distance;
};

void suggestion_init(struct suggestion *suggestion, const char *word);
// `candidate` must outlive the suggestion. True if it is nearer than all before it.
bool suggestion_offer(struct suggestion *suggestion, const char *candidate);

// Insertions, deletions, replacements and swaps of neighbours that turn one word into the
// other, without regard to case; words longer than 63 characters are infinitely far apart.
int edit_distance(const char *a, const char *b);
