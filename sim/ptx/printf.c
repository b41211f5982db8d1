// vprintf: the arguments lie in a buffer, each at its own alignment, promoted as in C.
#include <stdio.h>
#include <stdlib.h>

#include "sim/ptx/engine.h"

enum { TEXT_LIMIT = 64 << 10, FORMAT_LIMIT = 4096 };

struct output {
	char *text;
	size_t length, capacity;
};

struct reader {
	struct ptx_warp *warp;
	unsigned lane;
	uint64_t address;
	bool failed;
};

static void put(struct output *output, const char *text, size_t length)
{
	if (!length)
		return;
	if (output->length + length > TEXT_LIMIT)
		length = TEXT_LIMIT - output->length;
	if (output->length + length > output->capacity) {
		size_t capacity = (output->length + length) * 2 + 128;
		char *grown = realloc(output->text, capacity);
		if (!grown)
			return;
		output->text = grown;
		output->capacity = capacity;
	}
	memcpy(output->text + output->length, text, length);
	output->length += length;
}

static uint64_t next(struct reader *reader, unsigned size)
{
	uint64_t value = 0;
	const void *at;

	reader->address = (reader->address + size - 1) & ~(uint64_t)(size - 1);
	at = ptx_address_try(reader->warp, reader->lane, reader->address, size, false);
	if (at)
		memcpy(&value, at, size);
	else
		reader->failed = true;
	reader->address += size;
	return value;
}

static void put_string(struct output *output, struct reader *reader, const char *conversion, uint64_t address)
{
	char text[FORMAT_LIMIT], shown[FORMAT_LIMIT * 2];
	size_t length = 0;
	const char *at;

	if (!address)
		strcpy(text, "(null)");
	while (address && length + 1 < sizeof text &&
	       (at = ptx_address_try(reader->warp, reader->lane, address + length, 1, false)) && *at)
		text[length++] = *at;
	if (address)
		text[length] = 0;
	int count = snprintf(shown, sizeof shown, conversion, text);
	if (count > 0)
		put(output, shown, (size_t)count < sizeof shown ? (size_t)count : sizeof shown - 1);
}

// One conversion: its flags, width and precision as text, sizes normalised for the host.
static const char *convert(struct output *output, struct reader *reader, const char *format)
{
	char conversion[64] = "%", shown[512];
	size_t used = 1;
	unsigned longs = 0, shorts = 0;
	const char *start = format++;
	int count = -1;

	for (; *format && strchr("-+ #0123456789.*", *format) && used < 40; format++) {
		if (*format == '*')
			used += (size_t)snprintf(conversion + used, sizeof conversion - used, "%d", (int)(int32_t)next(reader, 4) % 1000);
		else
			conversion[used++] = *format;
	}
	for (; *format && strchr("hlLjzt", *format); format++) {
		shorts += *format == 'h';
		longs += *format != 'h';
	}
	char kind = *format;
	switch (kind) {
	case 'd':
	case 'i':
	case 'u':
	case 'o':
	case 'x':
	case 'X': {
		uint64_t value = next(reader, longs ? 8 : 4);
		bool is_signed = kind == 'd' || kind == 'i';
		if (shorts == 1)
			value = is_signed ? (uint64_t)(int16_t)value : (uint16_t)value;
		else if (shorts > 1)
			value = is_signed ? (uint64_t)(int8_t)value : (uint8_t)value;
		else if (!longs)
			value = is_signed ? (uint64_t)(int32_t)value : (uint32_t)value;
		snprintf(conversion + used, sizeof conversion - used, "ll%c", kind);
		count = snprintf(shown, sizeof shown, conversion, (long long)value);
		break;
	}
	case 'c':
		snprintf(conversion + used, sizeof conversion - used, "c");
		count = snprintf(shown, sizeof shown, conversion, (int)next(reader, 4));
		break;
	case 'p':
		snprintf(conversion + used, sizeof conversion - used, "p");
		count = snprintf(shown, sizeof shown, conversion, (void *)(uintptr_t)next(reader, 8));
		break;
	case 'f':
	case 'F':
	case 'e':
	case 'E':
	case 'g':
	case 'G':
	case 'a':
	case 'A': {
		uint64_t bits = next(reader, 8);
		double value;
		memcpy(&value, &bits, 8);
		snprintf(conversion + used, sizeof conversion - used, "%c", kind);
		count = snprintf(shown, sizeof shown, conversion, value);
		break;
	}
	case 's':
		snprintf(conversion + used, sizeof conversion - used, "s");
		put_string(output, reader, conversion, next(reader, 8));
		return format + 1;
	case '%':
		put(output, "%", 1);
		return format + 1;
	default: // not a conversion: as it stands
		put(output, start, (size_t)(format - start));
		return format;
	}
	if (count > 0)
		put(output, shown, (size_t)count < sizeof shown ? (size_t)count : sizeof shown - 1);
	return format + 1;
}

int ptx_print(struct ptx_warp *warp, unsigned lane, uint64_t format_address, uint64_t arguments)
{
	const struct ptx_launch *launch = warp->worker->run->launch;
	struct reader reader = {.warp = warp, .lane = lane, .address = arguments};
	struct output output = {0};
	char format[FORMAT_LIMIT];
	size_t length = 0;
	int conversions = 0;
	const char *at;

	while (length + 1 < sizeof format && (at = ptx_address_try(warp, lane, format_address + length, 1, false)) && *at)
		format[length++] = *at;
	format[length] = 0;
	for (at = format; *at && !reader.failed;) {
		size_t plain = strcspn(at, "%");
		put(&output, at, plain);
		at += plain;
		if (*at) {
			conversions += at[1] != '%';
			at = convert(&output, &reader, at);
		}
	}
	if (launch->print && output.length && !reader.failed)
		launch->print(launch->print_context, output.text, output.length);
	free(output.text);
	return reader.failed ? -1 : conversions;
}
