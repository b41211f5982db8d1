// Tests that characters that a terminal must not get are replaced.
#include "base/printable.h"

#include "test.h"

static void check_text(const char *text, const char *wanted)
{
	char copy[128];

	snprintf(copy, sizeof copy, "%s", text);
	CHECK_STR(vg_make_printable(copy), wanted);
}

TEST(printable_text_is_unchanged)
{
	static const char *const texts[] = {"",		"python train.py", "Größe", "日本語", "\xf0\x9f\x98\x80",
					    "\xc2\xa0", "a\xcc\x81"};

	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		check_text(texts[i], texts[i]);
}

TEST(control_characters_are_replaced)
{
	check_text("a\033[31mb", "a?[31mb");
	check_text("a\nb\tc\rd\be", "a?b?c?d?e");
	check_text("\177", "?");
	check_text("\xc2\x80|\xc2\x9b"
		   "31m|\xc2\x9f|\xc2\xa0",
		   "?|?31m|?|\xc2\xa0"); // C1, as UTF-8
	check_text("\x80|\x9b"
		   "31m|\x9f",
		   "?|?31m|?"); // C1, as bytes
	check_text("\xe2\x80\xae"
		   "gpj.exe",
		   "?gpj.exe"); // U+202E
	check_text("\xe2\x80\xa8|\xe2\x81\xa6|\xe2\x81\xa9|\xe2\x80\x8f|\xd8\x9c", "?|?|?|?|?");
	check_text("\xe2\x80\xa7|\xe2\x80\xaf|\xe2\x81\xaa", "\xe2\x80\xa7|\xe2\x80\xaf|\xe2\x81\xaa"); // beside them
}

TEST(invalid_utf8_is_replaced)
{
	check_text("\xff\xfe", "??");
	check_text("\xc3", "?"); // truncated
	check_text("\xe2\x80", "??");
	check_text("\xf0\x9f\x98", "???");
	check_text("\xc3(", "?(");
	// U+009B in overlong encodings, which are invalid
	check_text("\xc0\x9b|\xe0\x82\x9b|\xf0\x80\x82\x9b", "??|???|????");
	check_text("\xed\xa0\x80|\xf4\x90\x80\x80", "???|????"); // a surrogate; above U+10FFFF
}

// For any two bytes, the result must be printable. Making it printable a second time must not change it.
TEST(every_pair_of_bytes_becomes_printable)
{
	for (unsigned i = 1; i < 256; i++)
		for (unsigned j = 0; j < 256; j++) {
			char text[] = {(char)i, (char)j, 'x', '\0'}, again[4];
			vg_make_printable(text);
			memcpy(again, text, sizeof again);
			CHECK_STR(vg_make_printable(again), text);
			for (const char *at = text; *at; at++)
				CHECK((unsigned char)*at >= 0x20 && *at != 0x7f);
		}
}
