// Predicts whether the dynamic linker will load the interposer into a program. One thread.
#pragma once
#include <limits.h>
#include <stdbool.h>

enum preload {
	PRELOAD_WORKS,	    // dynamically linked, or a script with such an interpreter
	PRELOAD_STATIC,	    // no PT_INTERP: no linker that reads LD_PRELOAD
	PRELOAD_OTHER_ABI,  // not x86-64
	PRELOAD_OTHER_LIBC, // of another C library: its linker cannot load the interposer, and fails
	PRELOAD_PRIVILEGED, // setuid, setgid or file capabilities: the linker ignores LD_PRELOAD
	PRELOAD_UNKNOWN,    // unreadable, or neither ELF nor a script
};

struct preload_program {
	enum preload preload;
	bool asan;		      // linked with the shared library of the address sanitizer
	char linker[PATH_MAX];	      // its dynamic linker; "": none, or unknown
};

// Inspects the file, or the interpreter that its "#!" line names.
void preload_inspect(const char *path, struct preload_program *ret_program);
// Returns a text such as "is statically linked"; NULL: no reason to warn.
const char *preload_text(enum preload preload);
