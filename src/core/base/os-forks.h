/* What makes many forks of this process cheaper. A part of the port; see os.h. */
#ifndef CLUTCH_OS_FORKS_H
#define CLUTCH_OS_FORKS_H

#include <stddef.h>

/* Many forks of this process will follow. Memory that was written and is now hardly written any
 * more is put where a fork need not copy its page table: contents and addresses stay. Only where
 * this is the one thread. The number of bytes; 0 where there is no such memory, or this system
 * cannot do it. Takes some milliseconds. */
size_t clu_os_expect_forks(void);
/* `n` bytes of zeros in pages of their own, for what is written between forks: each first write
 * after a fork splits a huge page, whose small ones all later forks have to copy. NULL without
 * memory. */
void *clu_os_apart_new(size_t n);
void clu_os_apart_free(void *p, size_t n); /* p may be NULL */

#endif
