/* The acceptor: a listener at which the nodes of one cluster arrive, and the handshakes with
 * whoever connects.
 *
 * It lives in the session's event loop while a cluster starts, and no longer: what comes and what
 * takes too long is acted on in clu_loop_pump(). Nothing here blocks.
 *
 *   connection --accepted--> pending peer --handshake done--> the channel of its node
 *                                 `-- it failed, took too long, or had to make room: closed
 *
 * A pending peer has proven nothing yet. There are at most CLU_PENDING_PEERS of them, each for
 * CLU_PENDING_PEER_NS at most, and no more than one handshake's bytes are read of each. When all
 * places are taken, the oldest that has proven nothing for a second is closed, whatever it has
 * sent; if there is none, the next connections wait in the listener's queue. Processes of other
 * users of this machine, where the system tells, take nobody's place but each other's: they have
 * CLU_PENDING_OTHERS, and the oldest of them is closed at once. A node that lost its place, or
 * whose connection breaks before it said HELLO, connects anew.
 *
 * It owns the listener and the pending peers. Nodes are the caller's; settings are counted
 * references.
 */
#ifndef CLUTCH_ACCEPTOR_H
#define CLUTCH_ACCEPTOR_H

#include "core/node/node.h"
#include "core/wire/handshake.h"

#define CLU_PENDING_PEERS 256
#define CLU_PENDING_OTHERS 16
#define CLU_PENDING_PEER_NS 10000000000u

typedef struct clu_acceptor clu_acceptor;

typedef struct clu_acceptor_report {
  int accepted;             /* connections so far */
  int pending;              /* of which are in a handshake now */
  int crowded;              /* closed to make room */
  int pauses;               /* times that no descriptor was free */
  int failed[CLU_HS_N_WHY]; /* handshakes, by enum clu_hs_why */
} clu_acceptor_report;

/* Listens at `at`. `backlog` < 0: the most that the system allows; `*granted`, `*port`: what it
 * has become. `secret`: CLU_SECRET bytes, copied; NULL: random ones. Codes as those of
 * clu_os_listen(). */
int clu_acceptor_open(clu_session *s, const clu_addr *at, int backlog, const unsigned char *secret,
                      clu_acceptor **out, int *granted, int *port, clu_err *e);
/* The cluster's secret, CLU_SECRET bytes, the acceptor's. */
const unsigned char *clu_acceptor_secret(const clu_acceptor *a);
/* `nd` is the node number `rank` (1, 2, ...), still the caller's, who does not free it before
 * the acceptor. It gets `settings` (a reference is taken; NULL: an empty message) when it has
 * connected. From now on the end of its process is polled until it is ready. CLU_OK, CLU_NOMEM. */
int clu_acceptor_expect(clu_acceptor *a, clu_node *nd, int rank, clu_blob *settings);
/* How many expected nodes are starting: neither ready nor closed. */
int clu_acceptor_missing(const clu_acceptor *a);
void clu_acceptor_report_to(const clu_acceptor *a, clu_acceptor_report *out);
/* Closes the listener and all pending peers, overwrites the secret. Accepts NULL. */
void clu_acceptor_free(clu_acceptor *a);

#endif
