// "Did you mean …": finds the candidate nearest to a mistyped word. One thread.
#pragma once
#include <stdbool.h>

struct suggestion {
	const char *word;
	const char *best; // NULL while no candidate is near enough
	int distance;
};

void suggestion_init(struct suggestion *suggestion, const char *word);
// Returns whether `candidate`, which must outlive the suggestion, is nearer than all before it.
bool suggestion_offer(struct suggestion *suggestion, const char *candidate);

// Returns how many insertions, deletions, replacements and swaps of neighbours turn one word into the other, ignoring
// case; INT_MAX if a word is longer than 63 characters.
int edit_distance(const char *a, const char *b);
