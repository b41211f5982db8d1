// Writes data into files in a thread of its own, so that the caller receives the next data meanwhile. One caller at a
// time.
#pragma once
#include <stddef.h>
#include <sys/types.h>

struct writer;
// `capacity`: bytes of each buffer. Returns 0 or -errno.
int writer_start(size_t capacity, struct writer **ret_writer);
// Writes `bytes` bytes from `*buffer + skip` at `offset` of the file. Takes ownership of the buffer, which malloc() has
// allocated with `capacity` bytes, and sets *buffer to another one. `fd` must stay open until writer_flush(). Waits if
// too much is unwritten. Returns 0, -ENOMEM, or the first error of all writes so far; the caller keeps its buffer then.
int writer_put(struct writer *writer, int fd, unsigned char **buffer, size_t skip, size_t bytes, off_t offset);
// Waits until everything is written. Returns 0 or the first error (-errno).
int writer_flush(struct writer *writer);
// Returns how many bytes are not written yet.
size_t writer_unwritten(struct writer *writer);
// Ends the thread. Data that is not written yet is lost. NULL: does nothing.
void writer_end(struct writer *writer);
