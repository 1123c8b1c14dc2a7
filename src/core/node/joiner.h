/* The node's side of the start over TCP: connects, waits for the master to speak first, goes through the handshake,
 * and gets the settings.
 *
 * A connection that is established here may be unknown to the master (its queue was full, or it was stopped): so a
 * try that stays silent ends after 1.2 s, the next one after 0.2 s more, and so on; after a try, in whatever
 * way it ended, a pause of 0.1 s that grows by half. Only after the master has proven itself does the node wait longer,
 * for the settings; and when that connection breaks, it begins anew, too. Until the time is up.
 */
#ifndef CLUTCH_JOIN_H
#define CLUTCH_JOIN_H

#include "core/wire/channel.h"
#include "core/wire/handshake.h"

typedef struct clu_join {
  const char *host;
  int port;
  const unsigned char *secret; /* CLU_SECRET bytes */
  uint32_t rank, r_version;
  uint64_t deadline;           /* clu_os_now() */
  int (*go_on)(void);          /* asked about ten times a second; 0: give up. May be NULL */
} clu_join;

/* Blocks. CLU_OK: `c` is the channel, with TCP_NODELAY and keepalive, still non-blocking, and `settings` the message
 * CLU_K_SETTINGS, its body the caller's. Else `c` is not initialized, and `e` says why the last try failed:
 * CLU_TIMEOUT, CLU_CANCELLED (go_on()), CLU_PROTO (the master does not want this node), CLU_DNS, CLU_NOMEM. */
int clu_join_cluster(const clu_join *j, clu_chan *c, clu_msg *settings, clu_err *e);

#endif
