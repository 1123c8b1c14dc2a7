/* Output to what others write to as well: a file, a pipe, a terminal, a socket. A part of the port;
 * see os.h. Windows: but for the last, CLU_UNSUPPORTED. */
#ifndef CLUTCH_OS_OUTPUT_H
#define CLUTCH_OS_OUTPUT_H

#include "core/base/os.h"

/* For clu_os_output_write(): takes over `fd`, and returns it or another descriptor of the same pipe
 * or terminal. Whether `fd` blocks is not changed, since others share that. */
clu_fd clu_os_output_own(clu_fd fd);
/* CLU_OK and `*put` > 0; CLU_AGAIN: it takes nothing now; or a code: nothing more can be written.
 * Does not block but for a disk, or for a moment where others fill the pipe at the same time. */
int clu_os_output_write(clu_fd fd, const void *p, size_t n, size_t *put);

/* Writes `n` bytes to the end of the file `path`, which is made where it is missing, by one write:
 * what others append at the same time stays whole, too. What only a part of fits in is taken away
 * again where nobody has written behind it. Does not wait for the reader of a named pipe. CLU_SYS,
 * or CLU_LIMIT: the file would be larger than the process may make one. */
int clu_os_output_append(const char *path, const void *p, size_t n, clu_err *e);

#endif
