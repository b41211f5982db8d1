// Tests the help, the version, and failures to write the output.
#include "fixture.h"
#include "virgate/version.h"

TEST(help_and_version)
{
	fixture_start();
	CHECK_VIRGATE("--version");
	CHECK_STR(result.out, "virgate " VG_VERSION_TEXT "\n");
	CHECK_STR(VG_VERSION_TEXT, PROJECT_VERSION);
	CHECK_VIRGATE("version");
	CHECK_VIRGATE("help");
	CHECK_CONTAINS(result.out, "inspect");
	CHECK_VIRGATE("help", "run");
	CHECK_CONTAINS(result.out, "--memory SIZE");
	CHECK_VIRGATE("run", "--help");
	CHECK_CONTAINS(result.out, "--memory SIZE");
	// an option too long for its column has the line to itself
	CHECK_CONTAINS(result.out, "\n      --idle-suspend SECONDS\n                          evictable: ");
	CHECK_VIRGATE("help", "share");
	CHECK_CONTAINS(result.out, "\n  selftest    Run a producer and a consumer and print their output\n");
	CHECK_VIRGATE("share", "-h");
	CHECK_CONTAINS(result.out, "\n  selftest    Run a producer and a consumer and print their output\n");
	CHECK_VIRGATE("help", "share", "produce");
	CHECK_CONTAINS(result.out, "usage: virgate share produce ");
	CHECK_VIRGATE("share", "produce", "--help");
	CHECK_CONTAINS(result.out, "--timeout SECONDS");
	CHECK_INT(wait_for_program(start_program((const char *const[]){VIRGATE, NULL})), 2);
	CHECK_CONTAINS(result.err, "usage: virgate VERB");
}

// Returns the length of the longest line of the text, and counts its lines.
static size_t measure_lines(const char *text, int *ret_lines)
{
	size_t widest = 0;

	for (*ret_lines = 0; *text; (*ret_lines)++) {
		size_t length = strcspn(text, "\n");
		widest = length > widest ? length : widest;
		text += length + 1;
	}
	return widest;
}

TEST(help_fits_on_a_screen)
{
	int lines;

	fixture_start();
	CHECK_VIRGATE("help");
	CHECK(measure_lines(result.out, &lines) <= 80);
	CHECK(lines <= 40);
	CHECK_CONTAINS(result.out, "\nVirtual GPUs (vGPUs):\n  run         Run a program inside a vGPU\n");
	CHECK_CONTAINS(result.out, "\nCheckpoint and restore:\n  dump ");
	static const char *const once[] = {"\n  ps ", "\n  image ", "\n  share ", "\n  completion "};
	for (size_t i = 0; i < sizeof once / sizeof *once; i++) {
		const char *first = strstr(result.out, once[i]);
		CHECK(first && !strstr(first + 1, once[i]));
	}
	CHECK(!strstr(result.out, "\n  complete "));
	static const char *const wordy[] = {"run",  "ps",   "dump",    "restore", "migrate", "doctor",
					    "logs", "kill", "suspend", "resume",  "create"};
	for (size_t i = 0; i < sizeof wordy / sizeof *wordy; i++) {
		CHECK_VIRGATE("help", wordy[i]);
		if (measure_lines(strstr(result.out, "\n\n"), &lines) > 80)
			FAIL("a line is too wide in %s", result.out);
	}
}

TEST(write_error_is_a_failure)
{
	fixture_start();
	int status = system(VIRGATE " help >/dev/full 2>/dev/null");
	CHECK_INT(WEXITSTATUS(status), 1);
}
