// What `share produce`, `share consume` and `share selftest` have in common: who meets where, on which device, and what
// the memory holds. One thread.
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
	SHARE_SECONDS = 30, // that each side waits for the other
};

// The integer at place `i`.
static inline uint32_t share_pattern(uint32_t i)
{
	return (i * 2 + 1337) ^ 0xDEADBEEF;
}

struct share_pair {
	char socket[PATH_MAX];
	const char *device; // NULL: the first one
	int seconds;
};

// Settings and options. The environment is that of the simulated GPU from here on where one was asked for. 0, or the
// verb's exit code after words on stderr.
int share_pair_read(const struct arguments *arguments, struct share_pair *ret_pair);
// Reads them, and does a side's work between its first line and its last. The verb's exit code.
int share_pair_run(const struct arguments *arguments, const char *title, int (*work)(const struct share_pair *pair));
// The device, with what it takes: virtual memory and descriptors of it. 0 or EXIT_FAILED, after words.
int share_pair_open(const struct share_pair *pair, struct vg_vram **ret_vram);
// What that is made of, for the verbs that meet at the broker. The environment is the simulated GPU's from here on
// where one was asked for. 0, or the verb's exit code after words.
int share_choose_driver(const struct session *session, const struct arguments *arguments);
// By index or UUID; NULL: the first one.
enum vg_status share_find_device(const char *named, struct vg_device **ret_device);
// EXIT_FAILED, after the library's last error, and what to do without a GPU.
int share_fail_with_hint(void);
// "Reserved virtual address space at 0x…" and what follows from it.
void share_say_mapped(struct vg_vram_handle handle, const char *mapped);

// The memory of the device that was asked for; with a key, seals are those of programs outside of all vGPUs, so that
// publisher and readers may be in different ones.
enum vg_status share_open_vram(const struct arguments *arguments, const struct key *key, struct vg_vram **ret_vram);

// What the consumer answers.
enum share_answer { SHARE_VERIFIED = 0x31415356, SHARE_WRONG };

// ---- where they meet (share_place.c) --------------------------------------------------------------------

struct share_place {
	char path[PATH_MAX];
	int lock, listener;
};

// Takes the place: whoever holds its lock is its producer, so that a socket that nobody listens on is known for one
// that was left behind. 0 or EXIT_FAILED, after words.
int share_place_take(const char *path, struct share_place *ret_place);
// The first consumer that is this user's, or root's; others are turned away. The descriptor, or -1 after words.
int share_place_accept(struct share_place *place, int seconds);
void share_place_leave(struct share_place *place);
// Waits for a producer. The descriptor, or -1 after words.
int share_place_join(const char *path, int seconds);

// The options of all three.
#define SHARE_OPTIONS                                                                                                  \
	{"socket", 0, "PATH", "the common socket; default: in the runtime directory", 0},                         \
		{"device", 'd', "GPU", "index or UUID of the GPU; the first one if not given", COMPLETE_DEVICE},       \
		{"timeout", 0, "SECONDS", "how long to wait for the other side; default: 30", 0}, OPTION_SIM
