/* These tests are of who may go on where memory is short: single decisions, and simulated nodes
 * whose tasks fill memory and end. */
#include "dice.h"
#include "test.h"

#include "core/sched/sched-room.h"

#define MB ((int64_t)1 << 20)

static clu_room_node node(int index, uint64_t began, int64_t has, int64_t expected) {
  clu_room_node nd = {.index = index, .began = began, .has = has, .expected = expected};
  nd.grows = 1;
  nd.most = expected;
  return nd;
}

static clu_room room(int64_t limit, int64_t left) {
  clu_room r = {.limit = limit, .left = left, .may_end = 1};
  return r;
}

/* ---- peaks ---- */

TEST(nothing_is_expected_of_what_was_never_seen) {
  clu_peaks p = {0};
  CHECK_INT_EQ(clu_peaks_expected(&p), 0);
}

TEST(equal_peaks_are_expected_again) {
  clu_peaks p = {0};
  for (int k = 0; k < 5; k++) clu_peaks_add(&p, 200 * MB);
  CHECK_INT_EQ(clu_peaks_expected(&p), 200 * MB);
}

TEST(where_peaks_differ_more_is_expected_than_their_mean_and_never_more_than_the_most) {
  clu_peaks p = {0};
  for (int k = 0; k < 100; k++) clu_peaks_add(&p, k % 2 ? 100 * MB : 300 * MB);
  CHECK(clu_peaks_expected(&p) > 220 * MB);
  CHECK(clu_peaks_expected(&p) <= 300 * MB);
  for (int k = 0; k < 100; k++) clu_peaks_add(&p, 10 * MB); /* the last ones count most */
  CHECK(clu_peaks_expected(&p) < 30 * MB);
  CHECK_INT_EQ(p.most, 300 * MB);
}

/* ---- decisions ---- */

TEST(all_go_on_where_there_is_room) {
  clu_room r = room(8000 * MB, 7000 * MB);
  clu_room_node nodes[3] = {node(0, 3, 0, 200 * MB), node(1, 1, 100 * MB, 200 * MB),
                            node(2, 2, 0, 0)};
  clu_room_plan(&r, nodes, 3);
  CHECK(nodes[0].index == 1 && nodes[1].index == 2 && nodes[2].index == 0); /* by age */
  for (int k = 0; k < 3; k++) CHECK_INT_EQ(nodes[k].to, CLU_ROOM_GO);
  CHECK(r.held == 0 && !r.is_short && r.spare > 0);
}

TEST(the_youngest_that_grow_are_held) {
  clu_room r = room(900 * MB, 300 * MB);
  clu_room_node nodes[3] = {node(0, 1, 100 * MB, 250 * MB), node(1, 2, 10 * MB, 250 * MB),
                            node(2, 3, 50 * MB, 250 * MB)};
  clu_room_plan(&r, nodes, 3);
  CHECK_INT_EQ(nodes[0].to, CLU_ROOM_GO);
  CHECK_INT_EQ(nodes[1].to, CLU_ROOM_HOLD);
  CHECK_INT_EQ(nodes[2].to, CLU_ROOM_HOLD);
  CHECK(r.held == 2 && r.is_short && r.spare < 0);
  nodes[2].grows = 0; /* it needs no more */
  clu_room_plan(&r, nodes, 3);
  CHECK_INT_EQ(nodes[2].to, CLU_ROOM_GO);
}

TEST(what_is_held_goes_on_when_it_fits) {
  clu_room r = room(900 * MB, 180 * MB);
  clu_room_node nodes[2] = {node(0, 1, 200 * MB, 200 * MB), node(1, 2, 50 * MB, 200 * MB)};
  nodes[0].grows = 0;
  nodes[1].held = 1;
  clu_room_plan(&r, nodes, 2);
  CHECK_INT_EQ(nodes[1].to, CLU_ROOM_HOLD); /* 150 of 135 */
  r.left = 250 * MB;
  clu_room_plan(&r, nodes, 2);
  CHECK_INT_EQ(nodes[1].to, CLU_ROOM_GO);
}

