// vprintf: the arguments lie in a buffer, each at its own alignment, promoted as in C.
#include <stdio.h>
#include <stdlib.h>

#include "sim/ptx/engine.h"

enum { TEXT_LIMIT = 64 << 10, FORMAT_LIMIT = 4096, CONVERSION = 64 };

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

static void put_integer(struct output *output, char *conversion, size_t used, char kind, unsigned shorts,
			uint64_t value, bool wide)
{
	bool is_signed = kind == 'd' || kind == 'i';
	char shown[512];

	if (shorts == 1)
		value = is_signed ? (uint64_t)(int16_t)value : (uint16_t)value;
	else if (shorts > 1)
		value = is_signed ? (uint64_t)(int8_t)value : (uint8_t)value;
	else if (!wide)
		value = is_signed ? (uint64_t)(int32_t)value : (uint32_t)value;
	snprintf(conversion + used, CONVERSION - used, "ll%c", kind);
	int count = snprintf(shown, sizeof shown, conversion, (long long)value);
	put(output, shown, (size_t)count < sizeof shown ? (size_t)count : sizeof shown - 1);
}

static void put_double(struct output *output, char *conversion, size_t used, char kind, uint64_t bits)
{
	char shown[1536]; // 1e308 with %f, and the largest precision
	double value;

	memcpy(&value, &bits, 8);
	snprintf(conversion + used, CONVERSION - used, "%c", kind);
	int count = snprintf(shown, sizeof shown, conversion, value);
	put(output, shown, (size_t)count < sizeof shown ? (size_t)count : sizeof shown - 1);
}

static void put_other(struct output *output, struct reader *reader, char *conversion, size_t used, char kind)
{
	char shown[1200];
	int count;

	snprintf(conversion + used, CONVERSION - used, "%c", kind);
	if (kind == 'c')
		count = snprintf(shown, sizeof shown, conversion, (int)next(reader, 4));
	else
		count = snprintf(shown, sizeof shown, conversion, (void *)(uintptr_t)next(reader, 8));
	put(output, shown, (size_t)count < sizeof shown ? (size_t)count : sizeof shown - 1);
}

// Flags, width and precision as text; widths from arguments written out, three digits at most.
static const char *modifiers(struct reader *reader, const char *format, char *conversion, size_t *used)
{
	unsigned digits = 0;

	for (; *format && strchr("-+ #0123456789.*", *format) && *used < 40; format++) {
		bool is_digit = *format >= '0' && *format <= '9';
		digits = is_digit ? digits + 1 : 0;
		if (*format == '*')
			*used += (size_t)snprintf(conversion + *used, CONVERSION - *used, "%d",
						  (int)(int32_t)next(reader, 4) % 1000);
		else if (digits <= 3)
			conversion[(*used)++] = *format;
	}
	return format;
}

// One conversion; sizes are normalised for the host. Returns what follows it.
static const char *convert(struct output *output, struct reader *reader, const char *format)
{
	char conversion[CONVERSION] = "%";
	unsigned longs = 0, shorts = 0;
	const char *start = format;
	size_t used = 1;

	format = modifiers(reader, format + 1, conversion, &used);
	for (; *format && strchr("hlLjzt", *format); format++) {
		shorts += *format == 'h';
		longs += *format != 'h';
	}
	if (*format && strchr("diuoxX", *format)) {
		put_integer(output, conversion, used, *format, shorts, next(reader, longs ? 8 : 4), longs);
	} else if (*format && strchr("fFeEgGaA", *format)) {
		put_double(output, conversion, used, *format, next(reader, 8));
	} else if (*format == 'c' || *format == 'p') {
		put_other(output, reader, conversion, used, *format);
	} else if (*format == 's') {
		snprintf(conversion + used, sizeof conversion - used, "s");
		put_string(output, reader, conversion, next(reader, 8));
	} else if (*format == '%') {
		put(output, "%", 1);
	} else { // not a conversion: as it stands
		put(output, start, (size_t)(format - start));
		return format;
	}
	return format + 1;
}

void ptx_print_text(struct ptx_run *run, const char *text, size_t length)
{
	if (!run->launch->print)
		return;
	pthread_mutex_lock(&run->print_lock);
	run->launch->print(run->launch->print_context, text, length);
	pthread_mutex_unlock(&run->print_lock);
}

int ptx_print(struct ptx_warp *warp, unsigned lane, uint64_t format_address, uint64_t arguments)
{
	struct reader reader = {.warp = warp, .lane = lane, .address = arguments};
	struct output output = {0};
	char format[FORMAT_LIMIT];
	size_t length = 0;
	int conversions = 0;
	const char *at;

	while (length + 1 < sizeof format && (at = ptx_address_try(warp, lane, format_address + length, 1, false)) &&
	       *at)
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
	if (output.length && !reader.failed)
		ptx_print_text(warp->worker->run, output.text, output.length);
	free(output.text);
	return reader.failed ? -1 : conversions;
}
