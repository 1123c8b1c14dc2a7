/* The link process: on the session's host, between the session and all other hosts. A process of
 * its own, so that heartbeats are answered and cuts are mended whatever R does.
 *
 *   session ==channel (LISTEN, HOST, HOST_STATE, VIEW)== link process ==a proxy each== hosts
 *          ==control and data channels of the nodes there==
 *
 * It accepts connections at the listener that LISTEN brings. A peer proves by the handshake that it
 * knows the secret, and says by its rank which host it is, and its process. That one is the host's
 * proxy from then on; another process that says so is refused. A host of which the session has
 * not told yet is refused with CLU_HS_NOT_YET, and tries again. At most CLU_NEAR_PENDING peers may
 * be on their way to prove themselves, each for 10 s; where more come, the first that has proven
 * nothing makes room.
 *
 * A host that is cut off for longer than LISTEN says is given up: its channels close, and so its
 * fork server and nodes end for the session. At once, when the session says that nothing is left
 * there (HOST_STATE with a text): it knows what has become of the command that has started it.
 *
 * VIEW brings the memory where observers see what the hosts' nodes do (views.h). Hosts are asked
 * for that while somebody looks.
 *
 * It ends when the session's channel does, and tells all hosts so. Then nobody listens there: who
 * did not hear it connects, is refused, and knows.
 */
#ifndef CLUTCH_NEAR_H
#define CLUTCH_NEAR_H

#include "core/base/os.h"

#define CLU_NEAR_PENDING 64

/* Says HELLO on `session`, which it takes over, and serves until that ends. Blocks. CLU_OK,
 * CLU_SYS, CLU_NOMEM. */
int clu_near_serve(clu_fd session, clu_err *e);

#endif
