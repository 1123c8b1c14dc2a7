/* Which calls nodes are in, and copies of them, seen from R: core/shm/stacks.h says how they tell.
 */
#include <string.h>

#include "r/tasks/tasks.h"

#define LOOK_EVERY \
  2000000 /* ns between two looks at what nodes have told: nothing wakes who waits */

typedef struct asking {
  SEXP handles;
  uint32_t *questions; /* one a node; 0: it was not asked */
} asking;

static clu_node *nth(SEXP handles, R_xlen_t i) { return R_ExternalPtrAddr(VECTOR_ELT(handles, i)); }

/* Results in rings, of which nobody was told yet: who has answered is not busy. */
static void take_results(SEXP handles) {
  clu_engine *before = NULL;
  for (R_xlen_t i = 0; i < Rf_xlength(handles); i++) {
    clu_node *nd = nth(handles, i);
    clu_engine *t = nd ? clu_engine_of(nd) : NULL;
    if (!t || t == before) continue;
    before = t;
    clu_engine_take_rings(t);
  }
}

static int all_told(void *data) {
  const asking *a = data;
  take_results(a->handles);
  for (R_xlen_t i = 0; i < Rf_xlength(a->handles); i++) {
    clu_node *nd = nth(a->handles, i);
    if (!nd || !a->questions[i] || !clu_node_is_open(nd) || !clu_node_busy(nd)) continue;
    if (!clu_node_has_told_stack(nd, a->questions[i])) return 0;
  }
  return 1;
}

enum { JOB, ELEMENT, SINCE, KNOWN, CURRENT, AGE, TEXT, LABEL };

/* Says what node `i` is at: the number that its request or task has there; 0: nothing. */
static uint64_t put_work(SEXP out, R_xlen_t i, const clu_node *nd, uint64_t now) {
  clu_task_job *j;
  uint64_t task, since, head = clu_engine_at_hand(nd, &j, &task, &since);
  if (j) {
    REAL(VECTOR_ELT(out, JOB))[i] = (double)clu_task_job_number(j);
    REAL(VECTOR_ELT(out, ELEMENT))[i] = clu_number_or_na(clu_task_job_element(j, task));
    SET_STRING_ELT(VECTOR_ELT(out, LABEL), i, Rf_mkCharCE(clu_task_job_label(j), CE_UTF8));
  }
  if (!head) head = clu_node_request_at_hand(nd);
  if (clu_node_began(nd, head)) since = clu_node_began(nd, head); /* it knows best */
  if (since) REAL(VECTOR_ELT(out, SINCE))[i] = now > since ? 1e-9 * (double)(now - since) : 0;
  return head;
}

/* `question`: 0: it cannot be asked. */
static void put_stack(SEXP out, R_xlen_t i, clu_node *nd, uint32_t question) {
  static clu_stack s;
  uint64_t now = clu_os_now(), seq = put_work(out, i, nd, now);
  if (!seq || !question || !clu_node_stack(nd, &s) || s.seq != seq) return;
  SET_STRING_ELT(VECTOR_ELT(out, TEXT), i, Rf_mkCharLenCE(s.text, (int)s.size, CE_UTF8));
  LOGICAL(VECTOR_ELT(out, CURRENT))[i] = (int32_t)(s.told - question) >= 0;
  REAL(VECTOR_ELT(out, AGE))[i] = now > s.taken ? 1e-9 * (double)(now - s.taken) : 0;
}

static SEXP empty_answer(R_xlen_t n) {
  static const char *names[] = {"job", "element", "since", "known", "current",
                                "age", "text",    "label", ""};
  static const SEXPTYPE types[] = {REALSXP, REALSXP, REALSXP, LGLSXP,
                                   LGLSXP,  REALSXP, STRSXP,  STRSXP};
  SEXP out = PROTECT(Rf_mkNamed(VECSXP, names));
  for (int c = 0; c <= LABEL; c++) {
    SEXP x = Rf_allocVector(types[c], n);
    SET_VECTOR_ELT(out, c, x);
    for (R_xlen_t i = 0; i < n; i++) {
      if (types[c] == REALSXP) REAL(x)[i] = NA_REAL;
      if (types[c] == LGLSXP) LOGICAL(x)[i] = 0;
      if (types[c] == STRSXP) SET_STRING_ELT(x, i, NA_STRING);
    }
  }
  UNPROTECT(1);
  return out;
}

/* Asks these nodes which calls they are in, and waits `seconds` at most for those that are busy. A
 * list of vectors: `job`, `element`: of the task at hand, NA: it is none, or has no element;
 * `since`: for how many seconds it is at that, NA: not known; `known`: whether it can be asked at
 * all; `text`: its calls, a line each, NA: not known; `current`: whether they are those of now;
 * `age`: of how many seconds ago they are; `label`: what its job is called, NA: it has none. */
SEXP ffi_stacks(SEXP handles, SEXP seconds) {
  R_xlen_t n = Rf_xlength(handles);
  uint64_t deadline = clu_in_seconds(seconds);
  asking a = {handles, (uint32_t *)R_alloc((size_t)n + 1, sizeof(uint32_t))};
  SEXP out = PROTECT(empty_answer(n));
  clu_need_session(); /* none was needed until now where there is no node */
  clu_pump(0, NULL);
  for (R_xlen_t i = 0; i < n; i++) {
    a.questions[i] = clu_node_ask_stack(clu_get_node(VECTOR_ELT(handles, i)));
    LOGICAL(VECTOR_ELT(out, KNOWN))[i] = a.questions[i] != 0;
  }
  while (!all_told(&a)) {
    uint64_t now = clu_os_now();
    if (now >= deadline) break;
    clu_wait_for(all_told, &a, now + LOOK_EVERY < deadline ? now + LOOK_EVERY : deadline, NULL);
  }
  for (R_xlen_t i = 0; i < n; i++)
    put_stack(out, i, clu_get_node(VECTOR_ELT(handles, i)), a.questions[i]);
  UNPROTECT(1);
  return out;
}

