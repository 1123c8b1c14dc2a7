/* Locks, counters, rates and tables that processes share. */
#include "test.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/deadline.h"
#include "core/state/state-layout.h"

static clu_state *make(int kind) {
  clu_state *s = NULL;
  clu_err e = {0};
  int rc = clu_state_new(kind, "/tmp", &s, &e);
  if (rc != CLU_OK) test_fail(__FILE__, __LINE__, "%s", e.text);
  REQUIRE(s);
  return s;
}

/* A child that does `work` with the state, opened by its name by a program of its own would be the
 * same: the parent's is inherited. */
static pid_t child(void (*work)(clu_state *s), clu_state *s) {
  pid_t p = fork();
  REQUIRE(p >= 0);
  if (p == 0) {
    work(s);
    _exit(0);
  }
  return p;
}

static int ended_well(pid_t p) {
  int status = -1;
  return waitpid(p, &status, 0) == p && status == 0;
}

/* ---- memory ---- */

static void opens_by_name(clu_state *s) {
  clu_state *other = NULL;
  char name[CLU_STATE_NAME];
  int64_t after = 0;
  memcpy(name, clu_state_name(s), sizeof name);
  s->name[0] ^= 1; /* so that it is not found among those of this process */
  if (clu_state_open(name, CLU_STATE_COUNTER, &other, NULL) != CLU_OK) _exit(2);
  if (other == s) _exit(3);
  if (clu_counter_add(other, 5, &after) != CLU_OK || after != 12) _exit(4);
  clu_state_free(other);
}

TEST(another_process_opens_it_by_its_name) {
  clu_state *s = make(CLU_STATE_COUNTER), *again = NULL;
  int64_t after = 0;
  CHECK_INT_EQ(clu_counter_add(s, 7, &after), CLU_OK);
  CHECK(ended_well(child(opens_by_name, s)));
  CHECK_INT_EQ(clu_counter_add(s, 0, &after), CLU_OK);
  CHECK_INT_EQ(after, 12);
  CHECK_INT_EQ(clu_state_open(clu_state_name(s), CLU_STATE_COUNTER, &again, NULL), CLU_OK);
  CHECK(again == s);
  clu_state_free(again);
  CHECK_INT_EQ(clu_counter_add(s, 1, &after), CLU_OK);
  clu_state_free(s);
}

TEST(what_is_gone_or_of_another_kind_is_an_error) {
  clu_state *s = make(CLU_STATE_COUNTER), *t = NULL;
  char name[CLU_STATE_NAME];
  memcpy(name, clu_state_name(s), sizeof name);
  CHECK_INT_EQ(clu_state_open(name, CLU_STATE_LOCK, &t, NULL), CLU_PROTO);
  name[3] = name[3] == '0' ? '1' : '0';
  CHECK_INT_EQ(clu_state_open(name, CLU_STATE_COUNTER, &t, NULL), CLU_PROTO);
  memcpy(name, clu_state_name(s), sizeof name);
  clu_state_free(s);
  CHECK(clu_state_open(name, CLU_STATE_COUNTER, &t, NULL) != CLU_OK);
  CHECK_INT_EQ(clu_state_open("", CLU_STATE_COUNTER, &t, NULL), CLU_PROTO);
  CHECK_INT_EQ(clu_state_open("12:/proc/self/mem", CLU_STATE_COUNTER, &t, NULL), CLU_PROTO);
  clu_state_free(NULL);
}

/* ---- locks ---- */

TEST(a_lock_is_taken_more_than_once_and_given_to_a_depth) {
  clu_state *s = make(CLU_STATE_LOCK);
  clu_lock_info is;
  clu_pid before = 0;
  CHECK_INT_EQ(clu_lock_take(s, 0, &before), CLU_OK);
  CHECK_INT_EQ(clu_lock_take(s, 0, &before), CLU_OK);
  CHECK_INT_EQ(clu_lock_depth(s), 2);
  clu_lock_give(s);
  clu_lock_look(s, &is);
  CHECK_INT_EQ(is.holder, getpid());
  clu_lock_give(s);
  clu_lock_give(s);
  clu_lock_look(s, &is);
  CHECK_INT_EQ(is.holder, 0);
  CHECK_INT_EQ(is.taken, 1);
  clu_state_free(s);
}

