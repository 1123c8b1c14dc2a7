/* These tests ask whether samples of a process are taken. */
#include "test.h"

#include <pthread.h>
#include <sys/time.h>

#include "core/base/os-samples.h"
#include "core/base/os.h"

static volatile sig_atomic_t samples;
static void on_sample(int sig) {
  (void)sig;
  samples++;
}
static void on_nothing(int sig) { (void)sig; }

static void set_timer(int ms) {
  struct itimerval t;
  memset(&t, 0, sizeof t);
  t.it_interval.tv_usec = t.it_value.tv_usec = ms * 1000;
  setitimer(ITIMER_PROF, &t, NULL);
}

TEST(a_process_whose_timer_is_set_is_sampled) {
  CHECK(!clu_os_is_sampled(0));
  CHECK(!clu_os_is_sampled(1));
  signal(SIGPROF, on_sample);
  set_timer(10);
  CHECK(clu_os_is_sampled(0));
  CHECK(clu_os_is_sampled(1));
  set_timer(0);
  CHECK(!clu_os_is_sampled(0));
}

static pthread_t sampled;
static volatile int over;
static void *sampler(void *unused) {
  (void)unused;
  while (!over) {
    pthread_kill(sampled, SIGPROF);
    clu_os_pause(10000000);
  }
  return NULL;
}

TEST(one_that_a_thread_sends_signals_to_is_sampled_and_loses_none) {
  pthread_t thread;
  uint64_t began;
  signal(SIGPROF, on_sample);
  sampled = pthread_self();
  REQUIRE(pthread_create(&thread, NULL, sampler, NULL) == 0);
  CHECK(clu_os_is_sampled(1));
  CHECK(samples > 0);
  over = 1;
  pthread_join(thread, NULL);
  signal(SIGPROF, on_nothing); /* as R leaves it when the sampling ends */
  CHECK(!clu_os_is_sampled(1));
  began = clu_os_now();
  for (int i = 0; i < 100; i++) CHECK(!clu_os_is_sampled(1)); /* that handler is known by now */
  CHECK(clu_os_now() - began < 5000000000u);
}
