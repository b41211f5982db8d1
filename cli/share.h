// Functions that `share produce`, `share consume` and `share selftest` use: options, the device, the socket between
// producer and consumer, and the pattern in the memory. One thread.
#pragma once
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "session.h"
#include "verb.h"
#include "virgate/share.h"

enum {
	SHARE_INTEGERS = 262144,
	SHARE_BYTES = SHARE_INTEGERS * 4,
	SHARE_SECONDS = 30, // how long the producer and the consumer wait for each other
};

// Returns the integer that the test pattern has at index `i`.
static inline uint32_t share_pattern(uint32_t i)
{
	return (i * 2 + 1337) ^ 0xDEADBEEF;
}

struct share_pair {
	char socket[PATH_MAX];
	const char *device; // index or UUID of the device; NULL: the first GPU
	int seconds;
};

// Reads settings and options, and chooses the driver. Returns 0, or the verb's exit code after a message.
int share_pair_read(const struct arguments *arguments, struct share_pair *ret_pair);
// Reads the options and calls `work`, which does the work of the producer or the consumer. Prints the title first and
// the outcome last. Returns the verb's exit code.
int share_pair_run(const struct arguments *arguments, const char *title, int (*work)(const struct share_pair *pair));
// Opens the memory (virgate/vram.h) of the device, which must support virtual memory management and export as
// descriptors. Returns 0, or EXIT_FAILED after a message.
int share_pair_open(const struct share_pair *pair, struct vg_vram **ret_vram);
// Sets the environment variables of the simulated GPU if settings or options ask for one. Returns 0, or the verb's exit
// code after a message.
int share_choose_driver(const struct session *session, const struct arguments *arguments);
// Finds a device by index or UUID. If `named` is NULL, finds the first device.
enum vg_status share_find_device(const char *named, struct vg_device **ret_device);
// Prints the library's last error, and what to do if there is no driver. Returns EXIT_FAILED.
int share_fail_with_hint(void);
// Prints the steps of mapping the memory: "Reserved virtual address space at 0x…" and the following ones.
void share_say_mapped(struct vg_vram_handle handle, const char *mapped);

// Opens the memory (virgate/vram.h) of the device that --device names. Seals made with `key` are valid outside all
// vGPUs, so the publisher and the readers may be in different vGPUs.
enum vg_status share_open_vram(const struct arguments *arguments, const struct key *key, struct vg_vram **ret_vram);

// The consumer's answer to the producer, after it has checked the contents of the memory.
enum share_answer { SHARE_VERIFIED = 0x31415356, SHARE_WRONG };

// ---- the common socket (share_listener.c) ---------------------------------------------------------------

struct share_listener {
	char path[PATH_MAX];
	int lock, socket;
};

// Locks the path and listens on the socket there. The process that has the lock is the producer. If no process listens
// on an existing socket, an earlier producer left it, and it is replaced. Returns 0, or EXIT_FAILED after a message.
int share_listener_open(const char *path, struct share_listener *ret_listener);
// Accepts the first consumer that runs as this user or root, and refuses all other processes. Returns the descriptor,
// or -1 after a message.
int share_listener_accept(struct share_listener *listener, int seconds);
void share_listener_close(struct share_listener *listener);
// Waits for a producer and connects to it. Returns the descriptor, or -1 after a message.
int share_connect(const char *path, int seconds);

// The options of share produce, share consume and share selftest.
#define SHARE_OPTIONS                                                                                            \
	{"socket", 0, "PATH", "the common socket; default: in the runtime directory", 0},                        \
		{"device", 'd', "GPU", "index or UUID of the GPU; the first one if not given", COMPLETE_DEVICE}, \
		{"timeout", 0, "SECONDS", "how long to wait for the other side; default: 30", 0}, OPTION_SIM
