// Walks through the directory of an image, in the order of names. One thread.
#pragma once
#include <limits.h>
#include <stdbool.h>

enum { IMAGE_NAME = 2 * NAME_MAX + 2 };
// `name` is relative to the directory whose descriptor is given, such as "tree-0/core-1.img". A result other than 0
// ends the walk.
typedef int image_each_fn(int directory, const char *name, void *user);
// Calls `each` for everything in an image but virgate.json and directories of trees with something in them; directories
// inside these are not entered. Returns 0, -errno, or the result of `each`; ret_name: where it ended.
int image_for_files(int directory, image_each_fn *each, void *user, char ret_name[IMAGE_NAME]);
// The same for one directory of the image, `name`; "": the image's own.
int image_for_directory(int directory, const char *name, image_each_fn *each, void *user, char ret_name[IMAGE_NAME]);
// Opens a file of the image for reading, and follows no link. Returns a descriptor or -errno: -EINVAL for what is
// neither a file nor a link (-ELOOP), such as a pipe, for which a reader could wait without end.
int image_open_file(int directory, const char *name);
// Returns whether a directory of an image may have such an entry: virgate.json, "tree-12", "device".
bool image_directory_has(const char *name);
// Removes an image, or a part of one. Other files stay, and then the directory stays, too.
void image_remove(const char *path);