TEST(the_oldest_goes_on_whatever_is_left) {
  clu_room r = room(900 * MB, 60 * MB);
  clu_room_node nodes[2] = {node(0, 1, 300 * MB, 0), node(1, 2, 300 * MB, 0)};
  nodes[0].held = nodes[1].held = 1;
  clu_room_plan(&r, nodes, 2);
  CHECK_INT_EQ(nodes[0].to, CLU_ROOM_GO);
  CHECK_INT_EQ(nodes[1].to, CLU_ROOM_HOLD);
}

TEST(the_youngest_that_holds_something_gives_way) {
  clu_room r = room(900 * MB, MB);
  clu_room_node nodes[3] = {node(0, 1, 500 * MB, 0), node(1, 2, 300 * MB, 0), node(2, 3, MB, 0)};
  for (int k = 0; k < 3; k++) nodes[k].again = 1;
  clu_room_plan(&r, nodes, 3);
  CHECK_INT_EQ(nodes[0].to, CLU_ROOM_GO);
  CHECK_INT_EQ(nodes[1].to, CLU_ROOM_YIELD);
  CHECK_INT_EQ(nodes[2].to, CLU_ROOM_HOLD);
  r.may_end = 0; /* what was ended before is still there */
  clu_room_plan(&r, nodes, 3);
  CHECK_INT_EQ(nodes[1].to, CLU_ROOM_HOLD);
}

TEST(where_nothing_may_be_started_again_what_holds_most_fails) {
  clu_room r = room(900 * MB, MB);
  clu_room_node nodes[3] = {node(0, 1, 500 * MB, 0), node(1, 2, 300 * MB, 0),
                            node(2, 3, 20 * MB, 0)};
  clu_room_plan(&r, nodes, 3);
  CHECK_INT_EQ(nodes[0].to, CLU_ROOM_NEVER);
  CHECK_INT_EQ(nodes[1].to, CLU_ROOM_HOLD);
  nodes[1].has = 600 * MB;
  clu_room_plan(&r, nodes, 3);
  CHECK_INT_EQ(nodes[0].to, CLU_ROOM_GO);
  CHECK_INT_EQ(nodes[1].to, CLU_ROOM_YIELD);
}

TEST(the_oldest_is_stopped_where_others_may_free_memory) {
  clu_room r = room(900 * MB, MB);
  clu_room_node nodes[2] = {node(0, 1, 500 * MB, 0), node(1, 2, 300 * MB, 0)};
  nodes[1].again = 1;
  r.may_wait = 1;
  clu_room_plan(&r, nodes, 2);
  CHECK_INT_EQ(nodes[0].to, CLU_ROOM_HOLD);
  CHECK_INT_EQ(nodes[1].to, CLU_ROOM_HOLD);
  CHECK_INT_EQ(r.waits, 1);
  CHECK_INT_EQ(r.held, 2);
  nodes[0].held = nodes[1].held = 1;
  r.left = 100 * MB; /* they have */
  clu_room_plan(&r, nodes, 2);
  CHECK_INT_EQ(nodes[0].to, CLU_ROOM_GO);
  CHECK_INT_EQ(r.waits, 0);
  r.left = MB;
  r.may_wait = 0; /* it has waited for long */
  clu_room_plan(&r, nodes, 2);
  CHECK_INT_EQ(nodes[1].to, CLU_ROOM_YIELD);
}

TEST(who_is_alone_and_needs_more_cannot_fit) {
  clu_room r = room(900 * MB, MB);
  clu_room_node nodes[1] = {node(0, 1, 800 * MB, 0)};
  clu_room_plan(&r, nodes, 1);
  CHECK_INT_EQ(nodes[0].to, CLU_ROOM_NEVER);
  nodes[0].grows = 0; /* it does not need more */
  clu_room_plan(&r, nodes, 1);
  CHECK_INT_EQ(nodes[0].to, CLU_ROOM_GO);
  nodes[0].grows = nodes[0].stays = 1;
  clu_room_plan(&r, nodes, 1);
  CHECK_INT_EQ(nodes[0].to, CLU_ROOM_GO);
}

