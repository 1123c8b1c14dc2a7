/* Nodes end that nobody needs: all of a cluster, and those of hosts that come and go with the work.
 * Who is about to give work to a node that was told to end gets another one, see
 * clu_engine_attach(). */
#include <stdio.h>
#include <stdlib.h>

#include "core/tasks/engine-private.h"

/* ---- all nodes ---- */

void clu_engine_end_idle(clu_engine *t, uint64_t after_ns) {
  t->idle.after = after_ns;
  t->idle.used = clu_os_now();
}

int clu_engine_use(clu_engine *t) {
  t->idle.used = clu_os_now();
  clu_loop_pump(clu_session_loop(t->all->session), 0, NULL);
  for (int i = 0; i < clu_engine_first(t); i++)
    if (!t->nodes[i].node || !clu_node_takes_work(t->nodes[i].node)) return 0;
  return 1;
}

int clu_engine_was_idle(const clu_engine *t, int i) { return t->nodes[i].idle; }

static int is_in_use(const clu_engine *t) {
  if (t->jobs.nbare || t->jobs.nmaps) return 1;
  for (int i = 0; i < t->n; i++)
    if (t->nodes[i].node && (t->nodes[i].is_kept || clu_node_busy(t->nodes[i].node))) return 1;
  return 0;
}

/* When the first cluster has been idle for as long as it may. */
uint64_t clu_engines_idle_due(clu_engines *all) {
  uint64_t first = 0, now = 0;
  for (clu_engine *t = all->first; t; t = t->next) {
    if (!t->idle.after || t->idle.is_idle) continue;
    if (!now) now = clu_os_now();
    if (is_in_use(t)) t->idle.used = now;
    if (!first || t->idle.used + t->idle.after < first) first = t->idle.used + t->idle.after;
  }
  return first;
}

/* Those that come and go with the work come by themselves: see grow.c. */
static void end_node(clu_engine *t, clu_task_node *at) {
  int ended = clu_engine_end_node(t, at);
  if (at->index >= clu_engine_first(t))
    at->is_absent |= ended;
  else
    at->idle |= ended;
}

void clu_engines_end_idle(clu_engines *all) {
  uint64_t first = clu_engines_idle_due(all), now = first ? clu_os_now() : 0;
  if (!first || first > now) return;
  for (clu_engine *t = all->first; t; t = t->next) {
    if (!t->idle.after || t->idle.is_idle || t->idle.used + t->idle.after > now) continue;
    t->idle.is_idle = 1;
    clu_engine_note(t, CLU_NOTE_IDLE, -1, NULL, 0, 0);
    clu_engine_end_starting(t);
    for (int i = 0; i < t->n; i++) end_node(t, &t->nodes[i]);
  }
}

/* ---- hosts ---- */

struct clu_idle_host {
  clu_idle_host *next;
  clu_engine_host is;
  uint64_t since; /* when it was asked for, or its nodes were attached */
  int is_there;   /* its nodes were attached */
  int ends;       /* it was told to end, which the caller does not know yet */
  int ends_now;   /* in this turn */
};

static void free_host(clu_idle_host *h) {
  clu_server_unref(h->is.server);
  free(h);
}

void clu_engine_hosts_free(clu_engine *t) {
  while (t->idle.hosts) {
    clu_idle_host *h = t->idle.hosts;
    t->idle.hosts = h->next;
    free_host(h);
  }
}

static clu_idle_host *find(const clu_engine *t, int number) {
  clu_idle_host *h = t->idle.hosts;
  while (h && h->is.number != number) h = h->next;
  return h;
}

static int is_busy(const clu_engine *t) {
  for (const clu_task_job *j = t->jobs.first; j; j = j->next)
    if (clu_job_left(j->job) > 0) return 1;
  return 0;
}

/* UINT64_MAX: it is not idle. */
static uint64_t idle_since(const clu_engine *t, const clu_idle_host *h) {
  uint64_t since = h->since;
  if (!h->is_there) return since > t->idle.hosts_used ? since : t->idle.hosts_used;
  for (int i = h->is.first; i < h->is.first + h->is.n; i++) {
    const clu_task_node *at = &t->nodes[i];
    uint64_t idle;
    if (!at->id) continue; /* it has died, or could not be started */
    idle = clu_sched_node_idle_since(t->sched, i);
    if (idle == UINT64_MAX || (at->node && clu_node_busy(at->node))) return UINT64_MAX;
    if (idle > since) since = idle;
  }
  return since;
}

