/* The hosts of a link process, as its session sees them: which is up, which is cut off, and which
 * has ended.
 *
 * What the link process says of a host (CLU_K_HOST_STATE) comes within clu_loop_pump(). It is kept
 * here, and told to the nodes there (clu_session_host_cut()). While a host is cut off, the command
 * that has started it is looked at, each time after a longer pause: once that has ended, the link
 * process is told that nothing is left there, and need not wait for that host.
 *
 * Ownership: the link process is the caller's, and is there until clu_link_hosts_free(). Hosts are
 * never removed. Nothing blocks.
 */
#ifndef CLUTCH_LINK_HOSTS_H
#define CLUTCH_LINK_HOSTS_H

#include "core/node/node.h"
#include "core/node/session.h"

/* To be read only. */
typedef struct clu_link_host {
  int rank;
  int state;          /* enum clu_proxy_state */
  uint64_t counts[3]; /* bytes in, bytes out, cuts */
  uint64_t since;     /* it has this state: clu_os_now() */
  char why[256];      /* the last cut or the end was */
  int answered;       /* since it was asked */
  uint64_t command;   /* id of the node that is the command which has started it; 0: not known */
  int carries;        /* that one carries the connection, too */
} clu_link_host;
typedef struct clu_link_hosts clu_link_hosts;

/* Without hosts, and without a link process; NULL without memory. */
clu_link_hosts *clu_link_hosts_new(clu_session *s);
void clu_link_hosts_free(clu_link_hosts *k); /* accepts NULL */
void clu_link_hosts_set_process(clu_link_hosts *k, clu_node *link_process);

/* A new host with this number, which no other has. NULL without memory. Pointers to others are of
 * no use then. */
clu_link_host *clu_link_hosts_add(clu_link_hosts *k, int rank);
int clu_link_hosts_count(const clu_link_hosts *k);
const clu_link_host *clu_link_hosts_at(const clu_link_hosts *k, int i); /* from 0 */
/* NULL: there is none of this number. */
clu_link_host *clu_link_hosts_find(clu_link_hosts *k, int rank);
/* Node `command` has started it, and may have others. `carries`: it also carries the connection, so
 * that nothing is left there when it ends. */
void clu_link_host_set_command(clu_link_host *h, uint64_t command, int carries);

/* The link process is asked about all hosts; and whether each that has not ended was answered
 * since. */
void clu_link_hosts_ask(clu_link_hosts *k);
int clu_link_hosts_are_answered(const clu_link_hosts *k);

#endif
