// Tests the text of the progress line: its figures, and its width on narrow terminals.
#include "progress.h"

#include <string.h>

#include "test.h"

#define GIB (UINT64_C(1) << 30)

static char line[PROGRESS_TEXT];

static void check_line(const struct progress *progress, unsigned columns, const char *expected)
{
	CHECK_STR(progress_format(progress, columns, line), expected);
}

TEST(the_line_has_figures_and_time_left)
{
	struct progress progress = {"host-out", GIB, 4 * GIB, 7, 512 << 20};

	check_line(&progress, 100,
		   "host-out  [#########------------------------------]   25 %  "
		   "1.0 of 4.0 GiB  512.0 MiB/s    7 s left");
	check_line(&progress, 80, "host-out  [####---------------]   25 %  1.0 of 4.0 GiB  512.0 MiB/s    7 s left");
	check_line(&progress, 60, "host-out  [###---------]   25 %  1.0 of 4.0 GiB    7 s left");
	check_line(&progress, 40, "host-out  [##------]   25 %    7 s left");
	check_line(&progress, 30, "host-out   25 %    7 s left");
	check_line(&progress, 20, "host-out   25 %");
	check_line(&progress, 10, " 25 %");
	progress.bytes = 900 << 20;
	progress.rate = 1 << 20;
	check_line(&progress, 90,
		   "host-out  [####------------------]   21 %  900.0 MiB of 4.0 GiB    1.0 MiB/s  53m17s left");
	progress.rate = 10000;
	check_line(&progress, 60, "host-out  [#####----------------------]   21 %  93h05m left");
	progress.bytes = 4 * GIB;
	check_line(&progress, 40, "host-out  [########]  100 %    1 s left");
}

TEST(unknown_figures_are_left_out)
{
	check_line(&(struct progress){"lock", 0, 0, 65.4, 0}, 80, "lock  1m05s");
	check_line(&(struct progress){"commit", GIB, 0, 2, GIB / 2.0}, 80, "commit  1.0 GiB  512.0 MiB/s  2 s");
	// A stalled step shows no remaining time, but the time since its start.
	check_line(&(struct progress){"send", GIB, 4 * GIB, 90, 0}, 80,
		   "send  [#####------------------]   25 %  1.0 of 4.0 GiB                    1m30s");
	check_line(&(struct progress){"send", 0, 4 * GIB, 90, 0}, 50,
		   "send  [----------------------]    0 %       1m30s");
	// If a step has sent more bytes than expected, it shows neither a bar nor a percentage.
	check_line(&(struct progress){"send", 5 * GIB, 4 * GIB, 90, 0}, 80, "send  5.0 GiB  1m30s");
}

TEST(every_width_is_kept)
{
	const struct progress all[] = {{"device-out", 1023 * GIB + GIB / 2, 1024 * GIB, 1e9, 1e12},
				       {"a-step-with-a-name-that-is-longer-than-any-other", GIB, 4 * GIB, 3, 1},
				       {"x", UINT64_MAX, UINT64_MAX, 0, 1e18},
				       {"", 0, 1, 1e300, 0}};

	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		for (unsigned columns = 0; columns < 300; columns++) {
			size_t length = strlen(progress_format(&all[i], columns, line));
			if (columns ? length >= columns : length > 0)
				FAIL("%zu characters on %u columns: \"%s\"", length, columns, line);
			for (const char *at = line; *at; at++)
				CHECK(*at >= ' ' && *at <= '~');
		}
}
