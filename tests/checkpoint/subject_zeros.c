// Part of the subject (subject.c). Makes pages of zeros in places where a faulty restore would put other bytes: in a
// mapped file, or in memory that the child has changed. The process and a child check the pages again and again.
#include "subject.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { AREA = 16 << 20, PAGE = 4096, PAGES = AREA / PAGE };

static unsigned char *anonymous, *of_file, *shared, *parents, *childs;
static int is_child;
static int numbers; // descriptor of the file with the number of rounds

// Returns the expected first byte of each page of an area.
static unsigned char expected(const unsigned char *area, unsigned page)
{
	if (area == anonymous)
		return page % 1500 == 1499 ? (unsigned char)(1 + page % 251) : 0; // two or three pages have data
	if (area == of_file)
		// In the first half of the file, zeros were written over the file's bytes.
		return page >= PAGES / 2 ? 0x5a : 0;
	if (area == parents)
		return is_child ? 0 : 0x11; // the child has written zeros
	if (area == childs)
		return is_child ? 0x22 : 0;
	return 0;
}

static void look_at(const unsigned char *area, const char *name)
{
	for (unsigned page = 0; page < PAGES; page++) {
		const unsigned char *at = area + (size_t)page * PAGE;
		if (at[0] != expected(area, page) || memcmp(at, at + 1, PAGE - 1) != 0) {
			fprintf(stderr, "subject: %s: %s, page %u begins with %#x, not %#x\n",
				is_child ? "child" : "parent", name, page, at[0], expected(area, page));
			_exit(1);
		}
	}
}

static void *look_again(void *data)
{
	(void)data;
	for (uint32_t round = 1;; round++) {
		look_at(anonymous, "anonymous");
		look_at(of_file, "of a file");
		look_at(shared, "shared");
		look_at(parents, "the parent's");
		look_at(childs, "the child's");
		if (pwrite(numbers, &round, sizeof round, 0) != sizeof round)
			_exit(4);
		usleep(20000);
	}
	return NULL;
}

static void write_pages(unsigned char *area, unsigned from, unsigned to)
{
	for (unsigned page = from; page < to; page++)
		memset(area + (size_t)page * PAGE, expected(area, page), PAGE);
}

static unsigned char *map(int fd, int flags)
{
	void *area = mmap(NULL, AREA, PROT_READ | PROT_WRITE, flags, fd, 0);

	if (area == MAP_FAILED)
		_exit(4);
	madvise(area, AREA, MADV_NOHUGEPAGE);
	return area;
}

static int open_beside(const char *suffix)
{
	char name[4096];

	snprintf(name, sizeof name, "%s.%s", file_name, suffix);
	int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
	return fd >= 0 ? fd : (_exit(4), -1);
}

static void look_beside(const char *suffix)
{
	pthread_t thread;

	numbers = open_beside(suffix);
	pthread_create(&thread, NULL, look_again, NULL);
	pthread_detach(thread);
}

// FILE.areas has the address of the first area. FILE.zeros and FILE.zeros.child have the rounds of this process and the
// child.
void have_zeros(void)
{
	int content = open_beside("content");
	unsigned char *page = malloc(PAGE);

	memset(page, 0x5a, PAGE);
	for (unsigned i = 0; i < PAGES; i++)
		if (write(content, page, PAGE) != PAGE)
			_exit(4);
	anonymous = map(-1, MAP_PRIVATE | MAP_ANONYMOUS);
	of_file = map(content, MAP_PRIVATE);
	shared = map(-1, MAP_SHARED | MAP_ANONYMOUS);
	parents = map(-1, MAP_PRIVATE | MAP_ANONYMOUS);
	childs = map(-1, MAP_PRIVATE | MAP_ANONYMOUS);
	dprintf(open_beside("areas"), "%lx", (unsigned long)anonymous);
	write_pages(anonymous, 0, PAGES);
	write_pages(of_file, 0, PAGES / 2);
	write_pages(shared, 0, PAGES);
	write_pages(parents, 0, PAGES);
	write_pages(childs, 0, PAGES);
	if (fork() == 0) {
		is_child = 1;
		write_pages(parents, 0, PAGES);
		write_pages(childs, 0, PAGES);
		look_beside("zeros.child");
		for (;;)
			pause();
	}
	look_beside("zeros");
}
