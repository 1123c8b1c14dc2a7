/* These make many forks of this process cheaper. A part of the port; see os.h. */
#ifndef CLUTCH_OS_FORKS_H
#define CLUTCH_OS_FORKS_H

#include <stddef.h>

#include "core/base/os.h"

/* Many forks of this process will follow. Memory that was written and is now hardly written any
 * more is put where a fork need not copy its page table: contents and addresses stay. Only where
 * this is the one thread. The number of bytes; 0 where there is no such memory, or this system
 * cannot do it. Takes some milliseconds. */
size_t clu_os_expect_forks(void);
/* Takes the program or libraries that have these `n` addresses: pages of them that this process has
 * used are there in a forked child at once. Else each 64 kB of code that it runs costs it a page
 * fault. A page of each mapping becomes this process's own. The number of mappings for which that
 * was done; 0 where the system does not do it. Blocks no longer than it takes to read what is
 * mapped. */
int clu_os_inherit_code(const void *const *in, int n);
/* In a forked child: its descriptors but 0, 1, 2 and `keep` lead nowhere from now on, and have the
 * same numbers: who waits for the end of a file or connection need not wait for this process, and
 * nothing that this one does reaches them. CLU_OK, CLU_SYS, CLU_UNSUPPORTED (Windows). */
int clu_os_leave_files(clu_fd keep);
/* `n` bytes of zeros in pages of their own, for what is written between forks: each first write
 * after a fork copies a page, and splits a huge one, whose small ones all later forks have to copy.
 * A forked child may not use it: where the system can leave it out there, the child does not have
 * it, and nothing is copied. NULL without memory. */
void *clu_os_apart_new(size_t n);
void clu_os_apart_free(void *p, size_t n); /* p may be NULL */

#endif
