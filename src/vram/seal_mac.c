// Computes the MAC of a seal. docs/seals.md describes the layout: change both together.
#include "vram/seal.h"

#include <string.h>

void vram_seal_compute_mac(const struct vg_seal *seal, const struct vram_keys *keys, uint8_t ret_mac[VRAM_MAC])
{
	struct vram_mac mac;

	vram_mac_begin(&mac, keys->seal, "virgate seal 1");
	vram_mac_text(&mac, seal->id);
	vram_mac_text(&mac, seal->model);
	vram_mac_number(&mac, seal->shard);
	vram_mac_number(&mac, seal->shards);
	vram_mac_number(&mac, seal->generation);
	vram_mac_text(&mac, seal->device);
	vram_mac_number(&mac, seal->bytes);
	vram_mac_number(&mac, seal->sealed_ns);
	vram_mac_bytes(&mac, seal->root, sizeof seal->root);
	vram_mac_end(&mac, ret_mac);
}

bool vram_seal_is_genuine(const struct vg_seal *seal, const struct vram_keys *keys)
{
	uint8_t mac[VRAM_MAC];

	// The texts may lack their terminators if the program has overwritten the seal.
	if (!memchr(seal->id, 0, sizeof seal->id) || !memchr(seal->model, 0, sizeof seal->model) ||
	    !memchr(seal->device, 0, sizeof seal->device))
		return false;
	vram_seal_compute_mac(seal, keys, mac);
	return sodium_memcmp(mac, seal->mac, sizeof mac) == 0;
}