TEST(what_must_not_be_stopped_is_not) {
  clu_room r = room(900 * MB, MB);
  clu_room_node nodes[2] = {node(0, 1, 500 * MB, 0), node(1, 2, 300 * MB, 0)};
  nodes[1].stays = 1;
  clu_room_plan(&r, nodes, 2);
  CHECK_INT_EQ(nodes[1].to, CLU_ROOM_GO);
}

TEST(without_the_turn_the_oldest_is_held_too_and_nobody_is_ended) {
  clu_room r = room(900 * MB, 60 * MB);
  clu_room_node nodes[2] = {node(0, 1, 300 * MB, 0), node(1, 2, 300 * MB, 0)};
  r.must_wait = 1;
  clu_room_plan(&r, nodes, 2);
  CHECK_INT_EQ(nodes[0].to, CLU_ROOM_HOLD);
  CHECK_INT_EQ(nodes[1].to, CLU_ROOM_HOLD);
  r.left = MB;
  clu_room_plan(&r, nodes, 2);
  CHECK_INT_EQ(nodes[0].to, CLU_ROOM_HOLD);
  CHECK_INT_EQ(nodes[1].to, CLU_ROOM_HOLD);
  nodes[0].has = nodes[1].has = 0; /* what fits goes on */
  r.left = 800 * MB;
  clu_room_plan(&r, nodes, 2);
  CHECK_INT_EQ(nodes[0].to, CLU_ROOM_GO);
}

TEST(each_session_at_work_has_its_part_of_what_is_left) {
  clu_room r = room(900 * MB, 500 * MB);
  clu_room_node nodes[3] = {node(0, 1, 0, 200 * MB), node(1, 2, 0, 200 * MB),
                            node(2, 3, 0, 200 * MB)};
  r.sharers = 1;
  clu_room_plan(&r, nodes, 3);
  CHECK_INT_EQ(nodes[1].to, CLU_ROOM_GO);
  CHECK_INT_EQ(nodes[2].to, CLU_ROOM_HOLD);
  r.sharers = 2;
  clu_room_plan(&r, nodes, 3);
  CHECK_INT_EQ(nodes[0].to, CLU_ROOM_GO);
  CHECK_INT_EQ(nodes[1].to, CLU_ROOM_HOLD);
  r.sharers = 8; /* the oldest has the turn */
  clu_room_plan(&r, nodes, 3);
  CHECK_INT_EQ(nodes[0].to, CLU_ROOM_GO);
  r.must_wait = 1;
  clu_room_plan(&r, nodes, 3);
  CHECK_INT_EQ(nodes[0].to, CLU_ROOM_HOLD);
}

TEST(nobody_at_work_is_nothing_to_decide) {
  clu_room r = room(900 * MB, MB);
  clu_room_plan(&r, NULL, 0);
  CHECK(r.held == 0 && r.growing == 0);
}

TEST(the_less_is_left_the_sooner_it_is_looked_again) {
  clu_room r = room(64000 * MB, 60000 * MB);
  clu_room_node nodes[1] = {node(0, 1, MB, 0)};
  uint64_t many, few;
  clu_room_plan(&r, nodes, 1);
  many = clu_room_pause(&r, 8);
  CHECK(many <= 1000000000 && many >= 100000000);
  r.left = r.reserve + 50 * MB;
  few = clu_room_pause(&r, 8);
  CHECK(few >= 4000000 && few < many);
}

/* ---- simulated nodes ---- */

enum { NODES = 16, STEP = 4 }; /* ms */

typedef struct sim {
  int64_t peak[NODES], has[NODES];
  int works[NODES], held[NODES], age[NODES];
  uint64_t began[NODES];
  int n, waiting, done, ended, refused;
  clu_peaks peaks;
  uint64_t now;
  int64_t limit, others, least;
} sim;

static int64_t left(const sim *s) {
  int64_t used = s->others;
  for (int k = 0; k < s->n; k++) used += s->has[k];
  return s->limit - used;
}

