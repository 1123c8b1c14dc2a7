/* Views of clusters, as a link process has them. */
#ifndef VIEW_FIXTURE_H
#define VIEW_FIXTURE_H

#include "link-fixture.h"

#include "core/link/views.h"

TEST_UNUSED static clu_view *new_view(uint64_t nodes) {
  clu_view_about about;
  clu_err e;
  clu_view *v;
  memset(&about, 0, sizeof about);
  about.nodes = nodes;
  REQUIRE((v = clu_view_new(&about, &e)) != NULL);
  return v;
}

TEST_UNUSED static void pass_view(host_fixture *h, const clu_view *v, uint64_t cluster) {
  unsigned char size[8];
  clu_fd fd = CLU_NO_FD;
  clu_put64(size, sizeof *v->memory);
  REQUIRE(clu_os_dup(v->fd, &fd) == CLU_OK);
  REQUIRE(clu_chan_send_bytes(&h->near, CLU_K_VIEW, cluster, size, sizeof size, fd) == CLU_OK);
  while (clu_chan_flush(&h->near) == CLU_AGAIN) clu_os_pause(1000000);
}

TEST_UNUSED static void watch(const clu_view *v) {
  clu_view_set(&v->memory->watched, clu_os_now());
}

TEST_UNUSED static void take(clu_near_views *n, uint64_t cluster, const clu_view *v) {
  clu_fd fd;
  REQUIRE(clu_os_dup(v->fd, &fd) == CLU_OK);
  clu_near_views_take(n, cluster, fd, sizeof *v->memory);
}

#endif
