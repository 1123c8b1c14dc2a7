/* The port, continued: a pipe with a name, by which any process of this user wakes one that sleeps
 * until one of several descriptors is readable. What is written to it says nothing. Windows:
 * CLU_UNSUPPORTED, and nobody is woken. */
#ifndef CLUTCH_OS_PIPES_H
#define CLUTCH_OS_PIPES_H

#include "core/base/os.h"

/* Makes the pipe `path`, in place of what is there. `fd` is the caller's: it is readable from when
 * somebody wakes the process until clu_os_waker_empty(). CLU_OK, CLU_LIMIT, CLU_SYS. */
int clu_os_waker_new(const char *path, clu_fd *fd, clu_err *e);
void clu_os_waker_remove(const char *path);
/* Wakes the process that has made it. Nothing happens where there is none. */
void clu_os_waker_wake(const char *path);
void clu_os_waker_empty(clu_fd fd);

#endif
