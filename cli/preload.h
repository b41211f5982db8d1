// Whether the dynamic linker will load the interposer into a program. One thread.
#pragma once

enum preload {
	PRELOAD_WORKS,	    // dynamically linked, or a script of such an interpreter
	PRELOAD_STATIC,	    // no PT_INTERP: nobody reads LD_PRELOAD
	PRELOAD_OTHER_ABI,  // not x86-64
	PRELOAD_PRIVILEGED, // setuid, setgid or file capabilities: the linker ignores LD_PRELOAD
	PRELOAD_UNKNOWN,    // unreadable, or neither ELF nor a script
};

// Looks at the file and, through "#!" lines, at its interpreter.
enum preload preload_inspect(const char *path);
// "is statically linked", …; NULL for the two that give no reason to warn.
const char *preload_text(enum preload preload);