TEST(a_lock_that_this_process_has_outlives_its_last_reference) {
  clu_state *s = make(CLU_STATE_LOCK);
  char name[CLU_STATE_NAME];
  clu_pid before;
  memcpy(name, clu_state_name(s), sizeof name);
  CHECK_INT_EQ(clu_lock_take(s, 0, &before), CLU_OK);
  clu_state_free(s);
  CHECK(clu_state_find(name, CLU_STATE_LOCK) == s);
  CHECK_INT_EQ(clu_lock_depth(s), 1);
  clu_lock_give(s);
  CHECK(clu_state_find(name, CLU_STATE_LOCK) == NULL);
}

static void finds_it_taken(clu_state *s) {
  clu_pid before;
  if (clu_lock_depth(s) != 0) _exit(2);
  clu_lock_give(s);
  if (clu_lock_take(s, 2000000, &before) != CLU_TIMEOUT) _exit(3);
}

TEST(a_forked_child_does_not_have_its_parents_lock) {
  clu_state *s = make(CLU_STATE_LOCK);
  clu_pid before;
  CHECK_INT_EQ(clu_lock_take(s, 0, &before), CLU_OK);
  CHECK(ended_well(child(finds_it_taken, s)));
  CHECK_INT_EQ(clu_lock_depth(s), 1);
  clu_lock_give(s);
  clu_state_free(s);
}

static void takes_and_dies(clu_state *s) {
  clu_pid before;
  if (clu_lock_take(s, 1000000000, &before) != CLU_OK) _exit(2);
  raise(SIGKILL);
}

TEST(a_lock_of_a_process_that_has_died_is_had_and_said_to_be) {
  clu_state *s = make(CLU_STATE_LOCK);
  clu_lock_info is;
  for (int i = 0; i < 50; i++) {
    clu_pid before = 0;
    pid_t p = child(takes_and_dies, s);
    waitpid(p, NULL, 0);
    CHECK_INT_EQ(clu_lock_take(s, 1000000000, &before), CLU_DEAD);
    CHECK_INT_EQ(before, p);
    clu_lock_give(s);
  }
  clu_lock_look(s, &is);
  CHECK_INT_EQ(is.died, 50);
  clu_state_free(s);
}

enum { ROUNDS = 20000, CHILDREN = 4 };
static void counts_under_the_lock(clu_state *s) {
  clu_pid before;
  for (int i = 0; i < ROUNDS; i++) {
    int rc;
    while ((rc = clu_lock_take(s, 100000000, &before)) == CLU_TIMEOUT) continue;
    if (rc != CLU_OK) _exit(2);
    s->head->each++; /* not atomic */
    clu_lock_give(s);
  }
}

TEST(one_at_a_time_has_a_lock) {
  clu_state *s = make(CLU_STATE_LOCK);
  pid_t p[CHILDREN];
  for (int i = 0; i < CHILDREN; i++) p[i] = child(counts_under_the_lock, s);
  for (int i = 0; i < CHILDREN; i++) CHECK(ended_well(p[i]));
  CHECK_INT_EQ(s->head->each, (uint64_t)ROUNDS * CHILDREN);
  clu_state_free(s);
}

static void takes_and_gives(clu_state *s) {
  clu_pid before;
  for (;;) {
    int rc = clu_lock_take(s, 1000000000, &before);
    if (rc == CLU_OK || rc == CLU_DEAD) clu_lock_give(s);
  }
}

/* Killed at any moment of taking and giving, until so many had the lock: it goes on. CLUTCH_KILLS:
 * how many. */
