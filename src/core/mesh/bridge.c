#include <stdlib.h>
#include <string.h>

#include "core/mesh/bridge-layout.h"

/* ---- saying ---- */

static void say_state(clu_bridge *b, int rank, int state) {
  clu_bridge_text t;
  clu_rank_info is;
  clu_mesh_info(b->all, rank, &is);
  clu_bridge_begin(&t, CLU_BRIDGE_STATE);
  clu_bridge_number(&t, (uint64_t)rank, 4);
  clu_bridge_number(&t, (uint64_t)state, 1);
  clu_bridge_number(&t, (uint64_t)(is.how.by_signal != 0), 1);
  clu_bridge_number(&t, (uint32_t)is.how.code, 4);
  clu_bridge_number(&t, (uint64_t)is.pid, 8);
  bridge_say(b, &t);
}

static void put_waits(clu_bridge *b, clu_bridge_text *t) {
  for (int i = 0; i < b->count; i++) {
    clu_rank_info is;
    if (!mesh_is_here(b->all, i)) continue;
    clu_mesh_info(b->all, i, &is);
    clu_bridge_wait(t, i, &is);
  }
}

static void say_verdict(clu_bridge *b) {
  clu_bridge_text t;
  int who[2], verdict = clu_mesh_verdict(b->all, who);
  if (verdict == CLU_OK || b->told_verdict) return;
  b->told_verdict = 1;
  clu_bridge_begin(&t, CLU_BRIDGE_VERDICT);
  clu_bridge_number(&t, (uint64_t)verdict, 1);
  clu_bridge_number(&t, (uint64_t)who[0], 4);
  clu_bridge_number(&t, (uint64_t)who[1], 4);
  put_waits(b, &t);
  bridge_say(b, &t);
}

/* ---- what comes from elsewhere ---- */

static int heard_state(clu_bridge *b, clu_bridge_reader *r) {
  int rank = clu_bridge_take_rank(r, b->count), state = (int)clu_bridge_take(r, 1);
  clu_exit how;
  uint64_t pid;
  how.by_signal = (int)clu_bridge_take(r, 1);
  how.code = (int)(uint32_t)clu_bridge_take(r, 4);
  pid = clu_bridge_take(r, 8);
  if (r->is_bad || state < CLU_RANK_HERE || state > CLU_RANK_DEAD) return CLU_PROTO;
  if (mesh_is_here(b->all, rank)) { /* the session knows how its process has ended */
    if (state != CLU_RANK_DEAD) return CLU_PROTO;
    clu_mesh_died(b->all, rank, &how);
    return CLU_OK;
  }
  if (pid) atomic_store(&b->all->ranks[rank].pid_there, pid);
  if (state > CLU_RANK_ENDED && b->first < 0) b->first = rank;
  b->there[rank].state = state;
  b->there[rank].how = how;
  return CLU_OK;
}

/* Reads what ranks elsewhere are at. */
static int read_waits(clu_bridge *b, clu_bridge_reader *r) {
  while (r->n > 0) {
    clu_rank_info is;
    int rank = clu_bridge_take_wait(r, b->count, &is);
    mesh_rank *x;
    if (rank < 0) return CLU_PROTO;
    if (mesh_is_here(b->all, rank)) continue;
    x = &b->all->ranks[rank];
    atomic_store(&x->waits, (uint32_t)is.waits);
    atomic_store(&x->wait_for, (uint32_t)(is.wait_for + 1));
    atomic_store(&x->has_tag, (uint32_t)is.has_tag);
    memcpy(x->tag, is.tag, CLU_TAG_MOST);
    x->meeting = is.meeting;
  }
  return CLU_OK;
}

static int heard_verdict(clu_bridge *b, clu_bridge_reader *r) {
  int verdict = (int)clu_bridge_take(r, 1);
  int a = clu_bridge_take_rank(r, b->count), other = clu_bridge_take_rank(r, b->count);
  if (r->is_bad || verdict == CLU_OK || verdict >= CLU_N_CODES || read_waits(b, r) != CLU_OK)
    return CLU_PROTO;
  b->told_verdict = 1;
  mesh_judge(b->all, verdict, a, other);
  return CLU_OK;
}

