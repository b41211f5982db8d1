#include "exporter/text.h"

#include <string.h>

size_t text_character(const char *text_)
{
	static const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
	const unsigned char *text = (const unsigned char *)text_;
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

// Calls `write` for each valid character, and writes "?" for every other byte.
static void write_characters(FILE *out, const char *text,
			     void (*write)(FILE *out, const char *character, size_t length))
{
	while (text && *text) {
		size_t length = text_character(text);
		if (!length || *text == 0x7f)
			fputc('?', out);
		else
			write(out, text, length);
		text += length ? length : 1;
	}
}

static void write_html(FILE *out, const char *character, size_t length)
{
	static const char marks[] = "&<>\"'";
	static const char *const names[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
	const char *mark = strchr(marks, *character);

	if (mark)
		fputs(names[mark - marks], out);
	else if ((unsigned char)*character < ' ')
		fputc('?', out);
	else
		fwrite(character, 1, length, out);
}

void text_write_html(FILE *out, const char *text)
{
	write_characters(out, text, write_html);
}

static void write_json(FILE *out, const char *character, size_t length)
{
	if (*character == '"' || *character == '\\')
		fprintf(out, "\\%c", *character);
	else if ((unsigned char)*character < ' ' || *character == '<' || *character == '>')
		fprintf(out, "\\u%04x", (unsigned)*character);
	else
		fwrite(character, 1, length, out);
}

void text_write_json(FILE *out, const char *text)
{
	fputc('"', out);
	write_characters(out, text, write_json);
	fputc('"', out);
}

const char *text_size(uint64_t bytes, char buffer[TEXT_SIZE])
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	double value = (double)bytes;
	size_t unit = 0;

	for (; value >= 1023.95 && unit + 1 < sizeof units / sizeof *units; unit++)
		value /= 1024;
	snprintf(buffer, TEXT_SIZE, unit && value != (double)(uint64_t)value ? "%.1f %s" : "%.0f %s", value,
		 units[unit]);
	return buffer;
}

const char *text_duration(double seconds, char buffer[TEXT_SIZE])
{
	if (!(seconds > 0 && seconds < 1e15))
		seconds = 0;
	unsigned long long whole = (unsigned long long)seconds;

	if (whole < 10)
		snprintf(buffer, TEXT_SIZE, "%.1f s", seconds);
	else if (whole < 60)
		snprintf(buffer, TEXT_SIZE, "%llu s", whole);
	else if (whole < 3600)
		snprintf(buffer, TEXT_SIZE, "%llu min %llu s", whole / 60, whole % 60);
	else if (whole < 86400)
		snprintf(buffer, TEXT_SIZE, "%llu h %llu min", whole / 3600, whole / 60 % 60);
	else
		snprintf(buffer, TEXT_SIZE, "%llu d %llu h", whole / 86400, whole / 3600 % 24);
	return buffer;
}
