// Functions of a path that a driver call's cold caches make dear: the linker puts them side by side.
#pragma once

#define VG_HOT __attribute__((hot))
