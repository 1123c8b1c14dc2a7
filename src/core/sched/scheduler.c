#include "core/sched/parts.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/err.h"

#define LOOK_AGAIN 1000000 /* ns */
#define SAME_TIME 100000   /* ns */

/* ---- what a node has ---- */

static void look_whether_hungry(clu_sched *e, int i) {
  node *nd = &e->nodes[i];
  int yes = nd->up && !nd->resting && !nd->urged;
  if (yes && nd->at > 0) yes = nd->claim && 2 * nd->at <= clu_sched__most_at(e, nth(nd, nd->len - 1)->job, nd);
  clu_sched__set_hungry(e, i, yes);
}

static void new_head(clu_sched *e, node *nd, uint64_t now) {
  nd->since = now;
  nd->urged = nd->killed = 0;
  nd->deadline = 0;
  if (nd->len && nth(nd, 0)->job->spec.timeout_ns && !nth(nd, 0)->unwanted) {
    nd->deadline = now + nth(nd, 0)->job->spec.timeout_ns;
    if (nd->deadline < e->deadline) e->deadline = nd->deadline;
  }
}

/* Takes back what it has not started. */
static int take_back(clu_sched *e, int i) {
  node *nd = &e->nodes[i];
  uint64_t from;
  uint32_t before = nd->at;
  if (!nd->claim || nd->len == 0) return 0;
  from = clu_claim_take_back(nd->claim, nd->end);
  while (nd->len) {
    unit *u = nth(nd, nd->len - 1);
    uint32_t keep = u->seq >= from ? 0 : u->seq + u->n <= from ? u->n : (uint32_t)(from - u->seq);
    uint32_t gone = u->n - keep;
    clu_job *j = u->job;
    if (gone == 0) break;
    nd->at -= gone;
    if (u->unwanted)
      nd->unwanted -= gone;
    else if (u->attempt > 1) /* a retry, one element */
      clu_sched__retry_later(e, j, u->first, u->last, u->attempt - 1, 0);
    else
      clu_sched__wait_again(e, j, u->first + keep, gone);
    u->n = keep;
    if (keep) break;
    nd->len--;
    clu_sched__job_let_go(e, j);
  }
  if (nd->len == 0) new_head(e, nd, 0);
  clu_sched__set_loaded(e, i, 0);
  look_whether_hungry(e, i);
  return nd->at < before;
}

static void urge(clu_sched *e, node *nd, int why, uint64_t now) {
  if (nd->urged) return;
  nd->urged = 1; /* the action is still to be taken: its deadline is now */
  nd->killed = -1;
  nd->why = why;
  nd->deadline = now ? now : 1;
  if (nd->deadline < e->deadline) e->deadline = nd->deadline;
}

/* ---- public: life ---- */

clu_sched *clu_sched_new(uint64_t grace) {
  clu_sched *e = calloc(1, sizeof *e);
  if (!e) return NULL;
  e->grace = grace;
  e->hungry = e->hungry_last = e->idle_last = e->loaded = -1;
  e->deadline = UINT64_MAX;
  return e;
}

void clu_sched_free(clu_sched *e) {
  if (!e) return;
  while (e->jobs) clu_sched__drop_job(e, e->jobs);
  for (group *g; (g = e->groups);) {
    e->groups = g->next;
    free(g->only);
    free(g);
  }
  for (int i = 0; i < e->n; i++) free(e->nodes[i].q);
  free(e->nodes);
  free(e->ended);
  free(e);
}

clu_job *clu_job_new(clu_sched *e, const clu_job_spec *spec) {
  clu_job *j = calloc(1, sizeof *j);
  if (!j) return NULL;
  j->group = clu_sched__group(e, spec->only, spec->nonly);
  if (!j->group) {
    free(j);
    return NULL;
  }
  j->spec = *spec;
  j->spec.only = NULL; /* the group has it */
  if (j->spec.retries > 254) j->spec.retries = 254;
  j->id = ++e->next_id;
  j->left = j->waiting = spec->n;
  j->next = e->jobs;
  if (j->next) j->next->prev = j;
  e->jobs = j;
  if (j->waiting) clu_sched__list_job(e, j);
  return j;
}

