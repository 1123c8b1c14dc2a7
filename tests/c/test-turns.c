/* Turns at an event loop: its owner and the thread that works while the owner is elsewhere. */
// threads
#include "test.h"

#include <setjmp.h>

#include "core/base/segment.h"
#include "core/loop/turns.h"

/* Both threads use this, each in its turn: plain variables, so that the thread sanitizer sees it
 * when two have the turn. */
static struct {
  clu_turns turns;
  clu_loop loop;
  clu_watch_id watch;
  clu_fd pair[2];
  int wanted, got, works; /* bytes; pieces of work by the thread */
  int pause_ms;           /* that a piece of work takes */
  uint64_t due;           /* it has to be done then, or before; 0: never */
} x;

static void some_bytes(void *self, unsigned ready) {
  char bytes[4];
  ssize_t n = read((int)x.pair[0], bytes, sizeof bytes);
  (void)self;
  (void)ready;
  if (n > 0) x.got += (int)n;
}

static int is_urgent(void *self) {
  (void)self;
  return x.got < x.wanted;
}

static uint64_t due(void *self) {
  (void)self;
  return x.due;
}

static int64_t work(void *self) {
  x.works++;
  if (x.due && clu_os_now() >= x.due) x.due = 0;
  if (x.pause_ms) clu_os_pause(x.pause_ms * 1000000);
  clu_loop_pump(&x.loop, 0, NULL);
  return is_urgent(self) ? 20000000 : -1;
}

static void set_up(void) {
  const clu_turns_work what = {is_urgent, due, work, &x.loop, NULL};
  memset(&x, 0, sizeof x);
  REQUIRE(clu_loop_init(&x.loop, NULL) == CLU_OK);
  REQUIRE(clu_os_pair(x.pair, NULL) == CLU_OK);
  REQUIRE(clu_loop_watch(&x.loop, x.pair[0], CLU_READ, some_bytes, NULL, &x.watch, NULL) == CLU_OK);
  REQUIRE(clu_turns_begin(&x.turns, &what) == CLU_OK);
}

static void tear_down(void) {
  clu_turns_end(&x.turns, 1);
  clu_gate_free(x.turns.gate);
  clu_loop_unwatch(&x.loop, &x.watch);
  clu_os_close(x.pair[0]);
  clu_os_close(x.pair[1]);
  clu_loop_fini(&x.loop);
}

static void send_bytes(int n) {
  for (int i = 0; i < n; i++) CHECK_INT_EQ(write((int)x.pair[1], "a", 1), 1);
}

/* Takes the turn as the owner, shortly. */
static int got(void) {
  int mine = clu_turns_enter(&x.turns, __builtin_frame_address(0)), n = x.got;
  clu_turns_leave(&x.turns, mine);
  return n;
}

static void want(int n) {
  int mine = clu_turns_enter(&x.turns, __builtin_frame_address(0));
  x.wanted = n;
  clu_turns_leave(&x.turns, mine);
}

/* The owner computes, and does not come back before the thread had time to take all. */
static void compute(void) { clu_os_pause(100000000); }
/* Away for some ticks, again and again. */
static int arrived(int n) {
  clu_os_pause(20000000);
  return got() == n;
}

TEST(no_thread_is_started_while_nothing_is_urgent) {
  set_up();
  send_bytes(3);
  want(0);
  CHECK(!x.turns.has_thread);
  compute();
  CHECK_INT_EQ(got(), 0);
  CHECK(!x.turns.has_thread);
  tear_down();
}

TEST(the_thread_works_while_the_owner_is_elsewhere) {
  set_up();
  want(10);
  send_bytes(5);
  compute();
  send_bytes(5); /* it waits for the descriptor */
  CHECK_SOON(arrived(10), 5000);
  tear_down();
}

/* Says as the owner that something is due in so many ms. */
static void set_due(int ms) {
  int mine = clu_turns_enter(&x.turns, __builtin_frame_address(0));
  x.due = clu_os_now() + (uint64_t)ms * 1000000;
  clu_turns_leave(&x.turns, mine);
}

static int is_done(int works) {
  int mine = clu_turns_enter(&x.turns, __builtin_frame_address(0)), done;
  done = x.works >= works && x.due == 0;
  clu_turns_leave(&x.turns, mine);
  clu_os_pause(20000000);
  return done;
}

