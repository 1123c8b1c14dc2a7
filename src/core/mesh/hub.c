#include "core/mesh/hub.h"

#include <stdlib.h>
#include <string.h>

#include "core/mesh/bridge-message.h"

typedef struct at_host {
  int is_lost, has_ranks;
  char *path, *failure;
  uint64_t sent; /* messages to it */
  int is_quiet;
  clu_blob *waits; /* what it has said of its ranks when it was */
  int has_met, met_rank;
  clu_meeting meeting;
  clu_blob *part; /* what its ranks have together, from byte `part_at` on; NULL: nothing */
  size_t part_at;
} at_host;

struct clu_hub {
  int count, hosts;
  int *host_of;
  at_host *at;
  clu_hub_say *say;
  void *to;
  char *wanted; /* by host, for who hands on a message */
  int is_judged;
};

clu_hub *clu_hub_new(int count, const int *host_of, int hosts, clu_hub_say *say, void *to) {
  clu_hub *h = calloc(1, sizeof *h);
  if (!h) return NULL;
  h->count = count;
  h->hosts = hosts;
  h->say = say;
  h->to = to;
  h->host_of = malloc((size_t)count * sizeof *h->host_of);
  h->at = calloc((size_t)hosts, sizeof *h->at);
  h->wanted = calloc((size_t)hosts, 1);
  if (!h->host_of || !h->at || !h->wanted) {
    clu_hub_free(h);
    return NULL;
  }
  memcpy(h->host_of, host_of, (size_t)count * sizeof *h->host_of);
  for (int i = 0; i < count; i++) h->at[host_of[i]].has_ranks = 1;
  return h;
}

static void forget_meeting(at_host *x) {
  clu_blob_unref(x->part);
  x->part = NULL;
  x->has_met = 0;
}

static void forget_quiet(at_host *x) {
  clu_blob_unref(x->waits);
  x->waits = NULL;
  x->is_quiet = 0;
}

void clu_hub_free(clu_hub *h) {
  if (!h) return;
  for (int i = 0; h->at && i < h->hosts; i++) {
    forget_meeting(&h->at[i]);
    forget_quiet(&h->at[i]);
    free(h->at[i].path);
    free(h->at[i].failure);
  }
  free(h->host_of);
  free(h->at);
  free(h->wanted);
  free(h);
}

/* ---- saying ---- */

static void say_to(clu_hub *h, int host, clu_blob *body) {
  at_host *x = &h->at[host];
  if (x->is_lost || !body) return;
  forget_quiet(x);
  x->sent++;
  h->say(h->to, host, body);
}

/* `but`: a host; -1: to all. */
static void say_to_all(clu_hub *h, int but, clu_blob *body) {
  for (int i = 0; i < h->hosts; i++)
    if (i != but) say_to(h, i, body);
}

void clu_hub_end(clu_hub *h) {
  clu_bridge_text t;
  h->is_judged = 1;
  clu_bridge_begin(&t, CLU_BRIDGE_END);
  say_to_all(h, -1, t.b);
  clu_blob_unref(t.b);
}

static void begin_verdict(clu_bridge_text *t, int verdict, int a, int b) {
  clu_bridge_begin(t, CLU_BRIDGE_VERDICT);
  clu_bridge_number(t, (uint64_t)verdict, 1);
  clu_bridge_number(t, (uint64_t)a, 4);
  clu_bridge_number(t, (uint64_t)b, 4);
}

/* The first one counts. */
static void judge(clu_hub *h, int but, clu_bridge_text *t) {
  if (!h->is_judged) say_to_all(h, but, t->b);
  h->is_judged = 1;
  clu_blob_unref(t->b);
}

static void cancel(clu_hub *h) {
  clu_bridge_text t;
  begin_verdict(&t, CLU_CANCELLED, 0, 0);
  judge(h, -1, &t);
}

void clu_hub_lost(clu_hub *h, int host) {
  if (h->at[host].is_lost) return;
  h->at[host].is_lost = 1;
  cancel(h);
}

void clu_hub_cut(clu_hub *h, int host) { h->at[host].is_lost = 1; }

