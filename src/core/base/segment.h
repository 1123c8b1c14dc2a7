/* A segment: bytes that processes of this host share, in a file that has no name. Its descriptor
 * travels with the message that needs it; the last mapping or descriptor that goes frees it,
 * whoever dies when.
 *
 * One process writes it (clu_segment_new(), clu_segment_append(), clu_segment_seal()). From then on
 * nobody can change it. Others map it (clu_segment_receive()), each for itself: what one writes
 * into its mapping the others do not see. Some keep the descriptor, and can hand the segment on.
 *
 * Ownership: counted references, which any thread may take and give back. The last one unmaps and
 * closes. Nothing blocks.
 */
#ifndef CLUTCH_SEGMENT_H
#define CLUTCH_SEGMENT_H

#include "core/base/os.h"

#define CLU_SEGMENT_ALIGN 4096u /* vectors in a segment begin at multiples of it */

typedef struct clu_segment clu_segment;

/* An empty one, to be written. NULL where there is none to be had: no such system, no memory, or
 * too many open already (a quarter of the descriptors that this process may have). */
clu_segment *clu_segment_new(void);
/* Appends `n` bytes. CLU_OK, CLU_LIMIT or CLU_SYS; then what was there before is still right. */
int clu_segment_append(clu_segment *s, const void *p, size_t n);
/* Does the same at any place. All that nobody has written between that and the end is zeros. */
int clu_segment_put(clu_segment *s, uint64_t at, const void *p, size_t n);
/* Moves its end to the next multiple of CLU_SEGMENT_ALIGN; returns that. */
uint64_t clu_segment_align(clu_segment *s);
/* Copies bytes of one that has its descriptor. CLU_OK or CLU_SYS. */
int clu_segment_read(const clu_segment *s, uint64_t at, void *p, size_t n);
/* Nothing more comes. CLU_OK or CLU_SYS. */
int clu_segment_seal(clu_segment *s);

/* One that came from another process. Takes over `fd`. Maps it, and then needs no descriptor; where
 * that cannot be done (limits of memory, too many mappings) it keeps it, to be read. NULL: `*rc` is
 * CLU_PROTO (it is no sealed segment) or CLU_NOMEM. */
clu_segment *clu_segment_receive(clu_fd fd, int *rc);
/* From now on those that come and are mapped keep their descriptors, as long as these are at most
 * an eighth of what this process may have. */
void clu_segments_keep_fds(void);
/* Tells whether there is such a one now. */
int clu_segments_any_kept(void);
/* Tells whether it came, and has its descriptor. */
int clu_segment_is_kept(const clu_segment *s);
/* `bytes` more of it are in a message with this number, which is not 0; how many there are. */
void clu_segment_count(clu_segment *s, uint64_t message, uint64_t bytes);
uint64_t clu_segment_counted(const clu_segment *s, uint64_t message);
/* In place of one whose descriptor this process could not take, because it has used up its own: it
 * has no bytes. NULL: no memory. */
clu_segment *clu_segment_new_lost(void);
int clu_segment_is_lost(const clu_segment *s);
/* Tells whether this process had it mapped already when it came: as long as it does not write to
 * it, the second mapping takes no memory. */
int clu_segment_is_again(const clu_segment *s);
/* Maps one of this process's own, which keeps its descriptor. CLU_OK or CLU_NOMEM. */
int clu_segment_map(clu_segment *s);

uint64_t clu_segment_size(const clu_segment *s);
/* Where its bytes are mapped; NULL: they are not. `*writable` (may be NULL): whether this process
 * may write there. */
unsigned char *clu_segment_bytes(const clu_segment *s, int *writable);
/* Its descriptor, which stays the segment's; CLU_NO_FD: it has none. */
clu_fd clu_segment_fd(const clu_segment *s);
clu_segment *clu_segment_ref(clu_segment *s);
void clu_segment_unref(clu_segment *s); /* accepts NULL */

/* The segments that a message brings: at most CLU_MAX_FDS, in the order in which it names them. */
typedef struct clu_segments {
  int n;
  clu_segment *of[CLU_MAX_FDS];
} clu_segments;
void clu_segments_drop(clu_segments *list);          /* gives all of them back */
int clu_segments_are_lost(const clu_segments *list); /* all are, or none; NULL: none */
/* The bytes of all of them. */
uint64_t clu_segments_size(const clu_segments *list);

#endif
