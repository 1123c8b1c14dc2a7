#include "core/sched/sched-room.h"

#include <math.h>
#include <stdlib.h>

#define MB ((int64_t)1 << 20)
/* The last peaks count for so much, at least. */
static const double NEWS = 0.125;
/* A task that grows, and of whose job nothing is known, takes so many times what it has.
 * Where eight that grow alike are held one by one, the oldest gets 75 % of what was free; with 2 it
 * would get 39 %. */
enum { GROWTH = 6 };
/* A part of all is kept free, and no more than that. When no more is left than the floor a task has
 * to give way. */
enum { RESERVE_PART = 20, FLOOR_PART = 50 };
static const int64_t MOST_RESERVE = 512 * MB, MOST_FLOOR = 64 * MB, LEAST_FLOOR = 4 * MB;
/* A node that holds less is not worth to be ended. */
static const int64_t LEAST_HELD = 8 * MB;
/* ns between two looks, and bytes that a core fills in a second at the most */
static const uint64_t LEAST_PAUSE = 4000000, MOST_PAUSE = 1000000000, SHORT_PAUSE = 20000000;
static const double FILLS = 4e9;

static int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t max(int64_t a, int64_t b) { return a > b ? a : b; }

/* ---- peaks ---- */

void clu_peaks_add(clu_peaks *p, int64_t bytes) {
  double x = (double)bytes, off = x - p->mean, part;
  p->n++;
  part = 1.0 / (double)p->n;
  if (part < NEWS) part = NEWS;
  p->mean += part * off;
  p->square = (1 - part) * (p->square + part * off * off);
  if (bytes > p->most) p->most = bytes;
}

int64_t clu_peaks_expected(const clu_peaks *p) {
  double x = p->mean + sqrt(p->square);
  return p->n == 0 ? 0 : min((int64_t)x, p->most);
}

/* ---- what each takes ---- */

static int64_t expected(const clu_room_node *nd) {
  if (nd->expected == 0) return max(nd->grows ? GROWTH * nd->has : nd->has, nd->most);
  if (nd->has < nd->expected) return nd->expected;
  return nd->grows ? max(nd->most, nd->has + nd->has / 4) : nd->has;
}

static int by_age(const void *a, const void *b) {
  const clu_room_node *x = a, *y = b;
  if (x->began != y->began) return x->began < y->began ? -1 : 1;
  return (x->index > y->index) - (x->index < y->index);
}

/* ---- who goes on ---- */

static int goes_on(const clu_room *r, const clu_room_node *nd, int64_t needs, int64_t spare) {
  if (nd->stays) return 1;
  if (nd->held) return needs + r->reserve / 2 <= spare;
  return needs <= spare || !nd->grows;
}

/* The youngest whose task is put back; where none is, the one that holds most. NULL: nobody holds
 * enough, or may be ended. */
static clu_room_node *victim(clu_room_node *nodes, size_t n) {
  clu_room_node *most = NULL;
  for (size_t k = n; k-- > 0;) {
    clu_room_node *nd = &nodes[k];
    if (nd->stays || nd->has < LEAST_HELD) continue;
    if (nd->again && k > 0) return nd;
    if (!most || nd->has > most->has) most = nd;
  }
  return most;
}

/* Next to nothing is left, and the oldest needs more. */
static void make_room(clu_room *r, clu_room_node *nodes, size_t n) {
  clu_room_node *nd;
  if (!r->may_end || r->left > max(min(r->limit / FLOOR_PART, MOST_FLOOR), LEAST_FLOOR)) return;
  if (!nodes[0].grows || r->must_wait) return;
  if (r->may_wait && !nodes[0].stays) {
    r->waits = 1;
    r->held++;
    nodes[0].to = CLU_ROOM_HOLD;
    return;
  }
  nd = victim(nodes, n);
  if (nd) nd->to = nd == nodes ? CLU_ROOM_NEVER : CLU_ROOM_YIELD;
}

/* How many parts are made of what is left: one is this session's. */
static int parts(const clu_room *r) {
  int least = r->must_wait ? 2 : 1;
  return r->sharers > least ? r->sharers : least;
}

void clu_room_plan(clu_room *r, clu_room_node *nodes, size_t n) {
  int64_t spare;
  r->reserve = min(r->limit / RESERVE_PART, MOST_RESERVE);
  r->held = r->growing = r->waits = 0;
  spare = (r->left - r->reserve) / parts(r);
  if (n > 0) qsort(nodes, n, sizeof *nodes, by_age);
  for (size_t k = 0; k < n; k++) {
    clu_room_node *nd = &nodes[k];
    int64_t needs;
    nd->takes = expected(nd);
    if (k == 0) nd->takes = max(nd->takes, nd->most);
    needs = nd->takes - nd->has;
    nd->to =
        (k == 0 && !r->must_wait) || goes_on(r, nd, needs, spare) ? CLU_ROOM_GO : CLU_ROOM_HOLD;
    r->held += nd->to == CLU_ROOM_HOLD;
    r->growing += nd->to == CLU_ROOM_GO && nd->grows;
    spare -= needs;
  }
  r->spare = spare;
  r->is_short = spare < 0 || r->left < r->limit / 3;
  if (n > 0) make_room(r, nodes, n);
}

uint64_t clu_room_pause(const clu_room *r, int cores) {
  double left = (double)max(r->left - r->reserve, 0);
  int filling = cores < r->growing ? cores : r->growing;
  double pause = left / (FILLS * (filling > 0 ? filling : 1)) / 2 * 1e9;
  double most = (double)(r->held || r->spare < 0 ? SHORT_PAUSE : MOST_PAUSE);
  if (pause > most) return (uint64_t)most;
  return pause < (double)LEAST_PAUSE ? LEAST_PAUSE : (uint64_t)pause;
}
