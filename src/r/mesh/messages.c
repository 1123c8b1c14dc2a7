/* Sending and receiving. */
#include "r/mesh/mesh.h"

#include <stdlib.h>

#include "core/base/os-machine.h"
#include "r/base/wait.h"
#include "r/serialize/serialize.h"

/* Segments are found by the process that has them. */
static int receivers_of_segments(R_xlen_t n) {
  unsigned need = CLU_CAN_MEMFD | CLU_CAN_PROC;
  return (clu_os_can() & need) == need ? (int)n : 0;
}

/* UTF-8, and no longer than CLU_TAG_MOST. */
static const char *tag_of(SEXP tag) {
  const char *s = Rf_translateCharUTF8(STRING_ELT(tag, 0));
  if (strlen(s) > CLU_TAG_MOST) clu_raise("argument", "a tag has at most %d bytes", CLU_TAG_MOST);
  return s;
}

/* It is a message of a function that all parts call together. `tag` may be NULL. */
static int is_of_all(const char *tag) { return tag && tag[0] == CLU_TAG_HIDDEN; }

/* ---- sending ---- */

/* To one rank of this host, or to several of others. */
static void send_to_all(clu_mesh *m, const int *to, int n, const char *tag) {
  clu_sending s = {0};
  int rc;
  for (int waited = 0;; waited = 1) {
    uint32_t events = clu_mesh_events(m);
    rc = n == 1 ? clu_mesh_send(m, to[0], tag, clu_part.sending, &s)
                : clu_mesh_send_away(m, to, n, tag, clu_part.sending, &s);
    clu_part.is_half_done = rc == CLU_AGAIN && s.begun;
    if (rc != CLU_AGAIN) break;
    if (!waited) clu_mesh_waits(m, CLU_WAIT_ROOM, to[0], tag);
    clu_part_sleep(CLU_WAITED_TO_SEND, events, CLU_NEVER, is_of_all(tag));
  }
  clu_mesh_waits(m, CLU_WAIT_NONE, -1, NULL);
  if (rc == CLU_LIMIT) clu_raise("memory", "a vector of the value cannot be handed on");
  if (rc != CLU_OK) clu_part_stop(rc, rc == CLU_DEAD ? s.who : to[0]);
}

static void send_to(clu_mesh *m, int to, const char *tag) { send_to_all(m, &to, 1, tag); }

/* To the `most` of them that are on other hosts: the value crosses to each host once. */
static void send_away(clu_mesh *m, SEXP to, size_t most, const char *tag) {
  int *away = (int *)R_alloc(most, sizeof *away), n = 0;
  for (R_xlen_t i = 0; i < Rf_xlength(to); i++)
    if (!clu_mesh_is_here(m, INTEGER(to)[i] - 1)) away[n++] = INTEGER(to)[i] - 1;
  send_to_all(m, away, n, tag);
}

static int is_open(const clu_blob *b) {
  for (int i = 0; b->segments && i < b->segments->n; i++)
    if (clu_segment_fd(b->segments->of[i]) == CLU_NO_FD) return 0;
  return 1;
}

/* `*b` is NULL meanwhile: an R error finds nothing of which it is not known who frees it. */
void clu_message_serialize(clu_blob **b, size_t head, SEXP x, R_xlen_t receivers) {
  for (int n = receivers_of_segments(receivers);; n = 0) {
    clu_blob *made = head ? clu_blob_new(head) : NULL;
    clu_blob_unref(*b);
    *b = NULL;
    if (head && !made) clu_raise("memory", "not enough memory");
    if (head) made->size = head;
    *b = clu_serialize_for(made, x, n);
    if (n == 0 || is_open(*b)) return;
  }
}

/* Sends a value to these ranks: integers. */
SEXP ffi_mesh_send(SEXP to, SEXP value, SEXP tag) {
  clu_mesh *m = clu_part_mesh();
  R_xlen_t n = Rf_xlength(to);
  const char *t = tag_of(tag);
  int verdict = clu_mesh_verdict(m, NULL);
  size_t away = 0;
  if (verdict != CLU_OK) clu_part_stop(verdict, -1);
  clu_message_serialize(&clu_part.sending, 0, value, n);
  for (R_xlen_t i = 0; i < n; i++)
    if (clu_mesh_is_here(m, INTEGER(to)[i] - 1))
      send_to(m, INTEGER(to)[i] - 1, t);
    else
      away++;
  if (away > 0) send_away(m, to, away, t);
  clu_blob_unref(clu_part.sending);
  clu_part.sending = NULL;
  return R_NilValue;
}