TEST(what_is_due_is_done_then_and_not_before) {
  set_up();
  set_due(60000);
  compute();
  CHECK(x.turns.has_thread);
  CHECK(!is_done(1));
  set_due(150); /* earlier than what it sleeps for */
  CHECK_SOON(is_done(1), 5000);
  for (int k = 0; k < 5; k++) set_due(100 + 20 * k); /* later again and again */
  CHECK_SOON(is_done(2), 5000);
  CHECK_INT_EQ(x.works, 2);
  tear_down();
}

TEST(what_is_due_is_done_also_when_the_thread_has_met_the_owner_before) {
  int mine;
  set_up();
  set_due(60000); /* it starts */
  mine = clu_turns_enter(&x.turns, __builtin_frame_address(0));
  x.due = 0;
  clu_turns_leave(&x.turns, mine);
  set_due(400);
  mine = clu_turns_enter(&x.turns, __builtin_frame_address(0));
  clu_gate_lock(x.turns.gate);
  clu_gate_wake(x.turns.gate); /* it looks, and this is the owner's turn */
  clu_gate_unlock(x.turns.gate);
  compute();
  clu_turns_leave(&x.turns, mine);        /* nothing is due yet, and due no earlier */
  for (int k = 0; k < 20; k++) compute(); /* the owner does not come: it would wake the thread */
  CHECK(is_done(1));
  tear_down();
}

TEST(what_is_due_is_done_also_when_it_was_put_off_after_its_time) {
  int mine;
  set_up();
  set_due(60000); /* it starts */
  compute();
  set_due(50);
  mine = clu_turns_enter(&x.turns, __builtin_frame_address(0));
  compute(); /* the thread wakes in vain */
  x.due = clu_os_now() + 100000000;
  clu_turns_leave(&x.turns, mine);
  for (int k = 0; k < 20; k++) compute(); /* the owner does not come: it would wake the thread */
  CHECK(is_done(1));
  tear_down();
}

TEST(it_parks_when_nothing_is_urgent_any_more_and_is_woken_again) {
  int mine, works;
  set_up();
  for (int round = 1; round <= 3; round++) {
    want(4 * round);
    send_bytes(4);
    CHECK_SOON(arrived(4 * round), 5000);
    compute();
    mine = clu_turns_enter(&x.turns, __builtin_frame_address(0));
    CHECK(x.turns.parked);
    works = x.works;
    clu_turns_leave(&x.turns, mine);
    compute();
    mine = clu_turns_enter(&x.turns, __builtin_frame_address(0));
    CHECK_INT_EQ(x.works, works); /* it sleeps */
    clu_turns_leave(&x.turns, mine);
  }
  tear_down();
}

TEST(it_does_nothing_while_the_owner_is_there) {
  int mine, before;
  set_up();
  want(10);
  compute(); /* it has turns */
  mine = clu_turns_enter(&x.turns, __builtin_frame_address(0));
  before = x.got;
  send_bytes(4);
  compute();
  CHECK_INT_EQ(x.got, before);
  clu_loop_pump(&x.loop, 0, NULL);
  CHECK_INT_EQ(x.got, before + 4);
  clu_turns_leave(&x.turns, mine);
  send_bytes(6);
  CHECK_SOON(arrived(10), 5000);
  tear_down();
}

TEST(an_owner_that_waits_does_what_is_urgent_or_due) {
  int mine;
  set_up();
  mine = clu_turns_enter(&x.turns, __builtin_frame_address(0));
  send_bytes(3);
  CHECK_INT_EQ(clu_turns_work_here(&x.turns, 50000000), 50000000); /* nothing is urgent */
  CHECK_INT_EQ(x.works, 0);
  x.wanted = 5;
  CHECK_INT_EQ(clu_turns_work_here(&x.turns, 10000000), 10000000);
  CHECK_INT_EQ(clu_turns_work_here(&x.turns, 50000000), 20000000);
  CHECK_INT_EQ(x.got, 3);
  send_bytes(2);
  CHECK_INT_EQ(clu_turns_work_here(&x.turns, 50000000), 50000000); /* nothing more to do */
  CHECK_INT_EQ(x.got, 5);
  CHECK_INT_EQ(x.works, 3);
  clu_turns_leave(&x.turns, mine);
  set_due(20);
  mine = clu_turns_enter(&x.turns, __builtin_frame_address(0));
  compute();
  CHECK_INT_EQ(x.works, 3);
  clu_turns_work_here(&x.turns, 50000000);
  clu_turns_work_here(&x.turns, 50000000);
  CHECK_INT_EQ(x.works, 4);
  clu_turns_leave(&x.turns, mine);
  tear_down();
}

