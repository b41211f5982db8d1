// Whether the dynamic linker will load the interposer into a program, and what that program needs for it. One thread.
#pragma once
#include <limits.h>
#include <stdbool.h>

enum preload {
	PRELOAD_WORKS,	    // dynamically linked, or a script of such an interpreter
	PRELOAD_STATIC,	    // no PT_INTERP: nobody reads LD_PRELOAD
	PRELOAD_OTHER_ABI,  // not x86-64
	PRELOAD_OTHER_LIBC, // its dynamic linker is of another C library: it cannot load ours, and ends the program
	PRELOAD_PRIVILEGED, // setuid, setgid or file capabilities: the linker ignores LD_PRELOAD
	PRELOAD_UNKNOWN,    // unreadable, or neither ELF nor a script
};

struct preload_program {
	enum preload preload;
	bool asan;		      // linked with the shared library of the address sanitizer
	char linker[PATH_MAX];	      // its dynamic linker; "": none, or not known
};

// Looks at the file and, through "#!" lines, at its interpreter.
void preload_inspect(const char *path, struct preload_program *ret_program);
// "is statically linked", …; NULL where there is no reason to warn.
const char *preload_text(enum preload preload);
