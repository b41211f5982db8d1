// Writes the page as HTML, complete without a script: page/page.html with the figures as tables. Any thread.
#pragma once
#include <stdbool.h>
#include <stdio.h>

#include "exporter/gather.h"

enum { PAGE_VGPUS_MOST = 200, PAGE_TENANTS_MOST = 16, PAGE_EVENTS_MOST = 100 };

struct page {
	const struct gathered *gathered; // with `problem`, its lists are not used
	const char *host;		 // the name of this machine
	bool is_public;			 // the tenants of vGPUs are not shown
	bool has_token;			 // a reader with the token would see more
};

void page_write(FILE *out, const struct page *page);
// Writes a cell of a table. `head` is the text of its column's head, which narrow screens show, or NULL; `class` may be
// "".
void page_write_cell(FILE *out, const char *head, const char *class, const char *text);
// Writes the figures of the last hour: for each GPU the places of two charts, and their figures as tables.
void page_write_history(FILE *out, const struct page *page);
