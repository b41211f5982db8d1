// Makes and checks tickets. A ticket is a keyed digest of a generation and of the metadata that were published. The key
// is a file in the runtime directory, so the next daemon can verify tickets of this one.
#include "daemon/broker/ticket.h"

#include "base/descriptor.h"
#include "daemon/path.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <string.h>
#include <sys/stat.h>

static int read_key(const char *path, uint8_t key[crypto_generichash_KEYBYTES])
{
	struct stat status;

	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &status) < 0 || status.st_uid != geteuid() || (status.st_mode & 077))
		return -EPERM;
	return read(fd, key, crypto_generichash_KEYBYTES) == crypto_generichash_KEYBYTES ? 0 : -EIO;
}

// Reads the key, or creates it at its first use. The key is not kept over a reboot: it is needed only while programs
// run that a daemon with this runtime directory has served.
static int find_key(const struct node *node, uint8_t ret_key[crypto_generichash_KEYBYTES])
{
	// kept in memory, so that the key stays the same if its file is removed
	static uint8_t key[crypto_generichash_KEYBYTES];
	static bool known;
	char path[PATH_MAX];

	if (sodium_init() < 0)
		return -ENOSYS;
	path_format(node, path, "broker.key");
	int r = read_key(path, ret_key);
	if (r == -ENOENT) {
		if (!known)
			randombytes_buf(key, sizeof key);
		known = true;
		memcpy(ret_key, key, sizeof key);
		return vg_file_write_atomic(path, key, sizeof key, 0600);
	}
	if (r == 0)
		memcpy(key, ret_key, sizeof key);
	known |= r == 0;
	return r;
}

void ticket_digest(struct edition *edition)
{
	crypto_generichash_state state;

	crypto_generichash_init(&state, NULL, 0, sizeof edition->digest);
	for (const struct packet *packet = edition->packets; packet; packet = packet->next) {
		crypto_generichash_update(&state, (const uint8_t *)&packet->header, sizeof packet->header);
		crypto_generichash_update(&state, (const uint8_t *)packet->body, packet->header.size);
	}
	crypto_generichash_final(&state, edition->digest, sizeof edition->digest);
}

static int compute_mac(const struct node *node, const struct edition *edition, uint8_t ret_mac[TICKET_TEXT / 2])
{
	struct {
		char purpose[16];
		char name[VG_WIRE_NAME];
		uint8_t id[VG_PAGE_ID];
		uint8_t digest[BROKER_DIGEST];
		uint64_t generation, owner;
	} signed_data = {
		.purpose = "virgate share 1", .generation = edition->generation, .owner = edition->publication->owner};
	uint8_t key[crypto_generichash_KEYBYTES];

	int r = find_key(node, key);
	if (r < 0)
		return r;
	memcpy(signed_data.name, edition->publication->name, sizeof signed_data.name);
	memcpy(signed_data.id, edition->publication->id, sizeof signed_data.id);
	memcpy(signed_data.digest, edition->digest, sizeof signed_data.digest);
	crypto_generichash(ret_mac, TICKET_TEXT / 2, (const uint8_t *)&signed_data, sizeof signed_data, key,
			   sizeof key);
	sodium_memzero(key, sizeof key);
	return 0;
}

int ticket_make(const struct node *node, const struct edition *edition, char ret_text[TICKET_TEXT + 1])
{
	uint8_t mac[TICKET_TEXT / 2];
	int r = compute_mac(node, edition, mac);

	if (r == 0)
		sodium_bin2hex(ret_text, TICKET_TEXT + 1, mac, sizeof mac);
	return r;
}

bool ticket_is_valid(const struct node *node, const struct edition *edition, const char *text)
{
	char valid[TICKET_TEXT + 1];

	return text && strlen(text) == TICKET_TEXT && ticket_make(node, edition, valid) == 0 &&
	       sodium_memcmp(valid, text, TICKET_TEXT) == 0;
}
