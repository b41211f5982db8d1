// Writes the page as HTML: page/page.html with the figures in tables. The page is complete even without its script. Any
// thread.
#pragma once
#include <stdbool.h>
#include <stdio.h>

#include "exporter/gather.h"

enum { PAGE_VGPUS_MOST = 200, PAGE_TENANTS_MOST = 16, PAGE_EVENTS_MOST = 100 };

struct page {
	const struct gathered *gathered; // figures of the daemon; if they have a `problem`, the lists are not used
	const char *host;		 // the name of this machine
	bool is_public;			 // the tenants of vGPUs are not shown
	bool has_token;			 // the exporter has a token, with which a reader sees more
};

void page_write(FILE *out, const struct page *page);
// Writes a cell of a table. `head` is the heading of its column, which narrow screens show in the cell, or NULL.
// `class` may be "".
void page_write_cell(FILE *out, const char *head, const char *class, const char *text);
// Writes the figures of the last hour: for each GPU two empty elements for the script's charts, and the same figures as
// tables.
void page_write_history(FILE *out, const struct page *page);
