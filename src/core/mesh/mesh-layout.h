/* The mesh from within: what lies where, for the files of this folder. */
#ifndef CLUTCH_MESH_LAYOUT_H
#define CLUTCH_MESH_LAYOUT_H

#include "core/base/spins.h"
#include "core/mesh/mesh.h"

#define MESH_MAGIC UINT64_C(0x636c7574636d6531)
#define LINE 64 /* bytes that a processor moves together */

/* One for all. Words that are written by many have a line of their own. */
typedef struct mesh_head {
  uint64_t magic, count;
  _Atomic uint64_t verdict; /* a code, and two ranks of which it is, 16 bits each; 0: none */
  _Atomic uint32_t first;   /* the rank + 1 that has failed or died first */
  _Atomic uint32_t is_open; /* ranks come and go, see mesh-open.c */
  _Atomic uint32_t here; /* of several hosts: how many ranks are on this one; 0: it is the only */
  _Atomic uint32_t lead; /* the rank + 1 by whose ring and word its bridge is reached; 0: none */
  _Atomic uint32_t overflowed; /* an integer had no room on another host, in the last reduction */
  char apart[LINE - 44];
  _Atomic uint32_t arrived; /* ranks at the meeting at hand */
  char apart_too[LINE - 4];
  _Atomic uint32_t turn; /* meetings that are over */
  char apart_then[LINE - 4];
  _Atomic uint32_t met_here; /* the turn + 1 at which all ranks of this host are; the bridge's */
  char apart_last[LINE - 4];
} mesh_head;

typedef struct mesh_rank {
  _Atomic uint32_t events, asleep;
  char apart[LINE - 8];
  _Atomic uint32_t state;
  _Atomic uint32_t waits, wait_for; /* enum clu_rank_wait; a rank + 1, 0: any */
  _Atomic uint32_t wait_count;      /* how often it has begun to */
  _Atomic uint32_t events_seen;     /* the event count when it looked last */
  _Atomic uint32_t has_tag, keeps;
  _Atomic uint64_t pid;       /* where its segments are: of a rank elsewhere the bridge's */
  _Atomic uint64_t pid_there; /* of a rank elsewhere: its own */
  _Atomic uint32_t elsewhere; /* 1: it is on another host, and the bridge is this rank here */
  _Atomic uint32_t by_signal, code;
  _Atomic uint64_t begun, given_up; /* of an open mesh: numbers, see mesh-open.c */
  clu_meeting meeting;
  char tag[CLU_TAG_MOST];
} mesh_rank;

/* The head of a ring. Positions are bytes that were ever written and read, of which `taken_bytes`
 * and `put_bytes` are those of the bodies with their segments. A reader on another host has another
 * ring, from its bridge: what it is sent and has taken is counted here. */
typedef struct pair_ring {
  _Atomic uint64_t tail, put_bytes, put_away; /* the writer's */
  char apart[LINE - 24];
  _Atomic uint64_t head, taken_bytes, taken_away; /* the reader's */
  _Atomic uint32_t wants_room, wants_room_away;   /* the writer waits */
  char apart_too[LINE - 32];
} pair_ring;

#define PAIR_SIZE (UINT64_C(1) << 20)
#define PAIR_BYTES (PAIR_SIZE - sizeof(pair_ring)) /* of its data: a multiple of 8 */
#define PAIR_MOST (PAIR_BYTES / 4)                 /* bytes of a body in one record */
#define PAIR_APART                                                                               \
  4096                  /* a larger body goes by a segment of its own where the ring has no room \
                         */
#define PAIR_FIRST 2048 /* an empty ring begins anew behind that: few of its pages are touched */

/* Bytes that a rank has taken of a rank on another host, from which on that is told. */
#define MESH_TELL_FROM (CLU_PAIR_MOST / 8)

/* Before each record is a word with its size; it fills a multiple of 8, and does not wrap around.
 */
#define RING_SKIP UINT64_MAX
typedef struct record_head {
  uint32_t is_first, nsegments;
  uint32_t ntag;
  uint32_t is_apart; /* the last segment is the body */
  uint64_t total; /* bytes of the whole body; then the tag, the segments' descriptors, 8 bytes each,
                     and bytes of the body */
  uint64_t weight;
  uint32_t nto, reserved; /* to the bridge: ranks elsewhere, 4 bytes each, behind the descriptors */
} record_head;

/* A body that is kept while its segments are needed. */
typedef struct held {
  struct held *next;
  clu_blob *blob;
  uint64_t until; /* the reader's head is that, or more */
} held;

/* All that a process has of one other rank. */
typedef struct peer {
  pair_ring *out, *in; /* NULL: not mapped */
  held *holds;         /* the oldest first */
  held **holds_end;
  clu_message *partial;  /* what has come of a message in pieces */
  size_t got, room;      /* bytes of its body: that have come, and for which there is memory */
  uint64_t acknowledged; /* the bridge's: bytes of `out` whose sender knows that they were taken */
} peer;

