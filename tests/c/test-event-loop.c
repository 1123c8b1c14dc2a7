/* The event loop alone: descriptors (socket pairs), timers, and what a callback may do. */
#include "test.h"

#include <sys/socket.h>

#include "core/loop/channel-watch.h"
#include "core/loop/event-loop.h"
#include "posix/features.h"

#define MS 1000000

typedef struct end {
  clu_loop *loop;
  clu_fd fd[2]; /* watched; the other side */
  clu_watch_id id;
  int calls;
  unsigned ready;
  struct end *remove[2]; /* whom the callback unwatches and closes */
  struct end *add;       /* whom it watches, then */
} end;

static void drain(clu_fd fd) {
  char bytes[64];
  while (recv((int)fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0) continue;
}

static void on_ready(void *self, unsigned ready);

static void open_end(clu_loop *l, end *x, unsigned interest) {
  memset(x, 0, sizeof *x);
  x->loop = l;
  REQUIRE(clu_os_pair(x->fd, NULL) == CLU_OK);
  if (interest) REQUIRE(clu_loop_watch(l, x->fd[0], interest, on_ready, x, &x->id, NULL) == CLU_OK);
}

static void close_end(end *x) {
  clu_loop_unwatch(x->loop, &x->id);
  for (int i = 0; i < 2; i++) {
    if (x->fd[i] != CLU_NO_FD) clu_os_close(x->fd[i]);
    x->fd[i] = CLU_NO_FD;
  }
}

static void on_ready(void *self, unsigned ready) {
  end *x = self;
  x->calls++;
  x->ready = ready;
  if (ready & CLU_READ) drain(x->fd[0]);
  for (int i = 0; i < 2; i++)
    if (x->remove[i]) close_end(x->remove[i]);
  if (x->add) {
    end *add = x->add;
    x->add = NULL;
    REQUIRE(clu_loop_watch(add->loop, add->fd[0], CLU_READ, on_ready, add, &add->id, NULL) ==
            CLU_OK);
  }
}

static void wake(const end *x) { REQUIRE(write((int)x->fd[1], "x", 1) == 1); }

static int pump(clu_loop *l, int64_t wait_ns) {
  clu_err e = {0, 0, ""};
  if (clu_loop_pump(l, wait_ns, &e) != CLU_OK) test_fail(__FILE__, __LINE__, "%s", e.text);
  return clu_loop_events(l);
}

/* ---- descriptors ---- */

TEST(who_is_ready_is_called_and_nobody_else) {
  clu_loop l;
  end a, b;
  REQUIRE(clu_loop_init(&l, NULL) == CLU_OK);
  open_end(&l, &a, CLU_READ);
  open_end(&l, &b, CLU_READ);
  CHECK(a.id && b.id && a.id != b.id);
  CHECK_INT_EQ(pump(&l, 0), 0);
  wake(&b);
  CHECK_INT_EQ(pump(&l, 1000 * (int64_t)MS), 1);
  CHECK(a.calls == 0 && b.calls == 1 && b.ready == CLU_READ);
  CHECK_INT_EQ(pump(&l, 0), 0);
  clu_os_close(a.fd[1]); /* an end is readable */
  a.fd[1] = CLU_NO_FD;
  CHECK_INT_EQ(pump(&l, 1000 * (int64_t)MS), 1);
  CHECK(a.calls == 1 && a.ready == CLU_READ); /* of what is of interest */
  close_end(&a);
  close_end(&b);
  clu_loop_fini(&l);
}

TEST(interest_changes_pauses_and_goes_on) {
  clu_loop l;
  end a;
  REQUIRE(clu_loop_init(&l, NULL) == CLU_OK);
  open_end(&l, &a, CLU_READ | CLU_WRITE);
  CHECK_INT_EQ(pump(&l, 0), 1);
  CHECK_INT_EQ(a.ready, CLU_WRITE);
  wake(&a);
  CHECK_INT_EQ(clu_loop_interest(&l, a.id, 0, NULL), CLU_OK);
  CHECK_INT_EQ(pump(&l, 0), 0);
  CHECK_INT_EQ(clu_loop_interest(&l, a.id, CLU_READ, NULL), CLU_OK);
  CHECK_INT_EQ(clu_loop_interest(&l, a.id, CLU_READ, NULL), CLU_OK);
  CHECK_INT_EQ(pump(&l, 0), 1);
  CHECK_INT_EQ(a.ready, CLU_READ);
  CHECK_INT_EQ(a.calls, 2);
  close_end(&a);
  clu_loop_fini(&l);
}

TEST(one_that_is_paused_from_the_start_keeps_its_id) {
  clu_loop l;
  end a;
  REQUIRE(clu_loop_init(&l, NULL) == CLU_OK);
  open_end(&l, &a, 0);
  REQUIRE(clu_loop_watch(&l, a.fd[0], 0, on_ready, &a, &a.id, NULL) == CLU_OK);
  wake(&a);
  CHECK_INT_EQ(pump(&l, 0), 0);
  CHECK_INT_EQ(clu_loop_interest(&l, a.id, CLU_READ, NULL), CLU_OK);
  CHECK_INT_EQ(pump(&l, 0), 1);
  close_end(&a);
  clu_loop_fini(&l);
}

TEST(a_callback_removes_itself_and_another_that_is_ready_too) {
  clu_loop l;
  end a, b;
  REQUIRE(clu_loop_init(&l, NULL) == CLU_OK);
  open_end(&l, &a, CLU_READ);
  open_end(&l, &b, CLU_READ);
  a.remove[0] = b.remove[0] = &a;
  a.remove[1] = b.remove[1] = &b;
  wake(&a);
  wake(&b);
  CHECK_INT_EQ(pump(&l, 0), 2);
  CHECK_INT_EQ(a.calls + b.calls, 1); /* whoever came first */
  CHECK(a.id == 0 && b.id == 0);
  CHECK_INT_EQ(pump(&l, 0), 0);
  clu_loop_fini(&l);
}

/* The slot of the one that was removed, and the number of its descriptor, belong to another when
 * its event is due. */
TEST(a_slot_that_was_given_to_another_gets_no_event_of_the_old_one) {
  clu_loop l;
  end a, b, late;
  clu_watch_id old[2];
  REQUIRE(clu_loop_init(&l, NULL) == CLU_OK);
  open_end(&l, &a, CLU_READ);
  open_end(&l, &b, CLU_READ);
  old[0] = a.id;
  old[1] = b.id;
  open_end(&l, &late, 0);
  a.remove[0] = &b;
  a.add = &late;
  b.remove[0] = &a;
  b.add = &late;
  wake(&a);
  wake(&b);
  CHECK_INT_EQ(pump(&l, 0), 2);
  CHECK_INT_EQ(a.calls + b.calls, 1);
  CHECK_INT_EQ(late.calls, 0);
  CHECK_INT_EQ((uint32_t)late.id, (uint32_t)(a.calls ? old[1] : old[0])); /* the same slot, */
  CHECK(late.id != old[0] && late.id != old[1]);                          /* another id */
  CHECK_INT_EQ(clu_loop_interest(&l, a.calls ? old[1] : old[0], CLU_WRITE, NULL),
               CLU_OK); /* nobody's */
  CHECK_INT_EQ(pump(&l, 0), 0);
  wake(&late);
  CHECK_INT_EQ(pump(&l, 0), 1);
  CHECK_INT_EQ(late.calls, 1);
  close_end(a.calls ? &a : &b);
  close_end(&late);
  clu_loop_fini(&l);
}

TEST(an_old_id_removes_nobody) {
  clu_loop l;
  end a;
  clu_watch_id old, again, none = 0;
  REQUIRE(clu_loop_init(&l, NULL) == CLU_OK);
  open_end(&l, &a, CLU_READ);
  old = again = a.id;
  clu_loop_unwatch(&l, &a.id);
  clu_loop_unwatch(&l, &old);
  clu_loop_unwatch(&l, &none);
  REQUIRE(clu_loop_watch(&l, a.fd[0], CLU_READ, on_ready, &a, &a.id, NULL) == CLU_OK);
  clu_loop_unwatch(&l, &again);
  CHECK_INT_EQ(again, 0);
  wake(&a);
  CHECK_INT_EQ(pump(&l, 0), 1);
  close_end(&a);
  clu_loop_fini(&l);
}

TEST(what_cannot_be_watched_leaves_nothing_behind) {
  clu_loop l;
  end a;
  clu_watch_id id = 77;
  clu_err e = {0, 0, ""};
  REQUIRE(clu_loop_init(&l, NULL) == CLU_OK);
#if defined(CLU_HAVE_EPOLL) /* poll() sees only when it waits that there is no such descriptor */
  CHECK(clu_loop_watch(&l, 4000, CLU_READ, on_ready, &a, &id, &e) != CLU_OK);
  CHECK(id == 0 && e.text[0]);
#endif
  open_end(&l, &a, CLU_READ);
  wake(&a);
  CHECK_INT_EQ(pump(&l, 0), 1);
  (void)id, (void)e;
  close_end(&a);
  clu_loop_fini(&l);
}

TEST(many_have_their_turn_within_a_few_pumps) {
  enum { N = 200 };
  static end x[N];
  clu_loop l;
  int seen = 0;
  REQUIRE(clu_loop_init(&l, NULL) == CLU_OK);
  for (int i = 0; i < N; i++) open_end(&l, &x[i], CLU_READ);
  for (int i = 0; i < N; i++) wake(&x[i]);
  for (int k = 0; k < 20 && seen < N; k++) {
    pump(&l, 0);
    seen = 0;
    for (int i = 0; i < N; i++) seen += x[i].calls;
  }
  CHECK_INT_EQ(seen, N);
  for (int i = 0; i < N; i++) CHECK_INT_EQ(x[i].calls, 1);
  for (int i = 0; i < N; i++) close_end(&x[i]);
  clu_loop_fini(&l);
}

/* ---- timers ---- */

static int order[16], n_order;

typedef struct alarm_clock {
  clu_loop *loop;
  clu_timer t;
  int number;
  clu_timer *cancel;
  clu_timer *again; /* is armed for `at` */
  uint64_t at;
} alarm_clock;

static void on_time(void *self) {
  alarm_clock *a = self;
  CHECK(!clu_timer_is_armed(&a->t));
  if (n_order < 16) order[n_order++] = a->number;
  if (a->cancel) clu_timer_cancel(a->cancel);
  if (a->again) clu_timer_arm(a->loop, a->again, a->at);
}

static void alarm_init(clu_loop *l, alarm_clock *a, int n) {
  n_order = 0;
  for (int i = 0; i < n; i++) {
    memset(&a[i], 0, sizeof a[i]);
    a[i].loop = l;
    a[i].number = i;
    clu_timer_init(&a[i].t, on_time, &a[i]);
  }
}

TEST(timers_fire_once_each_in_the_order_of_their_times) {
  clu_loop l;
  alarm_clock a[5];
  uint64_t now = clu_os_now();
  REQUIRE(clu_loop_init(&l, NULL) == CLU_OK);
  alarm_init(&l, a, 5);
  clu_timer_arm(&l, &a[0].t, now - 10);
  clu_timer_arm(&l, &a[1].t, now - 30);
  clu_timer_arm(&l, &a[2].t, now + 3600000 * (uint64_t)MS);
  clu_timer_arm(&l, &a[3].t, now - 20);
  clu_timer_arm(&l, &a[4].t, now - 20); /* of two for the same time the one that was armed first */
  pump(&l, -1);
  CHECK_INT_EQ(n_order, 4);
  CHECK(order[0] == 1 && order[1] == 3 && order[2] == 4 && order[3] == 0);
  CHECK(clu_timer_is_armed(&a[2].t) && !clu_timer_is_armed(&a[0].t));
  pump(&l, 0);
  CHECK_INT_EQ(n_order, 4);
  clu_timer_cancel(&a[2].t);
  clu_timer_cancel(&a[2].t);
  clu_loop_fini(&l);
}

TEST(a_wait_ends_when_a_timer_is_due) {
  clu_loop l;
  alarm_clock a[1];
  double from = test_ms();
  REQUIRE(clu_loop_init(&l, NULL) == CLU_OK);
  alarm_init(&l, a, 1);
  clu_timer_arm(&l, &a[0].t, clu_os_now() + 20 * MS);
  pump(&l, 1 * MS);
  CHECK(n_order == 0 || test_ms() - from >= 20);
  while (n_order == 0 && test_ms() - from < 10000) CHECK_INT_EQ(pump(&l, -1), 0);
  CHECK_INT_EQ(n_order, 1);
  CHECK(test_ms() - from >= 20);
  clu_loop_fini(&l);
}

TEST(who_waits_elsewhere_sees_what_is_to_be_pumped) {
  clu_loop l;
  end a;
  clu_fd fd;
  clu_timer t;
  REQUIRE(clu_loop_init(&l, NULL) == CLU_OK);
  open_end(&l, &a, CLU_READ);
  fd = clu_loop_descriptor(&l);
#if defined(CLU_HAVE_EPOLL)
  REQUIRE(fd != CLU_NO_FD);
  CHECK(clu_os_wait_readable(fd, 0) == CLU_TIMEOUT);
  wake(&a);
  CHECK(clu_os_wait_readable(fd, 0) == CLU_OK);
  CHECK_INT_EQ(a.calls, 0);
  pump(&l, 0);
  CHECK_INT_EQ(a.calls, 1);
  CHECK(clu_os_wait_readable(fd, 0) == CLU_TIMEOUT);
#else
  CHECK(fd == CLU_NO_FD);
#endif
  CHECK(clu_loop_until_timer(&l, -1) < 0 && clu_loop_until_timer(&l, 5) == 5);
  clu_timer_init(&t, NULL, NULL);
  clu_timer_arm(&l, &t, clu_os_now() + (uint64_t)1000 * MS);
  CHECK(clu_loop_until_timer(&l, -1) > 0 && clu_loop_until_timer(&l, -1) <= (int64_t)1000 * MS);
  clu_timer_arm(&l, &t, 1);
  CHECK(clu_loop_until_timer(&l, -1) == 0);
  clu_timer_cancel(&t);
  close_end(&a);
  clu_loop_fini(&l);
}

TEST(a_callback_cancels_one_that_is_due_and_arms_another) {
  clu_loop l;
  alarm_clock a[4];
  uint64_t now = clu_os_now();
  REQUIRE(clu_loop_init(&l, NULL) == CLU_OK);
  alarm_init(&l, a, 4);
  a[0].cancel = &a[1].t;
  a[0].again = &a[3].t;
  a[0].at = now - 100; /* earlier than all: still only in the next pump */
  clu_timer_arm(&l, &a[0].t, now - 30);
  clu_timer_arm(&l, &a[1].t, now - 20);
  clu_timer_arm(&l, &a[2].t, now - 10);
  pump(&l, -1);
  CHECK(n_order == 2 && order[0] == 0 && order[1] == 2);
  pump(&l, -1);
  CHECK(n_order == 3 && order[2] == 3);
  clu_loop_fini(&l);
}

TEST(one_that_arms_itself_for_a_time_that_has_passed_fires_once_a_pump) {
  clu_loop l;
  alarm_clock a[1];
  REQUIRE(clu_loop_init(&l, NULL) == CLU_OK);
  alarm_init(&l, a, 1);
  a[0].again = &a[0].t;
  clu_timer_arm(&l, &a[0].t, 1);
  for (int k = 1; k <= 3; k++) {
    pump(&l, -1);
    CHECK_INT_EQ(n_order, k);
  }
  clu_timer_cancel(&a[0].t);
  pump(&l, 0);
  CHECK_INT_EQ(n_order, 3);
  clu_loop_fini(&l);
}

TEST(a_timer_is_brought_forward_and_not_put_off) {
  clu_loop l;
  alarm_clock a[1];
  REQUIRE(clu_loop_init(&l, NULL) == CLU_OK);
  alarm_init(&l, a, 1);
  clu_timer_arm_by(&l, &a[0].t, 1000);
  clu_timer_arm_by(&l, &a[0].t, 2000);
  CHECK(a[0].t.due == 1000);
  clu_timer_arm_by(&l, &a[0].t, 500);
  CHECK(a[0].t.due == 500);
  clu_timer_arm(&l, &a[0].t, clu_os_now() + 3600000 * (uint64_t)MS);
  pump(&l, 0);
  CHECK_INT_EQ(n_order, 0);
  clu_loop_fini(&l);
}

/* ---- a forked child ---- */

TEST(a_forked_child_closes_all_once_and_the_parent_keeps_all) {
  clu_loop l;
  end a, b;
  clu_watch_id kept;
  clu_fd other[2];
  pid_t pid;
  int status;
  REQUIRE(clu_loop_init(&l, NULL) == CLU_OK);
  open_end(&l, &a, CLU_READ);
  open_end(&l, &b, 0);
  REQUIRE(clu_loop_watch(&l, b.fd[0], CLU_READ | CLU_KEEP_IN_CHILD, on_ready, &b, &kept, NULL) ==
          CLU_OK);
  if ((pid = fork()) == 0) {
    clu_loop_close_in_child(&l);
    CHECK(fcntl((int)a.fd[0], F_GETFD) < 0);
    CHECK(fcntl((int)a.fd[1], F_GETFD) >= 0 && fcntl((int)b.fd[0], F_GETFD) >= 0);
    REQUIRE(clu_os_pair(other, NULL) == CLU_OK); /* has the numbers that became free */
    clu_loop_close_in_child(&l);
    CHECK(fcntl((int)other[0], F_GETFD) >= 0 && fcntl((int)other[1], F_GETFD) >= 0);
    clu_loop_fini(&l);
    CHECK(fcntl((int)other[0], F_GETFD) >= 0 && fcntl((int)other[1], F_GETFD) >= 0);
    _exit(0);
  }
  REQUIRE(waitpid(pid, &status, 0) == pid);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  wake(&a);
  wake(&b);
  CHECK_INT_EQ(pump(&l, 1000 * (int64_t)MS), 2);
  CHECK(a.calls == 1 && b.calls == 1);
  clu_loop_unwatch(&l, &kept);
  close_end(&a);
  close_end(&b);
  clu_loop_fini(&l);
}

TEST(a_zeroed_loop_and_one_that_is_finished_may_be_finished) {
  clu_loop l;
  memset(&l, 0, sizeof l);
  clu_loop_fini(&l);
  REQUIRE(clu_loop_init(&l, NULL) == CLU_OK);
  clu_loop_fini(&l);
  clu_loop_fini(&l);
  clu_loop_close_in_child(&l);
  CHECK(l.poller == NULL);
}

/* ---- channels ---- */

static int writable;
static void on_channel(void *self, unsigned ready) {
  (void)self;
  writable += (ready & CLU_WRITE) != 0;
}

TEST(a_channel_asks_for_writability_only_while_something_is_left) {
  clu_loop l;
  clu_chan c;
  clu_watch_id id;
  clu_fd pair[2];
  size_t much = (size_t)8 << 20; /* more than the sockets hold */
  clu_blob *b = clu_blob_new(much);
  REQUIRE(b && clu_loop_init(&l, NULL) == CLU_OK);
  REQUIRE(clu_os_pair(pair, NULL) == CLU_OK);
  REQUIRE(clu_chan_init(&c, pair[0], INT64_MAX, 0) == CLU_OK);
  REQUIRE(clu_loop_watch(&l, c.fd, CLU_READ, on_channel, &c, &id, NULL) == CLU_OK);
  memset(b->data, 1, much);
  b->size = much;
  REQUIRE(clu_chan_send(&c, CLU_K_CALL, 1, b, CLU_NO_FD) == CLU_OK);
  clu_chan_watch_flush(&l, &c, id);
  CHECK(clu_chan_pending(&c));
  for (int k = 0; k < 10000 && clu_chan_pending(&c); k++) {
    char bytes[65536];
    while (recv((int)pair[1], bytes, sizeof bytes, MSG_DONTWAIT) > 0) continue;
    pump(&l, 0);
    clu_chan_watch_flush(&l, &c, id);
  }
  CHECK(!clu_chan_pending(&c) && writable > 0);
  writable = 0;
  pump(&l, 0);
  CHECK_INT_EQ(writable, 0);
  clu_chan_watch_close(&l, &c, &id);
  CHECK(id == 0 && c.fd == CLU_NO_FD);
  clu_chan_watch_close(&l, &c, &id);
  clu_blob_unref(b);
  clu_os_close(pair[1]);
  clu_loop_fini(&l);
}