uint64_t clu_job_left(const clu_job *j) { return j->left; }
uint64_t clu_job_waiting(const clu_job *j) { return j->waiting; }
int clu_job_lost(const clu_job *j) { return j->lost; }
uint64_t clu_job_time(const clu_job *j) { return j->time; }

int clu_job_has_node(const clu_sched *e, const clu_job *j) { return clu_sched__others_may(e, j, -1); }

static void forget_waiting(clu_sched *e, clu_job *j) {
  j->nback = j->rhead = j->nretry = 0;
  j->cursor = j->spec.n;
  j->waiting = 0;
  clu_sched__unlist_job(e, j);
}

void clu_job_cancel(clu_sched *e, clu_job *j, uint64_t now) {
  if (j->cancelled) return;
  j->cancelled = 1;
  forget_waiting(e, j);
  for (int i = 0; i < e->n && j->units > 0; i++) {
    node *nd = &e->nodes[i];
    int mine = 0;
    for (uint32_t k = 0; k < nd->len; k++) {
      unit *u = nth(nd, k);
      if (u->job != j || u->unwanted) continue;
      u->unwanted = 1;
      nd->unwanted += u->n;
      mine = 1;
    }
    if (!mine) continue;
    take_back(e, i);
    if (nd->len && nth(nd, 0)->unwanted) urge(e, nd, CLU_END_CANCELLED, now);
    look_whether_hungry(e, i);
  }
  j->left = 0;
}

void clu_job_strand(clu_sched *e, clu_job *j, int cause) {
  for (size_t k = j->rhead; k < j->nretry; k++)
    clu_sched__end_without(e, CLU_END_DIED, j, j->retry[k].element, j->retry[k].last, clu_sched__starts(j, j->retry[k].element), cause);
  for (size_t k = 0; k < j->nback; k++)
    for (uint64_t i = 0; i < j->back[k].n; i++)
      clu_sched__end_without(e, CLU_END_DIED, j, j->back[k].first + i, -1, 0, cause);
  for (uint64_t i = j->cursor; i < j->spec.n; i++) clu_sched__end_without(e, CLU_END_DIED, j, i, -1, 0, cause);
  forget_waiting(e, j);
}

void clu_job_free(clu_sched *e, clu_job *j, uint64_t now) {
  clu_job_cancel(e, j, now);
  for (size_t k = e->ehead; k < e->nended; k++)
    if (e->ended[k].job == j) e->ended[k].job = NULL;
  j->freed = 1;
  if (j->units == 0) clu_sched__drop_job(e, j);
}

/* ---- public: nodes ---- */

int clu_sched_up(clu_sched *e, int i, clu_claim *claim) {
  node *nd;
  if (i >= e->n) {
    int n = e->n ? 2 * e->n : 8;
    node *more;
    if (n <= i) n = i + 1;
    more = realloc(e->nodes, (size_t)n * sizeof *more);
    if (!more) return CLU_NOMEM;
    memset(more + e->n, 0, (size_t)(n - e->n) * sizeof *more);
    e->nodes = more;
    e->n = n;
  }
  nd = &e->nodes[i];
  if (nd->up) return CLU_OK;
  nd->up = 1;
  nd->resting = 0;
  nd->claim = claim;
  nd->over = nd->began = 0;
  nd->end = 0;
  e->up++;
  new_head(e, nd, 0);
  look_whether_hungry(e, i);
  return CLU_OK;
}

void clu_sched_over(clu_sched *e, int i) {
  node *nd;
  if (!clu_sched_is_up(e, i) || e->nodes[i].over || !e->nodes[i].claim) return;
  nd = &e->nodes[i];
  nd->begun = clu_claim_take_back(nd->claim, nd->end); /* it may still be running: it starts nothing more */
  nd->over = nd->resting = 1;
  nd->claim = NULL;
  clu_sched__set_loaded(e, i, 0);
  look_whether_hungry(e, i);
}

void clu_sched_rest(clu_sched *e, int i, int resting) {
  if (!clu_sched_is_up(e, i)) return;
  e->nodes[i].resting = resting;
  look_whether_hungry(e, i);
}

