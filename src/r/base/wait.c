#include "r/base/wait.h"

#include "r/base/turn.h"

void (*clu_meanwhile)(void);
int (*clu_interrupt_is_meant)(int of_request);
const clu_besides *clu_besides_requests;

int64_t clu_ns(double seconds) {
  return ISNAN(seconds) || seconds < 0 || seconds > 1e9 ? -1 : (int64_t)(seconds * 1e9);
}

uint64_t clu_span_ns(double seconds) { return (uint64_t)(1e9 * (seconds < 1e9 ? seconds : 1e9)); }

uint64_t clu_deadline_ns(int64_t ns) {
  return ns < 0 ? CLU_NEVER : clu_deadline_after(clu_os_now(), ns);
}

uint64_t clu_deadline(double seconds) { return clu_deadline_ns(clu_ns(seconds)); }

uint64_t clu_in_ms(uint64_t ms) { return clu_os_now() + ms * 1000000u; }

uint64_t clu_in_seconds(SEXP s) {
  double x = Rf_asReal(s);
  return clu_deadline(x > 0 ? x : 0);
}

int clu_may_spin(void) {
  static SEXP name;
  SEXP x;
  if (!name) name = Rf_install("clutch.wait_awake");
  x = Rf_GetOption1(name);
  return x == R_NilValue || Rf_asLogical(x) != FALSE;
}

int64_t clu_slice(uint64_t deadline) {
  return deadline == CLU_NEVER ? CLU_SLICE : clu_deadline_left(deadline, clu_os_now(), CLU_SLICE);
}

static SEXP check(void *unused) {
  (void)unused;
  R_CheckUserInterrupt();
  if (clu_meanwhile) clu_meanwhile();
  return R_NilValue;
}

typedef struct {
  void (*fn)(void *);
  void *data;
  const void *turn;
} on_jump;

static void jumped(void *data, Rboolean jump) {
  on_jump *j = data;
  if (!jump) return;
  clu_turn_resume(j->turn);
  j->fn(j->data);
  clu_turn_pause();
}

void clu_check_interrupt_now(void (*undo)(void *), void *data) {
  const void *turn = clu_turn_pause();
  on_jump j = {undo, data, turn};
  if (undo)
    R_UnwindProtect(check, NULL, jumped, &j, NULL);
  else
    check(NULL);
  clu_turn_resume(turn);
}

void clu_check_interrupt(void (*undo)(void *), void *data) {
  static uint64_t checked;
  if (clu_os_now() - checked < 10000000) return;
  clu_check_interrupt_now(undo, data);
  checked = clu_os_now();
}
