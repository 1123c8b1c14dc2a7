/* These make it cheaper that this process's heap grows. A part of the port; see os.h.
 *
 * The first write to a page is a fault: 0.25 us on one machine, 17 us in some virtual ones, and a
 * little more where the page is copied because it was the parent's. Asked for many at a time, a
 * page takes half of that. So the C library is made to take memory from the system in larger
 * pieces, by how much the heap has grown, and each piece is asked for as a whole. Only Linux 5.14
 * and later with the GNU C library; elsewhere nothing. */
#ifndef CLUTCH_OS_HEAP_H
#define CLUTCH_OS_HEAP_H

/* In a forked child that begins: what the heap has more than now it has grown by. */
void clu_os_heap_begin(void);
/* To be called often, by the one thread that makes the heap grow: some ns where it has not grown.
 * Below 2 MB nothing is done. `inherits`: once the heap has grown by 8 MB the pages of the parent's
 * heap are copied too, unless that has more than 48 MB: a garbage collector is going to write to
 * them. Blocks for up to 1 ms, then for some 5 us a page of that heap. */
void clu_os_heap_ahead(int inherits);

#endif
