/* Threads, and locks. */
#include "win/win.h"

#include <stdlib.h>

static SRWLOCK one = SRWLOCK_INIT;
static CONDITION_VARIABLE woken = CONDITION_VARIABLE_INIT;
static int used;

int clu_os_lock(void) {
  int is_new;
  AcquireSRWLockExclusive(&one);
  is_new = !used;
  used = 1;
  return is_new;
}

void clu_os_unlock(void) { ReleaseSRWLockExclusive(&one); }
void clu_os_lock_wait(int64_t ns) {
  SleepConditionVariableSRW(&woken, &one, (DWORD)clu_os_wait_ms(ns), 0);
}
void clu_os_lock_wake(void) { WakeAllConditionVariable(&woken); }

struct clu_gate {
  SRWLOCK lock;
  CONDITION_VARIABLE woken;
};

clu_gate *clu_gate_new(void) {
  clu_gate *g = calloc(1, sizeof *g);
  if (!g) return NULL;
  InitializeSRWLock(&g->lock);
  InitializeConditionVariable(&g->woken);
  return g;
}

void clu_gate_free(clu_gate *g) { free(g); }
void clu_gate_lock(clu_gate *g) { AcquireSRWLockExclusive(&g->lock); }
void clu_gate_unlock(clu_gate *g) { ReleaseSRWLockExclusive(&g->lock); }
void clu_gate_wake(clu_gate *g) { WakeAllConditionVariable(&g->woken); }
void clu_gate_wait(clu_gate *g, int64_t ns) {
  SleepConditionVariableSRW(&g->woken, &g->lock, ns < 0 ? INFINITE : (DWORD)clu_os_wait_ms(ns), 0);
}

typedef struct task {
  void (*fn)(void *);
  void *data;
} task;

static DWORD WINAPI run(void *data) {
  task t = *(task *)data;
  free(data);
  t.fn(t.data);
  return 0;
}

/* Not by the C library's own function: the thread uses nothing of it that needs more. */
int clu_os_thread_start(void (*fn)(void *), void *data, clu_thread *out, clu_err *e) {
  char text[CLU_WIN_TEXT];
  HANDLE h;
  task *t = malloc(sizeof *t);
  if (!t) return clu_fail(e, CLU_LIMIT, 0, "no thread can be started: not enough memory");
  t->fn = fn;
  t->data = data;
  h = CreateThread(NULL, 0, run, t, 0, NULL);
  if (!h) {
    int err = (int)GetLastError();
    free(t);
    return clu_fail(e, CLU_LIMIT, err, "no thread can be started: %s", clu_win_text(err, text));
  }
  out->id = (uint64_t)(uintptr_t)h;
  return CLU_OK;
}

void clu_os_thread_join(clu_thread t) {
  HANDLE h = (HANDLE)(uintptr_t)t.id;
  WaitForSingleObject(h, INFINITE);
  CloseHandle(h);
}

int clu_os_around_fork(void (*before)(void), void (*after)(void), void (*fn)(int)) {
  (void)before; /* there is no fork around which they would have to run */
  (void)after;
  (void)fn;
  return CLU_OK;
}
