/* Which calls nodes are in, as an observer finds out: core/shm/stacks.h says how nodes tell. */
#include "r/node/seen.h"

enum { TEXT, CURRENT, AGE, KNOWN, JOB, ELEMENT, SINCE, OPEN };

/* The slot of node `i`, from 0; -1: it has none at this fork server. */
static int slot_of(const clu_seen *s, R_xlen_t i, const clu_seen_server *of) {
  const clu_view_node *nd = &s->view->memory->node[i];
  uint64_t slot = clu_view_get(&nd->slot);
  int is_here = of->shared && clu_view_get(&nd->server) == (uint64_t)of->pid;
  return is_here && slot > 0 && slot <= CLU_SLOTS ? (int)slot - 1 : -1;
}

SEXP clu_seen_ask_stacks(const clu_seen *s, const clu_seen_server *of, const char *is_asked) {
  SEXP out = PROTECT(Rf_allocVector(REALSXP, s->n));
  for (R_xlen_t i = 0; i < s->n; i++) {
    int slot = slot_of(s, i, of);
    uint64_t since;
    REAL(out)[i] = 0;
    if (!is_asked[i] || slot < 0 || !clu_shared_stack_word(of->shared, slot)) continue;
    if (!clu_activity_look(clu_shared_activity(of->shared, slot), &since)) continue;
    REAL(out)[i] = clu_stack_ask(clu_shared_stack_word(of->shared, slot));
  }
  UNPROTECT(1);
  return out;
}

static void put_stack(SEXP out, R_xlen_t i, const clu_seen *s, const clu_seen_server *of,
                      uint32_t question, clu_stack *told) {
  int slot = slot_of(s, i, of);
  uint64_t now = clu_os_now(), since, seq, job, task;
  const clu_stack_word *word;
  if (slot < 0 || !(word = clu_shared_stack_word(of->shared, slot))) return;
  LOGICAL(VECTOR_ELT(out, KNOWN))[i] = 1;
  if (!(seq = clu_activity_look(clu_shared_activity(of->shared, slot), &since))) return;
  REAL(VECTOR_ELT(out, SINCE))[i] = now > since ? 1e-9 * (double)(now - since) : 0;
  if (clu_view_task_of(s->view, (int)i, seq, &job, &task)) {
    REAL(VECTOR_ELT(out, JOB))[i] = (double)job;
    REAL(VECTOR_ELT(out, ELEMENT))[i] = (double)task + 1;
  }
  LOGICAL(VECTOR_ELT(out, OPEN))[i] = question && !clu_stack_is_told(word, question);
  if (!question || !clu_stack_read(word, clu_shared_stack(of->shared, slot), told)) return;
  if (told->seq != seq || told->size > CLU_STACK_TEXT) return;
  SET_STRING_ELT(VECTOR_ELT(out, TEXT), i, Rf_mkCharLenCE(told->text, (int)told->size, CE_UTF8));
  LOGICAL(VECTOR_ELT(out, CURRENT))[i] = (int32_t)(told->told - question) >= 0;
  REAL(VECTOR_ELT(out, AGE))[i] = now > told->taken ? 1e-9 * (double)(now - told->taken) : 0;
}

SEXP clu_seen_stacks(const clu_seen *s, const clu_seen_server *of, SEXP questions) {
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
    put_stack(out, i, s, of, (uint32_t)REAL(questions)[i], told);
  }
  UNPROTECT(1);
  return out;
}
