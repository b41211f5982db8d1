// Tests the verbs key create and audit verify: messages, JSON, exit codes.
#include "verb_test.h"
#include "vram/audit_test.h"

TEST(key_create_keeps_an_existing_file)
{
	CHECK_RUN("key create %s", path_of("new"));
	CHECK_CONTAINS(said, "created, readable by you only");
	CHECK_INT(run("key create %s", path_of("new")), 1);
	CHECK_CONTAINS(said, "is there already: a new key would make all that was sealed with the old one worthless");
	CHECK_INT(run("key create %s", path_of("no/folder")), 1);
	CHECK_CONTAINS(said, "No such file or directory");
	CHECK_INT(run("key create"), 2);
	CHECK_INT(run("key"), 2);
}

TEST(audit_verify_reports_faults)
{
	const char *log = path_of("log"), *key = path_of("key");
	char expect[VG_AUDIT_HEAD_MAX];
	size_t length;

	write_records(log, 3);
	CHECK_RUN("audit verify %s --key %s", log, key);
	CHECK_CONTAINS(said, "whole, 3 records from 20");
	char *head = strstr(said, "\nhead: 3:");
	CHECK(head != NULL);
	snprintf(expect, sizeof expect, "%.66s", head + 7);
	CHECK_RUN("audit verify %s --key %s --expect %s", log, key, expect);
	setenv("VIRGATE_KEY", key, 1);
	CHECK_RUN("audit verify %s", log);
	setenv("VIRGATE_KEY", "/none", 1);
	CHECK_INT(run("audit verify %s", log), 1);
	CHECK_CONTAINS(said, "there is no key file /none");
	CHECK_RUN("audit verify %s --key %s", log, key);
	unsetenv("VIRGATE_KEY");
	char *text = read_file(log, &length);
	write_records(log, 1);
	CHECK_RUN("audit verify %s --key %s --expect %s --json", log, key, expect);
	CHECK_CONTAINS(said, "\"whole\": true");
	CHECK_CONTAINS(said, "\"records\": 4");
	text[length - 80] ^= 1;
	write_file(log, text, length, 0600);
	CHECK_INT(run("audit verify %s --key %s", log, key), 1);
	CHECK_CONTAINS(said, "line 3 was changed, or another put in its place");
	CHECK_CONTAINS(said, ": changed; the first 2 records are good, to 20");
	CHECK_INT(run("audit verify %s --key %s --json 2>/dev/null", log, key), 1);
	CHECK_CONTAINS(said, "\"whole\": false");
	CHECK_CONTAINS(said, "\"fault\": \"changed\"");
	CHECK_CONTAINS(said, "\"line\": 3");
	write_file(log, text, 0, 0600);
	CHECK_INT(run("audit verify %s --key %s", log, key), 1);
	CHECK_CONTAINS(said, "it ends after 0 records, and its head counts 4");
	CHECK_CONTAINS(said, ": cut, 0 records");
	free(text);
}

TEST(invalid_options_are_refused)
{
	const char *log = path_of("log"), *key = path_of("key");

	setenv("XDG_CONFIG_HOME", seal_directory, 1); // no settings
	CHECK_INT(run("audit"), 2);
	CHECK_INT(run("audit verify --key %s", key), 2);
	CHECK_INT(run("audit verify %s", log), 2);
	CHECK_CONTAINS(said, "the key that the log was written with is missing: give --key FILE or --key-ring NAME, or "
			     "set VIRGATE_KEY");
	CHECK_INT(run("audit verify %s --key %s --key-ring x", log, key), 2);
	CHECK_CONTAINS(said, "give one of them");
	CHECK_INT(run("audit verify %s --key %s --expect 3", log, key), 1);
	CHECK_CONTAINS(said, "\"3\" is not a head: it must be COUNT:MAC");
	CHECK_INT(run("audit verify %s --key /dev/null", log), 1);
	CHECK_CONTAINS(said, "not a regular file");
	CHECK_INT(run("audit verify %s --key-ring virgate-no-such-key", log), 1);
}
