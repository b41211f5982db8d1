// Writes the option --sim for a command that a message tells the user to run, so that the command works as it is
// printed. Any thread.
#pragma once

enum { VG_HINT_SIM = 160 };

// Writes " --sim" or " --sim=SPEC" for a specification of the simulated GPU (the value of VIRGATE_SIM), quoted for a
// shell if necessary. Writes "" if the specification is NULL, "" or "0". Writes " --sim" alone if the specification is
// "1", does not fit into `buffer`, or contains a single quote. With --sim alone, a command takes the specification from
// VIRGATE_SIM or virgate.conf. Returns `buffer`.
const char *vg_hint_sim(const char *specification, char buffer[VG_HINT_SIM]);
// Returns the option of vg_hint_sim() for the simulated GPU of this process (VIRGATE_SIM). The text is valid until the
// thread's next call.
const char *vg_hint_own_sim(void);
