/* A run on two hosts: ranks 0 and 1 on the first, 2 and 3 on the second. All of it is in this
 * process; what bridges and hub say waits until settle(). */
#ifndef CLUTCH_BRIDGE_FIXTURE_H
#define CLUTCH_BRIDGE_FIXTURE_H

#include "test.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "core/mesh/bridge-message.h"
#include "core/mesh/bridge.h"
#include "core/mesh/hub.h"
#include "core/mesh/mesh-layout.h"

enum { N = 4, HOSTS = 2, WAITING = 20000 };

typedef struct words {
  clu_blob *at[WAITING];
  int n;
} words;

typedef struct fixture {
  clu_hub *hub;
  clu_bridge *bridge[HOSTS];
  clu_mesh *rank[N];
  words up[HOSTS], down[HOSTS];
  int said; /* messages so far */
} fixture;

static fixture f;

static void keep(words *w, clu_blob *b) {
  REQUIRE(w->n < WAITING);
  w->at[w->n++] = clu_blob_ref(b);
  f.said++;
}

static void from_bridge(void *to, clu_blob *b) { keep(to, b); }
static void from_hub(void *to, int host, clu_blob *b) { keep((words *)to + host, b); }

static void begin(void) {
  static const int host_of[N] = {0, 0, 1, 1};
  clu_err e = {0};
  memset(&f, 0, sizeof f);
  f.hub = clu_hub_new(N, host_of, HOSTS, from_hub, f.down);
  REQUIRE(f.hub);
  for (int k = 0; k < HOSTS; k++) {
    const char is_here[N] = {k == 0, k == 0, k == 1, k == 1};
    REQUIRE(clu_bridge_new(N, is_here, "/tmp", from_bridge, &f.up[k], &f.bridge[k], &e) == CLU_OK);
  }
  for (int i = 0; i < N; i++)
    REQUIRE(clu_mesh_join(clu_bridge_path(f.bridge[host_of[i]]), N, i, &f.rank[i], &e) == CLU_OK);
}

/* The bridge of that host hears what the hub has said. */
static void hear(int host) {
  words *w = &f.down[host];
  for (int i = 0; i < w->n; i++) {
    int rc = clu_bridge_heard(f.bridge[host], w->at[i]);
    CHECK(rc == CLU_OK || rc == CLU_CANCELLED);
    clu_blob_unref(w->at[i]);
  }
  w->n = 0;
}

/* All that is said arrives, until nobody says more. */
static void settle_as(int idle) {
  for (int before = -1; before != f.said;) {
    before = f.said;
    for (int k = 0; k < HOSTS; k++) clu_bridge_turn(f.bridge[k], idle);
    for (int k = 0; k < HOSTS; k++) {
      for (int i = 0; i < f.up[k].n; i++) {
        CHECK_INT_EQ(clu_hub_heard(f.hub, k, f.up[k].at[i]), CLU_OK);
        clu_blob_unref(f.up[k].at[i]);
      }
      f.up[k].n = 0;
    }
    for (int k = 0; k < HOSTS; k++) hear(k);
  }
}

static void settle(void) { settle_as(0); }

static void end(void) {
  for (int k = 0; k < HOSTS; k++) {
    for (int i = 0; i < f.up[k].n; i++) clu_blob_unref(f.up[k].at[i]);
    for (int i = 0; i < f.down[k].n; i++) clu_blob_unref(f.down[k].at[i]);
  }
  for (int i = 0; i < N; i++) clu_mesh_free(f.rank[i]);
  for (int k = 0; k < HOSTS; k++) clu_bridge_free(f.bridge[k]);
  clu_hub_free(f.hub);
}

static clu_blob *text(const char *s, size_t n) {
  clu_blob *b = clu_blob_new(n);
  REQUIRE(b);
  REQUIRE(clu_blob_append(b, s, n) == 0);
  return b;
}

static int try_send(int from, int to, const char *tag, const char *s) {
  clu_sending way = {0};
  clu_blob *b = text(s, strlen(s));
  int rc = clu_mesh_send(f.rank[from], to, tag, b, &way);
  clu_blob_unref(b);
  return rc;
}

/* "tag:body from", or the code. */
static const char *get(int rank, int from, const char *tag) {
  static char out[256];
  clu_message *x = NULL;
  int who = -1, rc = clu_mesh_receive(f.rank[rank], from, tag, 0, &x, &who);
  if (rc == CLU_OK)
    snprintf(out, sizeof out, "%s:%.*s %d", x->tag, (int)x->n, (const char *)x->body, x->from);
  else
    snprintf(out, sizeof out, "%s %d",
             rc == CLU_AGAIN  ? "again"
             : rc == CLU_DEAD ? "dead"
                              : "?",
             who);
  clu_message_free(x);
  return out;
}

#endif
