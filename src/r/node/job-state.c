/* This file has what the tasks of a job may change of a node's R, and what the next job finds as it
 * was before: options, environment variables, the working directory, the locale, sinks, graphics
 * devices, time limits, the kind of random numbers. What calls do (clusterEvalQ(), cluster_setup())
 * stays.
 *
 * Nearly always nothing was changed. To find that out is done here, and takes about 2 us; what has
 * changed is put back by R/node-state.R. */
#include "r/node/node.h"

#include <locale.h>
#include <string.h>

#include "core/base/os.h"

/* Preserved: as they were when the job was entered. */
enum { OPTIONS, OPTION_NAMES, VARIABLES, FOLDER, LOCALE, SEED, NAMESPACES, WARN, N_KEPT };

static struct state {
  SEXP kept;
  int output, messages; /* sinks of output; the connection that messages go to */
  int namespaces;       /* so many are loaded */
  uint64_t devices;     /* graphics devices that are open, a bit each */
} states[CLU_APART_MOST + 1], *state = states; /* of the job; of what is done apart from it */

static SEXP keep(int which, SEXP x) { return clu_keep_in(&state->kept, N_KEPT, which, x); }

static SEXP kept(int which) { return clu_kept_in(state->kept, which); }

/* ---- R's internal functions ----
 * Base R's functions around them take several us, most of it to match their arguments. */

/* .Internal(name(args)), preserved. */
static SEXP internal(const char *name, SEXP args) {
  SEXP call = PROTECT(Rf_lcons(Rf_install(name), PROTECT(args)));
  call = Rf_lang2(Rf_install(".Internal"), call);
  R_PreserveObject(call);
  UNPROTECT(2);
  return call;
}

/* How many sinks output goes through; with FALSE the connection that messages go to. */
SEXP ffi_work_sinks(SEXP output) {
  static SEXP call;
  if (!call) call = internal("sink.number", Rf_list1(R_NilValue));
  SETCADR(CADR(call), output);
  return Rf_eval(call, R_BaseEnv);
}

static int sinks(int output) {
  static SEXP yes, no;
  if (!yes) {
    R_PreserveObject(yes = Rf_ScalarLogical(TRUE));
    R_PreserveObject(no = Rf_ScalarLogical(FALSE));
  }
  return Rf_asInteger(ffi_work_sinks(output ? yes : no));
}

int clu_state_sinks(void) { return sinks(1); }

void clu_state_sink(SEXP connection) {
  static SEXP call;
  SEXP no;
  if (!call) {
    no = PROTECT(Rf_ScalarLogical(FALSE));
    call = internal("sink", Rf_list4(R_NilValue, no, no, no));
    UNPROTECT(1);
  }
  SETCADR(CADR(call), connection);
  Rf_eval(call, R_BaseEnv);
  SETCADR(CADR(call), R_NilValue);
}

static void end_sink(void) {
  static SEXP none;
  if (!none) R_PreserveObject(none = Rf_ScalarInteger(-1));
  clu_state_sink(none);
}

void clu_state_end_time_limit(void) {
  static SEXP call;
  if (!call) {
    SEXP none = PROTECT(Rf_ScalarReal(R_PosInf)), no = PROTECT(Rf_ScalarLogical(FALSE));
    call = internal("setTimeLimit", Rf_list3(none, none, no));
    UNPROTECT(2);
  }
  Rf_eval(call, R_BaseEnv);
}

static SEXP folder_now(void) {
  static SEXP call;
  if (!call) call = internal("getwd", R_NilValue);
  return Rf_eval(call, R_BaseEnv);
}

static SEXP namespaces_now(void) {
  static SEXP call;
  if (!call) call = internal("getNamespaceRegistry", R_NilValue);
  return Rf_eval(call, R_BaseEnv);
}

/* Their names are wanted only where tasks have a fresh workspace, and are made when their number
 * has changed. */
static void remember_namespaces(int fresh) {
  SEXP registry = PROTECT(namespaces_now());
  state->namespaces = Rf_length(registry);
  if (!fresh)
    keep(NAMESPACES, R_NilValue);
  else if (Rf_length(kept(NAMESPACES)) != state->namespaces)
    keep(NAMESPACES, R_lsInternal3(registry, TRUE, FALSE));
  UNPROTECT(1);
}

static int has_connections(void) {
  static SEXP call;
  if (!call) call = internal("getAllConnections", R_NilValue);
  /* every R has three */
  return Rf_length(Rf_eval(call, R_BaseEnv)) > 3 + clu_relay_is_open();
}

/* The list of devices has the null device in any case, and is as long as it ever was. */
static int has_devices(void) {
  return Rf_length(clu_variable(Rf_install(".Devices"), R_BaseEnv)) > 1;
}

/* The workspace has .Random.seed in any case. */
int clu_state_is_bare(void) {
  return sinks(1) == 0 && !has_connections() && !has_devices() && Rf_length(R_GlobalEnv) <= 1;
}

/* ---- options ---- */

static SEXP warn_symbol(void) {
  static SEXP symbol;
  if (!symbol) symbol = Rf_install("warn");
  return symbol;
}

