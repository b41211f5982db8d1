// Implements vprintf. The arguments are in a buffer of the kernel, promoted as in C. Each has its natural alignment.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "sim/ptx/engine.h"

enum { TEXT_LIMIT = 64 << 10, FORMAT_LIMIT = 4096, CONVERSION_LIMIT = 64, SHOWN_LIMIT = 2 * FORMAT_LIMIT };

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

// A conversion that the host's printf understands: "%", modifiers, size and kind.
struct conversion {
	char text[CONVERSION_LIMIT];
	size_t length;
};

static void append_text(struct output *output, const char *text, size_t length)
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

// Appends one converted argument, at most SHOWN_LIMIT characters. `ending` has the size and kind, which end the
// conversion.
static void append_conversion(struct output *output, struct conversion *conversion, const char *ending, ...)
{
	char shown[SHOWN_LIMIT];
	va_list value;

	snprintf(conversion->text + conversion->length, sizeof conversion->text - conversion->length, "%s", ending);
	va_start(value, ending);
	int count = vsnprintf(shown, sizeof shown, conversion->text, value);
	va_end(value);
	if (count > 0)
		append_text(output, shown, (size_t)count < sizeof shown ? (size_t)count : sizeof shown - 1);
}

// Reads the next argument of the kernel, which has `size` bytes.
static uint64_t read_argument(struct reader *reader, unsigned size)
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

static void append_string(struct output *output, struct reader *reader, struct conversion *conversion)
{
	char text[FORMAT_LIMIT];
	uint64_t address = read_argument(reader, 8);

	if (address)
		ptx_copy_string(reader->warp, reader->lane, address, text, sizeof text);
	append_conversion(output, conversion, "s", address ? text : "(null)");
}

// Appends an integer. `shorts` counts the letters h in the conversion, such as 2 in "%hhd". `longs` counts the letters
// of longer sizes, such as l.
static void append_integer(struct output *output, struct reader *reader, struct conversion *conversion, char kind,
			   unsigned shorts, unsigned longs)
{
	const char ending[] = {'l', 'l', kind, 0};
	uint64_t value = read_argument(reader, longs ? 8 : 4);
	bool is_signed = kind == 'd' || kind == 'i';

	if (shorts == 1)
		value = is_signed ? (uint64_t)(int16_t)value : (uint16_t)value;
	else if (shorts > 1)
		value = is_signed ? (uint64_t)(int8_t)value : (uint8_t)value;
	else if (!longs)
		value = is_signed ? (uint64_t)(int32_t)value : (uint32_t)value;
	append_conversion(output, conversion, ending, (long long)value);
}

static void append_double(struct output *output, struct reader *reader, struct conversion *conversion, char kind)
{
	uint64_t bits = read_argument(reader, 8);
	double value;

	memcpy(&value, &bits, sizeof value);
	append_conversion(output, conversion, (const char[]){kind, 0}, value);
}

// Copies flags, width and precision. Each number has at most three digits. A width that is an argument is written as
// digits.
static const char *copy_modifiers(struct reader *reader, const char *format, struct conversion *conversion)
{
	unsigned digits = 0;

	for (; *format && strchr("-+ #0123456789.*", *format) && conversion->length < 40; format++) {
		bool is_digit = *format >= '0' && *format <= '9';
		digits = is_digit ? digits + 1 : 0;
		if (*format == '*')
			conversion->length += (size_t)snprintf(conversion->text + conversion->length,
							       sizeof conversion->text - conversion->length, "%d",
							       (int)(int32_t)read_argument(reader, 4) % 1000);
		else if (digits <= 3)
			conversion->text[conversion->length++] = *format;
	}
	return format;
}

// Appends the argument of the conversion at `format`. Returns the text behind it.
static const char *append_argument(struct output *output, struct reader *reader, const char *format)
{
	struct conversion conversion = {.text = "%", .length = 1};
	unsigned longs = 0, shorts = 0;
	const char *start = format;

	format = copy_modifiers(reader, format + 1, &conversion);
	for (; *format && strchr("hlLjzt", *format); format++) {
		shorts += *format == 'h';
		longs += *format != 'h';
	}
	if (*format && strchr("diuoxX", *format)) {
		append_integer(output, reader, &conversion, *format, shorts, longs);
	} else if (*format && strchr("fFeEgGaA", *format)) {
		append_double(output, reader, &conversion, *format);
	} else if (*format == 'c') {
		append_conversion(output, &conversion, "c", (int)read_argument(reader, 4));
	} else if (*format == 'p') {
		append_conversion(output, &conversion, "p", (void *)(uintptr_t)read_argument(reader, 8));
	} else if (*format == 's') {
		append_string(output, reader, &conversion);
	} else if (*format == '%') {
		append_text(output, "%", 1);
	} else { // this is not a conversion: it is printed unchanged
		append_text(output, start, (size_t)(format - start));
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
	int conversions = 0;

	ptx_copy_string(warp, lane, format_address, format, sizeof format);
	for (const char *at = format; *at && !reader.failed;) {
		size_t plain = strcspn(at, "%");
		append_text(&output, at, plain);
		at += plain;
		if (*at) {
			conversions += at[1] != '%';
			at = append_argument(&output, &reader, at);
		}
	}
	if (output.length && !reader.failed)
		ptx_print_text(warp->worker->run, output.text, output.length);
	free(output.text);
	return reader.failed ? -1 : conversions;
}
