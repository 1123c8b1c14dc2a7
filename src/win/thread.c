/* Threads, and the one lock that they share with R's thread. */
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
