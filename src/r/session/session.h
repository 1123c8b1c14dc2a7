/* What the two halves of the master's glue share: r/session/session.c (servers, nodes, waiting) and r/session/call.c. */
#ifndef CLUTCH_GLUE_MASTER_H
#define CLUTCH_GLUE_MASTER_H

#include "r/r-api.h"

#include "core/node/node.h"

extern clu_session clu_the_session;
/* Pumps its loop once: see clu_loop_pump() and clu_loop_events(). */
int clu_pump(int64_t wait_ns, clu_err *e);
int clu_pump_events(void);
/* Makes the session ready; an R error in a forked child of the session. */
void clu_need_session(void);
/* What is behind a handle; an R error when that is nothing. The handle keeps it. */
clu_server *clu_get_server(SEXP x);
clu_node *clu_get_node(SEXP x);

/* For a node that is over: waits, a second at most, until its server has said why. */
void clu_await_reason(clu_node *nd);
/* What R is told of a node: a list. */
SEXP clu_node_info(clu_node *nd);
/* An external pointer with nothing behind it yet; and with a node. */
SEXP clu_handle_new(SEXP tag, SEXP prot, R_CFinalizer_t fin);
SEXP clu_node_handle_new(void);
void clu_node_handle_set(SEXP x, clu_node *nd);
/* One more, or less, external pointer with something behind it. */
void clu_count_handle(int by);
/* Whether this is the process that made the session. */
int clu_session_is_ours(void);

/* Points in time, as clu_os_now() counts. */
uint64_t clu_in_ms(uint64_t ms);
uint64_t clu_in_seconds(SEXP s);
/* Pumps until `done` says so (1) or the time is up (0). An interrupt or a time limit of R's jumps out,
 * after `fn` (may be NULL) has run. */
int clu_wait_for(int (*done)(void *), void *data, uint64_t deadline, void (*fn)(void *));
/* The same without a look at interrupts, for clean-ups: no R API in there. */
int clu_pump_for(int (*done)(void *), void *data, uint64_t deadline);

#endif
