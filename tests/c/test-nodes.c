/* The supervisor's table of nodes: whoever comes and goes, each is found by number and by pid. */
#include "test.h"

#include "core/supervisor/parts.h"

enum { MANY = 3000 };

static clu_supervisor sv;

static void begin(void) {
  memset(&sv, 0, sizeof sv);
  sv.tmp = (char *)"/tmp/x";
  sv.table = calloc(1, sizeof *sv.table);
  REQUIRE(sv.table);
  sv.nodes = sv.table->nodes;
  sv.shared = calloc(1, sizeof *sv.shared); /* what nodes are at */
  REQUIRE(sv.shared);
}

static uint32_t next(uint32_t *seed) { return (*seed = *seed * 1664525u + 1013904223u) >> 8; }

/* `spread`: how far the pids that are given are from each other. */
static void come_and_go(uint32_t spread) {
  static uint64_t ids[MANY], pids[MANY];
  uint32_t seed = 7;
  uint64_t id = 1, pid = 100;
  int n = 0, wrong = 0;
  begin();
  for (int k = 0; k < 20000; k++) {
    if (n < MANY && (n == 0 || next(&seed) % 5 < 3)) {
      ids[n] = id += 1 + next(&seed) % 3;
      pids[n] = pid += 1 + next(&seed) % spread;
      REQUIRE(clu_sv_add(&sv, ids[n], (clu_pid)pids[n], n, "/tmp/x/node") == CLU_OK);
      n++;
    } else {
      int i = (int)(next(&seed) % (uint32_t)n);
      clu_sv_forget(&sv, clu_sv_find(&sv, ids[i]));
      wrong += clu_sv_find(&sv, ids[i]) != NULL || clu_sv_find_pid(&sv, (clu_pid)pids[i]) != NULL;
      ids[i] = ids[--n];
      pids[i] = pids[n];
    }
    if (k % 100) continue;
    for (int i = 0; i < n; i++) {
      clu_sv_node *nd = clu_sv_find(&sv, ids[i]);
      wrong += !nd || nd->id != ids[i] || (uint64_t)nd->pid != pids[i] ||
               clu_sv_find_pid(&sv, (clu_pid)pids[i]) != nd;
    }
  }
  CHECK_INT_EQ(sv.n, n);
  CHECK_INT_EQ(wrong, 0);
  free(sv.shared);
  free(sv.table);
}

TEST(each_node_is_found_whoever_comes_and_goes) { come_and_go(3); }

/* Pids that have the same place in the index. */
TEST(each_node_is_found_where_pids_collide) { come_and_go(3 * CLU_SV_PLACES); }
