// Functions of a path that a driver call's cold caches make dear: the linker puts them side by side.
#pragma once

#define VG_HOT __attribute__((hot))
// Branches of such a path that are seldom taken: kept out of its lines.
#define VG_COLD __attribute__((cold, noinline))