TEST(no_kill_leaves_a_lock_that_nobody_gets) {
  const char *wanted = getenv("CLUTCH_KILLS");
  uint64_t most = wanted ? strtoull(wanted, NULL, 10) : 200, kills = 0;
  clu_state *s = make(CLU_STATE_LOCK);
  clu_pid before;
  clu_lock_info is = {0};
  while (is.died < most) {
    pid_t p = child(takes_and_gives, s);
    int rc;
    usleep((useconds_t)(rand() % 300));
    kill(p, SIGKILL);
    waitpid(p, NULL, 0);
    kills++;
    rc = clu_lock_take(s, 5000000000u, &before);
    REQUIRE(rc == CLU_OK || (rc == CLU_DEAD && before == p));
    clu_lock_give(s);
    clu_lock_look(s, &is);
  }
  if (wanted)
    printf("%llu kills, %llu of them had the lock\n", (unsigned long long)kills,
           (unsigned long long)is.died);
  clu_state_free(s);
}

/* ---- counters, rates ---- */

static void adds(clu_state *s) {
  int64_t after;
  for (int i = 0; i < ROUNDS; i++)
    if (clu_counter_add(s, 1, &after) != CLU_OK) _exit(2);
}

TEST(a_counter_counts_each) {
  clu_state *s = make(CLU_STATE_COUNTER);
  int64_t after = 0;
  pid_t p[CHILDREN];
  for (int i = 0; i < CHILDREN; i++) p[i] = child(adds, s);
  for (int i = 0; i < CHILDREN; i++) CHECK(ended_well(p[i]));
  CHECK_INT_EQ(clu_counter_add(s, 0, &after), CLU_OK);
  CHECK_INT_EQ(after, ROUNDS * CHILDREN);
  CHECK_INT_EQ(clu_counter_add(s, CLU_COUNT_MOST, &after), CLU_LIMIT);
  CHECK_INT_EQ(clu_counter_add(s, INT64_MIN, &after), CLU_LIMIT);
  CHECK_INT_EQ(clu_counter_set(s, 3), ROUNDS * CHILDREN);
  CHECK_INT_EQ(clu_counter_add(s, -5, &after), CLU_OK);
  CHECK_INT_EQ(after, -2);
  clu_state_free(s);
}

TEST(a_rate_spaces_what_goes_and_allows_a_burst) {
  clu_state *s = make(CLU_STATE_RATE);
  uint64_t each = UINT64_C(1000000000000), at[5], began;
  clu_rate_begin(s, each, 3);
  began = clu_os_now();
  /* a place that is free now is not waited for, however late the deadline was */
  CHECK_INT_EQ(clu_rate_reserve(s, 1, began - 1, &at[0]), CLU_OK);
  for (int i = 1; i < 5; i++) CHECK_INT_EQ(clu_rate_reserve(s, 1, CLU_NEVER, &at[i]), CLU_OK);
  for (int i = 0; i < 3; i++) CHECK(at[i] - began < each / 2);
  CHECK(at[3] - began > each / 2 && at[3] - began <= each + each / 2);
  CHECK_INT_EQ(at[4] - at[3], each);
  CHECK_INT_EQ(clu_rate_reserve(s, 1, began + each, &at[0]), CLU_TIMEOUT);
  CHECK_INT_EQ(clu_rate_reserve(s, 2, CLU_NEVER, &at[0]), CLU_OK);
  CHECK_INT_EQ(at[0] - at[4], 2 * each);
  CHECK_INT_EQ(clu_rate_reserve(s, UINT64_MAX / 2, CLU_NEVER, &at[0]), CLU_TIMEOUT);
  clu_state_free(s);
}

/* ---- tables ---- */

static int append(clu_state *s, const char *x) {
  uint64_t id = 0;
  return clu_table_append(s, x, strlen(x), &id) == CLU_OK ? (int)id : -1;
}

