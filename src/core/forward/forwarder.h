/* A forwarder: by it processes of one host are clients of processes of another, where the session's
 * connection to that host is the only way between the two.
 *
 *   client --socket-- forwarder of its host ==session== that of the delegates --socket-- delegate
 *
 * The first forwarder takes connections at a path of its host. The second has a socket for each of
 * them, whose other end its caller gives to a delegate: a process that does what the client asks.
 * Bytes that are written at one end are read at the other, in order. When one end is closed, or its
 * process has ended, so is the other. At most CLU_FORWARD_WINDOW bytes of a connection are under
 * way in each direction.
 *
 * Both talk by messages, bodies of CLU_K_FORWARD, which the session hands on: u32 number of the
 * clients' host, u32 number of the connection there, u8 enum clu_forward_kind, then what that has.
 * Numbers are little-endian. What is of no known connection is dropped, since ends may cross. What
 * cannot be ends its connection, and no other.
 *
 * A forwarder runs on an event loop (core/loop), which calls back; nothing here blocks. One thread.
 */
#ifndef CLUTCH_FORWARDER_H
#define CLUTCH_FORWARDER_H

#include "core/base/blob.h"
#include "core/loop/event-loop.h"

#define CLU_FORWARD_WINDOW (1u << 20)
#define CLU_FORWARD_HEAD 9 /* bytes before what a message has */

enum clu_forward_kind {
  CLU_FORWARD_OPEN = 1, /* to the delegates: a client has connected */
  CLU_FORWARD_DATA,     /* bytes, one at least */
  CLU_FORWARD_TAKEN,    /* u32: so many of them have been read there */
  CLU_FORWARD_CLOSE,    /* its end is closed */
  CLU_FORWARD_LOST,     /* all connections of the host have ended: the other forwarder is gone */
  CLU_FORWARD_USE       /* to the session: clients can connect. u32 1: some have; 0: none has */
};

typedef struct clu_forwarder clu_forwarder;
typedef struct clu_forward_id {
  uint32_t host, number;
} clu_forward_id;

/* Where its messages go; `body` stays the forwarder's. */
typedef void clu_forward_say(void *to, clu_blob *body);

/* `loop` and `to` have to outlive it. CLU_OK, CLU_NOMEM. */
int clu_forward_new(clu_loop *loop, clu_forward_say *say, void *to, clu_forwarder **out);
/* Closes all of it; accepts NULL. */
void clu_forward_free(clu_forwarder *f);
/* Takes what the other forwarder has said, of which it may keep a reference: CLU_OK; CLU_NOMEM for
 * one more connection; CLU_PROTO: that is no forwarder. */
int clu_forward_heard(clu_forwarder *f, clu_blob *body);
/* Its host, from a message; -1: it has none. */
int64_t clu_forward_host(const clu_blob *body);
/* That message for all connections of the host. NULL: no memory. */
clu_blob *clu_forward_message(clu_forward_id id, int kind);

/* ---- of the clients ---- */

/* Takes connections at that path, which must not exist, as number `host`. CLU_OK, CLU_IN_USE,
 * CLU_LIMIT, CLU_SYS, CLU_NOMEM. */
int clu_forward_listen(clu_forwarder *f, uint32_t host, const char *path, clu_err *e);

/* ---- of the delegates ---- */

/* Finds a connection that has no socket yet. 0: there is none. */
int clu_forward_wants(const clu_forwarder *f, clu_forward_id *id);
/* Gives it one, which is the forwarder's from now on, also after a failure: then the connection
 * ends. CLU_NO_FD: it gets none, and ends. */
void clu_forward_attach(clu_forwarder *f, clu_forward_id id, clu_fd fd);
/* Finds a connection that had a socket and has ended, once. 0: there is none. */
int clu_forward_ended(clu_forwarder *f, clu_forward_id *id);

#endif
