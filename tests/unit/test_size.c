#include "test.h"

#include "base/size.h"

static uint64_t parse(const char *text)
{
	uint64_t bytes = 0;
	int error = vg_size_parse(text, &bytes);

	if (error)
		FAIL("\"%s\" %s", text, vg_size_error_text(error));
	return bytes;
}

static int parse_error(const char *text)
{
	uint64_t bytes = 4711;
	int error = vg_size_parse(text, &bytes);

	CHECK_INT(bytes, 4711); // unchanged on failure
	return error;
}

TEST(sizes_are_parsed_in_every_unit)
{
	CHECK_INT(parse("0"), 0);
	CHECK_INT(parse("4096"), 4096);
	CHECK_INT(parse("17B"), 17);
	CHECK_INT(parse("1k"), 1024);
	CHECK_INT(parse("1536M"), 1536ll << 20);
	CHECK_INT(parse("1.5G"), 1536ll << 20);
	CHECK_INT(parse("1.5 GiB"), 1536ll << 20);
	CHECK_INT(parse("1.0"), 1);
	CHECK_INT(parse(" 2 tb "), 2ll << 40);
	CHECK_INT(parse(".5K"), 512);
	CHECK_INT(parse("9223372036854775807"), INT64_MAX);
}

TEST(invalid_sizes_are_refused)
{
	CHECK_INT(parse_error(""), VG_SIZE_EMPTY);
	CHECK_INT(parse_error("  "), VG_SIZE_EMPTY);
	CHECK_INT(parse_error("-1G"), VG_SIZE_NEGATIVE);
	CHECK_INT(parse_error("9223372036854775808"), VG_SIZE_OVERFLOW);
	CHECK_INT(parse_error("99999999999999999999999999999999999999999999999999G"), VG_SIZE_OVERFLOW);
	CHECK_INT(parse_error("8192P"), VG_SIZE_OVERFLOW);
	CHECK_INT(parse_error("."), VG_SIZE_MALFORMED);
	CHECK_INT(parse_error("1.5"), VG_SIZE_MALFORMED);
	CHECK_INT(parse_error("0.3333333333333333333333B"), VG_SIZE_MALFORMED);
	CHECK_INT(parse_error("G"), VG_SIZE_MALFORMED);
	CHECK_INT(parse_error("1X"), VG_SIZE_MALFORMED);
	CHECK_INT(parse_error("1Gi"), VG_SIZE_MALFORMED);
	CHECK_INT(parse_error("1G2"), VG_SIZE_MALFORMED);
	CHECK_INT(parse_error("1e9"), VG_SIZE_MALFORMED);
	CHECK_INT(parse_error("0x10"), VG_SIZE_MALFORMED);
}

TEST(sizes_are_formatted)
{
	char text[VG_SIZE_TEXT];

	CHECK_STR(vg_size_format(0, text), "0 B");
	CHECK_STR(vg_size_format(1023, text), "1023 B");
	CHECK_STR(vg_size_format(1024, text), "1.0 KiB");
	CHECK_STR(vg_size_format(1536ull << 20, text), "1.5 GiB");
	CHECK_STR(vg_size_format((1ull << 30) - 1, text), "1.0 GiB");
	CHECK_STR(vg_size_format(UINT64_MAX, text), "16384.0 PiB");
}