int clu_sched_down(clu_sched *e, int i, int cause, int retry) {
  node *nd;
  uint64_t begun;
  if (!clu_sched_is_up(e, i)) return 0;
  nd = &e->nodes[i];
  clu_sched_over(e, i);
  nd->up = 0;
  e->up--;
  clu_sched__set_hungry(e, i, 0);
  clu_sched__set_loaded(e, i, 0);
  /* numbers below have been started; without a claim word the unit that is with it may have been */
  begun = nd->over ? nd->begun : UINT64_MAX;
  for (uint32_t k = nd->len; k-- > 0;) { /* the last first, so that what waits again is in order */
    unit u = *nth(nd, k);
    clu_job *j = u.job;
    uint32_t done = u.seq >= begun ? 0 : u.seq + u.n <= begun ? u.n : (uint32_t)(begun - u.seq);
    nd->began |= done > 0;
    if (!u.unwanted) {
      if (done < u.n && u.attempt == 1)
        clu_sched__wait_again(e, j, u.first + done, u.n - done);
      else if (done < u.n)
        clu_sched__retry_later(e, j, u.first, u.last, u.attempt - 1, cause);
      for (uint32_t m = 0; m < done; m++) {
        int urged = nd->urged && k == 0 && m == 0;
        if (urged)
          clu_sched__end_without(e, nd->why, j, u.first + m, i, u.attempt, cause);
        else if (retry && u.attempt <= j->spec.retries)
          clu_sched__retry_later(e, j, u.first + m, i, u.attempt, cause);
        else
          clu_sched__end_without(e, CLU_END_DIED, j, u.first + m, i, u.attempt, cause);
      }
    }
    nd->len--;
    clu_sched__job_let_go(e, j);
  }
  nd->at = nd->unwanted = 0;
  nd->claim = NULL;
  nd->urged = nd->killed = 0;
  nd->deadline = 0;
  return nd->began;
}

int clu_sched_is_up(const clu_sched *e, int i) { return i >= 0 && i < e->n && e->nodes[i].up; }
int clu_sched_nodes_up(const clu_sched *e) { return e->up; }

uint32_t clu_sched_at(const clu_sched *e, int i, uint32_t *unwanted) {
  if (unwanted) *unwanted = i < e->n ? e->nodes[i].unwanted : 0;
  return i < e->n ? e->nodes[i].at : 0;
}

/* ---- public: work ---- */

/* Of the first element with a node. What is not begun has all its time: a node may be busy with a call, and nobody
 * tells when it begins, so it is looked for. */
static uint64_t time_left(node *nd, uint64_t now) {
  uint64_t limit = nth(nd, 0)->job->spec.timeout_ns, end;
  if (nd->claim && clu_claim_first(nd->claim) <= nth(nd, 0)->seq) {
    nd->since = now;
    return limit / 10 + 1;
  }
  end = nd->since + limit;
  return end > now ? end - now : 0;
}

/* Somebody whose time is up: 1, and what to do is in `a`. */
static int overdue(clu_sched *e, uint64_t now, clu_action *a) {
  uint64_t next = UINT64_MAX, wait;
  if (now < e->deadline) return 0;
  for (int i = 0; i < e->n; i++) {
    node *nd = &e->nodes[i];
    if (!nd->up || !nd->deadline) continue;
    if (nd->deadline > now) {
      if (nd->deadline < next) next = nd->deadline;
      continue;
    }
    if (!nd->urged && (wait = time_left(nd, now)) > 0) {
      nd->deadline = now + wait;
      if (nd->deadline < next) next = nd->deadline;
      continue;
    }
    a->node = i;
    if (!nd->urged || nd->killed < 0) {
      take_back(e, i); /* others need not wait for what becomes of it */
      if (!nd->urged) nd->why = CLU_END_TIMEOUT;
      nd->urged = 1;
      nd->killed = 0;
      nd->deadline = now + e->grace;
      a->what = CLU_ACT_INTERRUPT;
      a->seq = nth(nd, 0)->seq;
      clu_sched__set_hungry(e, i, 0);
    } else {
      nd->killed = 1;
      nd->deadline = 0;
      a->what = CLU_ACT_KILL;
    }
    return 1; /* e->deadline stays: there may be more */
  }
  e->deadline = next;
  return 0;
}

