#include "base/hint.h"

#include <stdlib.h>

#include "test.h"

TEST(hint_repeats_specification)
{
	char text[VG_HINT_SIM];

	CHECK_STR(vg_hint_sim(NULL, text), "");
	CHECK_STR(vg_hint_sim("", text), "");
	CHECK_STR(vg_hint_sim("0", text), "");
	CHECK_STR(vg_hint_sim("1", text), " --sim");
	CHECK_STR(vg_hint_sim("devices=2,memory=4G", text), " --sim=devices=2,memory=4G");
	CHECK_STR(vg_hint_sim("memory=4G cc=9.0;x", text), " --sim='memory=4G cc=9.0;x'");
}

TEST(hint_omits_long_or_quoted_specification)
{
	char text[VG_HINT_SIM], longest[400];

	memset(longest, 'x', sizeof longest);
	longest[sizeof longest - 1] = '\0';
	CHECK_STR(vg_hint_sim(longest, text), " --sim");
	CHECK_STR(vg_hint_sim("it's", text), " --sim");
}

TEST(own_hint_reads_environment)
{
	setenv("VIRGATE_SIM", "devices=2", 1);
	CHECK_STR(vg_hint_own_sim(), " --sim=devices=2");
	setenv("VIRGATE_SIM", "0", 1);
	CHECK_STR(vg_hint_own_sim(), "");
	unsetenv("VIRGATE_SIM");
	CHECK_STR(vg_hint_own_sim(), "");
}
