/* Text for the standard input of a program that is to be started: no file has it, and no command
 * line. */
#ifndef CLUTCH_INPUT_H
#define CLUTCH_INPUT_H

#include "core/base/os.h"

/* `n` bytes that fit into a socket's buffer, and then the end: `*in` is what a program reads them
 * from, the caller's to close. `rest` (may be NULL): the end comes when `*rest` is closed, which is
 * the caller's, too. CLU_SYS: they do not fit. */
int clu_input_of(const char *text, size_t n, clu_fd *in, clu_fd *rest, clu_err *e);

/* More of it, by `rest`. CLU_OK; else as clu_os_writev(), and some of it may have been written.
 * Does not block. */
int clu_input_add(clu_fd rest, const char *text, size_t n);

#endif