/* Whether node `from` has something for node `i` which it need not have begun. */
static int has_spare(const clu_sched *e, int from, int i) {
  const node *nd = &e->nodes[from];
  for (uint32_t k = nd->len; k-- > 0;) {
    const unit *u = nth(nd, k);
    if (u->unwanted || (k == 0 && u->n < 2) || !clu_sched__may_do(u->job, i)) continue;
    if (u->attempt == 1 || u->last != i || !clu_sched__others_may(e, u->job, i)) return 1;
  }
  return 0;
}

/* Nothing waits for somebody who has nothing to do, while elements wait at others. Only from those that have begun with
 * their first: who has just been sent something would else lose it before it is awake, and so in turn. Returns
 * whose turn it is now, or -1. */
static int relieve(clu_sched *e, uint64_t now) {
  for (int i = e->hungry; i >= 0 && e->nodes[i].at == 0; i = e->nodes[i].next) {
    int barred = 0;
    for (int from = e->loaded, next, k = 0; from >= 0 && k < 16; from = next) {
      node *nd = &e->nodes[from];
      next = nd->lnext;
      if (!has_spare(e, from, i)) {
        barred = 1;
        continue;
      }
      k++;
      if (clu_claim_first(nd->claim) <= nth(nd, 0)->seq) {
        if (now + LOOK_AGAIN < e->deadline) e->deadline = now + LOOK_AGAIN; /* nobody tells when it begins */
      } else {
        int got = take_back(e, from);
        clu_sched__set_loaded(e, from, 0);
        if (got) return i;
      }
    }
    if (!barred) break; /* the next one would find the same */
  }
  return -1;
}

/* Something that waits, for node `i`: of the job that came first. */
static int give(clu_sched *e, int i, clu_action *a) {
  clu_job *first = NULL;
  for (group *g = e->groups; g; g = g->next) {
    clu_job *j = g->waiting;
    if (!j || !clu_sched__may_do(j, i)) continue;
    while (j && (!first || j->id < first->id) && !clu_sched__has_for(e, j, i)) j = j->wnext;
    if (j && (!first || j->id < first->id)) first = j;
  }
  if (!first || !clu_sched__pick(e, first, i, a)) return 0;
  a->what = CLU_ACT_SEND;
  a->node = i;
  a->job = first;
  a->owner = first->spec.owner;
  first->units++;
  return 1;
}

void clu_sched_next(clu_sched *e, uint64_t now, clu_action *a) {
  int i;
  memset(a, 0, sizeof *a);
  if (overdue(e, now, a)) return;
  for (i = e->waiting ? e->hungry : -1; i >= 0; i = e->nodes[i].next)
    if (give(e, i, a)) return;
  if ((i = relieve(e, now)) >= 0) give(e, i, a);
}

/* Room for one more unit; 0 without memory. */
static int room_at(node *nd) {
  uint32_t cap = nd->cap ? 2 * nd->cap : 4;
  unit *more;
  if (nd->len < nd->cap) return 1;
  more = malloc(cap * sizeof *more);
  if (!more) return 0;
  for (uint32_t k = 0; k < nd->len; k++) more[k] = *nth(nd, k);
  free(nd->q);
  nd->q = more;
  nd->head = 0;
  nd->cap = cap;
  return 1;
}

/* Whether it only makes the last unit longer: a thousand elements sent one by one are not to be a thousand units. Where
 * there is no claim word the unit says what may have begun. */
static int continues(const node *nd, const clu_action *a, uint64_t seq, uint64_t now) {
  const unit *u;
  if (nd->len == 0 || a->attempt > 1 || !nd->claim) return 0;
  u = nth(nd, nd->len - 1);
  return u->job == a->job && !u->unwanted && u->attempt == 1 && u->first + u->n == a->first && u->seq + u->n == seq &&
         now - u->sent < SAME_TIME && u->n < CLU_MOST_UNIT;
}

