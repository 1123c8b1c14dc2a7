#include "core/sched/ledger.h"

#include <stdlib.h>
#include <string.h>

typedef struct host {
  clu_host_has has;
  int64_t used;                 /* cores */
  uint16_t *left[CLU_KINDS];    /* by unit: parts that nobody has */
  uint64_t kept_for[CLU_KINDS]; /* number of the job for which units are kept; 0: of none */
  uint64_t cores_for;           /* does the same for cores */
} host;

struct clu_ledger {
  int n;
  int keeps; /* anything, anywhere */
  host hosts[];
};

/* ---- needs ---- */

int clu_need_asks(const clu_need *need) {
  if (need->cores) return 1;
  for (int k = 0; k < CLU_KINDS; k++)
    if (need->parts[k]) return 1;
  return 0;
}

int clu_need_is_same(const clu_need *a, const clu_need *b) {
  return a->cores == b->cores && memcmp(a->parts, b->parts, sizeof a->parts) == 0;
}

static uint32_t cores_of(const clu_need *need) { return need->cores ? need->cores : 1; }

/* ---- life ---- */

void clu_ledger_free(clu_ledger *l) {
  if (!l) return;
  for (int i = 0; i < l->n; i++)
    for (int k = 0; k < CLU_KINDS; k++) free(l->hosts[i].left[k]);
  free(l);
}

static int fill_host(host *h, const clu_host_has *has) {
  h->has = *has;
  for (int k = 0; k < CLU_KINDS; k++) {
    uint32_t n = h->has.units[k] > CLU_UNITS ? CLU_UNITS : h->has.units[k];
    h->has.units[k] = n;
    h->left[k] = calloc(n + 1, sizeof *h->left[k]);
    if (!h->left[k]) return 0;
    for (uint32_t i = 0; i < n; i++) h->left[k][i] = CLU_WHOLE;
  }
  return 1;
}

clu_ledger *clu_ledger_new(const clu_host_has *hosts, int n) {
  clu_ledger *l = calloc(1, sizeof *l + (size_t)n * sizeof *l->hosts);
  if (!l) return NULL;
  l->n = n;
  for (int i = 0; i < n; i++) {
    if (fill_host(&l->hosts[i], &hosts[i])) continue;
    clu_ledger_free(l);
    return NULL;
  }
  return l;
}

/* ---- what is there ---- */

int clu_ledger_could(const clu_ledger *l, int i, const clu_need *need) {
  const host *h = &l->hosts[i];
  if (need->cores > h->has.cores) return 0;
  for (int k = 0; k < CLU_KINDS; k++)
    if (need->parts[k] > h->has.units[k] * (uint64_t)CLU_WHOLE) return 0;
  return 1;
}

/* Whole units that are free. */
static uint32_t whole_left(const host *h, int kind) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < h->has.units[kind]; i++) n += h->left[kind][i] == CLU_WHOLE;
  return n;
}

/* The unit with the least left of which such a part can be given; -1: there is none. */
static int unit_with(const host *h, int kind, uint32_t parts) {
  int best = -1;
  for (uint32_t i = 0; i < h->has.units[kind]; i++) {
    uint32_t left = h->left[kind][i];
    if (left >= parts && (best < 0 || left < h->left[kind][best])) best = (int)i;
  }
  return best;
}

static int has_units(const host *h, int kind, uint32_t parts) {
  if (parts == 0) return 1;
  return parts < CLU_WHOLE ? unit_with(h, kind, parts) >= 0
                           : whole_left(h, kind) >= parts / CLU_WHOLE;
}

static int is_kept(uint64_t kept_for, uint64_t job) { return kept_for && kept_for < job; }

static int has_cores(const host *h, uint32_t cores) {
  return cores == 0 || h->used + cores <= (int64_t)h->has.cores;
}

