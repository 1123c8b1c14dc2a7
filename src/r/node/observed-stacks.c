/* Which calls nodes are in, as an observer finds out: core/shm/stacks.h says how nodes tell. */
#include "r/node/observed.h"

enum { TEXT, CURRENT, AGE, KNOWN, JOB, ELEMENT, SINCE, OPEN };

SEXP clu_observed_ask_stacks(const clu_observed *s, const char *is_asked) {
  SEXP out = PROTECT(Rf_allocVector(REALSXP, s->n));
  for (R_xlen_t i = 0; i < s->n; i++) {
    clu_observed_work w;
    REAL(out)[i] = 0;
    if (!is_asked[i]) continue;
    clu_observed_work_of(s, i, &w);
    if (w.word && w.seq) REAL(out)[i] = clu_observed_ask(s, i, &w);
  }
  UNPROTECT(1);
  return out;
}

static void put_stack(SEXP out, R_xlen_t i, const clu_observed *s, uint32_t question,
                      clu_stack *told) {
  uint64_t now = clu_os_now(), job, task;
  clu_observed_work w;
  clu_observed_work_of(s, i, &w);
  LOGICAL(VECTOR_ELT(out, KNOWN))[i] = w.word != NULL;
  if (!w.word || !w.seq) return;
  REAL(VECTOR_ELT(out, SINCE))[i] = now > w.since ? 1e-9 * (double)(now - w.since) : 0;
  if (clu_view_task_of(s->view, (int)i, w.seq, &job, &task)) {
    REAL(VECTOR_ELT(out, JOB))[i] = (double)job;
    REAL(VECTOR_ELT(out, ELEMENT))[i] = (double)task + 1;
  }
  LOGICAL(VECTOR_ELT(out, OPEN))[i] = question && !clu_stack_is_told(w.word, question);
  if (!question || !clu_observed_stack_of(&w, told)) return;
  SET_STRING_ELT(VECTOR_ELT(out, TEXT), i, Rf_mkCharLenCE(told->text, (int)told->size, CE_UTF8));
  LOGICAL(VECTOR_ELT(out, CURRENT))[i] = (int32_t)(told->told - question) >= 0;
  REAL(VECTOR_ELT(out, AGE))[i] = now > told->taken ? 1e-9 * (double)(now - told->taken) : 0;
}

SEXP clu_observed_stacks(const clu_observed *s, SEXP questions) {
  static const char *names[] = {"text",    "current", "age",  "known", "job",
                                "element", "since",   "open", ""};
  static const SEXPTYPE types[] = {STRSXP,  LGLSXP,  REALSXP, LGLSXP,
                                   REALSXP, REALSXP, REALSXP, LGLSXP};
  clu_stack *told = (clu_stack *)R_alloc(1, sizeof *told);
  SEXP out = PROTECT(Rf_mkNamed(VECSXP, names));
  for (int k = TEXT; k <= OPEN; k++) SET_VECTOR_ELT(out, k, Rf_allocVector(types[k], s->n));
  for (R_xlen_t i = 0; i < s->n; i++) {
    SET_STRING_ELT(VECTOR_ELT(out, TEXT), i, NA_STRING);
    LOGICAL(VECTOR_ELT(out, CURRENT))[i] = NA_LOGICAL;
    LOGICAL(VECTOR_ELT(out, KNOWN))[i] = LOGICAL(VECTOR_ELT(out, OPEN))[i] = 0;
    REAL(VECTOR_ELT(out, AGE))[i] = REAL(VECTOR_ELT(out, SINCE))[i] = NA_REAL;
    REAL(VECTOR_ELT(out, JOB))[i] = REAL(VECTOR_ELT(out, ELEMENT))[i] = NA_REAL;
    put_stack(out, i, s, (uint32_t)REAL(questions)[i], told);
  }
  UNPROTECT(1);
  return out;
}
