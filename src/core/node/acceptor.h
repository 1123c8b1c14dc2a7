/* The acceptor: a listener at which the nodes of one cluster arrive, and the handshakes with whoever connects.
 *
 * Lives in the session's event loop while a cluster starts, and no longer. It owns the listener and the connections that
 * have proven nothing yet (strangers): at most CLU_PENDING_PEERS of them, each for at most CLU_PENDING_PEER_NS and
 * CLU_HS_ANSWER + CLU_HS_JOIN bytes. Where all places are taken, the oldest that has proven nothing for a second
 * has to go, whatever it has sent; else the next wait in the listener's queue. Processes of other users of this
 * machine, where the system tells, take nobody's place but each other's: they have CLU_OTHERS, and the oldest goes at
 * once. A node that loses its place, or whose connection breaks before it has said hello, connects anew.
 *
 * A proven connection becomes the channel of the node whose rank it has, and gets that node's settings.
 * Nothing here waits.
 */
#ifndef CLUTCH_ACCEPTOR_H
#define CLUTCH_ACCEPTOR_H

#include "core/node/node.h"
#include "core/wire/handshake.h"

#define CLU_PENDING_PEERS 256
#define CLU_OTHERS 16
#define CLU_PENDING_PEER_NS 10000000000u

typedef struct clu_acceptor clu_acceptor;

typedef struct clu_acceptor_report {
  int accepted;               /* connections */
  int strangers;              /* of which are in a handshake now */
  int crowded;                /* lost their places to others */
  int pauses;                 /* times that no descriptor was free */
  int failed[CLU_HS_N_WHY]; /* by enum clu_hs_why */
} clu_acceptor_report;

/* Listens at `at`. `backlog` < 0: the most the system allows; `*granted`, `*port`: what it has become. Codes as those
 * of clu_os_listen(). `secret`: CLU_SECRET bytes, copied; NULL: random ones. */
int clu_acceptor_open(clu_session *s, const clu_addr *at, int backlog, const unsigned char *secret, clu_acceptor **out, int *granted, int *port, clu_err *e);
/* The cluster's secret, CLU_SECRET bytes, the acceptor's. */
const unsigned char *clu_acceptor_secret(const clu_acceptor *m);
/* `nd` is the node number `rank` (1, 2, ...; in this order), still the caller's. It gets `settings` (a reference is
 * taken) when it has joined. The node must not be freed before the acceptor. */
int clu_acceptor_expect(clu_acceptor *m, clu_node *nd, int rank, clu_blob *settings);
/* To be called after each pump: ends what has taken too long, notices processes that have ended. Returns how many
 * expected nodes are neither ready nor over. */
int clu_acceptor_tick(clu_acceptor *m);
void clu_acceptor_report_to(const clu_acceptor *m, clu_acceptor_report *out);
/* Closes the listener and all strangers. Accepts NULL. */
void clu_acceptor_free(clu_acceptor *m);

#endif
