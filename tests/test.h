// Runs tests. Every TEST registers itself, and this file has main(). A failed check ends the test, but not the program.
// In a forked child, a failed check ends the child, and the test must check the child's exit status.
// The output has the lines "ok NAME", "FAIL NAME: file:line: what" and "skip NAME: reason", and a last line "N passed,
// N failed, N skipped". The exit status is 1 if any test failed, and 77 if all were skipped.
// The arguments are parts of the names of the tests to run, each of which must select a test; or --list. Include this
// header in exactly one file of a test program.
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// The number of seconds after which a child that hangs is killed. With sanitizers, some tests take ten times as long.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { TEST_CHILD_SECONDS = 300 };
#else
enum { TEST_CHILD_SECONDS = 90 };
#endif

struct test_case {
	const char *name;
	void (*run)(void);
	struct test_case *next;
};

static struct test_case *test_first, **test_last = &test_first;
static jmp_buf test_exit;
static pid_t test_pid;
static char test_message[1024];

__attribute__((noreturn, format(printf, 2, 3))) static inline void test_leave(int how, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(test_message, sizeof test_message, format, arguments);
	va_end(arguments);
	if (getpid() != test_pid) { // in a forked child, exit; the parent sees the exit status
		fprintf(stderr, "in a child: %s\n", test_message);
		_exit(how == 1 ? 1 : 77);
	}
	longjmp(test_exit, how);
}

#define TEST(test_name)                                                             \
	static void test_##test_name(void);                                         \
	__attribute__((constructor)) static void register_##test_name(void)         \
	{                                                                           \
		static struct test_case one = {#test_name, test_##test_name, NULL}; \
		*test_last = &one;                                                  \
		test_last = &one.next;                                              \
	}                                                                           \
	static void test_##test_name(void)

#define FAIL(...) test_leave(1, __VA_ARGS__)
#define SKIP(...) test_leave(2, __VA_ARGS__)
// Ends the test because a file that the build should have made is missing. Without a CUDA toolkit, the build makes no
// machine code and no archives, so the test is skipped. With a toolkit, it fails.
#ifdef WITHOUT_TOOLKIT
#define NO_BUILT_FILE(path) SKIP("needs nvcc, which makes %s", path)
#else
#define NO_BUILT_FILE(path) FAIL("no %s", path)
#endif
// Skips the test if other users cannot execute the program, because they have no access to one of its directories. That
// is so if the build is below root's home directory.
__attribute__((unused)) static void test_needs_reach(const char *program)
{
	char path[4096];

	snprintf(path, sizeof path, "%s", program);
	for (char *slash = strrchr(path, '/'); slash && slash != path; slash = strrchr(path, '/')) {
		struct stat status;
		*slash = '\0';
		if (stat(path, &status) != 0 || !(status.st_mode & S_IXOTH))
			SKIP("other users cannot enter %s", path);
	}
}

__attribute__((unused)) static void pause_ms(long ms)
{
	nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

#define CHECK(condition)                                                   \
	do {                                                               \
		if (!(condition))                                          \
			FAIL("%s:%d: %s", __FILE__, __LINE__, #condition); \
	} while (0)
#define CHECK_INT(got, want)                                                                                    \
	do {                                                                                                    \
		long long got_ = (long long)(got), want_ = (long long)(want);                                   \
		if (got_ != want_)                                                                              \
			FAIL("%s:%d: %s is %lld, not %lld (%s)", __FILE__, __LINE__, #got, got_, want_, #want); \
	} while (0)
#define CHECK_STR(got, want)                                                                                      \
	do {                                                                                                      \
		const char *got_ = (got), *want_ = (want);                                                        \
		if (!got_ || strcmp(got_, want_) != 0)                                                            \
			FAIL("%s:%d: %s is \"%s\", not \"%s\"", __FILE__, __LINE__, #got, got_ ? got_ : "(null)", \
			     want_);                                                                              \
	} while (0)
#define CHECK_CONTAINS(got, part)                                                                                 \
	do {                                                                                                      \
		const char *got_ = (got), *part_ = (part);                                                        \
		if (!got_ || !strstr(got_, part_))                                                                \
			FAIL("%s:%d: \"%s\" does not contain \"%s\"", __FILE__, __LINE__, got_ ? got_ : "(null)", \
			     part_);                                                                              \
	} while (0)
// Reaps the child, and fails the test unless the child exited with 0.
#define CHECK_CHILD(child)                                                                                    \
	do {                                                                                                  \
		int status_;                                                                                  \
		pid_t child_ = (child);                                                                       \
		CHECK_INT(waitpid(child_, &status_, 0), child_);                                              \
		if (status_ != 0)                                                                             \
			FAIL("%s:%d: child %s has the wait status %#x", __FILE__, __LINE__, #child, status_); \
	} while (0)

int main(int argc, char **argv)
{
	volatile int passed = 0, failed = 0, skipped = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	test_pid = getpid();
	for (struct test_case *volatile t = test_first; t; t = t->next) {
		int wanted = argc < 2;
		for (int i = 1; i < argc; i++)
			wanted |= strstr(t->name, argv[i]) != NULL;
		if (argc == 2 && strcmp(argv[1], "--list") == 0) {
			puts(t->name);
			continue;
		}
		if (!wanted)
			continue;
		fflush(stdout); // print it now, so that forked children do not print it again
		int how = setjmp(test_exit);
		if (how == 0) {
			t->run();
			passed++;
			printf("ok %s\n", t->name);
		} else if (how == 1) {
			failed++;
			printf("FAIL %s: %s\n", t->name, test_message);
		} else {
			skipped++;
			printf("skip %s: %s\n", t->name, test_message);
		}
	}
	for (int i = 1; i < argc; i++) {
		struct test_case *t = test_first;
		while (t && !strstr(t->name, argv[i]))
			t = t->next;
		if (!t && strcmp(argv[i], "--list") != 0) {
			failed++;
			printf("FAIL %s: the name of no test contains this\n", argv[i]);
		}
	}
	printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
	if (failed || (passed + skipped == 0 && !(argc == 2 && strcmp(argv[1], "--list") == 0)))
		return 1;
	return passed == 0 && skipped > 0 ? 77 : 0;
}
