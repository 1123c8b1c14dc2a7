/* This file tells whether samples of this process are taken: by a timer that sends SIGPROF, or by a
 * thread that does.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

#include "core/base/os-samples.h"
#include "core/base/os.h"

/* The signal is only looked for, and delivered afterwards: no sample is lost. */
static int sampled_within(uint64_t ns) {
  uint64_t end = clu_os_now() + ns;
  sigset_t mask, old, pending;
  int found = 0;
  sigemptyset(&mask);
  sigaddset(&mask, SIGPROF);
  pthread_sigmask(SIG_BLOCK, &mask, &old);
  do {
    clu_os_pause(2000000);
    found = sigpending(&pending) == 0 && sigismember(&pending, SIGPROF) == 1;
  } while (!found && clu_os_now() < end);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  return found;
}

int clu_os_is_sampled(int by_thread) {
  static void (*idle)(int); /* the handler that was there when no signal came */
  struct itimerval timer;
  struct sigaction action;
  if (getitimer(ITIMER_PROF, &timer) == 0 &&
      (timer.it_interval.tv_sec || timer.it_interval.tv_usec))
    return 1;
  if (!by_thread || sigaction(SIGPROF, NULL, &action) != 0) return 0;
  if (action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN) return 0;
  if (action.sa_handler == idle) return 0;
  if (sampled_within(100000000)) return 1;
  idle = action.sa_handler;
  return 0;
}
