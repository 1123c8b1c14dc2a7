/* The port, continued: a mutex in memory that processes share, which the system hands on when its
 * holder ends.
 *
 * On Linux and FreeBSD it is a robust mutex of POSIX threads: the system wakes who waits at once.
 * Elsewhere it is a lock of the file that the memory is of, and who waits looks every ms at most.
 * Windows: CLU_UNSUPPORTED.
 */
#ifndef CLUTCH_OS_MUTEX_H
#define CLUTCH_OS_MUTEX_H

#include <stdatomic.h>

#include "core/base/os.h"

typedef struct clu_os_mutex {
  _Atomic uint64_t holder; /* a process; 0: none */
  uint64_t unused;
  unsigned char of_system[112];
} clu_os_mutex;

/* Makes one in memory that is 0. */
int clu_os_mutex_new(clu_os_mutex *m, clu_err *e);
/* Waits for it, `ns` at most; signals do not end the wait. `fd`: the file of the memory, which this
 * process, `me`, has open once. It must not have the mutex. CLU_OK; CLU_DEAD: this process has it,
 * and the holder before, whose number is put into `*before`, has ended with it; CLU_TIMEOUT;
 * CLU_SYS. */
int clu_os_mutex_take(clu_os_mutex *m, clu_fd fd, uint64_t ns, clu_pid me, clu_pid *before);
/* Gives it, if process `me`, the caller, is the holder. */
void clu_os_mutex_give(clu_os_mutex *m, clu_fd fd, clu_pid me);

#endif
