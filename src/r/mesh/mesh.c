#include "r/mesh/mesh.h"

#include "r/base/wait.h"
#include "r/session/session.h"

clu_this_part clu_part;

/* ---- the session's handle ---- */

static void free_mesh(void *p) { clu_mesh_free(p); }
static clu_handle_kind meshes = {.name = "clutch_mesh", .free = free_mesh, .forget = free_mesh};

static clu_mesh *get(SEXP x) { return clu_handle_get(x, &meshes); }

/* A mesh for so many ranks. `folder`: a folder of this session's. */
SEXP ffi_mesh_new(SEXP count, SEXP folder) {
  SEXP x;
  clu_mesh *m = NULL;
  clu_err e = {0};
  clu_need_session();
  x = PROTECT(clu_handle_new(&meshes, R_NilValue));
  if (clu_mesh_new(Rf_asInteger(count), CHAR(STRING_ELT(folder, 0)), &m, &e) != CLU_OK)
    clu_raise_err(&e);
  clu_handle_set(x, m);
  UNPROTECT(1);
  return x;
}

SEXP ffi_mesh_path(SEXP x) { return Rf_mkString(clu_mesh_path(get(x))); }

clu_exit clu_exit_of(SEXP signal, SEXP status) {
  int sig = Rf_asInteger(signal), code = Rf_asInteger(status);
  clu_exit how = {.by_signal = sig != NA_INTEGER, .code = sig};
  if (!how.by_signal) how.code = code == NA_INTEGER ? -1 : code;
  return how;
}

/* The process of this rank has ended; `signal`, `status`: NA where that is not known. */
SEXP ffi_mesh_died(SEXP x, SEXP rank, SEXP signal, SEXP status) {
  clu_exit how = clu_exit_of(signal, status);
  clu_mesh_died(get(x), Rf_asInteger(rank) - 1, &how);
  return R_NilValue;
}

/* The run is over: nobody waits any more. */
SEXP ffi_mesh_end(SEXP x) {
  clu_mesh_end(get(x));
  return R_NilValue;
}

/* ---- what is known of the ranks ---- */

enum {
  OF_STATE,
  OF_PID,
  OF_SIGNAL,
  OF_STATUS,
  OF_WAITS,
  OF_WAITS_FOR,
  OF_TAG,
  OF_KIND,
  OF_OP,
  OF_TYPE,
  OF_ROOT,
  OF_LENGTH,
  OF_KEEPS,
  N_COLUMNS
};

static void put_rank(SEXP out, int i, const clu_rank_info *r) {
  int is_dead = r->state == CLU_RANK_DEAD, known = is_dead && r->how.code >= 0;
  INTEGER(VECTOR_ELT(out, OF_STATE))[i] = r->state;
  INTEGER(VECTOR_ELT(out, OF_PID))[i] = r->pid ? (int)r->pid : NA_INTEGER;
  INTEGER(VECTOR_ELT(out, OF_SIGNAL))[i] = known && r->how.by_signal ? r->how.code : NA_INTEGER;
  INTEGER(VECTOR_ELT(out, OF_STATUS))[i] = known && !r->how.by_signal ? r->how.code : NA_INTEGER;
  INTEGER(VECTOR_ELT(out, OF_WAITS))[i] = r->waits;
  INTEGER(VECTOR_ELT(out, OF_WAITS_FOR))[i] = r->wait_for < 0 ? NA_INTEGER : r->wait_for + 1;
  SET_STRING_ELT(VECTOR_ELT(out, OF_TAG), i, r->has_tag ? Rf_mkCharCE(r->tag, CE_UTF8) : NA_STRING);
  INTEGER(VECTOR_ELT(out, OF_KIND))[i] = (int)r->meeting.kind;
  INTEGER(VECTOR_ELT(out, OF_OP))[i] = (int)r->meeting.op;
  INTEGER(VECTOR_ELT(out, OF_TYPE))[i] = (int)r->meeting.type;
  INTEGER(VECTOR_ELT(out, OF_ROOT))[i] = (int)r->meeting.root;
  REAL(VECTOR_ELT(out, OF_LENGTH))[i] = (double)r->meeting.n;
  LOGICAL(VECTOR_ELT(out, OF_KEEPS))[i] = r->keeps;
}

