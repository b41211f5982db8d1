#include "vram/mac.h"

#include <endian.h>
#include <string.h>

void vram_mac_begin(struct vram_mac *mac, const uint8_t key[VRAM_SECRET], const char *what)
{
	crypto_generichash_init(&mac->state, key, VRAM_SECRET, VRAM_MAC);
	vram_mac_text(mac, what);
}

void vram_mac_bytes(struct vram_mac *mac, const void *data, size_t size)
{
	uint64_t length = htole64(size);

	crypto_generichash_update(&mac->state, (const uint8_t *)&length, sizeof length);
	crypto_generichash_update(&mac->state, data, size);
}

void vram_mac_text(struct vram_mac *mac, const char *text)
{
	vram_mac_bytes(mac, text, strlen(text));
}

void vram_mac_number(struct vram_mac *mac, uint64_t number)
{
	uint64_t little = htole64(number);

	vram_mac_bytes(mac, &little, sizeof little);
}

void vram_mac_end(struct vram_mac *mac, uint8_t ret_mac[VRAM_MAC])
{
	crypto_generichash_final(&mac->state, ret_mac, VRAM_MAC);
	sodium_memzero(mac, sizeof *mac);
}
