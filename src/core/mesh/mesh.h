/* The mesh: memory by which the parts of one run, each in a process of its own on this host, send
 * messages to each other and meet (cluster_run() in R).
 *
 * The session makes it, with room for `count` ranks, and tells the parts its path; each joins as
 * one rank, counted from 0. It belongs to one run: a later run has another mesh, so nothing of an
 * earlier one ever reaches it. It has no name in the file system (but where the system lacks memfd)
 * and is freed with the last process that has it.
 *
 * Memory: a head, a record a rank, and for each ordered pair of ranks a ring buffer with one writer
 * and one reader, which lies at a place of its own. What nobody has written to takes no memory, and
 * a process maps only the rings that it uses: a pair that never talks costs nothing.
 *
 * Messages of one pair arrive in order. A message is a tag of up to CLU_TAG_MOST bytes and a body;
 * bodies for which the ring has no room at once go by a segment, or where there are none through
 * the ring in pieces. Segments (core/base/segment.h) stay where they are: the ring has their
 * descriptors' numbers, by which the receiver opens them (only where clu_os_segment_of() works);
 * the sender keeps them until then. What was taken from the ring and is not wanted yet waits in the
 * mailbox, in memory of the receiver.
 *
 * Waiting: each rank has an event count. Who has something for it notifies it: adds 1, and wakes it
 * if it sleeps. So a rank looks, and sleeps only while its count is what it was before it looked.
 * What it waits for is in its record, where others see it.
 *
 * A rank is absent, here, or gone: ended (its part is over), failed (with an error), or dead (the
 * session says so). After it is gone what it has sent can still be received. Who waits for it gets
 * CLU_DEAD, and the name of the first that failed or died, since others fail because of it. A
 * verdict ends all waiting of all ranks: a deadlock (everybody waits, and nothing that
 * has not been looked at was sent), ranks that meet for different reasons (CLU_PROTO), or the end
 * of the run (CLU_CANCELLED).
 *
 * Ranks on several hosts: each host has a mesh with all ranks. A bridge (bridge.h) is there all
 * those that are elsewhere: it takes what is sent to them, and sends what they send. What is sent
 * to them goes through one ring, with the list of who gets it.
 *
 * An open mesh (mesh-open.c) is no run: rank 0 serves, and others come and go (core/actor). Those
 * get the next free rank. A rank is free again once rank 0 has seen that its process has left, or
 * has ended; until then all that it has sent is kept.
 *
 * Files, each of which uses only those before it: mesh-state, mesh-wait, pair (the ring), mailbox,
 * mesh-send, mesh, mesh-open; mesh-meet and mesh-reduce use mesh-state. bridge-message, bridge and
 * hub are of runs on several hosts.
 *
 * Other ranks run user's code and may write anything to this memory: what is read from a ring is
 * checked, and CLU_PROTO is the answer to what cannot be. One thread a process. Only
 * clu_mesh_sleep() blocks. A forked child of a rank calls nothing but clu_mesh_is_ours().
 */
#ifndef CLUTCH_MESH_H
#define CLUTCH_MESH_H

#include "core/base/blob.h"
#include "core/base/os-words.h"

#define CLU_RANKS_MOST 4096
#define CLU_TAG_MOST 64 /* bytes */
#define CLU_MESH_PATH 1024
/* Bytes of bodies that wait at a receiver for each pair, after which the sender waits. One message
 * may always have more. */
#define CLU_PAIR_MOST (UINT64_C(256) << 20)

typedef struct clu_mesh clu_mesh;

enum clu_rank_state {
  CLU_RANK_ABSENT,
  CLU_RANK_HERE,
  CLU_RANK_ENDED,
  CLU_RANK_FAILED,
  CLU_RANK_DEAD
};

/* A rank waits for one of these. */
enum clu_rank_wait {
  CLU_WAIT_NONE,
  CLU_WAIT_MESSAGE,
  CLU_WAIT_FOR_TIME, /* for a message, and not for ever */
  CLU_WAIT_ROOM,
  CLU_WAIT_MEETING
};

/* Why the ranks meet: the same for all of them, or nobody gets further. */
typedef struct clu_meeting {
  uint32_t kind; /* the caller's numbers: which function, 1 or more */
  uint32_t op, type, root;
  uint32_t shape;      /* a number made of the dimensions */
  uint32_t is_of_host; /* only the ranks of one host meet, on each host */
  uint64_t n;          /* length */
} clu_meeting;

static inline int clu_meeting_is_same(const clu_meeting *a, const clu_meeting *b) {
  return a->kind == b->kind && a->op == b->op && a->type == b->type && a->root == b->root &&
         a->shape == b->shape && a->n == b->n;
}

