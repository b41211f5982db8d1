/* The version of the headers, and of the library that the program uses. */
#ifndef VIRGATE_VERSION_H
#define VIRGATE_VERSION_H

#include <virgate/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

#define VG_VERSION_MAJOR 0
#define VG_VERSION_MINOR 1
#define VG_VERSION_PATCH 0
#define VG_VERSION_TEXT "0.1.0"

/* Returns VG_VERSION_TEXT as the library was built; valid for ever. Any thread. */
VG_PUBLIC const char *vg_version(void);

#ifdef __cplusplus
}
#endif
#endif
