// Reads the options of compute shares, and formats shares and times for listings. One thread.
#pragma once
#include <jansson.h>
#include <stdio.h>

#include "session.h"

enum { TERMS_TEXT = 64 };

// Reads --share, --limit, --class and --mode into `options`. If --share is missing, uses `configured`, the share from
// the settings, or NULL. Returns 0, or the verb's usage exit code after a message on standard error.
int read_terms(const struct arguments *arguments, const char *configured, struct vg_vgpu_options *options);

// If --mode is missing, copies the sharing modes from the settings into *options: the default mode, and the modes of
// single GPUs (an array that the session owns). Returns 0, or the verb's exit code after a message on standard error,
// for example if the settings name a GPU that does not exist.
int use_configured_modes(const struct arguments *arguments, struct session *session, struct vg_vgpu_options *options);
const char *mode_text(enum vg_sharing_mode mode);
// What the mode mps costs. The server of a program may have more GPUs than the program uses.
#define MPS_COST                                                                                                   \
	"a fault in one program ends all programs of this mode on all GPUs of its MPS server; no checkpoints; at " \
	"most 48 processes on a GPU, of one user"

// Returns a description of a compute share: "30 %", "at most 30 %, latency class", or "none".
const char *terms_text(unsigned share, int share_limit, enum vg_scheduling_class class, char buffer[TERMS_TEXT]);
// Returns a percentage such as "30 %", or "-" if there is no compute share.
const char *share_text(unsigned share, char buffer[TERMS_TEXT]);
// Returns a duration such as "12.3 s", "4m05s", "1h02m", "3d04h", or "-" if it is unknown.
const char *duration_text(uint64_t ns, int known, char buffer[TERMS_TEXT]);
// Returns a percentage such as "29.8 %", or "-" if it is unknown.
const char *percent_text(double percent, int known, char buffer[TERMS_TEXT]);
// If the vGPU does not get its compute share, prints a line with the reason.
void print_missed_share(const struct vg_vgpu_info *vgpu, FILE *out);
// Prints the lines of `inspect` about compute shares.
void print_terms(const struct vg_vgpu_info *vgpu);
// Returns a JSON object about the vGPU's turns, or JSON null if the figures are unknown. Times are in seconds.
json_t *turns_json(const struct vg_turns_info *turns);

#define OPTION_MODE                                                                                                  \
	{                                                                                                            \
		"mode", 'o', "MODE", "time, or mps: clients of NVIDIA's MPS, which run side by side; default: time", \
			COMPLETE_MODE                                                                                \
	}

// The options of the verbs that create a vGPU.
#define OPTIONS_NEW_VGPU                                                                                               \
	OPTION_PROFILE, OPTION_MEMORY, OPTION_SHARE,                                                                   \
		{"limit", 'l', NULL, "never more than the share, even if the GPU is idle otherwise", 0},               \
		{"class", 'c', "CLASS", "batch, or latency: its work starts at once; default: batch", COMPLETE_CLASS}, \
		OPTION_MODE,                                                                                           \
		{"evictable", 'e', NULL, "device memory of its programs can move to the host, see virgate suspend",    \
		 0},                                                                                                   \
		{"swap", 0, "SIZE", "evictable: host memory that each process may use; default: the memory limit", 0}, \
		{"fixed", 0, "SIZE",                                                                                   \
		 "evictable: part of the memory that cannot move; default: a context and up to 1 GiB", 0},             \
		{"idle-suspend", 0, "SECONDS", "evictable: its memory leaves the GPU after so long without use", 0},   \
		OPTION_DEVICE
