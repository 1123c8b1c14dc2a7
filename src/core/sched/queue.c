/* What the scheduler does with elements that wait, and with its lists. */
#include "core/sched/parts.h"

#include <stdlib.h>
#include <string.h>

/* ---- small tools ---- */

/* Room for one more in an array of `size` each; 0 without memory. */
int clu_sched__room(void *array, size_t *cap, size_t n, size_t size) {
  void **a = array, *more;
  size_t c;
  if (n < *cap) return 1;
  c = *cap ? 2 * *cap : 8;
  more = realloc(*a, c * size);
  if (!more) return 0;
  *a = more;
  *cap = c;
  return 1;
}

void clu_sched__set_hungry(clu_sched *e, int i, int yes) {
  node *nd = &e->nodes[i];
  int after;
  if (yes && nd->at == 0) yes = 2;
  if (nd->hungry == yes) return;
  if (nd->hungry) {
    if (e->idle_last == i) e->idle_last = nd->prev;
    if (nd->prev >= 0)
      e->nodes[nd->prev].next = nd->next;
    else
      e->hungry = nd->next;
    if (nd->next >= 0)
      e->nodes[nd->next].prev = nd->prev;
    else
      e->hungry_last = nd->prev;
  }
  nd->hungry = yes;
  if (!yes) return;
  after = yes == 2 ? e->idle_last : e->hungry_last;
  nd->prev = after;
  nd->next = after >= 0 ? e->nodes[after].next : e->hungry;
  if (after >= 0)
    e->nodes[after].next = i;
  else
    e->hungry = i;
  if (nd->next >= 0)
    e->nodes[nd->next].prev = i;
  else
    e->hungry_last = i;
  if (yes == 2) e->idle_last = i;
}

void clu_sched__set_loaded(clu_sched *e, int i, int yes) {
  node *nd = &e->nodes[i];
  if (nd->loaded == yes) return;
  nd->loaded = yes;
  if (yes) {
    nd->lprev = -1;
    nd->lnext = e->loaded;
    if (e->loaded >= 0) e->nodes[e->loaded].lprev = i;
    e->loaded = i;
    return;
  }
  if (nd->lprev >= 0)
    e->nodes[nd->lprev].lnext = nd->lnext;
  else
    e->loaded = nd->lnext;
  if (nd->lnext >= 0) e->nodes[nd->lnext].lprev = nd->lprev;
}

/* In its place among those that wait: they are served in the order in which they came. */
void clu_sched__list_job(clu_sched *e, clu_job *j) {
  group *g = j->group;
  clu_job *after = g->waiting_last;
  if (j->listed) return;
  j->listed = 1;
  e->waiting++;
  while (after && after->id > j->id) after = after->wprev;
  j->wprev = after;
  j->wnext = after ? after->wnext : g->waiting;
  if (after)
    after->wnext = j;
  else
    g->waiting = j;
  if (j->wnext)
    j->wnext->wprev = j;
  else
    g->waiting_last = j;
}

void clu_sched__unlist_job(clu_sched *e, clu_job *j) {
  group *g = j->group;
  if (!j->listed) return;
  j->listed = 0;
  e->waiting--;
  if (j->wprev)
    j->wprev->wnext = j->wnext;
  else
    g->waiting = j->wnext;
  if (j->wnext)
    j->wnext->wprev = j->wprev;
  else
    g->waiting_last = j->wprev;
}

/* They stay as long as the scheduler: there are about as many as ways in which its nodes are chosen from. */
group *clu_sched__group(clu_sched *e, unsigned char *only, int nonly) {
  group *g = e->groups;
  while (g && !(only ? g->only && g->nonly == nonly && memcmp(g->only, only, (size_t)nonly) == 0 : !g->only)) g = g->next;
  if (g) {
    free(only);
    return g;
  }
  g = calloc(1, sizeof *g);
  if (!g) return NULL;
  g->only = only;
  g->nonly = nonly;
  g->next = e->groups;
  e->groups = g;
  return g;
}

void clu_sched__drop_job(clu_sched *e, clu_job *j) {
  if (j->prev)
    j->prev->next = j->next;
  else
    e->jobs = j->next;
  if (j->next) j->next->prev = j->prev;
  free(j->back);
  free(j->retry);
  free(j->attempts);
  free(j);
}

