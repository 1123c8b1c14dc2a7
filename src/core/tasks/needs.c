/* What tasks ask for, and what hosts have: the scheduler decides by numbers (core/sched/ledger.h),
 * here they have names. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/tasks/engine-private.h"

/* ---- what hosts have ---- */

static char *copy_text(const char *text) {
  size_t n = strlen(text) + 1;
  char *copy = malloc(n);
  if (copy) memcpy(copy, text, n);
  return copy;
}

/* Copies of `n` texts; NULL without memory. */
static char **copy_texts(const char *const *texts, size_t n) {
  char **copy = calloc(n + 1, sizeof *copy); /* it ends with a NULL */
  for (size_t k = 0; copy && k < n; k++) {
    if ((copy[k] = copy_text(texts[k]))) continue;
    while (k > 0) free(copy[--k]);
    free(copy);
    return NULL;
  }
  return copy;
}

static void free_texts(char **texts, size_t n) {
  for (size_t k = 0; texts && k < n; k++) free(texts[k]);
  free(texts);
}

static void free_resources(struct clu_engine_resources *r) {
  free_texts(r->names, (size_t)r->kinds);
  free_texts(r->units, (size_t)r->hosts * (size_t)r->kinds);
  free(r->host_of);
  memset(r, 0, sizeof *r);
}

void clu_engine_resources_free(clu_engine *t) { free_resources(&t->resources); }

static uint32_t count_names(const char *names) {
  uint32_t n = names[0] != 0;
  for (; *names; names++) n += *names == ',';
  return n;
}

static clu_ledger *ledger_of(const clu_resources *r) {
  clu_host_has *has = calloc((size_t)r->hosts + 1, sizeof *has);
  clu_ledger *l;
  if (!has) return NULL;
  for (int h = 0; h < r->hosts; h++) {
    has[h].cores = r->cores[h];
    for (int k = 0; k < r->kinds && k < CLU_KINDS; k++)
      has[h].units[k] = count_names(r->units[h * r->kinds + k]);
  }
  l = clu_ledger_new(has, r->hosts);
  free(has);
  return l;
}

static int copy_resources(struct clu_engine_resources *to, const clu_resources *r, int nodes) {
  to->hosts = r->hosts;
  to->kinds = r->kinds;
  to->names = copy_texts(r->names, (size_t)r->kinds);
  to->units = copy_texts(r->units, (size_t)r->hosts * (size_t)r->kinds);
  to->host_of = malloc(((size_t)nodes + 1) * sizeof *to->host_of);
  if (!to->names || !to->units || !to->host_of) return CLU_NOMEM;
  memcpy(to->host_of, r->host_of, (size_t)nodes * sizeof *to->host_of);
  return CLU_OK;
}

int clu_engine_set_resources(clu_engine *t, const clu_resources *r) {
  struct clu_engine_resources now;
  clu_ledger *l;
  int rc;
  memset(&now, 0, sizeof now);
  rc = copy_resources(&now, r, t->n);
  l = rc == CLU_OK ? ledger_of(r) : NULL;
  if (!l || clu_sched_set_ledger(t->sched, l, r->host_of, t->n) != CLU_OK) {
    free_resources(&now);
    return CLU_NOMEM;
  }
  free_resources(&t->resources);
  t->resources = now;
  return CLU_OK;
}

/* ---- what a job asks for ---- */

void clu_task_job_drop_needs(clu_task_job *j) {
  free(j->needs);
  free(j->need_of);
  j->needs = NULL;
  j->need_of = NULL;
  j->spec.needs = NULL;
  j->spec.need_of = NULL;
  j->spec.nneeds = 0;
}

int clu_task_job_copy_needs(clu_task_job *j, const clu_task_spec *spec) {
  if (spec->nneeds == 0) return CLU_OK;
  j->needs = malloc(spec->nneeds * sizeof *j->needs);
  if (spec->need_of) j->need_of = malloc((size_t)(j->n + 1) * sizeof *j->need_of);
  if (!j->needs || (spec->need_of && !j->need_of)) {
    clu_task_job_drop_needs(j);
    return CLU_NOMEM;
  }
  memcpy(j->needs, spec->needs, spec->nneeds * sizeof *j->needs);
  if (spec->need_of) memcpy(j->need_of, spec->need_of, (size_t)j->n * sizeof *j->need_of);
  for (uint32_t k = 0; k < spec->nneeds; k++) j->says_memory |= j->needs[k].memory > 0;
  j->spec.needs = j->needs;
  j->spec.nneeds = spec->nneeds;
  j->spec.need_of = j->need_of;
  return CLU_OK;
}

/* ---- what a task was given, as text ---- */

static int append_text(clu_blob *to, const char *text) {
  return clu_blob_append(to, text, strlen(text));
}

/* The names of the units of kind `k` that are in the grant, with commas between. */
static int append_units(clu_blob *to, const char *names, const clu_grant *grant, int k) {
  int rc = CLU_OK, any = 0;
  for (int unit = 0; *names && rc == CLU_OK; unit++) {
    size_t n = strcspn(names, ",");
    if (clu_grant_has(grant, k, unit)) {
      if (any) rc = append_text(to, ",");
      if (rc == CLU_OK) rc = clu_blob_append(to, names, n);
      any = 1;
    }
    names += n + (names[n] == ',');
  }
  return rc == CLU_OK ? append_text(to, "\n") : rc;
}

static int append_grant(const clu_engine *t, clu_blob *to, int i, const clu_grant *grant) {
  const struct clu_engine_resources *r = &t->resources;
  char line[40];
  int rc, host = r->host_of[i];
  snprintf(line, sizeof line, "cores=%u\n", (unsigned)grant->cores);
  rc = append_text(to, line);
  for (int k = 0; k < r->kinds && rc == CLU_OK; k++) {
    if (grant->parts[k] == 0) continue;
    rc = append_text(to, r->names[k]);
    if (rc == CLU_OK) rc = append_text(to, "=");
    if (rc == CLU_OK) rc = append_units(to, r->units[host * r->kinds + k], grant, k);
  }
  return rc;
}

int clu_engine_write_grant(const clu_engine *t, clu_blob *to, int i, const clu_need *need,
                           const clu_grant *grant) {
  size_t at = to->size;
  unsigned char head[8] = {0};
  int rc = clu_blob_append(to, head, sizeof head);
  char line[40];
  if (rc == CLU_OK && need && need->memory > 0) {
    snprintf(line, sizeof line, "memory=%lld\n", (long long)need->memory);
    rc = append_text(to, line);
  }
  if (rc == CLU_OK && grant) rc = append_grant(t, to, i, grant);
  if (rc != CLU_OK) return rc;
  /* threads are set only where somebody has asked for cores */
  clu_put32(to->data + at, need && need->cores && grant ? grant->cores : 0);
  clu_put32(to->data + at + 4, (uint32_t)(to->size - at - sizeof head));
  return CLU_OK;
}

clu_blob *clu_engine_granted(const clu_engine *t, int i) {
  const clu_grant *grant = clu_sched_node_grant(t->sched, i);
  clu_blob *b = grant ? clu_blob_new(64) : NULL;
  if (b && append_grant(t, b, i, grant) == CLU_OK) return b;
  clu_blob_unref(b);
  return NULL;
}