TEST(rows_are_popped_once_in_their_order) {
  clu_state *s = make(CLU_STATE_TABLE);
  clu_row r;
  uint64_t before;
  CHECK_INT_EQ(clu_table_pop(s, &r), CLU_AGAIN);
  CHECK_INT_EQ(append(s, "one"), 1);
  CHECK_INT_EQ(append(s, ""), 2);
  CHECK_INT_EQ(clu_table_count(s), 2);
  CHECK_INT_EQ(clu_table_pop(s, &r), CLU_OK);
  CHECK_INT_EQ(r.id, 1);
  CHECK_INT_EQ(r.state, CLU_ROW_TAKEN);
  CHECK_INT_EQ(r.taker, getpid());
  CHECK(r.n[0] == 3 && memcmp(r.bytes[0], "one", 3) == 0);
  CHECK(r.bytes[1] == NULL);
  before = clu_table_changes(s);
  CHECK_INT_EQ(clu_table_set(s, 1, "done", 4), CLU_OK);
  CHECK(clu_table_changes(s) > before);
  CHECK_INT_EQ(clu_table_row(s, 1, &r), CLU_OK);
  CHECK_INT_EQ(r.state, CLU_ROW_DONE);
  CHECK(r.changed > before);
  CHECK(r.n[1] == 4 && memcmp(r.bytes[1], "done", 4) == 0);
  CHECK_INT_EQ(clu_table_pop(s, &r), CLU_OK);
  CHECK(r.id == 2 && r.n[0] == 0 && r.bytes[0] != NULL);
  CHECK_INT_EQ(clu_table_pop(s, &r), CLU_AGAIN);
  CHECK_INT_EQ(clu_table_set(s, 3, "", 0), CLU_DEAD);
  CHECK_INT_EQ(clu_table_row(s, 0, &r), CLU_DEAD);
  clu_state_free(s);
}

TEST(a_table_grows_beyond_what_is_mapped) {
  clu_state *s = make(CLU_STATE_TABLE);
  size_t n = 700000;
  char *x = malloc(n);
  clu_row r;
  uint64_t id;
  for (int i = 0; i < 20; i++) {
    memset(x, 'a' + i, n);
    CHECK_INT_EQ(clu_table_append(s, x, n, &id), CLU_OK);
  }
  for (int i = 0; i < 30000; i++) CHECK_INT_EQ(clu_table_append(s, "y", 1, &id), CLU_OK);
  CHECK_INT_EQ(clu_table_row(s, 20, &r), CLU_OK);
  CHECK(r.n[0] == n && r.bytes[0][0] == 't' && r.bytes[0][n - 1] == 't');
  CHECK_INT_EQ(clu_table_row(s, 30020, &r), CLU_OK);
  CHECK(r.n[0] == 1 && r.bytes[0][0] == 'y');
  CHECK_INT_EQ(clu_table_append(s, x, (size_t)PLACE_MOST + 1, &id), CLU_LIMIT);
  free(x);
  clu_state_free(s);
}

TEST(the_last_bytes_of_a_full_table_can_be_read) {
  clu_state *s = make(CLU_STATE_TABLE);
  clu_row r;
  atomic_store(&s->head->data, DATA_MOST - 16);
  CHECK_INT_EQ(append(s, "0123456789abcdef"), 1);
  CHECK_INT_EQ(append(s, "x"), -1);
  CHECK_INT_EQ(clu_table_pop(s, &r), CLU_OK);
  CHECK(r.n[0] == 16 && memcmp(r.bytes[0], "0123456789abcdef", 16) == 0);
  clu_state_free(s);
}

static void sets(clu_state *s) {
  for (uint64_t id = 1; id <= ROUNDS / 4; id++) {
    while (clu_table_count(s) < id) clu_os_yield();
    while (clu_table_set(s, id, "value", 5) == CLU_TIMEOUT) continue;
  }
}

TEST(a_row_that_is_done_has_its_value) {
  clu_state *s = make(CLU_STATE_TABLE);
  pid_t p = child(sets, s);
  int without = 0;
  for (int id = 1; id <= ROUNDS / 4; id++) {
    clu_row r;
    while (append(s, "x") < 0) continue;
    while (clu_table_row(s, (uint64_t)id, &r) != CLU_OK || r.state != CLU_ROW_DONE) continue;
    without += r.bytes[1] == NULL;
  }
  CHECK_INT_EQ(without, 0);
  CHECK(ended_well(p));
  clu_state_free(s);
}