typedef struct clu_rank_info {
  int state;    /* enum clu_rank_state */
  clu_pid pid;  /* 0: it was never here */
  clu_exit how; /* of a dead one; code -1: not known */
  int keeps;    /* it has left, and keeps what others may still need */
  int waits;    /* enum clu_rank_wait */
  int wait_for; /* a rank; -1: any */
  int has_tag;
  char tag[CLU_TAG_MOST + 1];
  clu_meeting meeting; /* its last one */
} clu_rank_info;

/* ---- mesh.c ---- */

/* The session's. `folder`: see clu_os_common_new(). CLU_OK, CLU_LIMIT, CLU_SYS, CLU_NOMEM,
 * CLU_UNSUPPORTED. */
int clu_mesh_new(int count, const char *folder, clu_mesh **out, clu_err *e);
/* Where others find it; the mesh's. */
const char *clu_mesh_path(const clu_mesh *m);
/* A part's. CLU_OK, CLU_SYS, CLU_NOMEM, CLU_UNSUPPORTED. */
int clu_mesh_join(const char *path, int count, int rank, clu_mesh **out, clu_err *e);
/* Joins an open mesh as a rank that is free. CLU_AGAIN: there is none now. Else as
 * clu_mesh_join(). */
int clu_mesh_enter(const char *path, int count, clu_mesh **out, clu_err *e);
/* Gives all back that this process has of it; accepts NULL. In the session also removes its name.
 */
void clu_mesh_free(clu_mesh *m);
/* Tells whether segments that this rank has sent may still be needed by others; they see it. */
int clu_mesh_is_needed(clu_mesh *m);

/* ---- mesh-state.c ---- */

/* Tells whether this process is the one that has joined, and not a child of it. */
int clu_mesh_is_ours(const clu_mesh *m);
int clu_mesh_count(const clu_mesh *m);
int clu_mesh_rank(const clu_mesh *m);
/* This rank's part is over; what it has sent can be received as long as it is not freed. */
void clu_mesh_leave(clu_mesh *m, int failed);
/* The session's: this rank's process has ended, and how (code -1: not known). */
void clu_mesh_died(clu_mesh *m, int rank, const clu_exit *how);
/* The session's: whoever waits, or will, gets CLU_CANCELLED. */
void clu_mesh_end(clu_mesh *m);
/* Tells whether that rank is on this host. */
int clu_mesh_is_here(const clu_mesh *m, int rank);
/* Tells of a rank. */
void clu_mesh_info(const clu_mesh *m, int rank, clu_rank_info *out);
/* CLU_OK, or what all get who wait: CLU_AGAIN is a deadlock. `who[2]`: of a meeting the two ranks
 * that do not agree; of a deadlock in `who[0]` who has found it. */
int clu_mesh_verdict(const clu_mesh *m, int who[2]);

/* ---- mesh-open.c ---- */

/* Ranks from 1 on come and go from now on. */
void clu_mesh_open(clu_mesh *m);
/* Rank 0's: takes all messages of ranks that have left, or for whose process `is_gone`, and makes
 * these ranks free; what they have sent is from rank -1 then. */
void clu_mesh_recycle(clu_mesh *m, int (*is_gone)(clu_pid));
/* Rank 0 notes what it has begun of this rank's; that rank, or who has its mesh, asks for it. */
void clu_mesh_set_begun(clu_mesh *m, int rank, uint64_t what);
uint64_t clu_mesh_begun(const clu_mesh *m);
/* A rank does not want anything more of what has this number, or a lower one; rank 0 asks. */
void clu_mesh_set_given_up(clu_mesh *m, uint64_t what);
int clu_mesh_is_given_up(const clu_mesh *m, int rank, uint64_t what);

/* Lets go of what that rank has taken of this one's. */
void clu_mesh_let_go(clu_mesh *m, int to);

/* ---- mesh-send.c ---- */

/* A message on its way: begin with {0}. */
typedef struct clu_sending {
  uint64_t done; /* bytes of the body that are in the ring */
  int begun;
  int who; /* after CLU_DEAD: the rank to be named, which is not always the one that is gone */
} clu_sending;
/* Puts a message into the ring to `to`, or a part of it: CLU_OK, it is sent; CLU_AGAIN: no room,
 * wait (CLU_WAIT_ROOM) and call again with the same; CLU_DEAD: that rank is gone; CLU_LIMIT: it has
 * more segments than a message may; CLU_NOMEM. The blob is kept while its segments are needed. To
 * this rank itself it goes to the mailbox. */
int clu_mesh_send(clu_mesh *m, int to, const char *tag, clu_blob *body, clu_sending *s);
/* Does the same to `n` ranks of other hosts at once: it crosses to each host once. */
int clu_mesh_send_away(clu_mesh *m, const int *to, int n, const char *tag, clu_blob *body,
                       clu_sending *s);

