// Tests sealed memory that is mapped twice: attestation of the imported region, and changes through the exporter's
// mapping.
#include "sealed_test.h"

#include <sys/socket.h>

// Sends the region over a socket pair, and imports it in the same process, which the driver allows.
static enum vg_status import_sealed(struct vg_vram *vram, struct vg_vram_handle handle, const struct vg_seal *seal,
				    struct vg_vram_handle *ret_handle)
{
	const struct vg_share_import_options verified = {.size = sizeof verified, .verify = 1};
	struct vg_share_range_options range = {.size = sizeof range};
	struct vg_share_offer *offer, *received;
	char text[VG_SEAL_TEXT_MAX];
	int ends[2];

	OK(vg_seal_encode(seal, text, sizeof text, NULL));
	range.seal = text;
	OK(vg_share_offer_create(&offer));
	OK(vg_share_offer_add(offer, handle, &range));
	CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
	OK(vg_share_send(ends[0], offer, NULL));
	OK(vg_share_receive(ends[1], NULL, &received));
	enum vg_status status = vg_share_import(vram, received, 0, &verified, ret_handle);
	if (status)
		printf("refused: %s\n", vg_last_error()->text);
	vg_share_offer_destroy(received);
	vg_share_offer_destroy(offer);
	close(ends[0]);
	close(ends[1]);
	return status;
}

static struct vg_vram *open_for(const char *vgpu, const char *audit)
{
	struct vg_vram *vram;

	OK(open_with(KEY_DIGITS, vgpu, NULL, audit, &vram));
	return vram;
}

TEST(import_can_be_attested_and_verified)
{
	const char *log = path_of("log");
	struct vg_vram *vram = open_sealing(), *reader = open_for("train", log);
	struct vg_attestation attestation;
	struct vg_vram_handle import;
	struct vg_seal seal;
	struct vg_vram_handle handle = allocate_sealed(vram, 300000, SHAREABLE, &seal);
	size_t length;

	OK(import_sealed(reader, handle, &seal, &import));
	OK(vg_vram_verify(import, &seal));
	OK(vg_vram_attest(import, &attestation));
	OK(vg_attestation_check(vram, &attestation)); // this works because both contexts have the same secret
	CHECK_INT(attestation.bytes, 300000);
	CHECK_INT(attestation.generation, seal.generation);
	CHECK_STR(attestation.device, seal.device);
	REFUSED(vg_vram_fill(import, 0, 1, 1), VG_POLICY, "");
	OK(vg_vram_free(import));
	char *text = read_file(log, &length);
	CHECK_CONTAINS(text, "\"event\":\"allocated\"");
	CHECK_CONTAINS(text, "\"text\":\"imported memory\"");
	CHECK_CONTAINS(text, "\"event\":\"policy violation\"");
	CHECK_CONTAINS(text, "\"event\":\"deallocated\"");
	free(text);
	OK(vg_vram_verify(handle, &seal)); // freeing the import does not affect the exporter's region
	OK(vg_vram_free(handle));
	close_vram(reader);
	close_vram(vram);
}

TEST(both_processes_find_changes)
{
	struct vg_vram *vram = open_sealing(), *reader = open_for("train", NULL);
	struct vg_vram_handle import, late = {0};
	struct vg_seal seal;
	struct vg_vram_handle handle = allocate_sealed(vram, 300000, SHAREABLE, &seal);

	OK(import_sealed(reader, handle, &seal, &import));
	write_unseen(handle, 299999, 1);
	REFUSED(vg_vram_verify(import, &seal), VG_INTEGRITY, "its contents were changed");
	CHECK_INT(import_sealed(reader, handle, &seal, &late), VG_INTEGRITY);
	CHECK_INT(late.value, 0);
	check_quarantined(reader, import, &seal);
	REFUSED(vg_vram_verify(handle, &seal), VG_INTEGRITY, "its contents were changed");
	check_quarantined(vram, handle, &seal);
	close_vram(reader);
	close_vram(vram);
}

TEST(importer_with_other_keys_is_refused)
{
	struct vg_vram *vram = open_sealing(), *reader = open_for("evaluate", NULL), *without = open_vram();
	struct vg_vram_handle import = {0};
	struct vg_seal seal;
	struct vg_vram_handle handle = allocate_sealed(vram, 1000, SHAREABLE, &seal);

	CHECK_INT(import_sealed(reader, handle, &seal, &import), VG_INTEGRITY);
	CHECK_INT(import_sealed(without, handle, &seal, &import), VG_STATE);
	CHECK_INT(import.value, 0);
	OK(vg_vram_free(handle));
	close_vram(without);
	close_vram(reader);
	close_vram(vram);
}
