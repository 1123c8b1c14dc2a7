/* Two forwarders, of clients and of the delegates: what is written to one end is read at the other.
 */
#include "test.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/forward/forwarder.h"
#include "core/wire/frame.h"

enum { SIDES = 2, WAITING = 4096, HOST = 7 };

typedef struct said {
  clu_blob *at[WAITING];
  int n, last; /* kind of the last one */
} said;

static clu_loop loop;
static clu_forwarder *forwarders[SIDES]; /* of clients, of the delegates */
static said from[SIDES];
static int in_use; /* as the first has told the session */
static char folder[] = "/tmp/clutch-forwarder-XXXXXX", path[64];

static void keep(void *to, clu_blob *body) {
  said *s = to;
  REQUIRE(s->n < WAITING);
  s->at[s->n++] = clu_blob_ref(body);
  s->last = body->data[8];
}

static void begin(void) {
  REQUIRE(clu_loop_init(&loop, NULL) == CLU_OK);
  memset(from, 0, sizeof from);
  for (int i = 0; i < SIDES; i++)
    REQUIRE(clu_forward_new(&loop, keep, &from[i], &forwarders[i]) == CLU_OK);
  strcpy(folder + sizeof folder - 7, "XXXXXX");
  REQUIRE(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/s", folder);
  REQUIRE(clu_forward_listen(forwarders[0], HOST, path, NULL) == CLU_OK);
  REQUIRE(from[0].n == 1 && from[0].last == CLU_FORWARD_USE);
  clu_blob_unref(from[0].at[0]);
  from[0].n = 0;
}

static void finish(void) {
  for (int i = 0; i < SIDES; i++) clu_forward_free(forwarders[i]);
  for (int i = 0; i < SIDES; i++)
    for (int k = 0; k < from[i].n; k++) clu_blob_unref(from[i].at[k]);
  clu_loop_fini(&loop);
  unlink(path);
  rmdir(folder);
}

/* All that was said arrives, until nobody says more and nothing is ready. */
static void settle(void) {
  for (int quiet = 0; quiet < 2;) {
    REQUIRE(clu_loop_pump(&loop, 0, NULL) == CLU_OK);
    quiet = clu_loop_events(&loop) ? 0 : quiet + 1;
    for (int i = 0; i < SIDES; i++) {
      said now = from[i];
      from[i].n = 0;
      for (int k = 0; k < now.n; k++) {
        if (now.at[k]->data[8] == CLU_FORWARD_USE)
          in_use = (int)clu_get32(now.at[k]->data + CLU_FORWARD_HEAD);
        else
          CHECK_INT_EQ(clu_forward_heard(forwarders[1 - i], now.at[k]), CLU_OK);
        clu_blob_unref(now.at[k]);
        quiet = 0;
      }
    }
  }
}

static clu_fd client(void) {
  clu_addr to;
  clu_fd fd;
  REQUIRE(clu_os_addr_path(path, &to, NULL) == CLU_OK);
  REQUIRE(clu_os_connect_start(&to, 0, 0, &fd, NULL) == CLU_OK);
  return fd;
}

/* The delegate's end of the connection that is wanted. */
static clu_fd delegate(clu_forward_id *id) {
  clu_fd pair[2];
  settle();
  REQUIRE(clu_forward_wants(forwarders[1], id));
  REQUIRE(clu_os_pair(pair, NULL) == CLU_OK);
  clu_forward_attach(forwarders[1], *id, pair[0]);
  return pair[1];
}

static size_t put(clu_fd fd, const void *p, size_t n) {
  const clu_iov bytes = {(void *)(uintptr_t)p, n};
  size_t done = 0;
  int rc = clu_os_writev(fd, &bytes, 1, NULL, 0, &done);
  return rc == CLU_OK ? done : 0;
}

/* Bytes; 0: there are none; -1: the end. */
static long get(clu_fd fd, void *p, size_t n) {
  clu_iov room = {p, n};
  size_t got = 0;
  int rc = clu_os_readv(fd, &room, 1, &got, NULL, NULL);
  return rc == CLU_OK ? (long)got : rc == CLU_AGAIN ? 0 : -1;
}

static int says(clu_fd fd, const char *text) {
  char bytes[64] = "";
  long n = get(fd, bytes, sizeof bytes - 1);
  return n == (long)strlen(text) && strcmp(bytes, text) == 0;
}

TEST(what_is_written_at_one_end_is_read_at_the_other) {
  clu_forward_id a, b;
  clu_fd one, two, at_one, at_two;
  begin();
  one = client();
  REQUIRE(put(one, "early", 5) == 5);
  at_one = delegate(&a);
  two = client();
  at_two = delegate(&b);
  CHECK(a.host == HOST && b.host == HOST && a.number != b.number);
  settle();
  CHECK(says(at_one, "early"));
  CHECK(put(at_one, "answer", 6) && put(two, "second", 6));
  settle();
  CHECK(says(one, "answer") && says(at_two, "second"));
  CHECK(get(two, &(char){0}, 1) == 0 && get(at_one, &(char){0}, 1) == 0);
  clu_os_close(one);
  settle();
  CHECK(get(at_one, &(char){0}, 1) == -1);
  CHECK(clu_forward_ended(forwarders[1], &a) && !clu_forward_ended(forwarders[1], &b));
  CHECK(in_use);
  clu_os_close(at_two);
  settle();
  CHECK(!in_use);
  CHECK(get(two, &(char){0}, 1) == -1);
  CHECK(clu_forward_ended(forwarders[1], &b) && !clu_forward_ended(forwarders[1], &b));
  clu_os_close(two);
  clu_os_close(at_one);
  finish();
}

/* All that was written before the end arrives, also where the connection had no socket yet. */
TEST(an_end_comes_behind_what_was_written) {
  clu_forward_id id;
  clu_fd one, at;
  begin();
  one = client();
  REQUIRE(put(one, "last words", 10) == 10);
  clu_os_close(one);
  at = delegate(&id);
  settle();
  CHECK(says(at, "last words"));
  CHECK(get(at, &(char){0}, 1) == -1);
  CHECK(clu_forward_ended(forwarders[1], &id));
  clu_os_close(at);
  one = client();
  clu_os_close(one);
  settle();
  CHECK(!clu_forward_wants(forwarders[1], &id) && !clu_forward_ended(forwarders[1], &id));
  finish();
}

/* A reader that takes nothing holds up the writer; then all of it comes, in order. */
static void pass(clu_fd from_fd, clu_fd to_fd) {
  enum { MANY = 9 << 20, STEP = 100003 };
  unsigned char *all = malloc(MANY), *come = malloc(MANY);
  size_t sent = 0, got = 0, before;
  REQUIRE(all && come);
  for (size_t i = 0; i < MANY; i++) all[i] = (unsigned char)(i * 31 + i / 257);
  do {
    before = sent;
    sent += put(from_fd, all + sent, MANY - sent);
    settle();
  } while (sent > before);
  CHECK(sent < MANY && sent >= CLU_FORWARD_WINDOW);
  while (got < MANY) {
    long n = get(to_fd, come + got, MANY - got < STEP ? MANY - got : STEP);
    REQUIRE(n >= 0);
    got += (size_t)n;
    if (sent < MANY) sent += put(from_fd, all + sent, MANY - sent);
    settle();
  }
  CHECK(memcmp(all, come, MANY) == 0);
  free(all);
  free(come);
}

TEST(much_is_passed_with_a_bound) {
  clu_forward_id id;
  clu_fd one, at;
  begin();
  one = client();
  at = delegate(&id);
  pass(one, at);
  pass(at, one);
  clu_os_close(one);
  clu_os_close(at);
  finish();
}

TEST(a_forwarder_that_is_gone_ends_all_connections_of_its_host) {
  clu_forward_id id, other = {HOST + 1, 1};
  clu_blob *lost, *open = clu_forward_message(other, CLU_FORWARD_OPEN);
  clu_fd one, at, two, pair[2];
  begin();
  one = client();
  at = delegate(&id);
  two = client();
  settle();
  REQUIRE(open && clu_forward_heard(forwarders[1], open) == CLU_OK);
  REQUIRE(clu_os_pair(pair, NULL) == CLU_OK);
  clu_forward_attach(forwarders[1], other, pair[0]);
  lost = clu_forward_message((clu_forward_id){HOST, 0}, CLU_FORWARD_LOST);
  REQUIRE(lost);
  CHECK_INT_EQ(clu_forward_heard(forwarders[1], lost), CLU_OK);
  CHECK_INT_EQ(clu_forward_heard(forwarders[0], lost), CLU_OK);
  settle();
  CHECK(get(one, &(char){0}, 1) == -1 && get(two, &(char){0}, 1) == -1);
  CHECK(get(at, &(char){0}, 1) == -1 && get(pair[1], &(char){0}, 1) == 0);
  CHECK(clu_forward_ended(forwarders[1], &id) && !clu_forward_ended(forwarders[1], &id));
  clu_os_close(one);
  one = client(); /* clients may come again */
  settle();
  CHECK(clu_forward_wants(forwarders[1], &id));
  clu_forward_attach(forwarders[1], id, CLU_NO_FD);
  settle();
  CHECK(get(one, &(char){0}, 1) == -1);
  clu_blob_unref(lost);
  clu_blob_unref(open);
  clu_os_close(one);
  clu_os_close(two);
  clu_os_close(at);
  clu_os_close(pair[1]);
  finish();
}

static int hears(int side, const void *p, size_t n) {
  clu_blob *b = clu_blob_new(n);
  int rc;
  REQUIRE(b && clu_blob_append(b, p, n) == 0);
  rc = clu_forward_heard(forwarders[side], b);
  clu_blob_unref(b);
  return rc;
}

/* Only their connection ends, at both ends; all others go on. */
TEST(messages_that_cannot_be_end_their_connection) {
  static const struct {
    int side, kind;
    size_t n;
  } bad[] = {{0, CLU_FORWARD_OPEN, 9},   {1, CLU_FORWARD_OPEN, 9},
             {0, CLU_FORWARD_DATA, 9},   {1, CLU_FORWARD_DATA, 9},
             {0, CLU_FORWARD_TAKEN, 13}, {1, CLU_FORWARD_TAKEN, 12},
             {1, CLU_FORWARD_USE, 13},   {0, 99, 9}};
  unsigned char m[16] = {HOST};
  clu_forward_id id, other;
  clu_fd one, at, two, at_two;
  begin();
  two = client();
  at_two = delegate(&other);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    one = client();
    at = delegate(&id);
    m[4] = (unsigned char)id.number;
    m[8] = (unsigned char)bad[i].kind;
    m[9] = 1; /* more than was sent */
    CHECK_INT_EQ(hears(bad[i].side, m, bad[i].n), CLU_OK);
    settle();
    CHECK(get(at, &(char){0}, 1) == -1 && get(one, &(char){0}, 1) == -1);
    CHECK(clu_forward_ended(forwarders[1], &id));
    clu_os_close(one);
    clu_os_close(at);
    CHECK(put(two, "on", 2) && put(at_two, "and on", 6));
    settle();
    CHECK(says(at_two, "on") && says(two, "and on"));
  }
  m[4] = 100; /* of one that has ended, maybe */
  m[8] = CLU_FORWARD_DATA;
  CHECK_INT_EQ(hears(1, m, 10), CLU_OK);
  m[8] = CLU_FORWARD_OPEN; /* none is opened there: who has is told that it has ended */
  CHECK_INT_EQ(hears(0, m, 9), CLU_OK);
  CHECK(from[0].n == 1 && from[0].last == CLU_FORWARD_CLOSE);
  CHECK_INT_EQ(hears(1, m, 8), CLU_PROTO); /* of no connection: no forwarder says so */
  settle();
  clu_os_close(two);
  clu_os_close(at_two);
  finish();
}

/* A process that takes nothing any more may have written something before: that arrives. */
TEST(last_words_arrive_when_an_answer_comes_too_late) {
  static const unsigned char late[] = {HOST, 0, 0, 0, 1, 0, 0, 0, CLU_FORWARD_DATA, 'x'};
  clu_forward_id id;
  clu_fd one, at;
  begin();
  one = client();
  at = delegate(&id);
  CHECK(id.number == 1 && put(at, "unread", 6) == 6);
  settle();
  REQUIRE(put(one, "no more", 7) == 7);
  clu_os_close(one);
  for (int i = 0; i < 2; i++) CHECK_INT_EQ(hears(0, late, sizeof late), CLU_OK);
  settle();
  CHECK(says(at, "no more"));
  CHECK(get(at, &(char){0}, 1) == -1);
  CHECK(clu_forward_ended(forwarders[1], &id));
  clu_os_close(at);
  finish();
}
