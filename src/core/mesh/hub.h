/* The hub of a run on several hosts: in the session, between the bridges of the hosts (bridge.h).
 *
 * It hands on what they say: a message once to each host that has one of its receivers. It knows
 * when the ranks of all hosts are at a meeting, whether they mean the same, and reduces what the
 * hosts have, in the order of hosts, so that the result does not depend on timing. It knows when
 * all hosts wait and nothing is under way between them: a deadlock. That is so when each has said
 * that it waits, after it had taken all that it was sent, and has said nothing since.
 *
 * A state machine: it owns no connection, and nothing here blocks.
 */
#ifndef CLUTCH_HUB_H
#define CLUTCH_HUB_H

#include "core/mesh/mesh.h"

typedef struct clu_hub clu_hub;

/* Where what it has to say to a host goes; `body` stays the hub's. */
typedef void clu_hub_say(void *to, int host, clu_blob *body);

/* `host_of`: of each of the `count` ranks the host, from 0 to `hosts` - 1. NULL: no memory. */
clu_hub *clu_hub_new(int count, const int *host_of, int hosts, clu_hub_say *say, void *to);
void clu_hub_free(clu_hub *h); /* accepts NULL */

/* Takes what the bridge of that host has said, of which it may keep a reference: CLU_OK; else the
 * host is lost. */
int clu_hub_heard(clu_hub *h, int host, clu_blob *body);
/* The bridge of that host is gone: the run ends everywhere. */
void clu_hub_lost(clu_hub *h, int host);
/* Its host is gone, with all of its ranks: the caller says of each that it has died. */
void clu_hub_cut(clu_hub *h, int host);
/* The process of this rank has ended, and how (code -1: not known). */
void clu_hub_died(clu_hub *h, int rank, const clu_exit *how);
/* The run is over. */
void clu_hub_end(clu_hub *h);

/* Where the mesh of a host is found there; NULL: it has not said so. */
const char *clu_hub_path(const clu_hub *h, int host);
/* Why its bridge cannot be there, or NULL. */
const char *clu_hub_failure(const clu_hub *h, int host);
int clu_hub_host_of(const clu_hub *h, int rank);
int clu_hub_is_lost(const clu_hub *h, int host);

#endif
