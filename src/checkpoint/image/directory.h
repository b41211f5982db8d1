// Visits the entries of an image's directory, in the order of their names. One thread.
#pragma once
#include <limits.h>
#include <stdbool.h>

enum { IMAGE_NAME = 2 * NAME_MAX + 2 };
// Called for each entry. `name` is relative to `directory`, such as "tree-0/core-1.img". A result other than 0 stops
// the visit.
typedef int image_each_fn(int directory, const char *name, void *user);
// Calls `each` for every entry of an image, and for every entry of its directories, but not deeper. Leaves out
// virgate.json. Calls `each` for a directory of the image only if that directory is empty. Returns 0, -errno, or the
// result of `each`. ret_name: the entry at which it stopped.
int image_for_files(int directory, image_each_fn *each, void *user, char ret_name[IMAGE_NAME]);
// Calls `each` for every entry of the directory `name` in the image; "": the image's own directory. Returns the same as
// image_for_files().
int image_for_directory(int directory, const char *name, image_each_fn *each, void *user, char ret_name[IMAGE_NAME]);
// Opens a file of the image for reading. Returns a descriptor or -errno: -ELOOP for a link, -EINVAL for a pipe or
// another entry that is not a file. Opening a pipe could wait forever.
int image_open_file(int directory, const char *name);
// Returns whether an image's directory may have an entry of this name, such as "virgate.json", "tree-12" or "device".
bool image_directory_has(const char *name);
// Removes an image, complete or not. If the directory has other files, keeps them and the directory.
void image_remove(const char *path);
