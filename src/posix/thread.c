/* Threads, and the one lock that they share with R's thread. */
#if defined(__linux__)
#define _GNU_SOURCE
#elif defined(__APPLE__)
#define _DARWIN_C_SOURCE
#endif

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/os.h"

static struct {
  pthread_mutex_t mutex;
  pthread_cond_t woken;
  pid_t owner;
} one;

/* Only R's thread can be the first in a process: the others are started later. */
int clu_os_lock(void) {
  int is_new = one.owner != getpid();
  if (is_new) {
    memset(&one, 0, sizeof one);
    pthread_mutex_init(&one.mutex, NULL);
#if defined(__APPLE__)
    pthread_cond_init(&one.woken, NULL);
#else
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&one.woken, &attr);
    pthread_condattr_destroy(&attr);
#endif
    one.owner = getpid();
  }
  pthread_mutex_lock(&one.mutex);
  return is_new;
}

void clu_os_unlock(void) { pthread_mutex_unlock(&one.mutex); }

void clu_os_lock_wait(int64_t ns) {
  struct timespec t;
#if defined(__APPLE__)
  t.tv_sec = (time_t)(ns / 1000000000);
  t.tv_nsec = (long)(ns % 1000000000);
  pthread_cond_timedwait_relative_np(&one.woken, &one.mutex, &t);
#else
  clock_gettime(CLOCK_MONOTONIC, &t);
  t.tv_sec += (time_t)(ns / 1000000000);
  t.tv_nsec += (long)(ns % 1000000000);
  if (t.tv_nsec >= 1000000000) {
    t.tv_sec++;
    t.tv_nsec -= 1000000000;
  }
  pthread_cond_timedwait(&one.woken, &one.mutex, &t);
#endif
}

void clu_os_lock_wake(void) { pthread_cond_broadcast(&one.woken); }

typedef struct task {
  void (*fn)(void *);
  void *data;
} task;

static void *run(void *data) {
  task t = *(task *)data;
  free(data);
  t.fn(t.data);
  return NULL;
}

int clu_os_thread_start(void (*fn)(void *), void *data, clu_thread *out, clu_err *e) {
  sigset_t every, old;
  pthread_t id;
  int failed;
  task *t = malloc(sizeof *t);
  if (!t) return clu_fail(e, CLU_LIMIT, 0, "no thread can be started: not enough memory");
  t->fn = fn;
  t->data = data;
  sigfillset(&every); /* signals are for R's thread */
  pthread_sigmask(SIG_BLOCK, &every, &old);
  failed = pthread_create(&id, NULL, run, t);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  if (failed) {
    free(t);
    return clu_fail(e, CLU_LIMIT, failed, "no thread can be started: %s", strerror(failed));
  }
  out->id = 0;
  memcpy(&out->id, &id, sizeof id < sizeof out->id ? sizeof id : sizeof out->id);
  return CLU_OK;
}

void clu_os_thread_join(clu_thread t) {
  pthread_t id;
  memcpy(&id, &t.id, sizeof id < sizeof t.id ? sizeof id : sizeof t.id);
  pthread_join(id, NULL);
}
