// Options that a message repeats, so that a suggested command works as it is written. Any thread.
#pragma once

enum { VG_HINT_SIM = 160 };

// Writes " --sim" or " --sim=SPEC" for a specification of the simulated GPU (the value of VIRGATE_SIM), quoted for a
// shell if necessary; "" if it is NULL, "" or "0". A specification that is too long becomes " --sim" alone, which uses
// the one in the environment or the settings. Returns `buffer`.
const char *vg_hint_sim(const char *specification, char buffer[VG_HINT_SIM]);
// Does the same for the simulated GPU of this process (VIRGATE_SIM). The text is valid until the thread's next call.
const char *vg_hint_own_sim(void);
