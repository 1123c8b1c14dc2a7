#include "r/tasks/task-hosts.h"

#include <stdlib.h>

#define GRACE_MS 2000 /* that a node has to end */

struct task_host {
  task_host *next;
  int number;         /* as R counts */
  int first, n;       /* its nodes */
  clu_server *server; /* a reference */
  uint64_t command;   /* id of the node that is the command which has started it */
  uint64_t since;     /* when it was asked for, or its nodes were attached */
  uint64_t idle_after;
  int is_there; /* its nodes were attached */
  int ends;     /* it was told to end, which R does not know yet */
};

void clu_hosts_free(task_host *hosts) {
  while (hosts) {
    task_host *next = hosts->next;
    clu_server_unref(hosts->server);
    free(hosts);
    hosts = next;
  }
}

static task_host *find(const tasks *t, int number) {
  task_host *h = t->hosts.first;
  while (h && h->number != number) h = h->next;
  return h;
}

static int is_busy(const tasks *t) {
  for (const task_job *j = t->jobs.first; j; j = j->next)
    if (clu_job_left(j->job) > 0) return 1;
  return 0;
}

/* UINT64_MAX: it is not idle. */
static uint64_t idle_since(const tasks *t, const task_host *h) {
  uint64_t since = h->since;
  if (!h->is_there) return since > t->hosts.used ? since : t->hosts.used;
  for (int i = h->first; i < h->first + h->n; i++) {
    const task_node *at = &t->nodes[i];
    uint64_t idle;
    if (!at->id) continue; /* it has died, or could not be started */
    idle = clu_sched_node_idle_since(t->sched, i);
    if (idle == UINT64_MAX || (at->node && clu_node_busy(at->node))) return UINT64_MAX;
    if (idle > since) since = idle;
  }
  return since;
}

uint64_t clu_hosts_due(tasks *t) {
  uint64_t first = 0;
  if (!t->hosts.first) return 0;
  if (is_busy(t)) t->hosts.used = clu_os_now();
  for (const task_host *h = t->hosts.first; h; h = h->next) {
    uint64_t since = h->ends ? UINT64_MAX : idle_since(t, h);
    if (since == UINT64_MAX) continue;
    if (!first || since + h->idle_after < first) first = since + h->idle_after;
  }
  return first;
}

/* The keeper of its job, a process of this machine. */
static void end_command(const task_host *h) {
  clu_node *nd = clu_session_nodes(clu_the_session);
  clu_node_status st;
  while (nd && clu_node_id(nd) != h->command) nd = clu_node_next(nd);
  if (!nd) return;
  clu_node_status_of(nd, &st);
  if (clu_node_is_open(nd) && st.started) clu_os_kill(st.started, CLU_SIG_TERM, 0);
}

static void end_host(tasks *t, task_host *h) {
  for (int i = h->first; i < h->first + h->n; i++) {
    task_node *at = &t->nodes[i];
    if (!at->id || !at->node) continue;
    clu_node_stop(at->node, GRACE_MS);
    clu_node_drop_data(at->node);
    clu_sched_node_lost(t->sched, i, 0, CLU_RETRY_NONE);
    at->id = 0;
  }
  clu_server_close(h->server);
  end_command(h);
  h->ends = 1;
}

void clu_hosts_end_idle(tasks *t) {
  uint64_t first = clu_hosts_due(t), now = clu_os_now();
  if (!first || first > now) return;
  for (task_host *h = t->hosts.first; h; h = h->next) {
    uint64_t since = h->ends ? UINT64_MAX : idle_since(t, h);
    if (since != UINT64_MAX && since + h->idle_after <= now) end_host(t, h);
  }
}

/* ---- what R asks ---- */

/* Host `number`, with these nodes (from 1), was asked for by that command (a handle), and ends when
 * it was idle for so many seconds. */
SEXP ffi_tasks_host(SEXP x, SEXP number, SEXP nodes, SEXP server, SEXP command, SEXP idle) {
  tasks *t = clu_tasks_get(x);
  clu_server *s = clu_get_server(server);
  uint64_t id = clu_node_id(clu_get_node(command));
  task_host *h = calloc(1, sizeof *h);
  if (!h) clu_raise("memory", "not enough memory");
  h->number = Rf_asInteger(number);
  h->first = INTEGER(nodes)[0] - 1;
  h->n = Rf_length(nodes);
  h->server = clu_server_ref(s);
  h->command = id;
  h->since = clu_os_now();
  h->idle_after = (uint64_t)(1e9 * Rf_asReal(idle));
  h->next = t->hosts.first;
  t->hosts.first = h;
  return R_NilValue;
}

/* Its nodes are attached. */
SEXP ffi_tasks_host_there(SEXP x, SEXP number) {
  task_host *h = find(clu_tasks_get(x), Rf_asInteger(number));
  if (!h) return R_NilValue;
  h->is_there = 1;
  h->since = clu_os_now();
  return R_NilValue;
}

/* It has ended, or is told to by the caller. */
SEXP ffi_tasks_host_gone(SEXP x, SEXP number) {
  tasks *t = clu_tasks_get(x);
  for (task_host **at = &t->hosts.first; *at; at = &(*at)->next) {
    task_host *h = *at;
    if (h->number != Rf_asInteger(number)) continue;
    *at = h->next;
    h->next = NULL;
    clu_hosts_free(h);
    break;
  }
  return R_NilValue;
}

/* Ends those that were idle for long. Numbers of the hosts that were told to end and are not
 * forgotten yet. */
SEXP ffi_tasks_hosts_idle(SEXP x) {
  tasks *t = clu_tasks_get(x);
  int n = 0;
  SEXP out;
  clu_hosts_end_idle(t);
  for (const task_host *h = t->hosts.first; h; h = h->next) n += h->ends;
  out = Rf_allocVector(INTSXP, n);
  for (const task_host *h = t->hosts.first; h; h = h->next)
    if (h->ends) INTEGER(out)[--n] = h->number;
  return out;
}

/* How many nodes there should be so that each has work for so many seconds. */
SEXP ffi_tasks_desired(SEXP x, SEXP seconds) {
  tasks *t = clu_tasks_get(x);
  return Rf_ScalarReal(
      clu_sched_desired(t->sched, clu_os_now(), (uint64_t)(1e9 * Rf_asReal(seconds))));
}

/* Whether none of these nodes (from 1) has a part in the work. */
SEXP ffi_tasks_are_gone(SEXP x, SEXP nodes) {
  tasks *t = clu_tasks_get(x);
  for (R_xlen_t k = 0; k < Rf_xlength(nodes); k++)
    if (t->nodes[INTEGER(nodes)[k] - 1].id) return Rf_ScalarLogical(0);
  return Rf_ScalarLogical(1);
}
