/* A slab: blocks of one size that lie side by side in static memory.
 *
 * After a fork each page that is written to is copied once; of a huge page (2 MB) the page table
 * entry has to be split first. malloc() hands out memory all over the heap. The few blocks that a
 * supervisor needs between two forks are to be on one page: the block that was freed last is handed
 * out first. More than 1024 blocks at a time come from malloc().
 *
 * One thread only, until clu_slab_leave(): from then on blocks come from malloc(), for any thread.
 * Blocks are their users'; the slab is never freed. Nothing blocks.
 */
#ifndef CLUTCH_SLAB_H
#define CLUTCH_SLAB_H

#define CLU_SLAB 128

/* A block of CLU_SLAB bytes, not zeroed; NULL without memory. */
void *clu_slab_new(void);
void clu_slab_free(void *p); /* accepts NULL */
/* A second thread is about to be started. */
void clu_slab_leave(void);

#endif