uint64_t clu_engine_hosts_due(clu_engine *t) {
  uint64_t first = 0;
  if (!t->idle.hosts) return 0;
  if (is_busy(t)) t->idle.hosts_used = clu_os_now();
  for (const clu_idle_host *h = t->idle.hosts; h; h = h->next) {
    uint64_t since = h->ends ? UINT64_MAX : idle_since(t, h);
    if (since == UINT64_MAX) continue;
    if (!first || since + h->is.idle_after < first) first = since + h->is.idle_after;
  }
  return first;
}

/* The command that sees to its job, a process of this machine; NULL: it has ended. */
static clu_node *command_of(const clu_engine *t, const clu_idle_host *h) {
  clu_node *nd = clu_session_nodes(t->all->session);
  while (nd && clu_node_id(nd) != h->is.command) nd = clu_node_next(nd);
  return nd && clu_node_is_open(nd) ? nd : NULL;
}

static void end_command(const clu_engine *t, const clu_idle_host *h) {
  clu_node *nd = command_of(t, h);
  clu_node_status st;
  char word[16];
  if (!nd) return;
  clu_node_status_of(nd, &st);
  if (h->is.task >= 0)
    clu_node_say(nd, word, (size_t)snprintf(word, sizeof word, "%d ", h->is.task));
  else if (st.started)
    clu_os_kill(st.started, CLU_SIG_TERM, 0);
}

/* Ends the line with the words of end_command(): hosts that end together are cancelled together. */
static void end_line(const clu_engine *t, const clu_idle_host *h) {
  clu_node *nd = h->is.task >= 0 ? command_of(t, h) : NULL;
  if (nd) clu_node_say(nd, "\n", 1);
}

static void end_host(clu_engine *t, clu_idle_host *h) {
  for (int i = h->is.first; i < h->is.first + h->is.n; i++) {
    clu_task_node *at = &t->nodes[i];
    if (!at->id || !at->node) continue;
    clu_node_stop(at->node, CLU_IDLE_GRACE_MS);
    clu_node_drop_data(at->node);
    clu_sched_node_lost(t->sched, i, 0, CLU_RETRY_NONE);
    at->id = 0;
  }
  clu_server_close(h->is.server);
  end_command(t, h);
  h->ends = 1;
}

void clu_engine_end_idle_hosts(clu_engine *t) {
  uint64_t first = clu_engine_hosts_due(t), now = clu_os_now();
  if (!first || first > now) return;
  for (clu_idle_host *h = t->idle.hosts; h; h = h->next) {
    uint64_t since = h->ends ? UINT64_MAX : idle_since(t, h);
    if (since == UINT64_MAX || since + h->is.idle_after > now) continue;
    end_host(t, h);
    h->ends_now = 1;
  }
  for (clu_idle_host *h = t->idle.hosts; h; h = h->next) {
    if (h->ends_now) end_line(t, h);
    h->ends_now = 0;
  }
}

int clu_engine_host_asked(clu_engine *t, const clu_engine_host *host) {
  clu_idle_host *h = calloc(1, sizeof *h);
  if (!h) return CLU_NOMEM;
  h->is = *host;
  clu_server_ref(h->is.server);
  h->since = clu_os_now();
  h->next = t->idle.hosts;
  t->idle.hosts = h;
  return CLU_OK;
}

void clu_engine_host_there(clu_engine *t, int number) {
  clu_idle_host *h = find(t, number);
  if (!h) return;
  h->is_there = 1;
  h->since = clu_os_now();
}

void clu_engine_host_gone(clu_engine *t, int number) {
  for (clu_idle_host **at = &t->idle.hosts; *at; at = &(*at)->next) {
    clu_idle_host *h = *at;
    if (h->is.number != number) continue;
    *at = h->next;
    free_host(h);
    break;
  }
}

int clu_engine_ended_hosts(const clu_engine *t, int *numbers) {
  int n = 0, k;
  for (const clu_idle_host *h = t->idle.hosts; h; h = h->next) n += h->ends;
  k = n;
  for (const clu_idle_host *h = t->idle.hosts; h && numbers; h = h->next)
    if (h->ends) numbers[--k] = h->is.number;
  return n;
}
