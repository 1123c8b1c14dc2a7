/* The port, continued: memory that programs which were started by themselves share, and words in it
 * on which one sleeps until another wakes it (core/mesh).
 *
 * On Linux the memory is a memfd, which others find by the process that has made it, and a sleeper
 * waits in the kernel (futex). Elsewhere it is a file in a folder of the caller's, and a sleeper
 * looks every so often. Windows: CLU_UNSUPPORTED.
 */
#ifndef CLUTCH_OS_WORDS_H
#define CLUTCH_OS_WORDS_H

#include <stdatomic.h>

#include "core/base/os.h"

/* `n` bytes of zeros, of which only those take memory that somebody writes to. `path` (room for
 * `cap` bytes) is where processes of the same user find it, as long as the caller has `fd` open;
 * what is there in the file system afterwards is in `folder`, and is removed by
 * clu_os_common_remove(). CLU_OK, CLU_LIMIT (no file may be so long), CLU_SYS, CLU_UNSUPPORTED. */
int clu_os_common_new(uint64_t n, const char *folder, clu_fd *fd, char *path, size_t cap,
                      clu_err *e);
void clu_os_common_remove(const char *path);
/* That of another process, if it is this user's and has `n` bytes. The caller's to close. */
int clu_os_common_open(const char *path, uint64_t n, clu_fd *fd, clu_err *e);
/* Maps `n` of its bytes, which begin at a multiple of CLU_COMMON_ALIGN. clu_os_shared_free() undoes
 * it; the descriptor may be closed before. */
#define CLU_COMMON_ALIGN 65536u /* no system has larger pages */
int clu_os_common_map(clu_fd fd, uint64_t at, size_t n, void **p, clu_err *e);

/* The descriptor of another process of this user's, opened to be read: `fd` is the number it has
 * there. CLU_OK, CLU_SYS (also: it is no file without a name), CLU_UNSUPPORTED but on Linux. */
int clu_os_segment_of(clu_pid pid, clu_fd fd, clu_fd *out);

/* Sleeps until somebody wakes those who sleep on `word`, `ns` at most; not at all where it is not
 * `value`. May wake early, as after a signal. */
void clu_os_word_wait(_Atomic uint32_t *word, uint32_t value, uint64_t ns);
/* Wakes one of them, or all. */
void clu_os_word_wake(_Atomic uint32_t *word, int all);

#endif
