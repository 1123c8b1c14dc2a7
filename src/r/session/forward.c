/* The session between forwarders (core/forward/forwarder.h): that of the delegates, which is a node
 * of this machine, and one of the clients on each of several hosts. What these say is handed on
 * while the session's event loop runs, also by the package's thread: nothing of it calls R. */
#include "r/session/session.h"

#include <stdlib.h>

#include "core/base/grow.h"
#include "core/forward/forwarder.h"
#include "core/wire/frame.h"

typedef struct of_clients {
  clu_node *node; /* NULL: it is gone */
  int is_open, in_use;
} of_clients;

typedef struct forwards {
  struct forwards *next;
  clu_node *delegates; /* their forwarder; NULL: it is gone */
  of_clients *hosts;   /* by number */
  uint32_t n;
  size_t cap;
  int lost; /* one of them has ended */
} forwards;

static forwards *all;

/* While there are clients what they say is handed on whatever the session's own thread is at. */
static void set_use(of_clients *x, int in_use) {
  clu_session_add_forwards(clu_the_session, in_use - x->in_use);
  x->in_use = in_use;
}

static void free_forwards(void *p) {
  forwards *x = p;
  for (forwards **at = &all; *at; at = &(*at)->next)
    if (*at == x) {
      *at = x->next;
      break;
    }
  for (uint32_t i = 0; i < x->n; i++) set_use(&x->hosts[i], 0);
  clu_session_set_may_forward(clu_the_session, all != NULL);
  free(x->hosts);
  free(x);
}

static clu_handle_kind kind = {.name = "clutch_forwards", .free = free_forwards};

/* Connections have lost bytes where there is no memory for a message: the node is given up. */
static void hand(clu_node *to, clu_blob *body) {
  if (to && clu_node_send(to, CLU_K_FORWARD, body) == CLU_NOMEM) clu_node_close(to);
}

static void say_lost(clu_node *to, uint32_t host) {
  clu_blob *b = to ? clu_forward_message((clu_forward_id){host, 0}, CLU_FORWARD_LOST) : NULL;
  if (b) hand(to, b);
  clu_blob_unref(b);
}

static void heard_of_delegates(forwards *x, const clu_msg *m) {
  int64_t host = m ? clu_forward_host(m->body) : -1;
  if (!m) {
    x->lost = 1;
    x->delegates = NULL;
    for (uint32_t i = 0; i < x->n; i++) say_lost(x->hosts[i].node, i);
  } else if (host >= 0 && host < x->n) {
    hand(x->hosts[host].node, m->body);
  }
}

static void heard_of_clients(forwards *x, uint32_t host, const clu_msg *m) {
  if (!m) {
    x->lost = 1;
    x->hosts[host].node = NULL;
    set_use(&x->hosts[host], 0);
    say_lost(x->delegates, host);
  } else if (clu_forward_host(m->body) != host) {
    return; /* it speaks for itself only */
  } else if (m->body->data[CLU_FORWARD_HEAD - 1] == CLU_FORWARD_USE) {
    x->hosts[host].is_open = 1;
    set_use(&x->hosts[host], m->body->size > CLU_FORWARD_HEAD && m->body->data[CLU_FORWARD_HEAD]);
  } else if (x->delegates) {
    hand(x->delegates, m->body);
  } else {
    say_lost(x->hosts[host].node, host);
  }
}

static void on_forward(clu_node *nd, const clu_msg *m) {
  if (m && m->body) clu_session_forget_received(clu_the_session, m->body->size);
  for (forwards *x = all; x; x = x->next) {
    if (x->delegates == nd) heard_of_delegates(x, m);
    for (uint32_t i = 0; i < x->n; i++)
      if (x->hosts[i].node == nd) heard_of_clients(x, i, m);
  }
}

static forwards *get(SEXP x) { return clu_handle_get(x, &kind); }

/* `delegates`: the handle of their forwarder, which the caller keeps. */
SEXP ffi_forward_new(SEXP delegates) {
  SEXP x = PROTECT(clu_handle_new(&kind, R_NilValue));
  forwards *made;
  clu_need_session();
  clu_get_node(delegates);
  made = calloc(1, sizeof *made);
  if (!made) clu_raise("memory", "not enough memory");
  made->next = all;
  all = made;
  clu_session_set_may_forward(clu_the_session, 1);
  clu_handle_set(x, made);
  made->delegates = clu_get_node(delegates);
  if (!clu_node_is_open(made->delegates)) made->delegates = NULL;
  clu_session_set_forward_hook(clu_the_session, on_forward);
  UNPROTECT(1);
  return x;
}

/* The node of this handle is the forwarder of clients on one more host: the number of that. */
SEXP ffi_forward_add(SEXP handle, SEXP clients) {
  forwards *x = get(handle);
  of_clients *more = clu_grow(x->hosts, &x->cap, x->n + 1, sizeof *more);
  clu_node *nd;
  if (!more) clu_raise("memory", "not enough memory");
  x->hosts = more;
  nd = clu_get_node(clients);
  x->hosts[x->n] = (of_clients){.node = clu_node_is_open(nd) ? nd : NULL};
  return Rf_ScalarInteger((int)x->n++);
}

typedef struct awaited {
  const forwards *of;
  uint32_t host;
} awaited;

static int has_come(void *data) {
  const awaited *a = data;
  const of_clients *c = &a->of->hosts[a->host];
  return c->is_open || !c->node || !a->of->delegates;
}

/* Tells whether clients of that host can connect, and both forwarders are there; waits until they
 * can. */
SEXP ffi_forward_await(SEXP handle, SEXP number, SEXP seconds) {
  awaited a = {get(handle), 0};
  const of_clients *c;
  a.host = (uint32_t)Rf_asInteger(number);
  if (a.host >= a.of->n) clu_raise("argument", "there is no such host");
  clu_wait_for(has_come, &a, clu_in_seconds(seconds), NULL);
  c = &a.of->hosts[a.host];
  return Rf_ScalarLogical(a.of->delegates && c->node && c->is_open);
}

/* Tells whether no forwarder has ended since this was asked before, as far as it has come here. */
SEXP ffi_forward_none_lost(SEXP handle) {
  forwards *x = get(handle);
  int none;
  clu_pump(0, NULL);
  none = !x->lost;
  x->lost = 0;
  return Rf_ScalarLogical(none);
}