/* ---- mailbox.c ---- */

typedef struct clu_message {
  struct clu_message *next;
  int from;
  int lost;     /* a segment of it could not be opened */
  uint32_t *to; /* at a bridge: the ranks elsewhere that get it */
  int nto;
  clu_segments segments;
  size_t n; /* bytes of the body */
  unsigned char *body;
  clu_segment *apart; /* the body is in it; NULL: in memory of its own */
  char tag[CLU_TAG_MOST + 1];
} clu_message;
/* A tag that begins with this is not any: only who asks for it gets the message. */
#define CLU_TAG_HIDDEN '\001'
/* The oldest message from `from` (-1: any) with this tag (NULL: any), which is the caller's then:
 * CLU_OK. CLU_AGAIN: none is there, wait. CLU_DEAD: none will come, from `*who`. CLU_PROTO: the
 * ring of `*who` has what cannot be. CLU_NOMEM. `look`: it stays in the mailbox, and the mesh's. */
int clu_mesh_receive(clu_mesh *m, int from, const char *tag, int look, clu_message **out, int *who);
/* Tells whether clu_mesh_receive() of any rank and tag has something to look at. */
int clu_mesh_has_mail(const clu_mesh *m);
void clu_message_free(clu_message *m); /* accepts NULL */
/* Frees all messages that wait in this rank's mailbox. */
void clu_mesh_drop_mail(clu_mesh *m);

/* ---- mesh-wait.c ---- */

/* Returns this rank's event count: to be asked before one looks. */
uint32_t clu_mesh_events(const clu_mesh *m);
/* Tells others what this rank waits for, until the next call. After a verdict it stays as it was:
 * the others of a deadlock ask for it when this one has left already. */
void clu_mesh_waits(clu_mesh *m, int what, int who, const char *tag);
/* Blocks until the event count is another than `events`, `ns` at most, or a signal came; awake for
 * a while where that pays. Then the verdict. Meanwhile looks for a deadlock. */
int clu_mesh_sleep(clu_mesh *m, uint32_t events, uint64_t ns);

/* ---- mesh-meet.c: all ranks meet ---- */

/* This rank is there, and notifies the others when it is the last. `*turn` is what
 * clu_mesh_has_met() asks for.
 */
void clu_mesh_meet(clu_mesh *m, const clu_meeting *why, uint32_t *turn);
/* CLU_OK: all are there, or have been. CLU_AGAIN: wait (CLU_WAIT_MEETING). CLU_DEAD: `*who` is
 * gone. Another: the verdict. */
int clu_mesh_has_met(clu_mesh *m, uint32_t turn, int *who);

/* ---- mesh-reduce.c: vectors of all ranks become one ---- */

enum clu_reduce_op {
  CLU_REDUCE_SUM = 1,
  CLU_REDUCE_PRODUCT,
  CLU_REDUCE_MIN,
  CLU_REDUCE_MAX,
  CLU_REDUCE_AND,
  CLU_REDUCE_OR
};
enum clu_reduce_type { CLU_REDUCE_DOUBLE = 1, CLU_REDUCE_INT, CLU_REDUCE_LOGICAL };
/* So many bytes of each rank at a time. */
#define CLU_REDUCE_BYTES (UINT64_C(32) << 20)
/* Where this rank puts its `n` bytes, and where the result will be: until the second meeting after
 * this. CLU_OK, CLU_NOMEM, CLU_SYS. */
int clu_mesh_reduce_room(clu_mesh *m, size_t n, void **own, void **result, clu_err *e);
/* After a meeting: computes this rank's share of the result of `n` elements, in the order of the
 * ranks for each element, as R's own operators do; a missing integer stays missing. Then all meet
 * again. `*overflow` becomes 1 where an integer had no room. */
int clu_mesh_reduce(clu_mesh *m, int op, int type, size_t n, int *overflow, clu_err *e);
/* After the second meeting: an integer had no room when what the hosts had was reduced. */
int clu_mesh_has_overflowed(const clu_mesh *m);
/* `n` elements at `a` become those of `a` and `b`. */
void clu_reduce_into(int op, int type, void *a, const void *b, size_t n, int *overflow);
size_t clu_reduce_width(int type); /* bytes of an element */
/* The kind of the second meeting of a reduction is that of the first and this. */
#define CLU_MEET_RESULT 256u
/* Bytes that the ranks of a host have together at such a meeting, more than CLU_REDUCE_BYTES where
 * that cannot be; 0: it is none. */
uint64_t clu_meeting_bytes(const clu_meeting *m);

#endif