static SEXP options_now(void) { return clu_variable(Rf_install(".Options"), R_BaseEnv); }

static SEXP warn_now(void) { return Rf_GetOption1(warn_symbol()); }

static int same_number(SEXP a, SEXP b) {
  return TYPEOF(a) == TYPEOF(b) && Rf_isNumeric(a) && Rf_xlength(a) == 1 && Rf_xlength(b) == 1 &&
         !clu_has_attributes(a) && !clu_has_attributes(b) && Rf_asReal(a) == Rf_asReal(b);
}

void clu_state_set_warn(SEXP value) {
  static SEXP call;
  if (value == R_NilValue || same_number(value, warn_now())) return;
  if (!call) {
    call = Rf_lang2(Rf_install("options"), R_NilValue);
    R_PreserveObject(call);
    SET_TAG(CDR(call), warn_symbol());
  }
  SETCADR(call, value);
  Rf_eval(call, R_BaseEnv);
  SETCADR(call, R_NilValue);
}

/* Tells whether the options are the same objects as before, or the same number: of some that are
 * numbers R makes a new object whenever they are set, also to what they were. That the job itself
 * has set `warn` does not count. */
static int same_options(void) {
  SEXP values = kept(OPTIONS), names = kept(OPTION_NAMES);
  R_xlen_t i = 0, n = Rf_xlength(values);
  for (SEXP o = options_now(); o != R_NilValue; o = CDR(o), i++) {
    if (i >= n || PRINTNAME(TAG(o)) != STRING_ELT(names, i)) return 0;
    if (CAR(o) == VECTOR_ELT(values, i) || TAG(o) == warn_symbol()) continue;
    if (!same_number(CAR(o), VECTOR_ELT(values, i))) return 0;
  }
  return i == n;
}

static SEXP kept_warn(void) {
  SEXP names = kept(OPTION_NAMES);
  for (R_xlen_t i = 0; i < Rf_xlength(names); i++)
    if (STRING_ELT(names, i) == PRINTNAME(warn_symbol())) return VECTOR_ELT(kept(OPTIONS), i);
  return R_NilValue;
}

static void remember_options(void) {
  SEXP now = options_now();
  R_xlen_t i = 0, n = Rf_xlength(now);
  if (!same_options()) {
    keep(OPTIONS, Rf_allocVector(VECSXP, n));
    keep(OPTION_NAMES, Rf_allocVector(STRSXP, n));
    Rf_setAttrib(kept(OPTIONS), R_NamesSymbol, kept(OPTION_NAMES));
    keep(OPTION_NAMES, Rf_getAttrib(kept(OPTIONS), R_NamesSymbol));
    for (SEXP o = now; o != R_NilValue; o = CDR(o), i++) {
      SET_VECTOR_ELT(kept(OPTIONS), i, CAR(o));
      SET_STRING_ELT(kept(OPTION_NAMES), i, PRINTNAME(TAG(o)));
    }
    return;
  }
  for (SEXP o = now; o != R_NilValue; o = CDR(o), i++)
    if (TAG(o) == warn_symbol()) SET_VECTOR_ELT(kept(OPTIONS), i, CAR(o));
}

/* ---- environment variables ---- */

static int same_environment(SEXP old, char **env) {
  R_xlen_t i = 0;
  for (; env[i]; i++)
    if (i >= Rf_xlength(old) || strcmp(env[i], CHAR(STRING_ELT(old, i))) != 0) return 0;
  return i == Rf_xlength(old);
}

/* The environment variables, each as "name=value"; NULL: they are as in `old`. Sys.getenv() takes
 * 50 us. */
SEXP ffi_work_environment(SEXP old) {
  static char *none[1];
  char **env = clu_os_environ();
  R_xlen_t n = 0;
  SEXP now;
  if (!env) env = none; /* clearenv() */
  if (old != R_NilValue && same_environment(old, env)) return R_NilValue;
  while (env[n]) n++;
  now = PROTECT(Rf_allocVector(STRSXP, n));
  for (R_xlen_t i = 0; i < n; i++) SET_STRING_ELT(now, i, Rf_mkCharCE(env[i], CE_NATIVE));
  UNPROTECT(1);
  return now;
}

/* One or two of those in `kept` differ on a new node, and only these are replaced: to build a
 * vector anew would write to the pages that the node shares with the fork server, where the others
 * are. */
static void remember_environment(void) {
  SEXP old = kept(VARIABLES);
  char **env = clu_os_environ();
  R_xlen_t n = 0;
  while (env && env[n]) n++;
  if (!env || old == R_NilValue || Rf_xlength(old) != n) {
    SEXP now = ffi_work_environment(old);
    if (now != R_NilValue) keep(VARIABLES, now);
    return;
  }
  for (R_xlen_t i = 0; i < n; i++)
    if (strcmp(env[i], CHAR(STRING_ELT(old, i))) != 0)
      SET_STRING_ELT(old, i, Rf_mkCharCE(env[i], CE_NATIVE));
}

/* ---- graphics devices ---- */

