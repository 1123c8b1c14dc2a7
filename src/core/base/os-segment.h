/* The port, continued: files without a name that processes of one host share (core/base/segment.h).
 * Here only by their descriptors. Nothing blocks but for the disk, where it is a file on one.
 *
 * On Linux a segment is a memfd. Elsewhere it is a file that is unlinked while it is open, and what
 * is handed on is a descriptor that can only read. Windows: CLU_UNSUPPORTED.
 */
#ifndef CLUTCH_OS_SEGMENT_H
#define CLUTCH_OS_SEGMENT_H

#include "core/base/os.h"

/* `fd[0]` to write to; `fd[1]`, the one to hand on, may be the same. The caller's to close, once
 * where they are. CLU_OK, CLU_SYS or CLU_UNSUPPORTED. */
int clu_os_segment_new(clu_fd fd[2]);
/* All `n` bytes at `at`; many of them by a second thread as well, which has ended when this
 * returns, if a core is idle. CLU_OK, CLU_LIMIT (no file may be so long) or CLU_SYS; then what was
 * there before is still right. */
int clu_os_segment_write(clu_fd fd, uint64_t at, const void *p, size_t n);
/* Does the same, by two threads wherever the system has the means. For tests. */
int clu_os_segment_write_by_two(clu_fd fd, uint64_t at, const void *p, size_t n);
int clu_os_segment_read(clu_fd fd, uint64_t at, void *p, size_t n);
/* It stays as it is from here on: nobody can write to it, nor change its length. CLU_OK or CLU_SYS.
 * Of a file: closes fd[0]. */
int clu_os_segment_seal(clu_fd fd[2]);
/* The length of what came from another process. CLU_OK; CLU_PROTO: it is no sealed segment. */
int clu_os_segment_check(clu_fd fd, uint64_t *size);
/* Returns the numbers by which the system tells it from all others that are open. CLU_OK or
 * CLU_SYS. */
int clu_os_segment_id(clu_fd fd, uint64_t id[2]);
/* Maps all `n` bytes for this process alone: what it writes nobody else sees. `*writable` 0: it may
 * only be read, because the system promises no more memory than it has. CLU_OK or CLU_NOMEM. */
int clu_os_segment_map(clu_fd fd, size_t n, int *writable, void **p);
void clu_os_segment_unmap(void *p, size_t n);
/* Tells of a mapping, by pages: 1: this process has written to none of these bytes; 0: it may have.
 */
int clu_os_segment_is_unchanged(const void *p, size_t n);
/* Tells whether this process may map as much as it wants to: its address space has no limit of its
 * own.
 */
int clu_os_segment_may_be_many(void);
/* How many descriptors this process may have. */
long clu_os_most_fds(void);

#endif
