/* A node that runs no user's code, and whose channel has messages of one kind: a bridge or a
 * forwarder. It ends with the channel, or when it is asked to. Its struct is zeroed at first; no R
 * function is called while it is in use. */
#ifndef CLUTCH_R_CHANNEL_ONLY_H
#define CLUTCH_R_CHANNEL_ONLY_H

#include "r/node/node.h"

#include "core/loop/event-loop.h"

typedef struct clu_channel_only {
  clu_loop loop; /* for what else it waits for */
  clu_watch_id channel;
  uint8_t kind;
  int (*hear)(clu_blob *body);
  int ended; /* it is to end */
} clu_channel_only;

/* Messages of that kind are given to `hear`, within clu_only_pump(); another answer than CLU_OK is
 * the end, as is a read that fails. CLU_OK, or as clu_loop_init(). */
int clu_only_begin(clu_channel_only *x, uint8_t kind, int (*hear)(clu_blob *), clu_err *e);
/* Does what clu_loop_pump() does. Messages may have come together with the call by which this node
 * has become what it is: nothing tells of these, so they are looked for first. */
int clu_only_pump(clu_channel_only *x, int64_t ns, clu_err *e);
/* Says something to the session; `body` stays the caller's. Blocks while that takes nothing. */
void clu_only_say(clu_channel_only *x, clu_blob *body);
/* Gives back what clu_only_begin() has made; fine after a failure of it, too. */
void clu_only_end(clu_channel_only *x);

#endif
