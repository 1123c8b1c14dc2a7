/* Threads, and locks. */
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

#include "posix/features.h"
#if defined(CLU_HAVE_PRCTL)
#include <sys/prctl.h>
#endif

#include "core/base/os.h"

static struct {
  pthread_mutex_t mutex;
  pthread_cond_t woken;
  pid_t owner;
} one;

static void init_cond(pthread_cond_t *woken) {
#if defined(__APPLE__)
  pthread_cond_init(woken, NULL);
#else
  pthread_condattr_t attr;
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  pthread_cond_init(woken, &attr);
  pthread_condattr_destroy(&attr);
#endif
}

/* Only R's thread can be the first in a process: the others are started later. */
int clu_os_lock(void) {
  int is_new = one.owner != getpid();
  if (is_new) {
    memset(&one, 0, sizeof one);
    pthread_mutex_init(&one.mutex, NULL);
    init_cond(&one.woken);
    one.owner = getpid();
  }
  pthread_mutex_lock(&one.mutex);
  return is_new;
}

void clu_os_unlock(void) { pthread_mutex_unlock(&one.mutex); }

static void wait_at(pthread_cond_t *woken, pthread_mutex_t *mutex, int64_t ns) {
  struct timespec t;
#if defined(__APPLE__)
  t.tv_sec = (time_t)(ns / 1000000000);
  t.tv_nsec = (long)(ns % 1000000000);
  pthread_cond_timedwait_relative_np(woken, mutex, &t);
#else
  clock_gettime(CLOCK_MONOTONIC, &t);
  t.tv_sec += (time_t)(ns / 1000000000);
  t.tv_nsec += (long)(ns % 1000000000);
  if (t.tv_nsec >= 1000000000) {
    t.tv_sec++;
    t.tv_nsec -= 1000000000;
  }
  pthread_cond_timedwait(woken, mutex, &t);
#endif
}

void clu_os_lock_wait(int64_t ns) { wait_at(&one.woken, &one.mutex, ns); }

void clu_os_lock_wake(void) { pthread_cond_broadcast(&one.woken); }

struct clu_gate {
  pthread_mutex_t mutex;
  pthread_cond_t woken;
};

clu_gate *clu_gate_new(void) {
  clu_gate *g = calloc(1, sizeof *g);
  if (!g) return NULL;
  pthread_mutex_init(&g->mutex, NULL);
  init_cond(&g->woken);
  return g;
}

void clu_gate_free(clu_gate *g) {
  if (!g) return;
  pthread_cond_destroy(&g->woken);
  pthread_mutex_destroy(&g->mutex);
  free(g);
}

void clu_gate_lock(clu_gate *g) { pthread_mutex_lock(&g->mutex); }
void clu_gate_unlock(clu_gate *g) { pthread_mutex_unlock(&g->mutex); }
void clu_gate_wake(clu_gate *g) { pthread_cond_broadcast(&g->woken); }
void clu_gate_wait(clu_gate *g, int64_t ns) {
  if (ns < 0)
    pthread_cond_wait(&g->woken, &g->mutex);
  else
    wait_at(&g->woken, &g->mutex, ns);
}

typedef struct task {
  void (*fn)(void *);
  void *data;
} task;

static void *run(void *data) {
  task t = *(task *)data;
  free(data);
#if defined(CLU_HAVE_PRCTL)
  prctl(PR_SET_NAME, "clutch"); /* top and the like tell it from R's thread */
#endif
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

/* ---- forks ---- */

static struct {
  pthread_t caller;
  void (*before)(void), (*after)(void), (*fn)(int);
} around;

static int by_caller(void) { return pthread_equal(pthread_self(), around.caller) != 0; }
static void before_fork(void) {
  if (by_caller()) around.before();
}
static void after_fork(void) {
  if (by_caller()) around.after();
}
static void in_child(void) { around.fn(by_caller()); }

int clu_os_around_fork(void (*before)(void), void (*after)(void), void (*fn)(int)) {
  around.caller = pthread_self();
  around.before = before;
  around.after = after;
  around.fn = fn;
  return pthread_atfork(before_fork, after_fork, in_child) == 0 ? CLU_OK : CLU_SYS;
}