static int heard_met(clu_bridge *b, clu_bridge_reader *r) {
  int overflowed = (int)clu_bridge_take(r, 1);
  void *own, *result;
  size_t n = r->n;
  if (r->is_bad || n > CLU_REDUCE_BYTES || b->lead < 0) return CLU_PROTO;
  if (n > 0) {
    if (clu_mesh_reduce_room(b->there[b->lead].m, n, &own, &result, NULL) != CLU_OK)
      return CLU_NOMEM;
    memcpy(result, r->p, n);
  }
  atomic_store(&b->all->head->overflowed, (uint32_t)(overflowed != 0));
  mesh_has_met_all(b->all);
  return CLU_OK;
}

static int heard(clu_bridge *b, clu_blob *body) {
  clu_bridge_reader r;
  switch (clu_bridge_read(&r, body)) {
  case CLU_BRIDGE_SEND: return bridge_heard_message(b, &r, body);
  case CLU_BRIDGE_TAKEN: return bridge_heard_taken(b, &r);
  case CLU_BRIDGE_STATE: return heard_state(b, &r);
  case CLU_BRIDGE_VERDICT: return heard_verdict(b, &r);
  case CLU_BRIDGE_MET: return heard_met(b, &r);
  case CLU_BRIDGE_END: return CLU_CANCELLED;
  default: return CLU_PROTO;
  }
}

int clu_bridge_heard(clu_bridge *b, clu_blob *body) {
  int rc = heard(b, body);
  b->heard++;
  if (rc == CLU_CANCELLED) b->told_verdict = 1;
  if (rc != CLU_OK) clu_mesh_end(b->all);
  return rc;
}

/* ---- turns ---- */

static void say_meeting(clu_bridge *b) {
  uint32_t met = atomic_load(&b->all->head->met_here);
  clu_bridge_text t;
  clu_rank_info is;
  void *own, *result;
  int rank = 0;
  uint64_t n;
  if (met == b->told_met) return;
  b->told_met = met;
  while (!mesh_is_here(b->all, rank)) rank++;
  clu_mesh_info(b->all, rank, &is);
  clu_bridge_begin(&t, CLU_BRIDGE_MEET);
  clu_bridge_number(&t, (uint64_t)rank, 4);
  clu_bridge_meeting(&t, &is.meeting);
  n = clu_meeting_bytes(&is.meeting);
  if (n > 0) {
    if (n <= CLU_REDUCE_BYTES &&
        clu_mesh_reduce_room(b->there[b->lead].m, (size_t)n, &own, &result, NULL) == CLU_OK)
      clu_bridge_bytes(&t, result, (size_t)n);
    else
      bridge_fail(b);
  }
  bridge_say(b, &t);
}

/* Notes who is here, or has gone: before all is taken that it has sent. */
static void look_at_states(clu_bridge *b) {
  for (int i = 0; i < b->count; i++)
    if (mesh_is_here(b->all, i)) b->now[i] = (int)atomic_load(&b->all->ranks[i].state);
}

static void say_if_new(clu_bridge *b, int rank) {
  if (!mesh_is_here(b->all, rank) || b->now[rank] == b->told[rank]) return;
  b->told[rank] = b->now[rank];
  say_state(b, rank, b->now[rank]);
}

/* Others fail because of the first who did: that one is the first elsewhere, too. */
static void say_states(clu_bridge *b) {
  uint32_t first = atomic_load(&b->all->head->first);
  if (first > 0 && first <= (uint32_t)b->count) say_if_new(b, (int)first - 1);
  for (int i = 0; i < b->count; i++) say_if_new(b, i);
}