void clu_sched__job_let_go(clu_sched *e, clu_job *j) {
  if (--j->units == 0 && j->freed) clu_sched__drop_job(e, j);
}

/* ---- endings ---- */

void clu_sched__fill_ended(clu_ended *x, int why, clu_job *j, uint64_t element, int i, uint32_t attempt, int cause, uint64_t sent) {
  x->why = why;
  x->owner = j->spec.owner;
  x->job = j;
  x->element = element;
  x->node = i;
  x->attempt = attempt;
  x->cause = cause;
  x->sent = sent;
}

void clu_sched__end_without(clu_sched *e, int why, clu_job *j, uint64_t element, int i, uint32_t attempt, int cause) {
  j->left--;
  if (e->ehead > 64 && e->ehead * 2 > e->nended) {
    memmove(e->ended, e->ended + e->ehead, (e->nended - e->ehead) * sizeof *e->ended);
    e->nended -= e->ehead;
    e->ehead = 0;
  }
  if (!clu_sched__room(&e->ended, &e->capended, e->nended, sizeof *e->ended)) {
    j->lost = 1;
    return;
  }
  clu_sched__fill_ended(&e->ended[e->nended++], why, j, element, i, attempt, cause, 0);
}

int clu_sched_ended(clu_sched *e, clu_ended *out) {
  while (e->ehead < e->nended) {
    *out = e->ended[e->ehead++];
    if (e->ehead == e->nended) e->ehead = e->nended = 0;
    if (out->job) return 1; /* not of one that was freed meanwhile */
  }
  return 0;
}

/* ---- elements that wait ---- */

void clu_sched__wait_again(clu_sched *e, clu_job *j, uint64_t first, uint64_t n) {
  if (n == 0 || j->cancelled) return;
  if (j->nback && j->back[j->nback - 1].first == first + n) { /* taken back from the end: together again */
    j->back[j->nback - 1].first = first;
    j->back[j->nback - 1].n += n;
  } else {
    if (!clu_sched__room(&j->back, &j->capback, j->nback, sizeof *j->back)) {
      for (uint64_t k = 0; k < n; k++) clu_sched__end_without(e, CLU_END_DIED, j, first + k, -1, 0, 0);
      return;
    }
    j->back[j->nback].first = first;
    j->back[j->nback++].n = n;
  }
  j->waiting += n;
  clu_sched__list_job(e, j);
}

void clu_sched__retry_later(clu_sched *e, clu_job *j, uint64_t element, int last, uint32_t attempt, int cause) {
  if (j->cancelled) return;
  if (j->rhead > 64 && j->rhead * 2 > j->nretry) {
    memmove(j->retry, j->retry + j->rhead, (j->nretry - j->rhead) * sizeof *j->retry);
    j->nretry -= j->rhead;
    j->rhead = 0;
  }
  if (!j->attempts) j->attempts = calloc(j->spec.n ? (size_t)j->spec.n : 1, 1);
  if (!j->attempts || !clu_sched__room(&j->retry, &j->capretry, j->nretry, sizeof *j->retry)) {
    clu_sched__end_without(e, CLU_END_DIED, j, element, last, attempt, cause);
    return;
  }
  j->attempts[element] = (uint8_t)attempt;
  j->retry[j->nretry].element = element;
  j->retry[j->nretry++].last = last;
  j->waiting++;
  clu_sched__list_job(e, j);
}

uint32_t clu_sched__starts(const clu_job *j, uint64_t element) { return j->attempts ? j->attempts[element] : 0; }

/* Elements that may leave together, and that may be with a node. */
static uint32_t unit_size(const clu_sched *e, const clu_job *j, const node *nd) {
  uint64_t n = 1, share;
  if (j->spec.chunk) return j->spec.chunk;
  if (j->time == 0) return 1;
  n = CLU_AHEAD / 2 / j->time;
  if (j->bytes && n > CLU_UNIT_BYTES / j->bytes) n = CLU_UNIT_BYTES / j->bytes;
  share = j->waiting / (2 * (uint64_t)(e->up > 0 ? e->up : 1));
  if (n > share) n = share;
  if (n > CLU_MOST_UNIT) n = CLU_MOST_UNIT;
  if (!nd->claim && n > 64) n = 64;
  return n < 1 ? 1 : (uint32_t)n;
}

