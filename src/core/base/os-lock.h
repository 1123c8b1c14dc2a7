/* The port's part of locks of files, which the system takes back when their holders have ended.
 * None of these blocks. */
#ifndef CLUTCH_OS_LOCK_H
#define CLUTCH_OS_LOCK_H

#include "core/base/os.h"

/* Locks file `i` of a folder that only this user can use, "<under>/<name>-<user>", until `fd` is
 * closed in all processes that have it. CLU_AGAIN: another has the lock. CLU_SYS: there is no such
 * folder, and none can be made. Windows: CLU_UNSUPPORTED. */
int clu_os_lock_file(const char *under, const char *name, int i, clu_fd *fd);
/* Says in a folder that is this process's own that it is in use, until `fd` is closed in all
 * processes that have it, at the latest with their end. CLU_OK, CLU_SYS; CLU_UNSUPPORTED where the
 * system does not say when it was started, and on Windows. */
int clu_os_mark_folder(const char *folder, clu_fd *fd);
/* Tells whether a folder that was marked so, by this user on this machine since it was started, is
 * not in use any more. CLU_OK: it is not, and nobody else is told so until `fd` is closed;
 * CLU_AGAIN: it is; CLU_SYS: it is no such folder, or that cannot be known. */
int clu_os_claim_folder(const char *folder, clu_fd *fd);

#endif