void clu_hub_died(clu_hub *h, int rank, const clu_exit *how) {
  int host = h->host_of[rank];
  clu_bridge_text t;
  clu_bridge_begin(&t, CLU_BRIDGE_STATE);
  clu_bridge_number(&t, (uint64_t)rank, 4);
  clu_bridge_number(&t, CLU_RANK_DEAD, 1);
  clu_bridge_number(&t, (uint64_t)(how->by_signal != 0), 1);
  clu_bridge_number(&t, (uint32_t)how->code, 4);
  clu_bridge_number(&t, 0, 8);
  if (h->at[host].is_lost)
    say_to_all(h, host, t.b);
  else
    say_to(h, host, t.b); /* which tells the others, behind all that the rank has sent */
  clu_blob_unref(t.b);
}

/* ---- what is handed on ---- */

static int hand_on_message(clu_hub *h, int host, clu_bridge_reader *r, clu_blob *body) {
  int from = clu_bridge_take_rank(r, h->count);
  uint64_t n = clu_bridge_take(r, 4);
  if (from < 0 || h->host_of[from] != host) return CLU_PROTO;
  memset(h->wanted, 0, (size_t)h->hosts);
  for (uint64_t i = 0; i < n; i++) {
    int to = clu_bridge_take_rank(r, h->count);
    if (to < 0) return CLU_PROTO;
    h->wanted[h->host_of[to]] = 1;
  }
  for (int i = 0; i < h->hosts; i++)
    if (h->wanted[i] && i != host) say_to(h, i, body);
  return CLU_OK;
}

static int hand_on_taken(clu_hub *h, int host, clu_bridge_reader *r, clu_blob *body) {
  int to = clu_bridge_take_rank(r, h->count), from = clu_bridge_take_rank(r, h->count);
  if (r->is_bad || h->host_of[to] != host) return CLU_PROTO;
  say_to(h, h->host_of[from], body);
  return CLU_OK;
}

static int hand_on_state(clu_hub *h, int host, clu_bridge_reader *r, clu_blob *body) {
  int rank = clu_bridge_take_rank(r, h->count);
  if (rank < 0 || h->host_of[rank] != host) return CLU_PROTO;
  say_to_all(h, host, body);
  return CLU_OK;
}

/* ---- meetings ---- */

static void say_mismatch(clu_hub *h, int a, int b) {
  const int of[2] = {a, b};
  clu_bridge_text t;
  begin_verdict(&t, CLU_PROTO, h->at[a].met_rank, h->at[b].met_rank);
  for (int i = 0; i < 2; i++) {
    clu_rank_info is = {.waits = CLU_WAIT_MEETING, .wait_for = -1, .meeting = h->at[of[i]].meeting};
    clu_bridge_wait(&t, h->at[of[i]].met_rank, &is);
  }
  judge(h, -1, &t);
}

/* Reduces what all hosts have. The copies are aligned as numbers are. */
static unsigned char *reduce_all(clu_hub *h, size_t n, int *overflow) {
  unsigned char *sum = malloc(n), *next = malloc(n);
  int is_first = 1;
  for (int i = 0; sum && next && i < h->hosts; i++) {
    const at_host *x = &h->at[i];
    if (!x->has_ranks) continue;
    memcpy(is_first ? sum : next, x->part->data + x->part_at, n);
    if (!is_first)
      clu_reduce_into((int)x->meeting.op, (int)x->meeting.type, sum, next,
                      n / clu_reduce_width((int)x->meeting.type), overflow);
    is_first = 0;
  }
  free(next);
  return sum;
}

static void say_met(clu_hub *h, const at_host *any) {
  size_t n = (size_t)clu_meeting_bytes(&any->meeting);
  int overflow = 0;
  unsigned char *result = n ? reduce_all(h, n, &overflow) : NULL;
  clu_bridge_text t;
  if (n && !result) {
    cancel(h);
    return;
  }
  clu_bridge_begin(&t, CLU_BRIDGE_MET);
  clu_bridge_number(&t, (uint64_t)overflow, 1);
  clu_bridge_bytes(&t, result, n);
  free(result);
  if (t.b)
    say_to_all(h, -1, t.b);
  else
    cancel(h);
  clu_blob_unref(t.b);
}