int clu_ledger_fits(const clu_ledger *l, int i, const clu_need *need, uint64_t job) {
  const host *h = &l->hosts[i];
  if (is_kept(h->cores_for, job) || !has_cores(h, need->cores)) return 0;
  for (int k = 0; k < CLU_KINDS; k++) {
    if (need->parts[k] == 0) continue;
    if (is_kept(h->kept_for[k], job) || !has_units(h, k, need->parts[k])) return 0;
  }
  return 1;
}

uint32_t clu_ledger_cores(const clu_ledger *l, int i) { return l->hosts[i].has.cores; }

int64_t clu_ledger_free_cores(const clu_ledger *l, int i) {
  return (int64_t)l->hosts[i].has.cores - l->hosts[i].used;
}

uint32_t clu_ledger_left(const clu_ledger *l, int i, int kind, int unit) {
  return l->hosts[i].left[kind][unit];
}

/* ---- given and returned ---- */

static void give_unit(host *h, int kind, int unit, uint32_t parts, clu_grant *out) {
  h->left[kind][unit] = (uint16_t)(h->left[kind][unit] - parts);
  out->units[kind][unit / 64] |= (uint64_t)1 << unit % 64;
}

static void give_units(host *h, int kind, uint32_t parts, clu_grant *out) {
  uint32_t n = parts / CLU_WHOLE;
  out->parts[kind] = n ? CLU_WHOLE : parts;
  if (n == 0) give_unit(h, kind, unit_with(h, kind, parts), parts, out);
  for (uint32_t i = 0; i < h->has.units[kind] && n > 0; i++) {
    if (h->left[kind][i] < CLU_WHOLE) continue;
    give_unit(h, kind, (int)i, CLU_WHOLE, out);
    n--;
  }
}

void clu_ledger_give(clu_ledger *l, int i, const clu_need *need, uint32_t cores, clu_grant *out) {
  host *h = &l->hosts[i];
  memset(out, 0, sizeof *out);
  out->cores = cores > cores_of(need) ? cores : cores_of(need);
  h->used += out->cores;
  for (int k = 0; k < CLU_KINDS; k++)
    if (need->parts[k]) give_units(h, k, need->parts[k], out);
}

/* `sign`: 1: it is free from now on, -1: it is not. */
static void change(host *h, const clu_grant *g, int sign) {
  h->used -= sign * (int64_t)g->cores;
  for (int k = 0; k < CLU_KINDS; k++)
    for (uint32_t u = 0; g->parts[k] && u < h->has.units[k]; u++)
      if (clu_grant_has(g, k, (int)u))
        h->left[k][u] = (uint16_t)(h->left[k][u] + sign * (int)g->parts[k]);
}

void clu_ledger_take(clu_ledger *l, int i, const clu_grant *g) { change(&l->hosts[i], g, -1); }
void clu_ledger_return(clu_ledger *l, int i, const clu_grant *g) { change(&l->hosts[i], g, 1); }

void clu_ledger_count(clu_ledger *l, int i, int cores) { l->hosts[i].used += cores; }

/* ---- kept for who waits ---- */

static void keep(uint64_t *kept_for, uint64_t job) {
  if (*kept_for == 0 || job < *kept_for) *kept_for = job;
}

void clu_ledger_keep_for(clu_ledger *l, int i, const clu_need *need, uint64_t job) {
  host *h = &l->hosts[i];
  l->keeps = 1;
  if (!has_cores(h, need->cores)) keep(&h->cores_for, job);
  for (int k = 0; k < CLU_KINDS; k++)
    if (need->parts[k]) keep(&h->kept_for[k], job);
}

void clu_ledger_keep_none(clu_ledger *l) {
  if (!l->keeps) return;
  l->keeps = 0;
  for (int i = 0; i < l->n; i++) {
    l->hosts[i].cores_for = 0;
    memset(l->hosts[i].kept_for, 0, sizeof l->hosts[i].kept_for);
  }
}

int clu_ledger_keeps_cores(const clu_ledger *l, int i, uint64_t job) {
  return is_kept(l->hosts[i].cores_for, job);
}
