#include "exporter/family.h"

#include <stdlib.h>

void family_begin(FILE *out, const char *name, enum family_type type, const char *help)
{
	fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type == FAMILY_COUNTER ? "counter" : "gauge");
}

// Returns the length of the UTF-8 character at `text`, or 0 if the bytes there are not a character.
static size_t measure_character(const unsigned char *text)
{
	static const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t length = *text < 0x80 ? 1 : *text >= 0xf0 && *text < 0xf8 ? 4 : *text >= 0xe0 ? 3 : 2;
	unsigned character = *text & (0xffu >> (length + 1));

	if (length == 1)
		return 1;
	if (*text < 0xc2 || *text > 0xf4)
		return 0;
	for (size_t i = 1; i < length; i++) {
		if ((text[i] & 0xc0) != 0x80)
			return 0;
		character = character << 6 | (text[i] & 0x3f);
	}
	return character < least[length] || character > 0x10ffff || (character & ~0x7ffu) == 0xd800 ? 0 : length;
}

static void print_escaped(FILE *out, const char *text)
{
	while (*text) {
		size_t length = measure_character((const unsigned char *)text);
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