/* A list of columns with an element a rank, and what the verdict is and of whom. `x`: a handle, or
 * NULL: the run that this process is a part of. */
SEXP ffi_mesh_ranks(SEXP x) {
  static const char *names[] = {"state",     "pid",    "signal", "status",  "waits",
                                "waits_for", "tag",    "kind",   "op",      "type",
                                "root",      "length", "keeps",  "verdict", ""};
  const clu_mesh *m = x == R_NilValue ? clu_part_mesh() : get(x);
  int n = clu_mesh_count(m), who[2];
  SEXP out = PROTECT(Rf_mkNamed(VECSXP, names)), verdict;
  for (int c = 0; c < N_COLUMNS; c++) {
    int type = c == OF_TAG ? STRSXP : c == OF_LENGTH ? REALSXP : c == OF_KEEPS ? LGLSXP : INTSXP;
    SET_VECTOR_ELT(out, c, Rf_allocVector((SEXPTYPE)type, n));
  }
  for (int i = 0; i < n; i++) {
    clu_rank_info r;
    clu_mesh_info(m, i, &r);
    put_rank(out, i, &r);
  }
  verdict = Rf_allocVector(INTSXP, 3);
  SET_VECTOR_ELT(out, N_COLUMNS, verdict);
  INTEGER(verdict)[0] = clu_mesh_verdict(m, who);
  INTEGER(verdict)[1] = who[0] + 1;
  INTEGER(verdict)[2] = who[1] + 1;
  UNPROTECT(1);
  return out;
}

/* ---- a part ---- */

static void forget(void) {
  if (!clu_part.mesh) return;
  clu_blob_unref(clu_part.sending);
  clu_message_free(clu_part.taken);
  clu_mesh_free(clu_part.mesh);
  clu_part = (clu_this_part){0};
}

/* This process is a part of that run from now on. */
SEXP ffi_mesh_join(SEXP path, SEXP count, SEXP rank) {
  clu_mesh *m = NULL;
  clu_err e = {0};
  forget();
  if (clu_mesh_join(CHAR(STRING_ELT(path, 0)), Rf_asInteger(count), Rf_asInteger(rank) - 1, &m,
                    &e) != CLU_OK)
    clu_raise_err(&e);
  clu_part.mesh = m;
  return R_NilValue;
}

/* Seconds that it has waited so far: to receive, to send, and for what all do together. */
SEXP ffi_mesh_waited(void) {
  SEXP out = Rf_allocVector(REALSXP, CLU_WAITED);
  for (int i = 0; i < CLU_WAITED; i++) REAL(out)[i] = (double)clu_part.waited[i] / 1e9;
  return out;
}

/* Its part has ended. */
SEXP ffi_mesh_leave(SEXP failed) {
  if (!clu_part.mesh || !clu_mesh_is_ours(clu_part.mesh)) return R_NilValue;
  clu_mesh_is_needed(clu_part.mesh);
  clu_mesh_leave(clu_part.mesh, Rf_asLogical(failed) == 1);
  clu_part.has_left = 1;
  if (!clu_mesh_is_needed(clu_part.mesh)) forget();
  return R_NilValue;
}

/* The run is over: what it keeps is of no use. */
SEXP ffi_mesh_forget(void) {
  forget();
  return R_NilValue;
}

/* c(rank, count), or NULL. */
SEXP ffi_mesh_me(void) {
  SEXP out;
  if (!clu_part.mesh || clu_part.has_left) return R_NilValue;
  out = Rf_allocVector(INTSXP, 2);
  INTEGER(out)[0] = clu_mesh_rank(clu_part.mesh) + 1;
  INTEGER(out)[1] = clu_mesh_count(clu_part.mesh);
  return out;
}