TEST(the_owner_waits_for_a_piece_of_work_and_no_longer) {
  set_up();
  x.pause_ms = 100;
  want(1000);
  compute(); /* it is at work again and again */
  for (int i = 0; i < 20; i++) want(1000 + i);
  CHECK_INT_EQ(got(), 0);
  tear_down();
}

/* ---- calls within calls, pauses, jumps ---- */

static void TEST_UNUSED within(int depth) {
  char room[256]; /* deeper than the caller in any build */
  int mine;
  memset(room, depth, sizeof room);
  __asm__ volatile("" : : "r"(room) : "memory");
  mine = clu_turns_enter(&x.turns, __builtin_frame_address(0));
  CHECK(!mine);
  x.works++;
  CHECK(clu_turns_pause(&x.turns) == NULL); /* the one around does not know of it */
  CHECK_INT_EQ(clu_turns_work_here(&x.turns, 1000000000), 1000000000);
  if (depth > 0) within(depth - 1);
  clu_turns_leave(&x.turns, mine);
}

TEST(a_call_within_a_call_leaves_the_turn_with_the_outer_one) {
  int mine, before;
  set_up();
  want(100);
  compute();
  mine = clu_turns_enter(&x.turns, __builtin_frame_address(0));
  CHECK(mine);
  within(3);
  before = x.works;
  send_bytes(3);
  compute();
  CHECK_INT_EQ(x.works, before);
  clu_turns_leave(&x.turns, mine);
  tear_down();
}

TEST(the_thread_works_while_the_owner_has_paused) {
  const void *frame;
  int mine;
  set_up();
  mine = clu_turns_enter(&x.turns, __builtin_frame_address(0));
  x.wanted = 3;
  send_bytes(3);
  frame = clu_turns_pause(&x.turns);
  CHECK(frame != NULL);
  CHECK_SOON(arrived(3), 5000); /* these calls are as any other */
  clu_turns_resume(&x.turns, frame);
  CHECK_INT_EQ(x.got, 3);
  CHECK(x.turns.held);
  clu_turns_leave(&x.turns, mine);
  CHECK(!x.turns.held);
  tear_down();
}

static jmp_buf out;
static void __attribute__((noinline)) left_by_a_jump(void) {
  clu_turns_enter(&x.turns, __builtin_frame_address(0));
  x.works++;
  longjmp(out, 1);
}

/* Deeper than the next call by more than frames differ in size. */
static void __attribute__((noinline)) deeper(void) {
  char room[256];
  __asm__ volatile("" : : "r"(room) : "memory");
  left_by_a_jump();
  __asm__ volatile("" : : "r"(room) : "memory");
}

TEST(a_turn_that_was_left_by_a_jump_is_given_back_by_the_next_call) {
  set_up();
  want(3);
  if (!setjmp(out)) deeper();
  CHECK(x.turns.held); /* nobody else works, so nothing is half-done */
  send_bytes(3);
  compute();
  CHECK_INT_EQ(x.got, 0);
  want(3);
  CHECK(!x.turns.held);
  CHECK_SOON(arrived(3), 5000);
  tear_down();
}

/* ---- forks ---- */

static void before_fork(void) { clu_turns_before_fork(&x.turns); }
static void after_fork(void) { clu_turns_after_fork(&x.turns); }
static void in_child(int by_owner) { clu_turns_in_child(&x.turns, by_owner); }

static int child_can(void) {
  for (int i = 0; i < 3; i++) want(i);
  return x.turns.has_thread == 0 && x.turns.gate == NULL;
}

