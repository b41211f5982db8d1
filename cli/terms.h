// Compute shares on the command line: options, and their part of the listings. One thread.
#pragma once
#include <jansson.h>
#include <stdio.h>

#include "session.h"

enum { TERMS_TEXT = 64 };

// Reads --share, --limit, --class and --mode into `options`. `configured` is the configured share, or NULL. Returns 0,
// or the verb's usage exit code after a message on standard error.
int read_terms(const struct arguments *arguments, const char *configured, struct vg_vgpu_options *options);

// Without --mode, sets the configured mode and those of single GPUs, which the session owns. Returns 0, or the verb's
// exit code after a message on standard error: the settings name a GPU that does not exist.
int use_configured_modes(const struct arguments *arguments, struct session *session, struct vg_vgpu_options *options);
const char *mode_text(enum vg_sharing_mode mode);
#define MPS_COST                                                                                                       \
	"a fault in one program ends all programs of this mode on the GPU; no checkpoints; at most 48 processes, of "  \
	"one user"

// Returns "30 %", "at most 30 %, latency class", or "none".
const char *terms_text(unsigned share, int share_limit, enum vg_scheduling_class class, char buffer[TERMS_TEXT]);
// Returns "30 %", or "-".
const char *share_text(unsigned share, char buffer[TERMS_TEXT]);
// Returns "12.3 s", "4m05s", "1h02m", "3d04h", or "-" if it is unknown.
const char *duration_text(uint64_t ns, int known, char buffer[TERMS_TEXT]);
// Returns "29.8 %", or "-" if it is unknown.
const char *percent_text(double percent, int known, char buffer[TERMS_TEXT]);
// Prints a line with the reason if the vGPU does not get its compute share.
void print_missed_share(const struct vg_vgpu_info *vgpu, FILE *out);
// Prints the lines of `inspect`.
void print_terms(const struct vg_vgpu_info *vgpu);
// Returns a JSON object; null if the figures are unknown. Times are in seconds.
json_t *turns_json(const struct vg_turns_info *turns);

// The options of the verbs that create a vGPU.
#define OPTION_LIMIT {"limit", 'l', NULL, "never more than the share, even if the GPU is idle otherwise", 0}
#define OPTION_CLASS                                                                                                   \
	{"class", 'c', "CLASS", "batch, or latency: its work starts at once; default: batch", COMPLETE_CLASS}
#define OPTION_MODE                                                                                                    \
	{"mode", 'o', "MODE", "time, or mps: clients of NVIDIA's MPS, which run side by side; default: time",          \
	 COMPLETE_MODE}
