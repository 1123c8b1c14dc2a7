/* The muster: a listener at which the nodes of one cluster arrive, and the roll calls with whoever connects.
 *
 * Lives next to the pool's loop while a cluster starts, and no longer. It owns the listener and the connections that
 * have proven nothing yet (strangers): at most CLU_STRANGERS of them, each for at most CLU_STRANGER_NS and
 * CLU_ROLL_ANSWER + CLU_ROLL_JOIN bytes. Where all places are taken, the oldest that has proven nothing for a second
 * has to go, whatever it has sent; else the next wait in the listener's queue. Processes of other users of this
 * machine, where the system tells, take nobody's place but each other's: they have CLU_OTHERS, and the oldest goes at
 * once. A node that loses its place, or whose connection breaks before it has said hello, connects anew.
 *
 * A proven connection becomes the channel of the node whose rank it has, and gets that node's settings.
 * Nothing here waits.
 */
#ifndef CLUTCH_MUSTER_H
#define CLUTCH_MUSTER_H

#include "pool.h"
#include "rollcall.h"

#define CLU_STRANGERS 256
#define CLU_OTHERS 16
#define CLU_STRANGER_NS 10000000000u

typedef struct clu_muster clu_muster;

typedef struct clu_muster_report {
  int accepted;               /* connections */
  int strangers;              /* of which are in a roll call now */
  int crowded;                /* lost their places to others */
  int pauses;                 /* times that no descriptor was free */
  int failed[CLU_ROLL_N_WHY]; /* by enum clu_roll_why */
} clu_muster_report;

/* Listens at `at`. `backlog` < 0: the most the system allows; `*granted`, `*port`: what it has become. Codes as those
 * of clu_os_listen(). `secret`: CLU_SECRET bytes, copied; NULL: random ones. */
int clu_muster_open(clu_loop *l, const clu_addr *at, int backlog, const unsigned char *secret, clu_muster **out, int *granted, int *port, clu_err *e);
/* The cluster's secret, CLU_SECRET bytes, the muster's. */
const unsigned char *clu_muster_secret(const clu_muster *m);
/* `nd` is the node number `rank` (1, 2, ...; in this order), still the caller's. It gets `settings` (a reference is
 * taken) when it has joined. The node must not be freed before the muster. */
int clu_muster_expect(clu_muster *m, clu_node *nd, int rank, clu_blob *settings);
/* To be called after each pump: ends what has taken too long, notices processes that have ended. Returns how many
 * expected nodes are neither ready nor over. */
int clu_muster_tick(clu_muster *m);
void clu_muster_report_to(const clu_muster *m, clu_muster_report *out);
/* Closes the listener and all strangers. Accepts NULL. */
void clu_muster_free(clu_muster *m);

#endif
