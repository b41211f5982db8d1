// Prints one family of metrics in the text format of Prometheus: HELP, TYPE, and a line for each sample. Any thread.
// Source: https://prometheus.io/docs/instrumenting/exposition_formats/
#pragma once
#include <stdio.h>

enum family_type { FAMILY_GAUGE, FAMILY_COUNTER };

struct label {
	const char *name;
	const char *value;
};

// Begins a family. `name` is complete, with the prefix "virgate_" and the unit; a counter's name ends in "_total".
void family_begin(FILE *out, const char *name, enum family_type type, const char *help);
// Prints one sample. `labels` ends with a row without a name. Values are escaped, and bytes that are not UTF-8 are
// replaced by "?".
void family_sample(FILE *out, const char *name, const struct label *labels, double value);