/* R has at most 63, besides the null device. `.Devices` has their names, "" where none is. */
static uint64_t devices_now(void) {
  static SEXP symbol;
  uint64_t open = 0;
  SEXP names;
  if (!symbol) symbol = Rf_install(".Devices");
  names = clu_variable(symbol, R_BaseEnv);
  if (TYPEOF(names) != LISTSXP) return 0;
  names = CDR(names);
  for (unsigned k = 1; k < 64 && names != R_NilValue; k++, names = CDR(names)) {
    SEXP name = CAR(names);
    if (TYPEOF(name) == STRSXP && Rf_xlength(name) > 0 && LENGTH(STRING_ELT(name, 0)) > 0)
      open |= (uint64_t)1 << k;
  }
  return open;
}

/* Their numbers as grDevices::dev.list() has them. */
static SEXP device_numbers(uint64_t open) {
  int n = 0;
  SEXP out;
  for (unsigned k = 1; k < 64; k++) n += (int)(open >> k & 1);
  out = Rf_allocVector(INTSXP, n);
  for (int k = 63; k > 0; k--)
    if (open >> k & 1) INTEGER(out)[--n] = k + 1;
  return out;
}

/* ---- all of it ---- */

static int same_string(SEXP a, SEXP b) {
  if (TYPEOF(a) != STRSXP || TYPEOF(b) != STRSXP) return TYPEOF(a) == TYPEOF(b);
  return Rf_xlength(a) == Rf_xlength(b) && STRING_ELT(a, 0) == STRING_ELT(b, 0);
}

static int same_locale(void) {
  const char *now = setlocale(LC_ALL, NULL);
  SEXP all = kept(LOCALE) == R_NilValue ? R_NilValue : VECTOR_ELT(kept(LOCALE), 0);
  return now && TYPEOF(all) == STRSXP && strcmp(now, CHAR(STRING_ELT(all, 0))) == 0;
}

static SEXP seed_now(void) {
  static SEXP symbol;
  if (!symbol) symbol = Rf_install(".Random.seed");
  return clu_variable(symbol, R_GlobalEnv);
}

/* Its first number tells the kind of generator, which is what comes back. */
static int same_generator(void) {
  SEXP before = kept(SEED), now;
  if (before == R_NilValue) return 1;
  now = seed_now();
  return TYPEOF(now) == INTSXP && TYPEOF(before) == INTSXP && Rf_xlength(now) > 0 &&
         Rf_xlength(before) > 0 && INTEGER(now)[0] == INTEGER(before)[0];
}

void clu_state_remember(int seeded, int fresh) {
  SEXP x;
  remember_options();
  remember_environment();
  x = PROTECT(folder_now());
  if (!same_string(x, kept(FOLDER))) keep(FOLDER, x);
  UNPROTECT(1);
  if (!same_locale()) keep(LOCALE, clu_node_r("locale_now", R_NilValue));
  keep(SEED, seeded ? R_NilValue : seed_now());
  state->output = sinks(1);
  state->messages = sinks(0);
  state->devices = devices_now();
  remember_namespaces(fresh);
}

static int is_as_before(void) {
  int same;
  if (devices_now() & ~state->devices) return 0;
  if (sinks(0) != state->messages || !same_options() || !same_locale() || !same_generator())
    return 0;
  if (ffi_work_environment(kept(VARIABLES)) != R_NilValue) return 0;
  same = same_string(PROTECT(folder_now()), kept(FOLDER));
  UNPROTECT(1);
  return same;
}

void clu_state_entered(void) { keep(WARN, warn_now()); }

int clu_state_is_same(void) { return warn_now() == kept(WARN) && is_as_before(); }

/* For state_put_back() in R. */
static SEXP as_list(void) {
  static const char *names[] = {"options", "variables",  "folder",         "locale",  "seed",
                                "sinks",   "namespaces", "had_namespaces", "devices", ""};
  SEXP out = PROTECT(Rf_mkNamed(VECSXP, names)), numbers = Rf_allocVector(INTSXP, 2);
  SET_VECTOR_ELT(out, 5, numbers);
  INTEGER(numbers)[0] = state->output;
  INTEGER(numbers)[1] = state->messages;
  SET_VECTOR_ELT(out, 0, kept(OPTIONS));
  SET_VECTOR_ELT(out, 1, kept(VARIABLES));
  SET_VECTOR_ELT(out, 2, kept(FOLDER));
  SET_VECTOR_ELT(out, 3, kept(LOCALE));
  SET_VECTOR_ELT(out, 4, kept(SEED));
  SET_VECTOR_ELT(out, 6, Rf_ScalarInteger(state->namespaces));
  SET_VECTOR_ELT(out, 7, kept(NAMESPACES));
  SET_VECTOR_ELT(out, 8, device_numbers(state->devices));
  UNPROTECT(1);
  return out;
}

void clu_state_use(int level) { state = &states[level]; }

void clu_state_put_back(void) {
  while (sinks(1) > state->output) end_sink();
  clu_state_set_warn(kept_warn());
  if (is_as_before()) return;
  clu_node_r("state_put_back", PROTECT(as_list()));
  UNPROTECT(1);
}
