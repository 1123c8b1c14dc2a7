/* Memory that an idle node gives back to the system.
 *
 * R keeps what it has freed, and it frees only when it collects, which it does when it allocates.
 * So a node that has had much for a while would keep it for as long as it has nothing to do.
 *
 * After a quiet second a node that has worked for some time, and has grown by much, collects all
 * garbage and has the C library give back whole pages. That is done once until it has worked again.
 * What it has then is what it needs: it has to grow by as much again. A collection takes 30 to 200
 * ms, for which a request that comes just then has to wait.
 */
#include "r/node/node.h"

#include "core/base/os.h"

#define WORKED 20000000               /* ns; in less nobody fills much memory */
#define GROWN ((int64_t)64 * 1048576) /* bytes */

static uint64_t worked; /* ns since it was looked at */
static int64_t has;     /* bytes that were resident then; 0: not known, or not to be known */

static int64_t resident(void) { return clu_os_process_memory(clu_os_getpid(), INT64_MAX); }

void clu_give_back_begin(void) {
  int64_t now = resident();
  has = now > 0 ? now : 0;
}

void clu_give_back_worked(uint64_t ns) { worked += ns; }

int clu_give_back_is_due(void) {
  return (has > 0 && worked > WORKED) || clu_values_were_expected();
}

static void collect(void *unused) {
  (void)unused;
  R_gc(); /* code of the user's may run: finalizers */
}

/* R frees its pages in every second full collection only (R_PageReleaseFreq in its memory.c): so
 * there is a second one where the first has left more than `enough`. */
static void collect_all(int64_t enough) {
  for (int k = 0; k < 2; k++) {
    R_ToplevelExec(collect, NULL);
    clu_os_release_memory();
    if (resident() <= enough) return;
  }
}

void clu_give_back_now(void) {
  int64_t after;
  collect_all(has + GROWN);
  clu_expect_no_values(); /* and what the C library has freed goes, too */
  after = resident();
  worked = 0;
  if (has > 0 && after > 0) has = after;
}

void clu_give_back(void) {
  int64_t before = has > 0 && worked > WORKED ? resident() : 0, after;
  worked = 0;
  if (before > has + GROWN) collect_all(has + GROWN);
  clu_expect_no_values();
  if (before <= has + GROWN) return;
  after = resident();
  if (after > 0 && before > after) clu_activity_gave_back(clu_me.boot.activity, before - after);
  if (after > 0) has = after;
}
