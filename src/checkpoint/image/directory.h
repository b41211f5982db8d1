// What lies in an image's folder, in the order of names. One thread.
#pragma once
#include <limits.h>
#include <stdbool.h>

enum { IMAGE_NAME = 2 * NAME_MAX + 2 };
// `name`: below the directory whose descriptor `folder` is, such as "tree-0/core-1.img". Not 0: stop.
typedef int image_each_fn(int folder, const char *name, void *user);
// Everything but virgate.json and the trees' own folders, unless they are empty: what lies in those is called by name,
// folders too. 0, -errno, or what `each` returned; ret_name: where that was.
int image_for_files(int folder, image_each_fn *each, void *user, char ret_name[IMAGE_NAME]);
// The same of one directory in it, `name`; "": `folder` itself.
int image_for_folder(int folder, const char *name, image_each_fn *each, void *user, char ret_name[IMAGE_NAME]);
// Opens a file of the image to be read, by a name such as "tree-0/core-1.img", and follows no link on the way. 0 or
// more, or -errno: -EINVAL for what is neither a file nor a link (-ELOOP), such as a pipe, which could be waited for in
// vain.
int image_open_file(int folder, const char *name);
// Whether an image's folder has such a name in it: virgate.json, "tree-12", "device".
bool image_folder_has(const char *name);
// Removes an image, or a part of one; what is none of it stays, and the folder then, too.
void image_remove(const char *path);