/* Ranks, as integers. */
SEXP ffi_mesh_check_ranks(SEXP x) {
  int count = clu_mesh_count(clu_part_mesh());
  SEXP out;
  if (!Rf_isNumeric(x) || Rf_xlength(x) < 1)
    clu_raise("argument", "`to` has to be ranks, numbers from 1 to %d", count);
  out = PROTECT(Rf_coerceVector(x, INTSXP));
  for (R_xlen_t i = 0; i < Rf_xlength(out); i++)
    if (INTEGER(out)[i] < 1 || INTEGER(out)[i] > count ||
        (TYPEOF(x) == REALSXP && REAL(x)[i] != (double)INTEGER(out)[i]))
      clu_raise("argument", "`to` has to be ranks, numbers from 1 to %d", count);
  UNPROTECT(1);
  return out;
}

/* ---- receiving ---- */

typedef struct bytes {
  const unsigned char *p;
  size_t n;
} bytes;

static int read_bytes(void *data, void *p, size_t n) {
  bytes *b = data;
  if (n > b->n) return CLU_PROTO;
  memcpy(p, b->p, n);
  b->p += n;
  b->n -= n;
  return CLU_OK;
}

SEXP clu_message_value(clu_message *x, size_t head) {
  bytes b = {x->body + head, x->n - head};
  if (x->lost)
    clu_raise("memory", "a message of rank %d has come, and a vector in it could not be opened",
              x->from + 1);
  if (x->n < head) clu_raise("protocol", "a message is too short");
  if (x->segments.n == 0) return clu_unserialize_bytes(b.p, b.n);
  return clu_unserialize_from(read_bytes, &b, &x->segments);
}

static const uint64_t ENDS_WITHIN = 200000000;   /* ns from when its descriptors are closed */
static const uint64_t KNOWN_WITHIN = 5000000000; /* ns until the session has told of a death */

/* Memory that a process keeps for others ends with it. If it is gone, the session tells of its
 * death a moment later, and that is the error. */
static void stop_if_dead(clu_mesh *m, int rank) {
  uint64_t began = clu_os_now(), deadline = began + ENDS_WITHIN;
  clu_rank_info is;
  while (clu_os_now() < deadline) {
    uint32_t events = clu_mesh_events(m);
    clu_mesh_info(m, rank, &is);
    if (is.state == CLU_RANK_DEAD) clu_part_stop(CLU_DEAD, rank);
    if (clu_os_process_state(is.pid) == 0) deadline = began + KNOWN_WITHIN;
    clu_part_sleep(CLU_WAITED_TO_RECEIVE, events, clu_os_now() + ENDS_WITHIN / 20, 0);
  }
}

/* list(value, from, tag) of the message that was found. */
static SEXP answer(clu_message *x, int look) {
  static const char *names[] = {"value", "from", "tag", ""};
  SEXP out = PROTECT(Rf_mkNamed(VECSXP, names));
  if (!look) SET_VECTOR_ELT(out, 0, clu_message_value(x, 0));
  SET_VECTOR_ELT(out, 1, Rf_ScalarInteger(x->from + 1));
  SET_VECTOR_ELT(out, 2, Rf_ScalarString(Rf_mkCharCE(x->tag, CE_UTF8)));
  UNPROTECT(1);
  return out;
}

/* list(value, from, tag) of the next message from `from` (NULL: any) with `tag` (NULL: any); NULL:
 * none has come within `timeout` seconds. `look`: without its value, and it is not taken. */
SEXP ffi_mesh_receive(SEXP from, SEXP tag, SEXP timeout, SEXP look) {
  clu_mesh *m = clu_part_mesh();
  int rank = clu_part_rank(from, 1), who = rank, rc, looks = Rf_asLogical(look) == 1;
  const char *t = tag == R_NilValue ? NULL : tag_of(tag);
  double seconds = Rf_asReal(timeout);
  uint64_t deadline = clu_deadline(seconds), events;
  clu_message *x = NULL;
  clu_message_free(clu_part.taken);
  clu_part.taken = NULL;
  for (int waited = 0;; waited = 1) {
    events = clu_mesh_events(m);
    rc = clu_mesh_receive(m, rank, t, looks, &x, &who);
    if (rc != CLU_AGAIN || clu_os_now() >= deadline) break;
    if (!waited)
      clu_mesh_waits(m, deadline == CLU_NEVER ? CLU_WAIT_MESSAGE : CLU_WAIT_FOR_TIME, rank, t);
    clu_part_sleep(CLU_WAITED_TO_RECEIVE, events, deadline, is_of_all(t));
  }
  clu_mesh_waits(m, CLU_WAIT_NONE, -1, NULL);
  if (rc == CLU_AGAIN) return R_NilValue;
  if (rc != CLU_OK) clu_part_stop(rc, who);
  if (!looks) clu_part.taken = x;
  if (!looks && x->lost) stop_if_dead(m, x->from);
  return answer(x, looks);
}
