/* Nodes that are started again when they have died.
 *
 * What is kept is the place: number, slot and a copy of the node's end of the data socket. So the
 * session's handle stays, and hears of the new process id. The session is told EXITED only when
 * no other process comes: the program has ended by itself (clu_boot_set_done()), or STOP was
 * sent. The fork server may have the settings of another cluster by then. So it keeps those of
 * programs as long as one of their nodes may be started again (keep_settings()), and the new
 * process applies them.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/grow.h"
#include "core/supervisor/parts.h"

/* One that has lived for so long is started again at once: whatever has killed it did not do so
 * because it was started. */
static const uint64_t LONG_ENOUGH = 1000 * CLU_MS;
static const uint64_t FIRST_PAUSE = 50 * CLU_MS, LONGEST_PAUSE = 5000 * CLU_MS;

static clu_sv_kept *find(clu_supervisor *sv, uint64_t id) {
  for (int i = 0; i < sv->nkept; i++)
    if (sv->kept[i].id == id) return &sv->kept[i];
  return NULL;
}

static int make_room(clu_supervisor *sv) {
  clu_sv_kept *more = clu_grow(sv->kept, &sv->cap_kept, (size_t)sv->nkept + 1, sizeof *more);
  if (!more) return CLU_NOMEM;
  sv->kept = more;
  return CLU_OK;
}

int clu_sv_keep(clu_supervisor *sv, const clu_sv_kept *place, clu_err *e) {
  clu_sv_kept k = *place;
  int rc;
  k.began = clu_os_now();
  if (make_room(sv) != CLU_OK) return clu_fail(e, CLU_NOMEM, 0, "not enough memory");
  if ((rc = clu_os_dup(place->fd, &k.fd)) != CLU_OK)
    return clu_fail(e, rc, 0, "the fork server has no descriptor left");
  sv->kept[sv->nkept++] = k;
  return CLU_OK;
}

static void forget(clu_supervisor *sv, clu_sv_kept *k) {
  clu_os_close(k->fd);
  *k = sv->kept[--sv->nkept];
  clu_sv_count_idle(sv);
}

/* The pause before the next start, after one at `began`. */
static void set_due(clu_supervisor *sv, clu_sv_kept *k) {
  uint64_t now = clu_os_now();
  if (now - k->began >= LONG_ENOUGH)
    k->pause = 0;
  else if (k->pause == 0)
    k->pause = FIRST_PAUSE;
  else
    k->pause = 2 * k->pause > LONGEST_PAUSE ? LONGEST_PAUSE : 2 * k->pause;
  k->due = now + k->pause;
  clu_timer_arm_by(&sv->loop, &sv->again, k->due);
}

int clu_sv_kept_died(clu_supervisor *sv, uint64_t id) {
  clu_sv_kept *k = find(sv, id);
  if (!k) return 0;
  if (sv->closed || sv->shared->cancel[k->slot] == CLU_NODE_DONE) {
    forget(sv, k);
    return 0;
  }
  set_due(sv, k);
  return 1;
}

int clu_supervisor_keeps(const clu_supervisor *sv, uint64_t from, uint64_t to) {
  for (int i = 0; i < sv->nkept; i++)
    if (sv->kept[i].id >= from && sv->kept[i].id <= to) return 1;
  return 0;
}

int clu_sv_let_go(clu_supervisor *sv, uint64_t id) {
  clu_sv_kept *k = find(sv, id);
  int waits = k && k->due > 0;
  if (k) forget(sv, k);
  return waits;
}

void clu_sv_let_all_go(clu_supervisor *sv) {
  while (sv->nkept > 0) forget(sv, &sv->kept[0]);
}

int clu_sv_next_due(clu_supervisor *sv, clu_sv_kept *place) {
  uint64_t now = clu_os_now();
  for (int i = 0; i < sv->nkept; i++) {
    clu_sv_kept *k = &sv->kept[i];
    if (!k->due) continue;
    if (k->due > now) {
      clu_timer_arm_by(&sv->loop, &sv->again, k->due);
      continue;
    }
    k->began = now;
    *place = *k;
    if (clu_os_dup(k->fd, &place->fd) == CLU_OK) return 1;
    set_due(sv, k);
  }
  return 0;
}

void clu_sv_kept_started(clu_supervisor *sv, uint64_t id, int ok) {
  clu_sv_kept *k = find(sv, id);
  if (!k) return;
  if (ok) {
    k->due = 0;
    k->again++;
  } else {
    set_due(sv, k);
  }
}