/* ---- a copy of a busy node ---- */

typedef struct copying {
  SEXP handles;
  uint64_t seq; /* what the node is at */
  uint32_t copy;
} copying;

/* The number of the request or task that a node is at, and whose it is; 0: nothing. */
static uint64_t at_hand(const clu_node *nd, clu_task_job **j, uint64_t *task) {
  uint64_t since, seq;
  *j = NULL;
  if (!clu_node_is_open(nd) || !clu_node_busy(nd)) return 0;
  seq = clu_engine_at_hand(nd, j, task, &since);
  return seq ? seq : clu_node_request_at_hand(nd);
}

/* Also where it is at something else, or has ended. */
static int is_copied(void *data) {
  const copying *c = data;
  clu_node *nd = nth(c->handles, 0);
  clu_task_job *j;
  uint64_t task;
  take_results(c->handles);
  if (!nd || !clu_node_is_open(nd)) return 1;
  return clu_node_has_told_copy(nd, c->copy) || at_hand(nd, &j, &task) != c->seq;
}

static SEXP copy_answer(const char *why, const char *where, double element) {
  SEXP out = PROTECT(Rf_allocVector(VECSXP, 3));
  SET_VECTOR_ELT(out, 0, Rf_mkString(why));
  SET_VECTOR_ELT(out, 1, Rf_mkString(where));
  SET_VECTOR_ELT(out, 2, Rf_ScalarReal(element));
  UNPROTECT(1);
  return out;
}

/* Has the node that `c` tells of make a copy of itself, as long as it is at that. Why there is
 * none, or "copy", and `s` has where it is. */
static const char *make_copy(copying *c, clu_node *nd, uint64_t deadline, clu_stack *s) {
  clu_task_job *j;
  uint64_t task;
  if (!(c->copy = clu_node_ask_copy(nd, c->seq))) return "unknown";
  while (!is_copied(c)) {
    uint64_t now = clu_os_now();
    if (now >= deadline) break;
    clu_wait_for(is_copied, c, now + LOOK_EVERY < deadline ? now + LOOK_EVERY : deadline, NULL);
  }
  if (clu_node_is_open(nd) && clu_node_has_told_copy(nd, c->copy) && clu_node_stack(nd, s) &&
      s->copy[0])
    return "copy";
  if (clu_node_is_open(nd)) clu_node_give_up_copy(nd);
  if (at_hand(nd, &j, &task) != c->seq) return "idle";
  return clu_node_has_told_copy(nd, c->copy) ? "refused" : "silent";
}

/* Asks the node of this handle for a copy of itself, and waits `seconds` at most. `job`: as long as
 * it is at a task of the job with this number; NA: whatever it is at. list("copy", "process id,
 * key, path", element), or why there is none: "idle": it is at nothing, or at something else;
 * "unknown": it cannot be asked; "silent": it has not answered; "refused": it could not. */
SEXP ffi_node_copy(SEXP handle, SEXP job, SEXP seconds) {
  static clu_stack s;
  const char *why = "idle";
  double element = NA_REAL, wanted = Rf_asReal(job);
  SEXP handles = PROTECT(Rf_allocVector(VECSXP, 1)), out;
  uint64_t deadline = clu_in_seconds(seconds), task;
  copying c = {handles, 0, 0};
  clu_node *nd;
  clu_task_job *j;
  SET_VECTOR_ELT(handles, 0, handle);
  clu_pump(0, NULL);
  take_results(handles);
  nd = clu_get_node(handle);
  c.seq = at_hand(nd, &j, &task);
  if (!ISNA(wanted) && (!j || (double)clu_task_job_number(j) != wanted)) c.seq = 0;
  if (j) element = clu_number_or_na(clu_task_job_element(j, task));
  if (c.seq) why = make_copy(&c, nd, deadline, &s);
  out = copy_answer(why, strcmp(why, "copy") ? "" : s.copy, element);
  UNPROTECT(1);
  return out;
}

/* Says what a node is at, as far as is known now: c(its process id, number of the job, and of its
 * task, as ffi_job_relay() counts). NA: the process id is not known; it is at no task. */
SEXP ffi_node_at(SEXP handle) {
  SEXP handles = PROTECT(Rf_allocVector(VECSXP, 1)), out = PROTECT(Rf_allocVector(REALSXP, 3));
  clu_node *nd;
  clu_task_job *j;
  uint64_t task;
  SET_VECTOR_ELT(handles, 0, handle);
  clu_pump(0, NULL);
  take_results(handles);
  nd = clu_get_node(handle);
  at_hand(nd, &j, &task);
  REAL(out)[0] = clu_number_or_na((uint64_t)clu_node_pid(nd));
  REAL(out)[1] = j ? (double)clu_task_job_number(j) : NA_REAL;
  REAL(out)[2] = j ? (double)task + 1 : NA_REAL;
  UNPROTECT(2);
  return out;
}