struct clu_mesh {
  clu_fd fd;
  clu_pid owner;
  int count, rank; /* rank -1: the session, or the bridge */
  int is_second;   /* `fd` and `map` are another's, see mesh_stand_in() */
  uint64_t size;
  unsigned char *map; /* heads and what is pending */
  size_t map_bytes;
  mesh_head *head;
  mesh_rank *ranks;
  _Atomic uint64_t *pending; /* by receiver: a bit for each rank that has sent something */
  peer *peers;
  clu_message *mail, **mail_end; /* the oldest first */
  clu_spins spins;
  unsigned char *area; /* all ranks' places to reduce from, and the result */
  size_t area_bytes;   /* mapped of each */
  uint64_t suspect; /* of the last look for a deadlock: how often who waits has begun to; 0: none */
  char path[CLU_MESH_PATH];
};

static inline size_t mesh_words(int count) { return ((size_t)count + 511) / 512 * 8; }
static inline uint64_t mesh_rounded(uint64_t n) {
  return (n + CLU_COMMON_ALIGN - 1) / CLU_COMMON_ALIGN * CLU_COMMON_ALIGN;
}
static inline uint64_t mesh_heads(int count) {
  return mesh_rounded(sizeof(mesh_head) + (uint64_t)count * sizeof(mesh_rank) +
                      (uint64_t)count * mesh_words(count) * 8);
}
static inline uint64_t mesh_pair_at(int count, int from, int to) {
  return mesh_heads(count) + ((uint64_t)from * (uint64_t)count + (uint64_t)to) * PAIR_SIZE;
}
/* Places to reduce from: of each rank, and one for the result. */
static inline uint64_t mesh_area_at(int count, int which) {
  return mesh_pair_at(count, count, 0) + (uint64_t)which * CLU_REDUCE_BYTES;
}
static inline uint64_t mesh_size(int count) { return mesh_area_at(count, count + 1); }

/* Bytes that a message counts as while it waits: what is kept besides its own, too. */
static inline uint64_t mesh_weight(const clu_blob *body) { return clu_blob_weight(body) + 256; }
static inline int mesh_is_here(const clu_mesh *m, int rank) {
  return !atomic_load_explicit(&m->ranks[rank].elsewhere, memory_order_relaxed);
}

/* mesh.c. Frees what this process has of another rank. */
void mesh_free_peer(peer *p);
/* This process is that rank, too, with the memory of `of`, which has to be freed later. NULL: no
 * memory. */
clu_mesh *mesh_stand_in(clu_mesh *of, int rank);

/* mesh-state.c. Wakes this rank, if it sleeps: it has something to look at. */
void mesh_notify(clu_mesh *m, int rank);
void mesh_notify_all(clu_mesh *m); /* but this one */
/* Returns who is to be named where `who` is gone: others fail because of the first who did. */
int mesh_named(const clu_mesh *m, int who);
/* Ends all waiting, if nobody has before. */
void mesh_judge(clu_mesh *m, int verdict, int a, int b);
/* Tells whether no process of a rank that is here has ended: the session may not have said so yet.
 */
int mesh_all_live(const clu_mesh *m);
/* That rank is in this state, in which nothing more is heard of it; `how` of a dead one. */
void mesh_has_gone(clu_mesh *m, int rank, int state, const clu_exit *how);

/* mesh-wait.c. Tells whether all ranks of this host that have not gone wait for ever, and have
 * looked at all that was sent to them: 0, or a number that is another when one of them has gone on.
 */
uint64_t mesh_all_wait(const clu_mesh *m);

/* mesh-meet.c. All ranks of all hosts have met. */
void mesh_has_met_all(clu_mesh *m);

/* pair.c. The ring from one to the other; NULL: it cannot be mapped. */
pair_ring *mesh_pair(clu_mesh *m, int from, int to);
/* The writer's: where a record of `n` bytes may be written, and what the tail will be behind it;
 * NULL: there is no room. The second counts the message's weight as well, and asks to be notified
 * where there is none. */
unsigned char *mesh_room(pair_ring *r, uint64_t n, uint64_t *tail);
unsigned char *mesh_room_or_ask(pair_ring *r, uint64_t n, uint64_t weight, uint64_t *tail);
/* Tells whether too much waits at a reader on another host. Then it asks to be notified. */
int mesh_is_full_away(pair_ring *r, uint64_t weight);
/* The record is there: the reader may take it. */
void mesh_publish(clu_mesh *m, pair_ring *r, int to, uint64_t tail, uint64_t weight);
/* Keeps the body until the reader's head is `until`: CLU_OK or CLU_NOMEM. */
int mesh_hold(peer *p, clu_blob *body, uint64_t until);
/* Lets go of what the receiver has taken. */
void mesh_let_go(peer *p);
/* The reader's: the oldest record. NULL with `*n` 0: there is none; with another `*n`: what is
 * there cannot be. */
const unsigned char *mesh_peek(pair_ring *r, size_t *n);
void mesh_took(pair_ring *r, uint64_t weight);

/* mailbox.c. Takes all that is in the ring of that rank. */
int mesh_drain(clu_mesh *m, int from);
/* The oldest message of any rank and with any tag: CLU_OK, or CLU_AGAIN: there is none. CLU_PROTO,
 * CLU_NOMEM. */
int mesh_take_any(clu_mesh *m, clu_message **out);
/* A message to this rank itself. */
int mesh_mail_own(clu_mesh *m, const char *tag, clu_blob *body);

#endif
