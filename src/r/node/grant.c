/* The tasks at hand were given something of their host, see core/wire/task-message.h: it is in
 * force from before the job is entered until it is left, or tasks come that were given something
 * else. R/node-resources.R does what is to be done, and this sets the threads of libraries. */
#include "r/node/node.h"

#include <string.h>

#include "core/base/os-libraries.h"

enum { MOST_LIBRARIES = 8 };

/* ---- messages ---- */

/* Preserved: what tasks are to have, and what is in force: text, or NULL. */
enum { WANTED, IN_FORCE, N_TEXTS };
static struct {
  SEXP texts;
  int threads;
} grant;

static SEXP keep(int which, SEXP x) { return clu_keep_in(&grant.texts, N_TEXTS, which, x); }
static SEXP kept(int which) { return clu_kept_in(grant.texts, which); }

void clu_grant_read(void) {
  unsigned char head[8];
  uint32_t n;
  char *text;
  const void *vmax = vmaxget(); /* the loop of a node does not return to R */
  clu_node_read(head, sizeof head);
  n = clu_get32(head + 4);
  text = R_alloc((size_t)n + 1, 1);
  clu_node_read(text, n);
  grant.threads = (int)clu_get32(head);
  keep(WANTED, PROTECT(Rf_ScalarString(Rf_mkCharLenCE(text, (int)n, CE_UTF8))));
  UNPROTECT(1);
  vmaxset(vmax);
}

void clu_grant_none(void) {
  if (kept(WANTED) != R_NilValue) keep(WANTED, R_NilValue);
}

static int is_in_force(SEXP wanted) {
  SEXP now = kept(IN_FORCE);
  if (wanted == R_NilValue || now == R_NilValue) return wanted == now;
  return STRING_ELT(wanted, 0) == STRING_ELT(now, 0);
}

void clu_grant_apply(void) {
  SEXP wanted = kept(WANTED), both;
  if (is_in_force(wanted)) return;
  if (wanted == R_NilValue) {
    clu_grant_put_back();
    return;
  }
  both = PROTECT(Rf_allocVector(VECSXP, 2));
  SET_VECTOR_ELT(both, 0, wanted);
  SET_VECTOR_ELT(both, 1, Rf_ScalarInteger(grant.threads));
  keep(IN_FORCE, wanted);
  clu_node_r("node_grant", both);
  UNPROTECT(1);
}

void clu_grant_put_back(void) {
  if (kept(IN_FORCE) == R_NilValue) return;
  keep(IN_FORCE, R_NilValue);
  clu_node_r("node_grant", R_NilValue);
}

/* ---- threads of libraries ---- */

/* The functions that set how many threads a library has, and tell it. */
static const struct {
  const char *set, *get;
} known[] = {{"omp_set_num_threads", "omp_get_max_threads"},
             {"openblas_set_num_threads", "openblas_get_num_threads"},
             {"openblas_set_num_threads64_", "openblas_get_num_threads64_"},
             {"MKL_Set_Num_Threads", "MKL_Get_Max_Threads"}};
enum { N_KNOWN = sizeof known / sizeof *known };

/* Libraries whose threads were set, and how many each had before. */
static struct {
  clu_function set;
  int before;
} set_before[N_KNOWN * MOST_LIBRARIES];
static int n_set;

static void set_threads(clu_function set, int n) { ((void (*)(int))set)(n); }

/* Tells whether the library that has this function was not unloaded meanwhile. */
static int is_loaded(clu_function set) {
  for (int k = 0; k < N_KNOWN; k++) {
    clu_function_pair found[MOST_LIBRARIES];
    int m = clu_os_library_functions(known[k].set, known[k].get, found, MOST_LIBRARIES);
    for (int i = 0; i < m; i++)
      if (found[i].a == set) return 1;
  }
  return 0;
}

static void remember(const clu_function_pair *x) {
  for (int k = 0; k < n_set; k++)
    if (set_before[k].set == x->a) return;
  if (n_set == N_KNOWN * MOST_LIBRARIES) return;
  set_before[n_set].set = x->a;
  set_before[n_set++].before = ((int (*)(void))x->b)();
}

/* From now on libraries that are loaded have so many threads: how many libraries. 0: as many as
 * before the first call. */
SEXP ffi_set_threads(SEXP n) {
  int threads = Rf_asInteger(n), any = 0;
  for (int k = n_set; threads <= 0 && k > 0; k--)
    if (is_loaded(set_before[k - 1].set))
      set_threads(set_before[k - 1].set, set_before[k - 1].before);
  if (threads <= 0) n_set = 0;
  for (int k = 0; k < N_KNOWN && threads > 0; k++) {
    clu_function_pair found[MOST_LIBRARIES];
    int m = clu_os_library_functions(known[k].set, known[k].get, found, MOST_LIBRARIES);
    for (int i = 0; i < m; i++) {
      remember(&found[i]);
      set_threads(found[i].a, threads);
    }
    any += m;
  }
  return Rf_ScalarInteger(any);
}
