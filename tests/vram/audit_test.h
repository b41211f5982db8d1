// Helpers of the tests of the audit log: they write logs, and verify them.
#pragma once
#include "seal_test.h"

#include "vram/audit_file.h"
#include "virgate/audit.h"

static inline struct vram_keys *keys_of(const char *digits)
{
	struct vram_keys *keys;

	OK(vram_keys_open(key_file("key", digits), NULL, "train", &keys));
	return keys;
}

static const struct vram_event example = {.kind = VRAM_EVENT_SEALED,
					  .handle = 0x100000001,
					  .bytes = 4096,
					  .generation = 7,
					  .device = "GPU-01234567-89ab-cdef-0123-456789abcdef",
					  .id = "layer-0"};

static inline struct vram_audit *open_log(const char *path, struct vram_keys *keys)
{
	struct vram_audit *audit;

	OK(vram_audit_open(path, keys, "train", &audit));
	return audit;
}

static inline void write_records(const char *path, int count)
{
	struct vram_keys *keys = keys_of(KEY_DIGITS);
	struct vram_audit *audit = open_log(path, keys);

	for (int i = 0; i < count; i++)
		OK(vram_audit_append(audit, &example));
	vram_audit_close(audit);
	vram_keys_close(keys);
}

static inline const char *head_of(const char *path)
{
	static char head[256];

	snprintf(head, sizeof head, "%s.head", path);
	return head;
}

static inline enum vg_status verify(const char *path, const char *expect, struct vg_audit_report *ret_report)
{
	struct vg_audit_options options = {
		.size = sizeof options, .key_file = key_file("verify-key", KEY_DIGITS), .expect = expect};

	*ret_report = (struct vg_audit_report){.size = sizeof *ret_report};
	return vg_audit_verify(path, &options, ret_report);
}

static inline void is_whole(const char *path, uint64_t records)
{
	struct vg_audit_report report;

	OK(verify(path, NULL, &report));
	CHECK_INT(report.records, records);
	CHECK_INT(report.fault, VG_AUDIT_NONE);
	CHECK_INT(report.line, 0);
}

static inline void is_not_whole(const char *path, enum vg_audit_fault fault, uint64_t line, uint64_t good,
				const char *words)
{
	struct vg_audit_report report;

	REFUSED(verify(path, NULL, &report), VG_INTEGRITY, words);
	CHECK_STR(vg_audit_fault_text(report.fault), vg_audit_fault_text(fault));
	CHECK_INT(report.line, line);
	CHECK_INT(report.records, good);
}
