// Finds the candidate nearest to a mistyped word, for "did you mean …". One thread.
#pragma once
#include <stdbool.h>

struct suggestion {
	const char *word;
	const char *best; // the nearest candidate so far; NULL: none is near enough
	int distance;
};

void suggestion_init(struct suggestion *suggestion, const char *word);
// Compares a candidate with the mistyped word. Returns true if it is nearer than all earlier candidates. The string
// must outlive the suggestion.
bool suggestion_offer(struct suggestion *suggestion, const char *candidate);

// Returns how many insertions, deletions, replacements and swaps of neighbours turn one word into the other, ignoring
// case; INT_MAX if a word is longer than 63 characters.
int edit_distance(const char *a, const char *b);