int clu_sched_sent(clu_sched *e, const clu_action *a, uint64_t seq, uint64_t bytes, uint64_t now) {
  node *nd = &e->nodes[a->node];
  unit *u;
  clu_job *j = a->job;
  if (continues(nd, a, seq, now)) {
    nth(nd, nd->len - 1)->n += a->n;
    j->units--;
  } else {
    if (!room_at(nd)) {
      clu_sched_unsent(e, a);
      return CLU_NOMEM;
    }
    u = nth(nd, nd->len++);
    u->job = j;
    u->first = a->first;
    u->seq = seq;
    u->n = a->n;
    u->attempt = a->attempt;
    u->last = a->last;
    u->sent = now;
    u->unwanted = 0;
    if (nd->len == 1) new_head(e, nd, now);
  }
  bytes /= a->n;
  j->bytes = j->bytes ? j->bytes + bytes / 4 - j->bytes / 4 : bytes;
  nd->at += a->n;
  nd->end = seq + a->n;
  if (nd->at > 1 && nd->claim) clu_sched__set_loaded(e, a->node, 1);
  if (j->cancelled) { /* while it was on its way */
    nth(nd, nd->len - 1)->unwanted = 1;
    nd->unwanted += a->n;
    take_back(e, a->node);
    if (nd->len && nth(nd, 0)->unwanted) urge(e, nd, CLU_END_CANCELLED, now);
  }
  look_whether_hungry(e, a->node);
  return CLU_OK;
}

void clu_sched_unsent(clu_sched *e, const clu_action *a) {
  if (a->attempt > 1)
    clu_sched__retry_later(e, a->job, a->first, a->last, a->attempt - 1, 0);
  else
    clu_sched__wait_again(e, a->job, a->first, a->n);
  clu_sched__job_let_go(e, a->job);
}

uint64_t clu_sched_head(const clu_sched *e, int i) {
  return clu_sched_is_up(e, i) && e->nodes[i].len ? nth(&e->nodes[i], 0)->seq : 0;
}

int clu_sched_current(const clu_sched *e, int i, uint64_t seq, void **owner, uint64_t *element) {
  const unit *u;
  if (!clu_sched_is_up(e, i) || e->nodes[i].len == 0) return 0;
  u = nth(&e->nodes[i], 0);
  if (u->seq != seq || u->unwanted) return 0;
  *owner = u->job->spec.owner;
  *element = u->first;
  return 1;
}

uint64_t clu_sched_deadline(const clu_sched *e) { return e->deadline; }

int clu_sched_answer(clu_sched *e, int i, uint64_t seq, int given_up, uint64_t took, uint64_t now, clu_ended *out) {
  node *nd;
  unit *u;
  clu_job *j;
  int wanted, why;
  if (!clu_sched_is_up(e, i)) return -1;
  nd = &e->nodes[i];
  if (nd->len == 0 || (u = nth(nd, 0))->seq != seq) return -1;
  j = u->job;
  wanted = !u->unwanted;
  why = given_up && nd->urged ? nd->why : CLU_END_ANSWER;
  clu_sched__fill_ended(out, why, j, u->first, i, u->attempt, 0, u->sent);
  if (took < 1) took = 1;
  if (!given_up) j->time = j->time ? j->time - j->time / 8 + took / 8 : took;
  if (j->time < 1) j->time = 1;
  u->first++;
  u->seq++;
  nd->at--;
  nd->began = 1;
  if (!wanted) nd->unwanted--;
  else j->left--;
  if (--u->n == 0) {
    nd->head = (nd->head + 1) & (nd->cap - 1);
    nd->len--;
    clu_sched__job_let_go(e, j);
  }
  new_head(e, nd, now);
  if (nd->len && nth(nd, 0)->unwanted) urge(e, nd, CLU_END_CANCELLED, now);
  if (nd->at < 2) clu_sched__set_loaded(e, i, 0);
  if (nd->at < 8 || nd->at % 8 == 0) look_whether_hungry(e, i); /* divisions: of those that have much not each time */
  return wanted;
}
