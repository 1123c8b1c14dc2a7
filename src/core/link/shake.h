/* The handshake (core/wire/handshake.h) over a connection that may be encrypted. Nothing blocks. */
#ifndef CLUTCH_SHAKE_H
#define CLUTCH_SHAKE_H

#include "core/net/conn.h"
#include "core/wire/handshake.h"

typedef struct clu_shake {
  clu_conn *conn; /* owned until the caller takes it */
  clu_hs hs;
  int encrypted; /* its own handshake is over */
} clu_shake;

/* Goes as far as it can be gone now. `admit` (NULL: this is the node's side) says what to do with a
 * peer that has proven itself. CLU_OK: it is done and `conn` is the caller's to take; CLU_AGAIN:
 * wait for clu_shake_wants(); else it has failed, as hs.why or conn->err says. */
int clu_shake_step(clu_shake *s, int (*admit)(void *data, const clu_hs *hs), void *data);
unsigned clu_shake_wants(const clu_shake *s);
/* Closes the connection, if it was not taken. */
void clu_shake_drop(clu_shake *s);

#endif
