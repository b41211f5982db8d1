// What a message repeats of the options that were given, so that the command it suggests works when it is pasted. Any
// thread.
#pragma once

enum { VG_HINT_SIM = 160 };

// " --sim" or " --sim=SPEC" for a specification of the simulated GPU, as VIRGATE_SIM has it, quoted for a shell where
// that is needed; "" where it is NULL, "" or "0". Whoever wrote one that is too long for a message has it in the
// environment or the settings, which --sim alone keeps. Returns `buffer`.
const char *vg_hint_sim(const char *specification, char buffer[VG_HINT_SIM]);
// The same for the simulated GPU that this process uses (VIRGATE_SIM). Valid until the thread's next call.
const char *vg_hint_own_sim(void);