static void pops(clu_state *s) {
  clu_row r;
  int rc;
  while ((rc = clu_table_pop(s, &r)) != CLU_AGAIN) {
    uint32_t number;
    if (rc == CLU_TIMEOUT) continue;
    if (rc != CLU_OK || r.n[0] != sizeof number) _exit(2);
    memcpy(&number, r.bytes[0], sizeof number);
    if (number != (uint32_t)r.id) _exit(3);
    while ((rc = clu_table_set(s, r.id, &number, sizeof number)) == CLU_TIMEOUT) continue;
    if (rc != CLU_OK) _exit(4);
  }
}

TEST(each_row_is_popped_by_one_process) {
  clu_state *s = make(CLU_STATE_TABLE);
  pid_t p[CHILDREN];
  clu_row r;
  uint64_t id;
  for (uint32_t i = 1; i <= ROUNDS; i++) clu_table_append(s, &i, sizeof i, &id);
  for (int i = 0; i < CHILDREN; i++) p[i] = child(pops, s);
  for (int i = 0; i < CHILDREN; i++) CHECK(ended_well(p[i]));
  CHECK_INT_EQ(clu_table_changes(s), 3 * (uint64_t)ROUNDS);
  for (uint64_t i = 1; i <= ROUNDS; i++) {
    CHECK_INT_EQ(clu_table_row(s, i, &r), CLU_OK);
    CHECK_INT_EQ(r.state, CLU_ROW_DONE);
  }
  clu_state_free(s);
}

static int is_gone(clu_pid p) { return kill((pid_t)p, 0) != 0; }

static void appends_and_pops(clu_state *s) {
  clu_row r;
  for (uint64_t i = 1;; i++) {
    uint64_t id;
    if (clu_table_append(s, &i, sizeof i, &id) == CLU_OK) clu_table_pop(s, &r);
  }
}

/* Killed at any moment: all rows are whole, and those it had taken can be had again. */
TEST(no_kill_damages_a_table) {
  clu_state *s = make(CLU_STATE_TABLE);
  uint64_t n, all;
  clu_row r;
  for (int i = 0; i < 200; i++) {
    pid_t p = child(appends_and_pops, s);
    usleep((useconds_t)(rand() % 500));
    kill(p, SIGKILL);
    waitpid(p, NULL, 0);
  }
  CHECK_INT_EQ(clu_table_reopen(s, is_gone, &n), CLU_OK);
  all = clu_table_count(s);
  for (uint64_t i = 1; i <= all; i++) {
    CHECK_INT_EQ(clu_table_pop(s, &r), CLU_OK);
    CHECK(r.id == i && r.n[0] == sizeof i);
  }
  CHECK_INT_EQ(clu_table_pop(s, &r), CLU_AGAIN);
  CHECK_INT_EQ(clu_table_reopen(s, is_gone, &n), CLU_OK);
  CHECK_INT_EQ(n, 0);
  clu_state_free(s);
}

TEST(damaged_memory_is_an_error_and_no_crash) {
  clu_state *s = make(CLU_STATE_TABLE);
  clu_row r;
  append(s, "one");
  append(s, "two");
  table_row *rows = (table_row *)(void *)s->rows.p;
  atomic_store(&rows[0].place[0], UINT64_MAX);
  CHECK_INT_EQ(clu_table_row(s, 1, &r), CLU_PROTO);
  atomic_store(&s->head->data, UINT64_MAX);
  CHECK_INT_EQ(clu_table_row(s, 1, &r), CLU_NOMEM);
  CHECK_INT_EQ(clu_table_append(s, "x", 1, &r.id), CLU_LIMIT);
  atomic_store(&s->head->first_open, UINT64_MAX);
  CHECK_INT_EQ(clu_table_pop(s, &r), CLU_AGAIN);
  atomic_store(&s->head->rows, UINT64_MAX);
  CHECK_INT_EQ(clu_table_count(s), 0);
  CHECK_INT_EQ(clu_table_append(s, "x", 1, &r.id), CLU_LIMIT);
  clu_state_free(s);
}
