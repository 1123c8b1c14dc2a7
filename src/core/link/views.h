/* The views of clusters with nodes on other hosts (core/view/view.h), in the link process: it
 * writes there how these hosts are, and what their nodes use and are at. So observers tell of that
 * whatever the session does.
 *
 * Ownership: the structs are the caller's, the views belong to clu_near_views until its fini.
 * Zeroed memory is one without views. Nothing here blocks.
 *
 * While an observer has looked in the last 5 s, the proxies are asked twice a second (use.c).
 */
#ifndef CLUTCH_LINK_VIEWS_H
#define CLUTCH_LINK_VIEWS_H

#include "core/link/proxy.h"
#include "core/view/view.h"

enum { CLU_NEAR_VIEWS = 64 }; /* where there are more the oldest is forgotten */

typedef struct clu_near_view {
  uint64_t cluster;
  clu_view *view;
  uint64_t questions; /* so many for R calls were seen */
} clu_near_view;

/* Somebody looks: hosts are to be asked what they use. */
typedef void (*clu_near_watched)(void *data, uint64_t now);
/* Somebody wants to know the R calls of node `id` of this host. */
typedef void (*clu_near_ask)(void *data, uint64_t host, uint64_t id, uint32_t question);

typedef struct clu_near_views {
  clu_near_view at[CLU_NEAR_VIEWS];
  int n;
  clu_loop *loop; /* NULL: nothing is done by itself */
  clu_near_watched watched;
  clu_near_ask ask;
  void *data;
  clu_timer look;      /* armed while there are views */
  clu_timer questions; /* armed while somebody looks */
} clu_near_views;

/* Where a host is shown: in the view of the cluster that has its nodes. */
typedef struct clu_near_shown {
  uint64_t cluster; /* 0: none is known to have it */
  int place, next;  /* the node that is likely to be told of next */
} clu_near_shown;

/* On this loop, while somebody looks: `watched` is called each half second, and `ask` for each
 * question for R calls. Both get `data`. */
void clu_near_views_init(clu_near_views *v, clu_loop *loop, clu_near_watched watched,
                         clu_near_ask ask, void *data);
/* The view of a cluster, of so many bytes; takes over `fd`. CLU_NO_FD: it is not to be written to
 * any more. */
void clu_near_views_take(clu_near_views *v, uint64_t cluster, clu_fd fd, uint64_t size);
/* Forgets all; may be called again. */
void clu_near_views_fini(clu_near_views *v);

/* Shows what host `number` has told. */
void clu_near_show_use(const clu_near_views *v, clu_near_shown *of, uint64_t number,
                       const clu_proxy_use *u, uint64_t now);
/* Calls `ask` once for each new question about a node of a host that is known. */
void clu_near_pass_questions(clu_near_views *v);
/* The R calls of a node of host `of`. */
void clu_near_show_stack(const clu_near_views *v, clu_near_shown *of, const clu_proxy_stack *x,
                         uint64_t now);
/* How it is reached: enum clu_proxy_state, and bytes in and out. */
void clu_near_show_state(const clu_near_views *v, const clu_near_shown *of, int state,
                         uint64_t received, uint64_t sent);

#endif