/* A task fills its memory in 100 ms, and has it for 300 ms. */
static void work(sim *s, int k) {
  if (!s->works[k] || s->held[k]) return;
  s->age[k] += STEP;
  if (s->has[k] < s->peak[k]) s->has[k] += s->peak[k] / 25 + 1;
  if (s->has[k] > s->peak[k]) s->has[k] = s->peak[k];
  if (s->age[k] < 400) return;
  clu_peaks_add(&s->peaks, s->has[k]);
  s->has[k] = s->works[k] = 0;
  s->done++;
}

static void look(sim *s, int64_t (*size)(void)) {
  clu_room r = room(s->limit, left(s));
  clu_room_node nodes[NODES];
  int64_t most = s->peaks.most, spare, expects = clu_peaks_expected(&s->peaks);
  size_t n = 0;
  for (int k = 0; k < s->n; k++)
    if (s->has[k] > most) most = s->has[k];
  for (int k = 0; k < s->n; k++) {
    if (!s->works[k]) continue;
    nodes[n] = node(k, s->began[k], s->has[k], expects);
    nodes[n].most = most;
    nodes[n].again = 1;
    nodes[n].grows = s->age[k] > 0 && s->age[k] < 300;
    nodes[n++].held = s->held[k];
  }
  clu_room_plan(&r, nodes, n);
  for (size_t k = 0; k < n; k++) {
    int i = nodes[k].index;
    s->held[i] = nodes[k].to == CLU_ROOM_HOLD;
    if (nodes[k].to < CLU_ROOM_YIELD) continue;
    s->ended += nodes[k].to == CLU_ROOM_YIELD;
    s->refused += nodes[k].to == CLU_ROOM_NEVER;
    s->waiting += nodes[k].to == CLU_ROOM_YIELD;
    s->done += nodes[k].to == CLU_ROOM_NEVER;
    s->works[i] = 0;
    s->has[i] = 0;
  }
  CHECK(n == 0 || nodes[0].to != CLU_ROOM_HOLD);
  spare = r.spare;
  for (int k = 0; k < s->n && s->waiting > 0; k++) {
    if (s->works[k] || (n > 0 && (r.held || spare < expects))) continue;
    s->works[k] = 1;
    s->held[k] = s->age[k] = 0;
    s->began[k] = s->now;
    s->peak[k] = size();
    s->waiting--;
    n++;
    spare -= expects;
  }
}

/* Tells whether all `tasks` have ended. */
static int run(sim *s, int n, int tasks, int64_t limit, int64_t (*size)(void)) {
  memset(s, 0, sizeof *s);
  s->n = n;
  s->waiting = tasks;
  s->limit = s->least = limit;
  for (int step = 0; step < 200 * tasks && s->done < tasks; step++) {
    s->now += STEP;
    look(s, size);
    for (int k = 0; k < n; k++) work(s, k);
    if (left(s) < s->least) s->least = left(s);
  }
  return s->done == tasks;
}

static int64_t equal(void) { return 200 * MB; }
static int64_t mixed(void) { return (10 + (int64_t)dice(390)) * MB; }
static int64_t too_large(void) { return dice(10) ? 20 * MB : 2000 * MB; }

TEST(tasks_of_200_MB_of_which_only_some_fit_all_end_and_none_is_ended) {
  sim s;
  CHECK(run(&s, 8, 64, 600 * MB, equal));
  CHECK_INT_EQ(s.ended + s.refused, 0);
  CHECK(s.least > 0);
  CHECK(s.now < 64 / 2 * 400 * 13 / 10); /* two fit */
}

TEST(tasks_of_any_size_all_end_and_memory_is_never_used_up) {
  sim s;
  long ended = 0;
  for (int k = 1; k <= 200; k++) {
    dice_state = 2 * (uint64_t)k + 1;
    CHECK(run(&s, 16, 100, 1700 * MB, mixed));
    CHECK(s.least > 0 && s.refused == 0);
    ended += s.ended;
  }
  CHECK(ended <= 20); /* of 20000 */
}

TEST(what_cannot_fit_is_refused_and_the_others_end) {
  sim s;
  dice_state = 7;
  CHECK(run(&s, 8, 100, 1000 * MB, too_large));
  CHECK(s.refused > 0 && s.refused < 30);
}
