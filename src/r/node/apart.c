/* A node does some things apart from its requests: calls of actors that it has taken up. They may
 * be done within a task that waits, and within each other.
 *
 * Tasks do not notice them. They have random numbers of their own. Options and the like that they
 * change are put back when they end, see job-state.c. What they print is nobody's. The cancelling
 * of the request at hand does not interrupt them, where they are not for that request: see
 * clu_interrupt_is_meant. That is put off, and told to the session, which then does not end the
 * node as one that does not react.
 */
#include "r/node/node.h"

#include <R_ext/GraphicsEngine.h>

#include "core/base/os-signals.h"
#include "core/base/os.h"

static struct { int task, running; } levels[CLU_APART_MOST];

static SEXP seeds; /* preserved: the random numbers of what is below */

static void set_seed(SEXP seed) {
  SEXP symbol = clu_job_seed_symbol();
  if (seed != R_NilValue)
    Rf_defineVar(symbol, seed, R_GlobalEnv);
  else if (R_existsVarInFrame(R_GlobalEnv, symbol))
    R_removeVarFromFrame(symbol, R_GlobalEnv);
}

typedef struct begun {
  int n;
  SEXP seed, warn;
} begun;

/* All that may jump: then what is below goes on as if nothing had begun. */
static SEXP change_state(void *data) {
  const begun *x = data;
  SEXP output = ffi_work_output();
  clu_state_use(x->n + 1);
  clu_state_remember(1, 0);
  clu_keep_in(&seeds, CLU_APART_MOST, x->n, clu_variable(clu_job_seed_symbol(), R_GlobalEnv));
  clu_state_sink(output);
  clu_state_set_warn(x->warn);
  set_seed(x->seed);
  return R_NilValue;
}

static void use_below(void *data, Rboolean jump) {
  if (jump) clu_state_use(((const begun *)data)->n);
}

/* `seed`: the state of its random numbers. `warn`: its option. */
SEXP ffi_apart_begin(SEXP seed, SEXP warn) {
  int n = clu_me.apart;
  begun x = {n, seed, warn};
  if (n == CLU_APART_MOST) clu_raise("limit", "too many actors of this node wait for each other");
  R_UnwindProtect(change_state, &x, use_below, &x, NULL);
  levels[n].task = clu_me.task;
  levels[n].running = clu_me.running;
  clu_me.task = CLU_TASK_NONE;
  clu_me.running = 1;
  clu_me.apart = n + 1;
  if (n == 0) clu_os_int_defer(1);
  clu_relay_mute(1);
  return R_NilValue;
}

/* It may be the request's that was put off; or the one that has interrupted what was done for the
 * request here, which ends it, too. */
static void cancel_request(void) {
  clu_activity_go_on(clu_me.boot.activity, clu_os_now());
  if (!clu_me.running || !clu_me.seq || *clu_me.boot.cancel != clu_me.seq) return;
  clu_me.cancel_seen = 0;
  if (clu_me.apart)
    clu_os_interrupt_deferred(clu_os_getpid());
  else
    clu_os_kill(clu_os_getpid(), CLU_SIG_INT, 0);
}

/* Returns the state of its random numbers. */
SEXP ffi_apart_end(void) {
  Rboolean suspended = R_interrupts_suspended;
  int n = clu_me.apart - 1;
  SEXP seed;
  if (n < 0) return R_NilValue;
  seed = PROTECT(clu_variable(clu_job_seed_symbol(), R_GlobalEnv));
  R_interrupts_suspended = TRUE;
  clu_relay_mute(-1);
  clu_state_put_back();
  set_seed(clu_kept_in(seeds, n));
  clu_keep_in(&seeds, CLU_APART_MOST, n, R_NilValue);
  clu_state_use(n);
  R_interrupts_suspended = suspended;
  clu_me.apart = n;
  if (n == 0) clu_os_int_defer(0);
  clu_me.task = levels[n].task;
  if (levels[n].running) {
    clu_me.interrupted = 0;
    cancel_request();
  } else {
    clu_node_stop_running();
  }
  UNPROTECT(1);
  return seed;
}

int clu_apart_serve(void (*before)(void)) {
  if (!clu_besides_requests->has_come()) return 0;
  before();
  return clu_besides_requests->serve();
}
