/* This file tells what a host and its nodes use, told to the session's host when that asks, which
 * it does while somebody looks at the cluster. The near proxy asks (CLU_L_ASK), the far one looks
 * at some processes and answers (CLU_L_USE) with what is new: nodes that it has looked at, or that
 * are at another task. So a host with many nodes needs as little as one with few. Nothing of it
 * concerns R, fork server or nodes: what a node is at lies in shared memory.
 *
 * CLU_L_USE: u64 ns that the answer took, u64 load in thousandths, u64 bytes of memory, u64 of it
 * that are free, each of these ~0: not known; then for each node u64 its number, u64 thousandths of
 * a core, u64 bytes of its own, ~0: not known, u64 number of the request or task at hand, 0: none,
 * u64 for how many ns it has been.
 */
#include <string.h>

#include "core/base/os-machine.h"
#include "core/link/parts.h"

#define LOOK_AGAIN 7000000000u /* ns; of many nodes */

enum { HEAD = 32, ONE = 40, MOST = (CLU_LINK_MOST - HEAD) / ONE };

int clu_proxy_ask_use(clu_proxy *r, uint64_t now) {
  if (r->link.state != CLU_LINK_UP || clu_link_room(&r->link) == 0) return CLU_AGAIN;
  clu_proxy_touch(r);
  return clu_link_send(&r->link, CLU_L_ASK, now, NULL, 0);
}

/* ---- the far side ---- */

static uint64_t or_unknown(double x) { return x < 0 ? UINT64_MAX : (uint64_t)x; }

static void put_machine(unsigned char *p) {
  clu_machine m;
  clu_os_machine(&m);
  clu_put64(p + 8, or_unknown(1000 * m.load));
  clu_put64(p + 16, (uint64_t)m.memory);
  clu_put64(p + 24, (uint64_t)m.memory_free);
}

static clu_activity *activity_of(const clu_link_stream *s) {
  return clu_link_stream_is_node(s) ? clu_shared_activity(s->proxy->shared, s->slot) : NULL;
}

static void weigh(clu_proxy *r, clu_process_use *x, uint64_t now) {
  clu_process_use_weigh(x, now);
  clu_weighing_spend(&r->weighing, x->took);
}

/* Tells whether it was looked at. The first look is exact where there is time for it. */
static int look_at(clu_link_stream *s, const clu_activity *a, uint64_t after, uint64_t now) {
  clu_pid pid = (clu_pid)atomic_load_explicit(&a->pid, memory_order_relaxed);
  if (pid <= 0) return 0;
  if (pid != s->use.pid) clu_process_use_begin(&s->use, pid);
  if (s->use.at && now - s->use.at < after) return 0;
  clu_process_use_look(&s->use, now);
  if (!s->use.weighed && s->use.is_due && clu_weighing_may(&s->proxy->weighing, now))
    weigh(s->proxy, &s->use, now);
  return 1;
}

/* Weighs one process after the other, as long as it may. */
static void weigh_some(clu_proxy *r, uint64_t now) {
  while (clu_weighing_may(&r->weighing, now)) {
    clu_process_use *first = NULL;
    for (clu_link_stream *s = r->streams; s; s = s->next)
      first = clu_process_use_first(first, &s->use);
    if (!first) return;
    weigh(r, first, now);
  }
}

static void put_node(unsigned char *p, const clu_link_stream *s, uint64_t since, uint64_t now) {
  clu_put64(p, s->id);
  clu_put64(p + 8, or_unknown(1000 * s->use.cpu));
  clu_put64(p + 16, (uint64_t)s->use.own);
  clu_put64(p + 24, s->told_hand);
  clu_put64(p + 32, s->told_hand && since < now ? now - since : 0);
}

static int send_use(clu_proxy *r, unsigned char *body, int n, uint64_t asked, uint64_t began) {
  clu_put64(body, clu_os_now() - began);
  return clu_link_send(&r->link, CLU_L_USE, asked, body, HEAD + ONE * (size_t)n);
}

int clu_proxy_tell_use(clu_proxy *r, uint64_t asked) {
  unsigned char body[CLU_LINK_MOST];
  uint64_t now = clu_os_now(), since = 0, hand;
  int nodes = 0, left, n = 0, rc = CLU_OK;
  if (clu_link_room(&r->link) == 0) return CLU_OK; /* it asks again */
  for (const clu_link_stream *s = r->streams; s; s = s->next) nodes += activity_of(s) != NULL;
  left = clu_process_use_turn(nodes, r->use_told, now);
  put_machine(body);
  weigh_some(r, now);
  for (clu_link_stream *s = r->streams; s && rc == CLU_OK; s = s->next) {
    const clu_activity *a = activity_of(s);
    int looked;
    if (!a) continue;
    looked = left > 0 && look_at(s, a, nodes > CLU_USE_FEW ? LOOK_AGAIN : 0, now);
    left -= looked;
    hand = clu_activity_look(a, &since);
    if (!looked && s->use.weighed < now && hand == s->told_hand && s->use.pid) continue;
    s->told_hand = hand;
    put_node(body + HEAD + ONE * n, s, since, clu_os_now());
    if (++n < MOST) continue;
    rc = send_use(r, body, n, asked, now);
    n = 0;
  }
  r->use_told = now;
  clu_proxy_touch(r);
  return rc == CLU_OK ? send_use(r, body, n, asked, now) : rc;
}

/* ---- the near side ---- */

int clu_proxy_take_use(clu_proxy *r, const clu_link_record *rec) {
  clu_proxy_use u;
  if (rec->n < HEAD || (rec->n - HEAD) % ONE != 0) return CLU_PROTO;
  u.asked = rec->stream;
  u.took = clu_get64(rec->bytes);
  u.load = clu_get64(rec->bytes + 8);
  u.memory = clu_get64(rec->bytes + 16);
  u.memory_free = clu_get64(rec->bytes + 24);
  u.n = (int)((rec->n - HEAD) / ONE);
  u.nodes = rec->bytes + HEAD;
  if (r->how.on_use) r->how.on_use(r->how.data, &u);
  return CLU_OK;
}

void clu_proxy_use_of(const clu_proxy_use *u, int i, clu_proxy_node_use *out) {
  const unsigned char *p = u->nodes + ONE * i;
  out->id = clu_get64(p);
  out->cpu = clu_get64(p + 8);
  out->memory = clu_get64(p + 16);
  out->at_hand = clu_get64(p + 24);
  out->age = clu_get64(p + 32);
}
