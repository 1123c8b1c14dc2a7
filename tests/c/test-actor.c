/* Actors: a process that serves, and others that call it. */
#include "test.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/actor/actor-layout.h"
#include "core/base/deadline.h"
#include "core/base/os-pipes.h"

static clu_actor *made(void) {
  clu_actor *a = NULL;
  clu_err e = {0};
  if (clu_actor_new("/tmp", &a, &e) != CLU_OK) test_fail(__FILE__, __LINE__, "%s", e.text);
  REQUIRE(a);
  clu_actor_may_restart(a);
  return a;
}

/* The actor as a program of its own would have it. */
static clu_actor *opened(const char *name) {
  clu_actor *a = NULL;
  if (clu_actor_open(name, &a, NULL) != CLU_OK) _exit(100);
  return a;
}

static void copy_name(const clu_actor *a, char name[CLU_STATE_NAME]) {
  strcpy(name, clu_actor_name(a));
}

static pid_t child(void (*work)(clu_actor *a), clu_actor *a) {
  pid_t p = fork();
  REQUIRE(p >= 0);
  if (p == 0) {
    work(a);
    _exit(0);
  }
  return p;
}

static int end_of(pid_t p) {
  int status = -1;
  waitpid(p, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* ---- serving: the body of a call is its number, and one more ---- */

static void put_number(clu_blob *b, uint64_t x) {
  uint64_t none = 0;
  clu_blob_append(b, &none, sizeof none);
  clu_blob_append(b, &x, sizeof x);
}

static uint64_t number_in(const clu_message *m) {
  uint64_t x = 0;
  memcpy(&x, m->body + 8, sizeof x);
  return x;
}

enum { DIE = 1000000, WAIT, NAP };
static clu_actor *serving;

static void on_int(int sig) {
  (void)sig;
  if (clu_actor_is_given_up(serving)) alarm(0);
}

/* Its state is a sum; the answer is what that is. */
static void serve_one(clu_actor *a, clu_message *m, uint64_t *sum) {
  clu_blob *b = clu_blob_new(0);
  clu_sending s = {0};
  uint64_t x = number_in(m), number;
  int is_call = strcmp(m->tag, CLU_ACTOR_CALL) == 0;
  memcpy(&number, m->body, sizeof number);
  if (clu_actor_begin_call(a, is_call ? m->from : -1, number, "add")) {
    if (x == DIE) raise(SIGKILL);
    for (int i = 0; x == WAIT && i < 2000 && !clu_actor_is_given_up(a); i++) usleep(10000);
    if (x == NAP) usleep(200000);
    if (x < DIE) *sum += x;
    clu_blob_append(b, sum, sizeof *sum);
    if (!clu_actor_end_call(a) && is_call)
      if (clu_actor_answer(a, m->from, number, b, &s) != CLU_OK) _exit(8);
  }
  clu_blob_unref(b);
  clu_message_free(m);
}

static void serve(clu_actor *made_before) {
  uint64_t sum = 0;
  clu_actor *a = serving = made_before;
  clu_message *m;
  int rc;
  signal(SIGINT, on_int);
  while ((rc = clu_actor_begin(a, "/tmp", NULL)) == CLU_AGAIN) continue;
  if (rc != CLU_OK) _exit(7);
  clu_actor_set(a, CLU_ACTOR_UP, NULL);
  for (;;) {
    uint32_t events = clu_actor_events(a);
    rc = clu_actor_next(a, &m);
    if (rc == CLU_OK)
      serve_one(a, m, &sum);
    else if (rc == CLU_AGAIN)
      clu_actor_sleep(a, events);
    else
      break;
  }
  if (rc != CLU_CANCELLED) _exit(9);
  clu_actor_free(a);
}

/* ---- calling ---- */

static int step(clu_actor *a, clu_actor_call *c, const char *tag, clu_blob *b, clu_message **out) {
  int rc = c->is_sent ? CLU_OK : clu_actor_send(a, c, tag, b);
  if (rc == CLU_OK && c->is_awaited) rc = clu_actor_receive(a, c, out);
  return rc;
}

static int ask_until(clu_actor *a, clu_actor_call *c, const char *tag, uint64_t x, uint64_t *answer,
                     uint64_t seconds) {
  clu_blob *b = clu_blob_new(0);
  clu_message *m = NULL;
  uint64_t end = clu_os_now() + seconds * UINT64_C(1000000000);
  int rc;
  put_number(b, x);
  for (;;) {
    uint32_t events = clu_actor_caller_events(a);
    rc = step(a, c, tag, b, &m);
    if (rc != CLU_AGAIN || clu_os_now() > end) break;
    clu_actor_rest(a, events, 20000000);
  }
  if (m && answer) memcpy(answer, m->body, sizeof *answer);
  clu_message_free(m);
  clu_blob_unref(b);
  clu_actor_give_up(a, c);
  return rc;
}

static int ask(clu_actor *a, const char *tag, uint64_t x, uint64_t *answer) {
  clu_actor_call c = {0};
  return ask_until(a, &c, tag, x, answer, 20);
}

static void end_actor(clu_actor *a, pid_t p) {
  clu_actor_set(a, CLU_ACTOR_ENDED, NULL);
  CHECK_INT_EQ(end_of(p), 0);
  clu_actor_free(a);
}

TEST(calls_and_casts_are_done_in_their_order) {
  clu_actor *a = made();
  pid_t p = child(serve, a);
  uint64_t answer = 0;
  for (int i = 1; i <= 100; i++) {
    CHECK_INT_EQ(ask(a, CLU_ACTOR_CAST, 1, NULL), CLU_OK);
    CHECK_INT_EQ(ask(a, CLU_ACTOR_CALL, 1, &answer), CLU_OK);
    CHECK_INT_EQ((int)answer, 2 * i);
  }
  end_actor(a, p);
}

static void call_ten_times(clu_actor *parents) {
  char name[CLU_STATE_NAME];
  clu_actor *a;
  copy_name(parents, name);
  a = opened(name);
  for (int i = 0; i < 10; i++)
    if (ask(a, CLU_ACTOR_CALL, 1, NULL) != CLU_OK) _exit(1);
  clu_actor_free(a);
}

/* More callers than there are places, one after the other: some leave, some are just gone. */
static void call_and_go(clu_actor *parents) {
  char name[CLU_STATE_NAME];
  copy_name(parents, name);
  if (ask(opened(name), CLU_ACTOR_CALL, 1, NULL) != CLU_OK) _exit(1);
}

TEST(callers_come_and_go) {
  clu_actor *a = made();
  pid_t p = child(serve, a), callers[8];
  uint64_t answer = 0;
  for (int i = 0; i < 8; i++) callers[i] = child(call_ten_times, a);
  for (int i = 0; i < 8; i++) CHECK_INT_EQ(end_of(callers[i]), 0);
  for (int i = 0; i < CLU_ACTOR_CALLERS + 100; i++) {
    int end = end_of(child(call_and_go, a));
    if (end != 0) CHECK_INT_EQ(end, 0);
  }
  CHECK_INT_EQ(ask(a, CLU_ACTOR_CALL, 0, &answer), CLU_OK);
  CHECK_INT_EQ((int)answer, 80 + CLU_ACTOR_CALLERS + 100);
  end_actor(a, p);
}

TEST(a_call_that_is_given_up_is_not_begun_or_ends) {
  clu_actor *a = made();
  pid_t p = child(serve, a);
  clu_actor_call c = {0};
  uint64_t answer = 9;
  CHECK_INT_EQ(ask_until(a, &c, CLU_ACTOR_CALL, WAIT, NULL, 0), CLU_AGAIN);
  CHECK_INT_EQ(ask(a, CLU_ACTOR_CALL, 1, &answer), CLU_OK); /* 20 s would be over */
  CHECK_INT_EQ((int)answer, 1);
  /* behind a cast that takes a while */
  CHECK_INT_EQ(ask(a, CLU_ACTOR_CAST, NAP, NULL), CLU_OK);
  CHECK_INT_EQ(ask_until(a, &c, CLU_ACTOR_CALL, 100, NULL, 0), CLU_AGAIN);
  CHECK_INT_EQ(ask(a, CLU_ACTOR_CALL, 1, &answer), CLU_OK);
  CHECK_INT_EQ((int)answer, 2);
  end_actor(a, p);
}

TEST(a_death_is_noticed_by_the_caller_and_another_process_goes_on) {
  clu_actor *a = made();
  pid_t p = child(serve, a);
  clu_actor_info is;
  uint64_t answer = 0;
  CHECK_INT_EQ(ask(a, CLU_ACTOR_CALL, 5, &answer), CLU_OK);
  CHECK_INT_EQ(ask(a, CLU_ACTOR_CALL, DIE, NULL), CLU_DEAD);
  CHECK_INT_EQ(end_of(p), -SIGKILL);
  clu_actor_look(a, &is);
  CHECK_INT_EQ(is.state, CLU_ACTOR_DOWN);
  CHECK_INT_EQ(is.died, 1);
  p = child(serve, a);
  CHECK_INT_EQ(ask(a, CLU_ACTOR_CALL, 7, &answer), CLU_OK);
  CHECK_INT_EQ((int)answer, 7);
  clu_actor_look(a, &is);
  CHECK_INT_EQ((int)is.generation, 2);
  CHECK_INT_EQ(is.state, CLU_ACTOR_UP);
  CHECK_INT_EQ(is.died, 0); /* the process that serves now */
  end_actor(a, p);
}

static int is_there(const char *path) { return access(path, F_OK) == 0; }

/* Where the system needs a file for memory that processes share. */
TEST(the_mesh_of_a_killed_process_goes_with_the_next_one_or_at_the_end) {
  clu_actor *a = made();
  char path[2][CLU_MESH_PATH];
  for (int i = 0; i < 2; i++) {
    pid_t p = child(serve, a);
    CHECK_INT_EQ(ask(a, CLU_ACTOR_CALL, 1, NULL), CLU_OK);
    memcpy(path[i], a->r->path, sizeof path[i]);
    CHECK(is_there(path[i]));
    if (i == 1) CHECK(!is_there(path[0]));
    CHECK_INT_EQ(ask(a, CLU_ACTOR_CALL, DIE, NULL), CLU_DEAD);
    CHECK_INT_EQ(end_of(p), -SIGKILL);
  }
  clu_actor_set(a, CLU_ACTOR_ENDED, NULL);
  clu_actor_free(a);
  CHECK(!is_there(path[1]));
}

/* Its call waits behind one that ends the process, and is sent to the next one. */
static void call_once(clu_actor *parents) {
  char name[CLU_STATE_NAME];
  uint64_t answer = 0;
  copy_name(parents, name);
  if (ask(opened(name), CLU_ACTOR_CALL, 3, &answer) != CLU_OK) _exit(1);
  if (answer != 3) _exit(2);
}

TEST(a_call_that_had_not_begun_is_done_by_the_next_process) {
  clu_actor *a = made();
  pid_t p = child(serve, a), caller;
  clu_actor_info is = {0};
  CHECK_INT_EQ(ask(a, CLU_ACTOR_CAST, NAP, NULL), CLU_OK);
  CHECK_INT_EQ(ask(a, CLU_ACTOR_CAST, DIE, NULL), CLU_OK);
  caller = child(call_once, a);
  CHECK_INT_EQ(end_of(p), -SIGKILL);
  p = child(serve, a);
  CHECK_INT_EQ(end_of(caller), 0);
  clu_actor_look(a, &is);
  CHECK_INT_EQ((int)is.generation, 2);
  end_actor(a, p);
}

TEST(where_none_comes_a_death_is_the_end) {
  clu_actor *a = NULL;
  pid_t p;
  clu_actor_info is;
  REQUIRE(clu_actor_new("/tmp", &a, NULL) == CLU_OK);
  p = child(serve, a);
  CHECK_INT_EQ(ask(a, CLU_ACTOR_CALL, DIE, NULL), CLU_DEAD);
  CHECK_INT_EQ(end_of(p), -SIGKILL);
  CHECK_INT_EQ(ask(a, CLU_ACTOR_CALL, 1, NULL), CLU_CANCELLED);
  clu_actor_look(a, &is);
  CHECK_INT_EQ(is.died, 1);
  clu_actor_free(a);
}

/* The text has characters of two bytes each. */
TEST(no_part_of_a_character_is_left_of_a_long_text) {
  clu_actor *a = made();
  clu_actor_info is;
  char text[601] = "";
  for (int i = 0; i < 300; i++) strcat(text, "\xc3\xa4");
  REQUIRE(clu_actor_begin(a, "/tmp", NULL) == CLU_OK);
  clu_actor_begin_call(a, -1, 1, text);
  clu_actor_set(a, CLU_ACTOR_UP, text);
  clu_actor_look(a, &is);
  CHECK_INT_EQ((int)strlen(is.method), CLU_ACTOR_METHOD - 2);
  CHECK_INT_EQ((int)strlen(is.why), CLU_ACTOR_WHY - 2);
  CHECK(memcmp(is.why, text, CLU_ACTOR_WHY - 2) == 0);
  clu_actor_begin_call(a, -1, 2, "short");
  clu_actor_look(a, &is);
  CHECK(strcmp(is.method, "short") == 0);
  clu_actor_free(a);
}

TEST(after_its_end_nobody_waits) {
  clu_actor *a = made();
  pid_t p = child(serve, a);
  CHECK_INT_EQ(ask(a, CLU_ACTOR_CALL, 1, NULL), CLU_OK);
  clu_actor_set(a, CLU_ACTOR_ENDED, NULL);
  CHECK_INT_EQ(end_of(p), 0);
  CHECK_INT_EQ(ask(a, CLU_ACTOR_CALL, 1, NULL), CLU_CANCELLED);
  CHECK_INT_EQ(clu_actor_begin(a, "/tmp", NULL), CLU_CANCELLED);
  clu_actor_set(a, CLU_ACTOR_UP, NULL);
  CHECK_INT_EQ(ask(a, CLU_ACTOR_CALL, 1, NULL), CLU_CANCELLED);
  clu_actor_free(a);
}

/* ---- where the process that serves does other things, too ---- */

static clu_actor *serving_here(void) {
  clu_actor *a = made();
  REQUIRE(clu_actor_begin(a, "/tmp", NULL) == CLU_OK);
  clu_actor_set(a, CLU_ACTOR_UP, NULL);
  return a;
}

static void end_here(clu_actor *a) {
  clu_actor_set(a, CLU_ACTOR_ENDED, NULL);
  clu_actor_free(a);
}

/* How many messages there were. */
static int serve_all(clu_actor *a, uint64_t *sum) {
  clu_message *m;
  int n = 0;
  for (; clu_actor_next(a, &m) == CLU_OK; n++) serve_one(a, m, sum);
  return n;
}

static void cast_twice(clu_actor *parents) {
  char name[CLU_STATE_NAME];
  clu_actor *a;
  copy_name(parents, name);
  a = opened(name);
  if (ask(a, CLU_ACTOR_CAST, 5, NULL) != CLU_OK) _exit(1);
  if (ask(a, CLU_ACTOR_CAST, 6, NULL) != CLU_OK) _exit(2);
}

TEST(a_process_that_serves_calls_itself_behind_what_has_come_before) {
  clu_actor *a = serving_here();
  clu_actor_call c = {0};
  clu_blob *b = clu_blob_new(0);
  clu_message *m = NULL;
  uint64_t sum = 0, answer = 0;
  CHECK_INT_EQ(clu_actor_has_more(a), 0);
  CHECK_INT_EQ(end_of(child(cast_twice, a)), 0);
  CHECK_INT_EQ(clu_actor_has_more(a), 1);
  put_number(b, 7);
  CHECK_INT_EQ(step(a, &c, CLU_ACTOR_CALL, b, &m), CLU_AGAIN);
  CHECK_INT_EQ(serve_all(a, &sum), 3);
  CHECK_INT_EQ(clu_actor_has_more(a), 0); /* the answer is no call */
  CHECK_INT_EQ(step(a, &c, CLU_ACTOR_CALL, b, &m), CLU_OK);
  REQUIRE(m);
  memcpy(&answer, m->body, sizeof answer);
  CHECK_INT_EQ((int)answer, 18);
  clu_message_free(m);
  clu_actor_give_up(a, &c);
  clu_blob_unref(b);
  end_here(a);
}

TEST(what_a_process_has_given_up_of_its_own_is_not_begun_and_others_calls_are) {
  clu_actor *a = serving_here();
  clu_actor_call c = {0};
  clu_blob *b = clu_blob_new(0);
  clu_message *m = NULL;
  uint64_t sum = 0;
  put_number(b, 7);
  CHECK_INT_EQ(step(a, &c, CLU_ACTOR_CALL, b, &m), CLU_AGAIN);
  CHECK_INT_EQ(end_of(child(cast_twice, a)), 0);
  clu_actor_give_up(a, &c);
  CHECK_INT_EQ(serve_all(a, &sum), 3);
  CHECK_INT_EQ((int)sum, 11);
  /* an answer that nobody has taken is given back */
  CHECK_INT_EQ(step(a, &c, CLU_ACTOR_CALL, b, &m), CLU_AGAIN);
  CHECK_INT_EQ(serve_all(a, &sum), 1);
  clu_actor_give_up(a, &c);
  CHECK_INT_EQ(step(a, &c, CLU_ACTOR_CALL, b, &m), CLU_AGAIN);
  clu_actor_give_up(a, &c);
  clu_blob_unref(b);
  end_here(a);
}

TEST(who_sleeps_is_woken_by_its_pipe_and_nobody_else_is) {
  char folder[] = "/tmp/clutch-XXXXXX", path[64];
  clu_actor *a = serving_here();
  clu_fd waker;
  uint64_t sum = 0;
  REQUIRE(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/actors", folder);
  REQUIRE(clu_os_waker_new(path, &waker, NULL) == CLU_OK);
  clu_actor_set_waker(a, path);
  CHECK_INT_EQ(end_of(child(cast_twice, a)), 0);
  CHECK_INT_EQ(clu_os_wait_readable(waker, 0), CLU_TIMEOUT);
  serve_all(a, &sum);
  clu_actor_sleeps(a, 1);
  CHECK_INT_EQ(clu_actor_has_more(a), 0);
  CHECK_INT_EQ(end_of(child(cast_twice, a)), 0);
  CHECK_INT_EQ(clu_os_wait_readable(waker, 20000000000), CLU_OK);
  clu_actor_sleeps(a, 0);
  clu_os_waker_empty(waker);
  CHECK_INT_EQ(clu_os_wait_readable(waker, 0), CLU_TIMEOUT);
  CHECK_INT_EQ(serve_all(a, &sum), 2);
  clu_actor_sleeps(a, 1);
  clu_actor_set(a, CLU_ACTOR_ENDED, NULL);
  CHECK_INT_EQ(clu_os_wait_readable(waker, 0), CLU_OK);
  clu_actor_free(a);
  clu_os_close(waker);
  clu_os_waker_remove(path);
  CHECK_INT_EQ(rmdir(folder), 0);
  clu_os_waker_wake(path); /* it is gone: nothing happens */
}
