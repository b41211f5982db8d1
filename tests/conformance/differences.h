// Helpers of the tests that compare drivers: assertions and child processes. A failed assertion does not end the test,
// so that one run on a GPU shows all differences. Before a program includes this file, it defines RESULT, the type that
// its calls return (0 is success), and result_name(RESULT). Only one thread may use the assertions, unless a test says
// otherwise. Include in exactly one file per program.
#pragma once

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "../test.h"

static unsigned assertions, differences;
static char first_difference[768];

__attribute__((format(printf, 3, 4))) static inline void differ(const char *file, int line, const char *format, ...)
{
	char text[512];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	const char *base = strrchr(file, '/');
	printf("  differs %s:%d: %s\n", base ? base + 1 : file, line, text);
	if (differences++ == 0)
		snprintf(first_difference, sizeof first_difference, "%s:%d: %s", base ? base + 1 : file, line, text);
}

// Checks that the call returns exactly this result.
#define GIVES(call, want)                                                                                             \
	do {                                                                                                          \
		RESULT got_ = (call), want_ = (want);                                                                 \
		assertions++;                                                                                         \
		if (got_ != want_)                                                                                    \
			differ(__FILE__, __LINE__, "%s gave %d %s, not %d %s", #call, got_, result_name(got_), want_, \
			       result_name(want_));                                                                   \
	} while (0)
#define WORKS(call) GIVES(call, (RESULT)0)
// Checks that the call fails with any code: drivers differ in the code, and no program relies on it.
#define FAILS(call)                                                        \
	do {                                                               \
		assertions++;                                              \
		if ((call) == (RESULT)0)                                   \
			differ(__FILE__, __LINE__, "%s succeeded", #call); \
	} while (0)
#define EQUALS(got, want)                                                                                  \
	do {                                                                                               \
		long long got_ = (long long)(got), want_ = (long long)(want);                              \
		assertions++;                                                                              \
		if (got_ != want_)                                                                         \
			differ(__FILE__, __LINE__, "%s is %lld, not %lld (%s)", #got, got_, want_, #want); \
	} while (0)
#define HOLDS(condition)                                                      \
	do {                                                                  \
		assertions++;                                                 \
		if (!(condition))                                             \
			differ(__FILE__, __LINE__, "not so: %s", #condition); \
	} while (0)
// Checks that low <= got <= high.
#define BETWEEN(got, low, high)                                                                                 \
	do {                                                                                                    \
		long long got_ = (long long)(got);                                                              \
		assertions++;                                                                                   \
		if (got_ < (long long)(low) || got_ > (long long)(high))                                        \
			differ(__FILE__, __LINE__, "%s is %lld, not within %s .. %s", #got, got_, #low, #high); \
	} while (0)
// Ends the test if the call fails: without it the rest of the test has no meaning.
#define NEED(call)                                                                                        \
	do {                                                                                              \
		RESULT got_ = (call);                                                                     \
		assertions++;                                                                             \
		if (got_ != (RESULT)0)                                                                    \
			FAIL("%s:%d: %s gave %d %s", __FILE__, __LINE__, #call, got_, result_name(got_)); \
	} while (0)

static inline void end_differences(void)
{
	unsigned count = differences;

	differences = 0;
	if (count)
		FAIL("%u differ, first %s", count, first_difference);
}

// A test that asserts nothing fails, because it could never fail otherwise.
#define CONFORM(name)                                     \
	static void conform_##name(void);                 \
	TEST(name)                                        \
	{                                                 \
		unsigned before_ = assertions;            \
		differences = 0;                          \
		conform_##name();                         \
		end_differences();                        \
		if (assertions == before_)                \
			FAIL("the test asserts nothing"); \
	}                                                 \
	static void conform_##name(void)

// Defines a part of a test that kills its context, or needs an uninitialised driver. The test runs it in a new process,
// without CUDA state, by run_child("name", argument).
#define CHILD(name)                                                 \
	static void child_##name(const char *argument);             \
	__attribute__((constructor)) static void begin_##name(void) \
	{                                                           \
		const char *wanted = getenv("CONFORMANCE_CHILD");   \
		if (!wanted || strcmp(wanted, #name) != 0)          \
			return;                                     \
		setvbuf(stdout, NULL, _IOLBF, 0);                   \
		child_##name(getenv("CONFORMANCE_ARGUMENT"));       \
		_exit(differences ? 1 : 0);                         \
	}                                                           \
	static void child_##name(const char *argument)

static inline pid_t start_child(const char *name, const char *argument)
{
	// Called before the fork: setenv() allocates, and another thread may hold the allocator's lock.
	setenv("CONFORMANCE_CHILD", name, 1);
	setenv("CONFORMANCE_ARGUMENT", argument ? argument : "", 1);
	fflush(NULL);
	pid_t child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); // the child does not outlive a killed test
		execl("/proc/self/exe", "conformance-child", (char *)NULL);
		_exit(127);
	}
	unsetenv("CONFORMANCE_CHILD");
	unsetenv("CONFORMANCE_ARGUMENT");
	return child;
}

static inline int wait_child(pid_t child)
{
	int status;

	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

__attribute__((destructor)) static void print_assertions(void)
{
	if (assertions)
		printf("# %u assertions\n", assertions);
}
