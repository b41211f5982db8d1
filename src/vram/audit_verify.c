// Verifies an audit log, and reports the first error.
#include "vram/audit_file.h"

#include "base/descriptor.h"
#include "virgate/audit.h"
#include "core/object.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct verification {
	const char *path;
	const struct vram_keys *keys;
	int log;
	uint64_t bytes; // size of the log
	uint64_t line;	// number of the last line that was read
	struct audit_chain chain;
	bool has_head, head_is_valid;
	struct audit_head head;
	struct audit_chain expected; // if `count` is not 0: a record that the caller requires to be in the log
	struct vg_audit_report report;
};

const char *vg_audit_fault_text(enum vg_audit_fault fault)
{
	static const char *const texts[] = {
#define X(name, text) text,
		VG_AUDIT_FAULT_LIST(X)
#undef X
	};

	return fault >= 0 && fault < sizeof texts / sizeof *texts ? texts[fault] : "unknown";
}

// ---- faults ----------------------------------------------------------------------------------------------

__attribute__((format(printf, 4, 5))) static enum vg_status
report_fault(struct verification *it, enum vg_audit_fault fault, uint64_t line, const char *format, ...)
{
	char text[512];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	it->report.fault = fault;
	it->report.line = line;
	return vg_fail(VG_INTEGRITY, 0, "audit log %.300s: %s", it->path, text);
}

static enum vg_status report_line_fault(struct verification *it, enum audit_line how, uint64_t number)
{
	uint64_t line = it->line, due = it->chain.count + 1;

	if (how == AUDIT_LINE_GARBAGE)
		return report_fault(it, VG_AUDIT_UNREADABLE, line, "line %" PRIu64 " is not a record", line);
	if (how == AUDIT_LINE_EARLY)
		return report_fault(it, VG_AUDIT_MISSING, line,
				    "line %" PRIu64 " is record %" PRIu64 " where %" PRIu64
				    " is due: lines were taken away before it, or moved",
				    line, number, due);
	if (how == AUDIT_LINE_LATE)
		return report_fault(it, VG_AUDIT_REPEATED, line,
				    "line %" PRIu64 " is record %" PRIu64 " again, where %" PRIu64 " is due", line,
				    number, due);
	if (line == 1 && it->has_head && !it->head_is_valid)
		return report_fault(
			it, VG_AUDIT_KEY, line,
			"neither its first line nor its head is of this key: another key, or both were changed");
	return report_fault(it, VG_AUDIT_CHANGED, line, "line %" PRIu64 " was changed, or another put in its place",
			    line);
}

// Checks the MAC of the record that was read last, if a MAC for this record is in the head (the file with the number
// and the MAC of the log's last record) or was passed by the caller.
static enum vg_status check_anchors(struct verification *it)
{
	if (it->chain.count == it->expected.count && it->expected.count &&
	    sodium_memcmp(it->chain.mac, it->expected.mac, VRAM_MAC) != 0)
		return report_fault(it, VG_AUDIT_EXPECTED, it->line,
				    "record %" PRIu64 " is not the one that was expected: this is another log",
				    it->chain.count);
	if (it->head_is_valid && it->chain.count == it->head.chain.count &&
	    sodium_memcmp(it->chain.mac, it->head.chain.mac, VRAM_MAC) != 0)
		return report_fault(it, VG_AUDIT_HEAD, it->line,
				    "its head is another log's: record %" PRIu64 " differs", it->chain.count);
	return VG_OK;
}

// Checks, after the last line, whether the log has as many records as the head and the caller state. `unfinished`:
// number of bytes after the last newline.
static enum vg_status check_end(struct verification *it, size_t unfinished)
{
	uint64_t records = it->chain.count, line = it->line + 1;

	if (it->head_is_valid && it->head.chain.count > records)
		return report_fault(it, VG_AUDIT_CUT, line,
				    "it ends after %" PRIu64 " records, and its head counts %" PRIu64, records,
				    it->head.chain.count);
	if (unfinished)
		return report_fault(
			it, VG_AUDIT_CUT, line, "its last line, %" PRIu64 ", is unfinished: %s", line,
			it->head_is_valid
				? "all records that its head counts are there, so a writer was killed or the disk "
				  "was full; the next record will take its place"
				: "the end was cut, or a writer was killed");
	if (it->expected.count > records)
		return report_fault(it, VG_AUDIT_EXPECTED, line,
				    "it ends after %" PRIu64 " records, and %" PRIu64
				    " were expected: the log and its head were put back",
				    records, it->expected.count);
	if (!it->has_head)
		return report_fault(it, VG_AUDIT_HEAD, 0,
				    "%.300s.head is missing: whether the end was cut cannot be told", it->path);
	if (!it->head_is_valid && records == 0)
		return report_fault(it, VG_AUDIT_KEY, 0, "its head was changed, or is of another key");
	if (!it->head_is_valid)
		return report_fault(it, VG_AUDIT_HEAD, 0,
				    "%.300s.head was changed: whether the end was cut cannot be told", it->path);
	return VG_OK;
}

// ---- reading ---------------------------------------------------------------------------------------------

static enum vg_status check_line(struct verification *it, const char *line, size_t length)
{
	char time[AUDIT_TIME];
	uint64_t number = 0;

	it->line++;
	enum audit_line how = audit_line_check(line, length, it->keys, &it->chain, &number, time);
	if (how)
		return report_line_fault(it, how, number);
	memcpy(it->report.last, time, sizeof time);
	if (it->chain.count == 1)
		memcpy(it->report.first, time, sizeof time);
	return check_anchors(it);
}

