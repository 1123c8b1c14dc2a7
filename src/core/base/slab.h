/* Small blocks that lie together.
 *
 * After a fork each page that is written to is copied, and of a page of 2 MB the whole page table entry is
 * taken apart. What malloc() hands out and takes back is all over the heap; the few blocks that a
 * supervisor uses between two forks are to be on one page. One thread only.
 */
#ifndef CLUTCH_SLAB_H
#define CLUTCH_SLAB_H

#define CLU_SLAB 128

/* A block of CLU_SLAB bytes, not zeroed; NULL without memory. Its pages are never given back. */
void *clu_slab_new(void);
void clu_slab_free(void *p); /* accepts NULL */

#endif
