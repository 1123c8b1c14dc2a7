#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "core/base/os-mutex.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "posix/features.h"

static int has_died(clu_os_mutex *m, clu_pid me, clu_pid *before) {
  *before = (clu_pid)atomic_exchange(&m->holder, (uint64_t)me);
  return *before != 0;
}

/* Tells whether there is something to give, and that there is not any more. */
static int gives(clu_os_mutex *m, clu_pid me) {
  uint64_t holder = (uint64_t)me;
  return atomic_compare_exchange_strong(&m->holder, &holder, 0);
}

#if defined(CLU_HAVE_ROBUST_MUTEX)

_Static_assert(sizeof(pthread_mutex_t) <= sizeof(((clu_os_mutex *)0)->of_system),
               "there is room for the system's mutex");

static pthread_mutex_t *of_system(clu_os_mutex *m) {
  return (pthread_mutex_t *)(void *)m->of_system;
}

int clu_os_mutex_new(clu_os_mutex *m, clu_err *e) {
  pthread_mutexattr_t a;
  int rc = pthread_mutexattr_init(&a);
  if (rc == 0) {
    rc = pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
    if (rc == 0) rc = pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
    if (rc == 0) rc = pthread_mutexattr_settype(&a, PTHREAD_MUTEX_ERRORCHECK);
    if (rc == 0) rc = pthread_mutex_init(of_system(m), &a);
    pthread_mutexattr_destroy(&a);
  }
  if (rc == 0) return CLU_OK;
  return clu_fail(e, CLU_SYS, rc, "a mutex cannot be made: %s", strerror(rc));
}

/* The time of day may be set while somebody waits: the clock that goes on is asked where the C
 * library has that. */
static int wait_for(pthread_mutex_t *p, uint64_t ns) {
  struct timespec t;
#if defined(CLU_HAVE_CLOCKLOCK)
  clock_gettime(CLOCK_MONOTONIC, &t);
#else
  clock_gettime(CLOCK_REALTIME, &t);
#endif
  t.tv_sec += (time_t)(ns / 1000000000u);
  t.tv_nsec += (long)(ns % 1000000000u);
  if (t.tv_nsec >= 1000000000) {
    t.tv_nsec -= 1000000000;
    t.tv_sec++;
  }
#if defined(CLU_HAVE_CLOCKLOCK)
  return pthread_mutex_clocklock(p, CLOCK_MONOTONIC, &t);
#else
  return pthread_mutex_timedlock(p, &t);
#endif
}

int clu_os_mutex_take(clu_os_mutex *m, clu_fd fd, uint64_t ns, clu_pid me, clu_pid *before) {
  pthread_mutex_t *p = of_system(m);
  int rc = pthread_mutex_trylock(p);
  (void)fd;
  if (rc == EBUSY && ns > 0) rc = wait_for(p, ns);
  if (rc == EBUSY || rc == ETIMEDOUT) return CLU_TIMEOUT;
  if (rc == EOWNERDEAD) rc = pthread_mutex_consistent(p);
  if (rc != 0) return CLU_SYS;
  return has_died(m, me, before) ? CLU_DEAD : CLU_OK;
}

void clu_os_mutex_give(clu_os_mutex *m, clu_fd fd, clu_pid me) {
  (void)fd;
  if (gives(m, me)) pthread_mutex_unlock(of_system(m));
}

#else

int clu_os_mutex_new(clu_os_mutex *m, clu_err *e) {
  (void)m;
  (void)e;
  return CLU_OK;
}

static int lock_file(clu_fd fd, short how) {
  struct flock l;
  memset(&l, 0, sizeof l);
  l.l_type = how;
  l.l_whence = SEEK_SET;
  l.l_len = 1;
  return fcntl((int)fd, F_SETLK, &l) == 0 ? 0 : errno;
}

/* Looks after 20 us, and then after a tenth of the time that has passed, at most every ms. */
int clu_os_mutex_take(clu_os_mutex *m, clu_fd fd, uint64_t ns, clu_pid me, clu_pid *before) {
  uint64_t began = clu_os_now(), spent;
  struct stat st;
  int rc;
  if (fstat((int)fd, &st) != 0 || !S_ISREG(st.st_mode)) return CLU_SYS; /* a copy without files */
  while ((rc = lock_file(fd, F_WRLCK)) == EAGAIN || rc == EACCES) {
    struct timespec t = {0, 20000};
    if ((spent = clu_os_now() - began) >= ns) return CLU_TIMEOUT;
    if (spent / 10 > 20000) t.tv_nsec = spent / 10 > 1000000 ? 1000000 : (long)(spent / 10);
    nanosleep(&t, NULL);
  }
  if (rc != 0) return CLU_SYS;
  return has_died(m, me, before) ? CLU_DEAD : CLU_OK;
}

void clu_os_mutex_give(clu_os_mutex *m, clu_fd fd, clu_pid me) {
  if (gives(m, me)) lock_file(fd, F_UNLCK);
}

#endif
