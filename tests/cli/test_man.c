// Compares the manual pages with the tables that they describe.
#include <fcntl.h>

#include "settings/config.h"
#include "daemon/authority.h"
#include "test.h"
#include "verb.h"

static char page[65536];

static void read_page(const char *name)
{
	char path[512];

	snprintf(path, sizeof path, MAN_DIR "/%s.scd", name);
	int fd = open(path, O_RDONLY);
	if (fd < 0)
		FAIL("there is no page %s", path);
	ssize_t length = read(fd, page, sizeof page - 1);
	close(fd);
	CHECK(length > 0);
	page[length] = '\0';
}

// Returns the name of the manual page that describes a verb. Verbs of two words with the same first word, such as
// "image list" and "image inspect", are a family and have one page.
static const char *page_of(const struct verb *verb)
{
	const struct family *family = verb_family(verb);

	return family ? family->name : verb->name;
}

TEST(every_verb_has_a_page_with_every_option)
{
	char text[128];

	for (int i = 0; verbs[i]; i++) {
		if (verbs[i]->hidden)
			continue;
		const struct family *family = verb_family(verbs[i]);
		snprintf(text, sizeof text, "virgate-%s.1", page_of(verbs[i]));
		read_page(text);
		snprintf(text, sizeof text, "*virgate %s*", verbs[i]->name);
		CHECK_CONTAINS(page, text);
		for (const struct option *option = verbs[i]->options; option && option->name; option++) {
			if (option->letter)
				snprintf(text, sizeof text, "\n*-%c*, *--%s*", option->letter, option->name);
			else
				snprintf(text, sizeof text, "\n*--%s*", option->name);
			if (!strstr(page, text))
				FAIL("virgate-%s.1 has no paragraph on --%s", page_of(verbs[i]), option->name);
		}
		read_page("virgate.1");
		snprintf(text, sizeof text, "*virgate-%s*(1)\n\t%s.", page_of(verbs[i]),
			 family ? family->summary : verbs[i]->summary);
		CHECK_CONTAINS(page, text);
		if (verbs[i]->alias) {
			snprintf(text, sizeof text, "virgate-%s.1", verbs[i]->name);
			read_page(text);
			snprintf(text, sizeof text, "*virgate %s*", verbs[i]->alias);
			CHECK_CONTAINS(page, text);
		}
	}
}

// The sections of a page have a fixed order that ends with SEE ALSO. OPTIONS comes before EXIT STATUS.
TEST(every_page_has_its_sections_in_order)
{
	static const char *const sections[] = {"\n# NAME\n",	    "\n# SYNOPSIS\n", "\n# DESCRIPTION\n",
					       "\n# EXIT STATUS\n", "\n# EXAMPLES\n", "\n# SEE ALSO\n"};
	char name[128];

	for (int i = 0; verbs[i]; i++) {
		if (verbs[i]->hidden)
			continue;
		snprintf(name, sizeof name, "virgate-%s.1", page_of(verbs[i]));
		read_page(name);
		const char *at = page;
		for (size_t j = 0; j < sizeof sections / sizeof *sections; j++) {
			const char *found = strstr(at, sections[j]);
			if (!found)
				FAIL("%s: no section%s in its place", name, sections[j]);
			at = found + 1;
		}
		if (verbs[i]->options)
			CHECK(strstr(page, "\n# OPTIONS\n") < strstr(page, "\n# EXIT STATUS\n"));
	}
}

TEST(every_setting_is_documented)
{
	char text[128];

	read_page("virgate.conf.5");
	CHECK_CONTAINS(page, "\n# SECTION device GPU\n");

	for (int i = 0; i < CONFIG_COUNT; i++) {
		read_page("virgate.conf.5");
		snprintf(text, sizeof text, "# SECTION %s\n", config_rows[i].section);
		char *section = strstr(page, text);
		if (!section)
			FAIL("no section %s", config_rows[i].section);
		char *end = strstr(section + 1, "\n# ");
		CHECK(end);
		*end = '\0';
		snprintf(text, sizeof text, "\n*%s* = ", config_rows[i].key);
		CHECK_CONTAINS(section, text);
		CHECK_CONTAINS(section, config_rows[i].variable);
		read_page("virgate.1");
		CHECK_CONTAINS(page, config_rows[i].variable);
	}
}

// Compares every row of the page's table of permissions with the daemon's table.
TEST(permissions_match_the_daemon)
{
	static const struct {
		const char *text;
		bool owner, group, other, root;
	} rows[] = {
#define X(verb, text, owner, group, other, root) {text, owner, group, other, root},
		AUTHORITY_TABLE(X)
#undef X
	};

	read_page("virgate.1");
	int lines = 0;
	for (const char *at = strstr(page, "\n[[ *right*"); at && (at = strstr(at, "\n|  ")); at++)
		lines++;
	CHECK_INT(lines, sizeof rows / sizeof *rows);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		char text[64], expected[64];
		snprintf(text, sizeof text, "\n|  %s\n:  ", rows[i].text);
		const char *row = strstr(page, text);
		if (!row)
			FAIL("no row %s", rows[i].text);
		row = strchr(row + strlen(text), '\n');
		snprintf(expected, sizeof expected, "\n:  %s\n:  %s\n:  %s\n:  %s\n", rows[i].owner ? "yes" : "no",
			 rows[i].group ? "yes" : "no", rows[i].other ? "yes" : "no", rows[i].root ? "yes" : "no");
		if (strncmp(row, expected, strlen(expected)) != 0)
			FAIL("%s: the page has%.40s", rows[i].text, row);
	}
}