static int heard_meeting(clu_hub *h, int host, clu_bridge_reader *r, clu_blob *body) {
  at_host *x = &h->at[host];
  int first = -1;
  uint64_t bytes;
  x->met_rank = clu_bridge_take_rank(r, h->count);
  clu_bridge_take_meeting(r, &x->meeting);
  bytes = clu_meeting_bytes(&x->meeting);
  if (r->is_bad || x->has_met || bytes > CLU_REDUCE_BYTES || r->n != bytes) return CLU_PROTO;
  x->has_met = 1;
  if (r->n) {
    x->part = clu_blob_ref(body);
    x->part_at = body->size - r->n;
  }
  for (int i = 0; i < h->hosts; i++)
    if (h->at[i].has_ranks && !h->at[i].has_met) return CLU_OK;
  for (int i = 0; i < h->hosts; i++) {
    if (!h->at[i].has_ranks) continue;
    if (first < 0) first = i;
    if (!clu_meeting_is_same(&h->at[i].meeting, &h->at[first].meeting)) {
      say_mismatch(h, first, i);
      return CLU_OK;
    }
  }
  say_met(h, &h->at[first]);
  for (int i = 0; i < h->hosts; i++) forget_meeting(&h->at[i]);
  return CLU_OK;
}

/* ---- everybody waits ---- */

/* A host that has said so, and was sent something since, will say it again. */
static int heard_quiet(clu_hub *h, int host, clu_bridge_reader *r) {
  clu_bridge_text t;
  uint64_t taken = clu_bridge_take(r, 8);
  if (r->is_bad) return CLU_PROTO;
  if (taken != h->at[host].sent) return CLU_OK;
  h->at[host].is_quiet = 1;
  if ((h->at[host].waits = clu_blob_new(r->n))) clu_blob_append(h->at[host].waits, r->p, r->n);
  for (int i = 0; i < h->hosts; i++)
    if (h->at[i].has_ranks && !h->at[i].is_lost && !h->at[i].is_quiet) return CLU_OK;
  begin_verdict(&t, CLU_AGAIN, 0, 0);
  for (int i = 0; i < h->hosts; i++)
    if (h->at[i].waits) clu_bridge_bytes(&t, h->at[i].waits->data, h->at[i].waits->size);
  judge(h, -1, &t);
  return CLU_OK;
}

/* ---- what bridges say ---- */

static int keep_text(char **to, const clu_bridge_reader *r) {
  if (*to || r->n >= CLU_MESH_PATH) return CLU_PROTO;
  if (!(*to = calloc(1, r->n + 1))) return CLU_NOMEM;
  memcpy(*to, r->p, r->n);
  return CLU_OK;
}

static int heard(clu_hub *h, int host, clu_blob *body) {
  clu_bridge_reader r;
  int kind = clu_bridge_read(&r, body);
  forget_quiet(&h->at[host]);
  switch (kind) {
  case CLU_BRIDGE_OPEN: return keep_text(&h->at[host].path, &r);
  case CLU_BRIDGE_FAILED: return keep_text(&h->at[host].failure, &r);
  case CLU_BRIDGE_SEND: return hand_on_message(h, host, &r, body);
  case CLU_BRIDGE_TAKEN: return hand_on_taken(h, host, &r, body);
  case CLU_BRIDGE_STATE: return hand_on_state(h, host, &r, body);
  case CLU_BRIDGE_MEET: return heard_meeting(h, host, &r, body);
  case CLU_BRIDGE_QUIET: return heard_quiet(h, host, &r);
  case CLU_BRIDGE_VERDICT:
    if (!h->is_judged) say_to_all(h, host, body);
    h->is_judged = 1;
    return CLU_OK;
  default: return CLU_PROTO;
  }
}

int clu_hub_heard(clu_hub *h, int host, clu_blob *body) {
  int rc;
  if (h->at[host].is_lost) return CLU_OK;
  rc = body ? heard(h, host, body) : CLU_PROTO;
  if (rc != CLU_OK) clu_hub_lost(h, host);
  return rc;
}

int clu_hub_host_of(const clu_hub *h, int rank) { return h->host_of[rank]; }
const char *clu_hub_path(const clu_hub *h, int host) { return h->at[host].path; }
const char *clu_hub_failure(const clu_hub *h, int host) { return h->at[host].failure; }
int clu_hub_is_lost(const clu_hub *h, int host) { return h->at[host].is_lost; }
