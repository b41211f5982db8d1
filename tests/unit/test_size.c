#include "test.h"

#include "base/size.h"

static uint64_t parsed(const char *text)
{
	uint64_t bytes = 0;
	int error = vg_size_parse(text, &bytes);

	if (error)
		FAIL("\"%s\" %s", text, vg_size_error_text(error));
	return bytes;
}

static int refused(const char *text)
{
	uint64_t bytes = 4711;
	int error = vg_size_parse(text, &bytes);

	CHECK_INT(bytes, 4711); // untouched on failure
	return error;
}

TEST(sizes_in_every_unit)
{
	CHECK_INT(parsed("0"), 0);
	CHECK_INT(parsed("4096"), 4096);
	CHECK_INT(parsed("17B"), 17);
	CHECK_INT(parsed("1k"), 1024);
	CHECK_INT(parsed("1536M"), 1536ll << 20);
	CHECK_INT(parsed("1.5G"), 1536ll << 20);
	CHECK_INT(parsed("1.5 GiB"), 1536ll << 20);
	CHECK_INT(parsed("1.0"), 1);
	CHECK_INT(parsed(" 2 tb "), 2ll << 40);
	CHECK_INT(parsed(".5K"), 512);
	CHECK_INT(parsed("9223372036854775807"), INT64_MAX);
}

TEST(sizes_without_sense)
{
	CHECK_INT(refused(""), VG_SIZE_EMPTY);
	CHECK_INT(refused("  "), VG_SIZE_EMPTY);
	CHECK_INT(refused("-1G"), VG_SIZE_NEGATIVE);
	CHECK_INT(refused("9223372036854775808"), VG_SIZE_OVERFLOW);
	CHECK_INT(refused("99999999999999999999999999999999999999999999999999G"), VG_SIZE_OVERFLOW);
	CHECK_INT(refused("8192P"), VG_SIZE_OVERFLOW);
	CHECK_INT(refused("."), VG_SIZE_MALFORMED);
	CHECK_INT(refused("1.5"), VG_SIZE_MALFORMED);
	CHECK_INT(refused("0.3333333333333333333333B"), VG_SIZE_MALFORMED);
	CHECK_INT(refused("G"), VG_SIZE_MALFORMED);
	CHECK_INT(refused("1X"), VG_SIZE_MALFORMED);
	CHECK_INT(refused("1Gi"), VG_SIZE_MALFORMED);
	CHECK_INT(refused("1G2"), VG_SIZE_MALFORMED);
	CHECK_INT(refused("1e9"), VG_SIZE_MALFORMED);
	CHECK_INT(refused("0x10"), VG_SIZE_MALFORMED);
}

TEST(sizes_for_people)
{
	char text[VG_SIZE_TEXT];

	CHECK_STR(vg_size_format(0, text), "0 B");
	CHECK_STR(vg_size_format(1023, text), "1023 B");
	CHECK_STR(vg_size_format(1024, text), "1.0 KiB");
	CHECK_STR(vg_size_format(1536ull << 20, text), "1.5 GiB");
	CHECK_STR(vg_size_format((1ull << 30) - 1, text), "1.0 GiB");
	CHECK_STR(vg_size_format(UINT64_MAX, text), "16384.0 PiB");
}