TEST(a_fork_finds_nothing_half_done_and_has_no_thread) {
  set_up();
  REQUIRE(clu_os_around_fork(before_fork, after_fork, in_child) == CLU_OK);
  want(1000);
  send_bytes(20);
  for (int i = 0; i < 20; i++) {
    int status = 1, mine = i % 2 ? clu_turns_enter(&x.turns, __builtin_frame_address(0)) : 0;
    pid_t pid = fork();
    if (pid == 0) {
      /* of a fork by the child, too */
      pid_t again = fork();
      if (again == 0) _exit(child_can() ? 0 : 1);
      waitpid(again, &status, 0);
      _exit(status == 0 && child_can() ? 0 : 1);
    }
    REQUIRE(pid > 0);
    if (i % 2) clu_turns_leave(&x.turns, mine);
    waitpid(pid, &status, 0);
    CHECK_INT_EQ(status, 0);
  }
  CHECK_SOON(arrived(20), 5000);
  tear_down();
}

/* ---- segments, whose list has a lock of its own ---- */

static clu_segment *shared;
static int received;

static void receive(int times) {
  for (int i = 0; i < times; i++) {
    clu_fd fd;
    int rc;
    clu_segment *s;
    REQUIRE(clu_os_dup(clu_segment_fd(shared), &fd) == CLU_OK);
    REQUIRE(s = clu_segment_receive(fd, &rc));
    clu_segment_unref(s);
  }
}

static int always(void *self) { return self == NULL; }

static int64_t receive_always(void *self) {
  (void)self;
  receive(20);
  received++;
  return 0;
}

/* A child that found it locked would wait for ever. */
TEST(a_fork_while_the_thread_receives_segments_can_receive_some_itself) {
  const clu_turns_work what = {always, due, receive_always, &x.loop, NULL};
  int mine;
  memset(&x, 0, sizeof x);
  REQUIRE(shared = clu_segment_new());
  REQUIRE(clu_segment_append(shared, "abc", 3) == CLU_OK && clu_segment_seal(shared) == CLU_OK);
  REQUIRE(clu_loop_init(&x.loop, NULL) == CLU_OK);
  REQUIRE(clu_turns_begin(&x.turns, &what) == CLU_OK);
  REQUIRE(clu_os_around_fork(before_fork, after_fork, in_child) == CLU_OK);
  for (int i = 0; i < 40; i++) {
    int status = 1, seen = 0;
    pid_t pid;
    for (int tries = 0; tries < 500 && !seen; tries++) { /* until the thread is at work */
      int before;
      mine = clu_turns_enter(&x.turns, __builtin_frame_address(0));
      before = received;
      clu_turns_leave(&x.turns, mine);
      clu_os_pause(3000000);
      mine = clu_turns_enter(&x.turns, __builtin_frame_address(0));
      seen = received > before;
      clu_turns_leave(&x.turns, mine);
    }
    CHECK(seen);
    clu_os_pause(3000000);
    if ((pid = fork()) == 0) {
      alarm(10);
      receive(20);
      _exit(0);
    }
    REQUIRE(pid > 0);
    waitpid(pid, &status, 0);
    CHECK_INT_EQ(status, 0);
  }
  clu_turns_end(&x.turns, 1);
  clu_gate_free(x.turns.gate);
  clu_loop_fini(&x.loop);
  clu_segment_unref(shared);
}

/* ---- all at once ---- */

TEST(ten_thousand_short_calls_of_the_owner_and_the_thread_lose_nothing) {
  int sent = 0;
  set_up();
  want(1000);
  while (sent < 1000) {
    int mine = clu_turns_enter(&x.turns, __builtin_frame_address(0));
    int full = sent - x.got >= 50;
    if (!full) {
      send_bytes(10);
      sent += 10;
    }
    if (sent % 100 == 0) clu_loop_pump(&x.loop, 0, NULL);
    if (sent % 70 == 0) clu_turns_resume(&x.turns, clu_turns_pause(&x.turns));
    clu_turns_leave(&x.turns, mine);
    if (full || sent % 30 == 0) clu_os_pause(6000000); /* longer than a tick */
    for (int k = 0; k < 10; k++) (void)got();
  }
  CHECK_SOON(arrived(1000), 10000);
  tear_down();
}

TEST(after_its_end_there_is_no_thread_and_none_is_started) {
  set_up();
  want(3);
  compute();
  clu_turns_end(&x.turns, 1);
  CHECK(!x.turns.has_thread);
  send_bytes(3);
  want(3);
  compute();
  CHECK_INT_EQ(got(), 0);
  CHECK(!x.turns.has_thread);
  tear_down();
}
