#include "r/node/seen.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/os-machine.h"

/* To read the state of a process takes 10 us, its own memory 100 us more, and meanwhile it cannot
 * get any. */
static const uint64_t ALL_WITHIN = 8000000000u;
static const uint64_t WEIGHED_AFTER = 2000000000u;
enum { FEW = 32, MUCH = 4 << 20 };

clu_seen *clu_seen_new(clu_view *view) {
  uint64_t n = view->memory->about.nodes;
  clu_seen *s = calloc(1, sizeof *s);
  if (s) s->n = (int)(n < CLU_VIEW_NODES ? n : CLU_VIEW_NODES);
  if (s) s->nodes = calloc((size_t)s->n + 1, sizeof *s->nodes);
  if (!s || !s->nodes) {
    free(s);
    return NULL;
  }
  s->view = view;
  for (int i = 0; i < s->n; i++) s->nodes[i].cpu = s->nodes[i].memory = NA_REAL;
  return s;
}

void clu_seen_free(clu_seen *s) {
  if (!s) return;
  clu_view_unref(s->view);
  free(s->nodes);
  free(s);
}

static int is_here(const clu_view_memory *m, const clu_view_node *nd) {
  uint64_t host = clu_view_get(&nd->host), state = clu_view_get(&nd->state);
  return host < CLU_VIEW_HOSTS && strcmp(m->host[host], "localhost") == 0 &&
         (state == CLU_VIEW_READY || state == CLU_VIEW_STARTING);
}

/* How much memory is its own is asked where it may have changed, and not all the time. */
static void weigh(clu_seen_node *x, uint64_t now) {
  int64_t resident = clu_os_process_resident(x->pid), own;
  int64_t more = resident > x->resident ? resident - x->resident : x->resident - resident;
  if (x->weighed && more < MUCH && now - x->weighed < WEIGHED_AFTER) return;
  own = clu_os_process_memory(x->pid, -1);
  x->memory = own < 0 ? NA_REAL : (double)own;
  x->resident = resident;
  x->weighed = now;
}

/* `ended`: how many requests and tasks have; UINT64_MAX: not known. */
static void look_at(clu_seen_node *x, uint64_t ended, uint64_t now) {
  int64_t total = clu_os_process_cpu(x->pid);
  uint64_t since = now - x->at;
  if (total < 0) {
    x->cpu = x->memory = NA_REAL;
    return;
  }
  if (!x->at || total != x->total || ended != x->ended || ended == UINT64_MAX) weigh(x, now);
  if (x->at && since > 1000000) x->cpu = 1e6 * (double)(total - x->total) / (double)since;
  x->total = total;
  x->ended = ended;
  x->at = now;
}

static uint64_t ended_at(const clu_view_node *nd, const clu_seen_server *of) {
  uint64_t slot = clu_view_get(&nd->slot);
  const clu_activity *a = NULL;
  if (of->shared && slot > 0 && slot <= CLU_SLOTS && clu_view_get(&nd->server) == (uint64_t)of->pid)
    a = clu_shared_activity(of->shared, (int)slot - 1);
  return a ? atomic_load_explicit(&a->ended, memory_order_relaxed) : UINT64_MAX;
}

static int how_many(const clu_seen *s, uint64_t now) {
  double part = (double)(now - s->looked) / (double)ALL_WITHIN;
  int n = part < 1 ? (int)(part * s->n) + 1 : s->n;
  if (!s->looked || n > s->n) n = s->n;
  return n > FEW ? n : FEW < s->n ? FEW : s->n;
}

void clu_seen_look(clu_seen *s, const clu_seen_server *of) {
  const clu_view_memory *m = s->view->memory;
  uint64_t now = clu_os_now();
  for (int left = how_many(s, now); left > 0; left--) {
    const clu_view_node *nd = &m->node[s->next];
    clu_seen_node *x = &s->nodes[s->next];
    clu_pid pid = (clu_pid)clu_view_get(&nd->pid);
    if (pid != x->pid) {
      memset(x, 0, sizeof *x);
      x->cpu = x->memory = NA_REAL;
      x->pid = pid;
    }
    if (pid > 0 && is_here(m, nd)) look_at(x, ended_at(nd, of), now);
    s->next = (s->next + 1) % s->n;
  }
  s->looked = now;
}