clu_mesh *clu_part_mesh(void) {
  if (!clu_part.mesh || clu_part.has_left)
    clu_raise("no_run", "this is no part of a run: only code that cluster_run() calls can do that");
  if (!clu_mesh_is_ours(clu_part.mesh))
    clu_raise("no_run", "this is a child process of a part of a run, and not the part");
  if (clu_part.is_half_done) { /* an interrupt has cut it short */
    clu_part.is_half_done = 0;
    clu_mesh_end(clu_part.mesh);
  }
  return clu_part.mesh;
}

void clu_part_stop(int rc, int who) {
  SEXP call;
  if (rc == CLU_NOMEM) clu_raise("memory", "not enough memory");
  if (rc != CLU_DEAD) {
    int of[2];
    int verdict = clu_mesh_verdict(clu_part.mesh, of);
    if (verdict == CLU_OK)
      clu_raise("protocol", "what rank %d has written to shared memory is damaged", who + 1);
    rc = verdict;
  }
  call = PROTECT(Rf_lang3(Rf_install("run_stops"), PROTECT(Rf_ScalarInteger(rc)),
                          PROTECT(Rf_ScalarInteger(who + 1))));
  Rf_eval(call, clu_namespace());
  UNPROTECT(3);
  clu_raise("protocol", "a run has stopped"); /* not reached */
}

int clu_part_rank(SEXP x, int any) {
  int count = clu_mesh_count(clu_part_mesh());
  double rank;
  if (x == R_NilValue && any) return -1;
  rank = (Rf_isNumeric(x) && Rf_xlength(x) == 1) ? Rf_asReal(x) : NA_REAL;
  if (!(rank >= 1 && rank <= count) || rank != (double)(int)rank)
    clu_raise("argument", "a rank is a number from 1 to %d", count);
  return (int)rank - 1;
}

/* An interrupt jumps. Others would take this part for one that waits, and find a deadlock. */
static void give_up(void *for_all) {
  clu_mesh_waits(clu_part.mesh, CLU_WAIT_NONE, -1, NULL);
  if (*(const int *)for_all) clu_part.is_half_done = 1;
}

void clu_part_sleep(enum clu_waited what, uint32_t events, uint64_t deadline, int for_all) {
  uint64_t began = clu_os_now();
  int rc = clu_mesh_sleep(clu_part.mesh, events, (uint64_t)clu_slice(deadline));
  clu_part.waited[what] += clu_os_now() - began;
  if (rc != CLU_OK) clu_part_stop(rc, -1);
  clu_check_interrupt(give_up, &for_all);
}

void clu_part_meet(const clu_meeting *why) {
  clu_mesh *m = clu_part_mesh();
  uint32_t turn;
  int who = -1, rc = clu_mesh_verdict(m, NULL);
  if (rc != CLU_OK) clu_part_stop(rc, -1);
  clu_mesh_waits(m, CLU_WAIT_MEETING, -1, NULL);
  clu_mesh_meet(m, why, &turn);
  for (;;) {
    uint32_t events = clu_mesh_events(m);
    rc = clu_mesh_has_met(m, turn, &who);
    if (rc != CLU_AGAIN || clu_mesh_verdict(m, NULL) != CLU_OK) break;
    clu_part_sleep(CLU_WAITED_FOR_ALL, events, CLU_NEVER, 1);
  }
  clu_mesh_waits(m, CLU_WAIT_NONE, -1, NULL);
  if (rc != CLU_OK) clu_part_stop(rc, who);
}

/* All ranks meet, for the same reason. */
SEXP ffi_mesh_meet(SEXP kind, SEXP root, SEXP op) {
  clu_meeting why = {.kind = (uint32_t)Rf_asInteger(kind),
                     .root = (uint32_t)Rf_asInteger(root),
                     .op = (uint32_t)Rf_asInteger(op)};
  clu_part_meet(&why);
  return R_NilValue;
}