static enum vg_status check_lines(struct verification *it)
{
	char buffer[16 * AUDIT_LINE];
	uint64_t at = 0;

	for (;;) {
		size_t begin = 0, wanted = it->bytes - at < sizeof buffer ? (size_t)(it->bytes - at) : sizeof buffer;
		ssize_t got = vg_read_all(it->log, buffer, wanted, (off_t)at);
		if (got < 0)
			return vg_fail(VG_SYSTEM, (int)-got, "cannot read audit log %s: %s", it->path,
				       strerror((int)-got));
		for (const char *end; (end = memchr(buffer + begin, '\n', (size_t)got - begin));
		     begin = (size_t)(end - buffer) + 1) {
			enum vg_status status = check_line(it, buffer + begin, (size_t)(end - buffer) - begin);
			if (status)
				return status;
		}
		at += begin;
		if (begin == 0 && got == sizeof buffer) {
			it->line++;
			return report_line_fault(it, AUDIT_LINE_GARBAGE, 0);
		}
		if (begin == 0 || at == it->bytes)
			return check_end(it, (size_t)got - begin);
	}
}

static enum vg_status read_head(struct verification *it)
{
	char path[PATH_MAX], text[AUDIT_HEAD + 1];

	if (!audit_head_path(it->path, path))
		return vg_fail(VG_INVALID, 0, "path is too long");
	_cleanup_close_ int fd = vg_open_regular(path, O_RDONLY);
	if (fd == -ENOENT)
		return VG_OK;
	ssize_t got = fd < 0 ? fd : vg_read_all(fd, text, sizeof text, 0);
	if (got < 0)
		return vg_fail(VG_SYSTEM, (int)-got, "cannot read %s: %s", path, strerror((int)-got));
	it->has_head = got > 0; // size 0: a writer was killed before it wrote the first head
	it->head_is_valid = audit_head_read(text, (size_t)got, it->keys, &it->head);
	return VG_OK;
}

static enum vg_status verify_log(struct verification *it)
{
	struct stat stat;

	_cleanup_close_ int log = vg_open_regular(it->path, O_RDONLY);
	int error = log < 0 ? -log : fstat(log, &stat) < 0 ? errno : 0;
	if (log == -EINVAL)
		return vg_fail(VG_INVALID, 0, "audit log %s is not a regular file", it->path);
	if (error)
		return vg_fail(error == ENOENT || error == ENOTDIR ? VG_NOT_FOUND
			       : error == EACCES		   ? VG_DENIED
								   : VG_SYSTEM,
			       error, "cannot read audit log %s: %s", it->path, strerror(error));
	int r = audit_lock(log, false);
	if (r)
		return vg_fail(r == -ETIMEDOUT ? VG_BUSY : VG_SYSTEM, -r, "audit log %s: cannot lock it: %s", it->path,
			       r == -ETIMEDOUT ? "a writer has held it for seconds" : strerror(-r));
	fstat(log, &stat); // writers may have appended records while this thread waited for the lock
	it->log = log;
	it->bytes = (uint64_t)stat.st_size;
	enum vg_status status = read_head(it);
	return status ? status : check_lines(it);
}

// ---- the public function ---------------------------------------------------------------------------------

// Parses an expected record, "COUNT:MAC". Returns false if the text has another form.
static bool read_expected(const char *text, struct audit_chain *ret_chain)
{
	char digits[2 * VRAM_MAC + 1], again[VG_AUDIT_HEAD_MAX];

	if (sscanf(text, "%" SCNu64 ":%64[0-9a-f]", &ret_chain->count, digits) != 2 ||
	    snprintf(again, sizeof again, "%" PRIu64 ":%s", ret_chain->count, digits) < 0 || strcmp(again, text) != 0)
		return false;
	return sodium_hex2bin(ret_chain->mac, VRAM_MAC, digits, strlen(digits), NULL, NULL, NULL) == 0 &&
	       strlen(digits) == 2 * VRAM_MAC;
}

static void fill_report(const struct verification *it, struct vg_audit_report *ret_report)
{
	char mac[2 * VRAM_MAC + 1];
	struct vg_audit_report report = it->report;

	report.size = sizeof report;
	report.records = it->chain.count;
	sodium_bin2hex(mac, sizeof mac, it->chain.mac, VRAM_MAC);
	snprintf(report.head, sizeof report.head, "%" PRIu64 ":%s", it->chain.count, mac);
	*ret_report = report;
}

enum vg_status vg_audit_verify(const char *path, const struct vg_audit_options *options,
			       struct vg_audit_report *ret_report)
{
	VG_ENTRY();
	struct verification it = {.path = path};
	struct vg_audit_options given = {0};
	struct vram_keys *keys;

	CORE_NEEDED(path);
	CORE_OPTIONS(given, options);
	if (ret_report && ret_report->size != sizeof *ret_report)
		return vg_fail(VG_INVALID, 0, "ret_report->size is %zu: it must be %zu", ret_report->size,
			       sizeof *ret_report);
	if (given.expect && !read_expected(given.expect, &it.expected))
		return vg_fail(VG_INVALID, 0,
			       "\"%.100s\" is not a head: it must be COUNT:MAC, as a verification "
			       "reports it",
			       given.expect);
	enum vg_status status = vram_keys_open(given.key_file, given.key_ring, "", &keys);
	if (status)
		return status;
	it.keys = keys;
	status = verify_log(&it);
	vram_keys_close(keys);
	if (ret_report && (status == VG_OK || status == VG_INTEGRITY))
		fill_report(&it, ret_report);
	return status;
}
