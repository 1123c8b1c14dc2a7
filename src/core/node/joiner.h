/* The node's side of the start over TCP: it connects to its session, goes through the handshake
 * (which the session begins), and gets its settings.
 *
 * A connection that is established here may be unknown to the session: its queue was full, or its
 * process was stopped. So a try in which nothing comes ends after 1.2 s, the next one after 1.4 s,
 * and so on. After each try, whatever ended it, there is a pause of 0.1 s, the next one longer by
 * half, up to 2 s. Where nobody has listened for 2 s there is no session any more. Only when the
 * session has proven itself does the node wait for its settings until the deadline; when that
 * connection breaks, it begins anew. All ends at the deadline.
 */
#ifndef CLUTCH_JOINER_H
#define CLUTCH_JOINER_H

#include "core/wire/channel.h"
#include "core/wire/handshake.h"

typedef struct clu_join {
  const char *host;
  int port;
  const unsigned char *secret; /* CLU_SECRET bytes */
  uint32_t rank, r_version;
  uint64_t deadline;  /* clu_os_now() */
  int (*go_on)(void); /* asked about ten times a second; 0: give up. May be NULL */
} clu_join;

/* Blocks until the deadline at most; go_on() may end it earlier. CLU_OK: `c` is the channel,
 * with TCP_NODELAY and keepalive, still non-blocking, and `settings` the message CLU_K_SETTINGS,
 * its body the caller's. Else `c` is not initialized, and `e` says why the last try failed:
 * CLU_TIMEOUT, CLU_REFUSED (nobody listens), CLU_CANCELLED (go_on()), CLU_PROTO (the session does
 * not want this node), CLU_DNS, CLU_NOMEM. */
int clu_join_cluster(const clu_join *j, clu_chan *c, clu_msg *settings, clu_err *e);

#endif
