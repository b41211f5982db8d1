// Seals weights, verifies them on the GPU, and shows what happens when a byte was changed. An audit log records all of
// it, and is verified in the end.
#include "check.h"

#include <string.h>
#include <unistd.h>

enum { BYTES = 3 << 20, SHARDS = 2 };

static char directory[] = "/tmp/virgate-seal.XXXXXX", key[64], log_file[64], log_head[80];

static void make_directory(void)
{
	if (!mkdtemp(directory)) {
		perror("mkdtemp");
		exit(1);
	}
	snprintf(key, sizeof key, "%s/key", directory);
	snprintf(log_file, sizeof log_file, "%s/audit", directory);
	snprintf(log_head, sizeof log_head, "%s.head", log_file);
	check(vg_seal_key_create(key)); // mode 0600; usually made once, by `virgate key create`
}

static void remove_place(void)
{
	unlink(key);
	unlink(log_file);
	unlink(log_head);
	rmdir(directory);
}

// Stores a seal for later, as a line of text.
static struct vg_seal copy_by_text(const struct vg_seal *seal)
{
	char text[VG_SEAL_TEXT_MAX];
	struct vg_seal back;
	size_t length;

	check(vg_seal_encode(seal, text, sizeof text, &length));
	printf("%s\n", text);
	check(vg_seal_decode(text, length, &back));
	return back;
}

static struct vg_vram_handle load(struct vg_vram *vram, unsigned shard, struct vg_seal *ret_seal)
{
	struct vg_seal_options options = {.size = sizeof options, .model = "little", .shard = shard, .shards = SHARDS};
	struct vg_vram_handle handle;
	char id[16];

	snprintf(id, sizeof id, "part-%u", shard);
	options.id = id;
	check(vg_vram_allocate(vram, BYTES, NULL, &handle));
	check(vg_vram_fill(handle, 0, (int)(17 + shard), BYTES));
	check(vg_vram_seal(handle, &options, ret_seal));
	return handle;
}

int main(void)
{
	struct vg_vram_options options = {.size = sizeof options, .key_file = key, .audit_file = log_file};
	struct vg_audit_options audit = {.size = sizeof audit, .key_file = key};
	struct vg_audit_report report = {.size = sizeof report};
	struct vg_seal seals[SHARDS], forged;
	struct vg_vram_handle parts[SHARDS];
	struct vg_attestation attestation;
	char byte;
	struct vg_vram *vram;

	make_directory();
	check(vg_vram_open(&options, &vram));
	for (unsigned i = 0; i < SHARDS; i++)
		parts[i] = load(vram, i, &seals[i]);
	check(vg_seal_check_set(seals, SHARDS));
	seals[0] = copy_by_text(&seals[0]);
	for (unsigned i = 0; i < SHARDS; i++)
		check(vg_vram_verify(parts[i], &seals[i]));
	check(vg_vram_attest(parts[0], &attestation));
	printf("%llu bytes in the memory of %s\n", (unsigned long long)attestation.bytes, attestation.device);

	if (vg_vram_fill(parts[0], 5, 0, 1) != VG_POLICY) // sealed memory is read-only
		return 1;
	printf("%s\n", vg_last_error()->text);
	forged = seals[1];
	forged.root[0] ^= 1; // now the seal is like one of other contents
	if (vg_vram_verify(parts[1], &forged) != VG_INTEGRITY)
		return 1;
	printf("%s\n", vg_last_error()->text);
	if (vg_vram_read_at(parts[1], 0, &byte, 1) != VG_INTEGRITY) // quarantined: it can only be freed
		return 1;
	check(vg_vram_free(parts[1]));
	check(vg_vram_unseal(parts[0]));
	check(vg_vram_free(parts[0]));
	check(vg_vram_close(vram, NULL));
	vg_vram_destroy(vram);

	check(vg_audit_verify(log_file, &audit, &report));
	remove_place();
	printf("seal: %u shards verified, one forged seal found, %llu records in a whole log\n", SHARDS,
	       (unsigned long long)report.records);
	return 0;
}
