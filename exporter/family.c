#include "exporter/family.h"

#include <stdlib.h>

#include "exporter/text.h"

void family_begin(FILE *out, const char *name, enum family_type type, const char *help)
{
	fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type == FAMILY_COUNTER ? "counter" : "gauge");
}

static void print_escaped(FILE *out, const char *text)
{
	while (*text) {
		size_t length = text_character(text);
		if (*text == '\n')
			fputs("\\n", out);
		else if (*text == '"' || *text == '\\')
			fprintf(out, "\\%c", *text);
		else if (!length || (unsigned char)*text < ' ' || *text == 0x7f)
			fputc('?', out);
		else
			fwrite(text, 1, length, out);
		text += length ? length : 1;
	}
}

void family_sample(FILE *out, const char *name, const struct label *labels, double value)
{
	const char *between = "{";
	char text[32]; // the shortest decimal text that reads back as this value

	fputs(name, out);
	for (; labels && labels->name; labels++) {
		fprintf(out, "%s%s=\"", between, labels->name);
		print_escaped(out, labels->value ? labels->value : "");
		fputc('"', out);
		between = ",";
	}
	snprintf(text, sizeof text, "%.15g", value);
	if (strtod(text, NULL) != value)
		snprintf(text, sizeof text, "%.17g", value);
	fprintf(out, "%s %s\n", *between == ',' ? "}" : "", text);
}
