/* Two ranks that send, wait and meet at the same time. */
#include "test.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/mesh/mesh.h"

enum { N = 2, MESSAGES = 100000 };
static clu_mesh *session, *rank[N];
static pid_t other;

/* The other process is rank 1, and does `work`, which returns how much went wrong. */
static void begin(int (*work)(void)) {
  REQUIRE(clu_mesh_new(N, "/tmp", &session, NULL) == CLU_OK);
  REQUIRE((other = fork()) >= 0);
  if (other == 0) {
    if (clu_mesh_join(clu_mesh_path(session), N, 1, &rank[1], NULL) != CLU_OK) _exit(99);
    _exit(work() ? 1 : 0);
  }
  REQUIRE(clu_mesh_join(clu_mesh_path(session), N, 0, &rank[0], NULL) == CLU_OK);
}

static void end(void) {
  int status = -1;
  CHECK(waitpid(other, &status, 0) == other);
  CHECK_INT_EQ(status, 0);
  clu_mesh_free(rank[0]);
  clu_mesh_free(session);
}

static int send_number(clu_mesh *m, int to, uint32_t x) {
  clu_blob *b = clu_blob_new(4);
  clu_sending way = {0};
  int rc;
  clu_blob_append(b, &x, sizeof x);
  for (;;) {
    uint32_t events = clu_mesh_events(m);
    rc = clu_mesh_send(m, to, "", b, &way);
    if (rc != CLU_AGAIN) break;
    clu_mesh_waits(m, CLU_WAIT_ROOM, to, NULL);
    if (clu_mesh_sleep(m, events, 5000000000u) != CLU_OK) break;
    clu_mesh_waits(m, CLU_WAIT_NONE, -1, NULL);
  }
  clu_blob_unref(b);
  return rc;
}

static int receive_number(clu_mesh *m, int from, uint32_t *x) {
  clu_message *got = NULL;
  int rc, who;
  for (;;) {
    uint32_t events = clu_mesh_events(m);
    rc = clu_mesh_receive(m, from, NULL, 0, &got, &who);
    if (rc != CLU_AGAIN) break;
    clu_mesh_waits(m, CLU_WAIT_MESSAGE, from, NULL);
    if (clu_mesh_sleep(m, events, 5000000000u) != CLU_OK) return CLU_TIMEOUT;
    clu_mesh_waits(m, CLU_WAIT_NONE, -1, NULL);
  }
  if (rc == CLU_OK) memcpy(x, got->body, sizeof *x);
  clu_message_free(got);
  return rc;
}

static int sends(void) {
  int bad = 0;
  for (uint32_t i = 0; i < MESSAGES && !bad; i++) bad += send_number(rank[1], 0, i) != CLU_OK;
  return bad;
}

TEST(no_message_is_missed_by_who_sleeps) {
  uint32_t x = 0;
  begin(sends);
  for (uint32_t i = 0; i < MESSAGES; i++) {
    int rc = receive_number(rank[0], i % 3 ? 1 : -1, &x);
    if (rc != CLU_OK || x != i) {
      test_fail(__FILE__, __LINE__, "message %u: code %d, number %u", i, rc, x);
      clu_mesh_end(session);
      break;
    }
  }
  end();
}

static int answers(void) {
  uint32_t x;
  int bad = 0;
  for (uint32_t i = 0; i < MESSAGES / 10 && !bad; i++)
    bad += receive_number(rank[1], 0, &x) != CLU_OK || send_number(rank[1], 0, x + 1) != CLU_OK;
  return bad;
}

TEST(each_question_is_answered) {
  uint32_t x = 0;
  begin(answers);
  for (uint32_t i = 0; i < MESSAGES / 10; i++) {
    CHECK(send_number(rank[0], 1, i) == CLU_OK);
    if (receive_number(rank[0], 1, &x) != CLU_OK || x != i + 1) {
      test_fail(__FILE__, __LINE__, "answer %u", i);
      clu_mesh_end(session);
      break;
    }
  }
  end();
}

static int meet(clu_mesh *m) {
  static const clu_meeting why = {.kind = 1};
  uint32_t turn;
  int who, rc;
  clu_mesh_waits(m, CLU_WAIT_MEETING, -1, NULL);
  clu_mesh_meet(m, &why, &turn);
  for (;;) {
    uint32_t events = clu_mesh_events(m);
    rc = clu_mesh_has_met(m, turn, &who);
    if (rc != CLU_AGAIN || clu_mesh_sleep(m, events, 5000000000u) != CLU_OK) break;
  }
  clu_mesh_waits(m, CLU_WAIT_NONE, -1, NULL);
  return rc;
}

/* The other sees what one has written before they met. */
static uint32_t *written_by(int which) {
  void *own, *result;
  REQUIRE(clu_mesh_reduce_room(rank[which], 4, &own, &result, NULL) == CLU_OK);
  return (uint32_t *)((unsigned char *)own + (1 - which) * CLU_REDUCE_BYTES);
}

static int meets(void) {
  uint32_t *written = written_by(1);
  int bad = 0;
  for (uint32_t i = 0; i < MESSAGES / 10 && !bad; i++) {
    *written = i;
    bad += meet(rank[1]) != CLU_OK || meet(rank[1]) != CLU_OK;
  }
  return bad;
}

TEST(who_meets_sees_what_was_written_before) {
  volatile uint32_t *written;
  begin(meets);
  written = written_by(0);
  for (uint32_t i = 0; i < MESSAGES / 10; i++) {
    int rc = meet(rank[0]);
    if (rc != CLU_OK || *written != i || (rc = meet(rank[0])) != CLU_OK) {
      test_fail(__FILE__, __LINE__, "meeting %u: code %d, %u", i, rc, *written);
      clu_mesh_end(session);
      break;
    }
  }
  end();
}