uint32_t clu_sched__most_at(const clu_sched *e, const clu_job *j, const node *nd) {
  uint32_t n = unit_size(e, j, nd), k;
  uint64_t ahead, share;
  if (!nd->claim) return n;
  if (j->spec.chunk == 0 || j->time == 0) return 2 * n;
  /* one by one: still as many as keep the node busy, in units of their own */
  ahead = CLU_AHEAD / j->time;
  if (j->bytes && ahead > 2 * CLU_UNIT_BYTES / j->bytes) ahead = 2 * CLU_UNIT_BYTES / j->bytes;
  share = j->waiting / (uint64_t)(e->up > 0 ? e->up : 1); /* near the end, so much that all get their part */
  if (ahead > share) ahead = share;
  k = ahead > 512 ? 512 : (uint32_t)ahead;
  return k > 2 * n ? k : 2 * n;
}

int clu_sched__may_do(const clu_job *j, int i) {
  const group *g = j->group;
  return !g->only || (i < g->nonly && g->only[i]);
}

/* Whether another node than `i` could do it. */
int clu_sched__others_may(const clu_sched *e, const clu_job *j, int i) {
  if (!j->group->only) return e->up > clu_sched_is_up(e, i);
  for (int k = 0; k < j->group->nonly; k++)
    if (k != i && j->group->only[k] && clu_sched_is_up(e, k)) return 1;
  return 0;
}

/* The first retry that may go to node `i`; nretry: there is none. */
static size_t retry_for(const clu_sched *e, const clu_job *j, int i) {
  size_t k = j->rhead;
  if (k < j->nretry && j->retry[k].last == i && clu_sched__others_may(e, j, i))
    while (k < j->nretry && j->retry[k].last == i) k++;
  return k;
}

int clu_sched__has_for(const clu_sched *e, const clu_job *j, int i) {
  return j->nback || j->cursor < j->spec.n || retry_for(e, j, i) < j->nretry;
}

/* Takes a retry that may go to node `i`: 1, and it is in `a`. */
static int pick_retry(clu_sched *e, clu_job *j, int i, clu_action *a) {
  size_t k = retry_for(e, j, i);
  again r;
  if (k == j->nretry) return 0;
  r = j->retry[k];
  j->retry[k] = j->retry[j->rhead++];
  if (j->rhead == j->nretry) j->rhead = j->nretry = 0;
  a->first = r.element;
  a->n = 1;
  a->attempt = clu_sched__starts(j, r.element) + 1;
  a->last = r.last;
  return 1;
}

int clu_sched__pick(clu_sched *e, clu_job *j, int i, clu_action *a) {
  uint32_t n = unit_size(e, j, &e->nodes[i]);
  a->attempt = 1;
  if (j->rhead < j->nretry && pick_retry(e, j, i, a)) {
    j->waiting--;
  } else if (j->nback) {
    range *r = &j->back[j->nback - 1];
    a->first = r->first;
    a->n = r->n < n ? (uint32_t)r->n : n;
    r->first += a->n;
    if ((r->n -= a->n) == 0) j->nback--;
    j->waiting -= a->n;
  } else if (j->cursor < j->spec.n) {
    uint64_t left = j->spec.n - j->cursor;
    a->first = j->cursor;
    a->n = left < n ? (uint32_t)left : n;
    j->cursor += a->n;
    j->waiting -= a->n;
  } else {
    return 0;
  }
  if (j->waiting == 0) clu_sched__unlist_job(e, j);
  return 1;
}

/* ---- questions ---- */

int clu_sched_has(const clu_sched *e, int i, uint64_t seq) {
  uint64_t head = clu_sched_head(e, i);
  return head && seq >= head && seq < e->nodes[i].end;
}

uint64_t clu_sched_wait(const clu_sched *e, uint64_t now, uint64_t most) {
  uint64_t left = e->deadline > now ? e->deadline - now : 0;
  return left < most ? left : most;
}
