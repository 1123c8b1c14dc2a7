/* A set of sockets to wait for. Interest is registered once with the system's poller and kept, so
 * that a wait costs what is ready and not what is watched.
 *
 * A member has a place: a number that stays until it leaves, and is then used again. A socket
 * leaves by itself when it is closed, before its descriptor is: a forked child may still have the
 * descriptor, and the system would go on to report it.
 *
 * Readiness by the system is not all: bytes can have been read ahead. A set is told when they are,
 * so that a wait looks only at sockets that may have some. Not for a forked child: but to be freed.
 */
#ifndef CLUTCH_SOCKET_SET_H
#define CLUTCH_SOCKET_SET_H

#include "core/net/socket.h"

typedef struct clu_sockset clu_sockset;

typedef struct clu_sockset_ready {
  int place;
  unsigned ready; /* of what is wanted */
} clu_sockset_ready;

/* NULL: no memory, no descriptor. */
clu_sockset *clu_sockset_new(clu_err *e);
/* Accepts NULL; closes no member. */
void clu_sockset_free(clu_sockset *set);
/* Tells whether this process made it. */
int clu_sockset_is_mine(const clu_sockset *set);
/* An open socket becomes a member. One that is a member gets this interest, and keeps its place. */
int clu_sockset_put(clu_sockset *set, clu_sock *s, unsigned want, int *place, clu_err *e);
void clu_sockset_remove(clu_sockset *set, int place);
/* -1: it is no member. */
int clu_sockset_place(const clu_sockset *set, const clu_sock *s);
/* Members; and places that were ever used: all are smaller. */
int clu_sockset_count(const clu_sockset *set);
int clu_sockset_places(const clu_sockset *set);
/* A place whose socket was closed, each is told once; -1: there is none. It is not used again
 * before it is told. */
int clu_sockset_left(clu_sockset *set);
/* Waits at most `wait_ns` (< 0: for ever). Blocks. With bytes read ahead it does not wait, and
 * looks at all members nevertheless. `*ready` belongs to the set, until the next call; each member
 * is in it at most once. CLU_OK also when the time is up or a signal came: then `*n` is 0. */
int clu_sockset_wait(clu_sockset *set, int64_t wait_ns, const clu_sockset_ready **ready, int *n,
                     clu_err *e);

#endif