/* Ranks elsewhere are here what they are there, when all that they have sent has come. */
static void follow_state(clu_bridge *b, int rank) {
  stand_in *s = &b->there[rank];
  if (mesh_is_here(b->all, rank) || s->first) return;
  if ((int)atomic_load(&b->all->ranks[rank].state) == s->state) return;
  if (s->state > CLU_RANK_HERE)
    mesh_has_gone(b->all, rank, s->state, &s->how);
  else
    atomic_store(&b->all->ranks[rank].state, (uint32_t)s->state);
}

static void follow_states(clu_bridge *b) {
  if (b->first >= 0) follow_state(b, b->first);
  for (int i = 0; i < b->count; i++) follow_state(b, i);
}

static void look_who_waits(clu_bridge *b) {
  uint64_t sum = mesh_all_wait(b->all);
  clu_bridge_text t;
  int is_same = sum && sum == b->suspect;
  b->suspect = sum;
  if (!is_same || (sum == b->quiet && b->heard == b->quiet_heard)) return;
  if (b->lacks || !mesh_all_live(b->all)) return; /* messages are on their way; a death is */
  b->quiet = sum;
  b->quiet_heard = b->heard;
  clu_bridge_begin(&t, CLU_BRIDGE_QUIET);
  clu_bridge_number(&t, b->heard, 8);
  put_waits(b, &t);
  bridge_say(b, &t);
}

void clu_bridge_turn(clu_bridge *b, int is_idle) {
  look_at_states(b);
  bridge_take_messages(b);
  bridge_send_late(b);
  follow_states(b);
  say_states(b);
  say_meeting(b);
  bridge_say_taken(b);
  say_verdict(b);
  if (is_idle) look_who_waits(b);
}

_Atomic uint32_t *clu_bridge_word(clu_bridge *b, _Atomic uint32_t **asleep) {
  if (b->lead < 0) return NULL;
  *asleep = &b->all->ranks[b->lead].asleep;
  return &b->all->ranks[b->lead].events;
}

/* ---- making ---- */

static int make_room(clu_bridge *b) {
  size_t n = (size_t)b->count;
  b->there = calloc(n, sizeof *b->there);
  b->told = calloc(n, sizeof *b->told);
  b->now = calloc(n, sizeof *b->now);
  b->blocked = calloc(n, sizeof *b->blocked);
  return b->there && b->told && b->now && b->blocked;
}

int clu_bridge_new(int count, const char *is_here, const char *folder, clu_bridge_say *say_to,
                   void *to, clu_bridge **out, clu_err *e) {
  clu_bridge *b = calloc(1, sizeof *b);
  uint32_t here = 0;
  int rc;
  if (!b) return clu_fail(e, CLU_NOMEM, 0, "not enough memory");
  b->count = count;
  b->say = say_to;
  b->to = to;
  b->lead = b->first = -1;
  rc = clu_mesh_new(count, folder, &b->all, e);
  if (rc == CLU_OK && !make_room(b)) rc = clu_fail(e, CLU_NOMEM, 0, "not enough memory");
  for (int i = 0; rc == CLU_OK && i < count; i++) {
    here += is_here[i] != 0;
    if (is_here[i]) continue;
    atomic_store(&b->all->ranks[i].elsewhere, 1);
    if (b->lead < 0) b->lead = i;
  }
  if (rc == CLU_OK && b->lead >= 0) {
    atomic_store(&b->all->head->here, here);
    atomic_store(&b->all->head->lead, (uint32_t)b->lead + 1);
    if (!bridge_stand_in(b, b->lead)) rc = clu_fail(e, CLU_NOMEM, 0, "not enough memory");
  }
  if (rc == CLU_OK)
    *out = b;
  else
    clu_bridge_free(b);
  return rc;
}

const char *clu_bridge_path(const clu_bridge *b) { return clu_mesh_path(b->all); }

void clu_bridge_free(clu_bridge *b) {
  if (!b) return;
  for (int i = 0; b->there && i < b->count; i++) {
    bridge_drop_late(&b->there[i]);
    clu_mesh_free(b->there[i].m);
  }
  free(b->there);
  free(b->told);
  free(b->now);
  free(b->blocked);
  free(b->heavy);
  clu_mesh_free(b->all);
  free(b);
}
