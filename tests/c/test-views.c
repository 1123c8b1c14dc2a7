/* These tests are of what the link process writes into the views of clusters: how hosts are, and
 * what nodes there use.
 */
#include "proxy-fixture.h"
#include "view-fixture.h"

#include <signal.h>

#include "core/base/os-machine.h"

TEST(while_somebody_looks_hosts_and_their_nodes_are_shown_whatever_the_session_does) {
  host_fixture h;
  clu_view *v = new_view(2);
  const clu_view_node *node = v->memory->node;
  const clu_view_far *far;
  uint64_t bytes;
  host_up_with(&h, 2, 60000, 300000);
  echo_all(&h.f, -1);
  for (int i = 0; i < 2; i++) clu_node_show(h.f.nd[i], v, i, "alpha");
  /* both are there when the first is read: the descriptor is the second's */
  REQUIRE(kill(h.near_pid, SIGSTOP) == 0);
  REQUIRE(clu_chan_send_bytes(&h.near, CLU_K_VIEW, 6, "", 0, CLU_NO_FD) == CLU_OK);
  pass_view(&h, v, 7);
  REQUIRE(kill(h.near_pid, SIGCONT) == 0);
  /* nobody looks: nothing is asked */
  clu_os_pause(200000000);
  bytes = h.proxy->to_host;
  clu_os_pause(1200000000);
  CHECK(h.proxy->to_host == bytes);
  CHECK(clu_view_far_of(v, 0) == NULL);
  /* the session does not run its loop from here on */
  if (clu_os_process_cpu(clu_os_getpid(), NULL) >= 0) { /* else the system does not say */
    CHECK_SOON((watch(v), clu_view_get(&node[0].memory) && clu_view_get(&node[1].memory)), 10000);
    CHECK_SOON((watch(v), clu_view_get(&node[0].cpu) && clu_view_get(&node[1].cpu)), 10000);
  }
  CHECK_SOON((watch(v), clu_view_far_of(v, 0) && clu_view_far_of(v, 1)), 10000);
  far = clu_view_far_of(v, 0);
  REQUIRE(far != NULL && far == clu_view_far_of(v, 1));
  CHECK_INT_EQ(clu_view_get(&far->state), CLU_VIEW_HOST_UP);
  CHECK_STR_EQ(v->memory->host[clu_view_get(&far->host)], "alpha");
  CHECK_SOON((watch(v), clu_view_get(&far->asked) > 0), 10000);
  CHECK(clu_view_get(&far->trip) < 60000000000u);
  CHECK(clu_view_get(&far->received) > 0 && clu_view_get(&far->sent) > 0);
  CHECK_INT_EQ(clu_view_get(&node[0].at_hand), 0);
  /* that it is cut off is seen, and that it is not any more */
  REQUIRE(kill(h.far_pid, SIGSTOP) == 0);
  h.proxy->cuts++;
  CHECK_SOON((watch(v), clu_view_get(&far->state) == CLU_VIEW_HOST_CUT), 10000);
  REQUIRE(kill(h.far_pid, SIGCONT) == 0);
  CHECK_SOON((watch(v), clu_view_get(&far->state) == CLU_VIEW_HOST_UP), 10000);
  clu_view_unref(v);
  host_down(&h);
}

/* ---- by itself ---- */

static const clu_proxy_use *told(uint64_t id, uint64_t cpu) {
  static unsigned char node[40];
  static clu_proxy_use u;
  clu_put64(node, id);
  clu_put64(node + 8, cpu);
  clu_put64(node + 16, UINT64_MAX);
  clu_put64(node + 24, 9);
  clu_put64(node + 32, 100);
  u.asked = 1000;
  u.took = 10;
  u.load = 2000;
  u.n = 1;
  u.nodes = node;
  return &u;
}

TEST(a_node_is_found_in_the_view_that_has_it) {
  clu_near_views n = {0};
  clu_near_shown a = {0}, b = {0};
  clu_view *one = new_view(3), *two = new_view(3);
  clu_view_far *far = two->memory->far;
  clu_view_set(&one->memory->node[1].id, 11);
  clu_view_set(&two->memory->node[2].id, 22);
  take(&n, 1, one);
  take(&n, 2, two);
  clu_near_show_use(&n, &a, 5, told(99, 1), 2000); /* nobody's */
  CHECK_INT_EQ(a.cluster, 0);
  clu_near_show_state(&n, &a, CLU_PROXY_CUT, 1, 1);
  clu_near_show_use(&n, &a, 5, told(22, 500), 2000);
  CHECK_INT_EQ(a.cluster, 2);
  CHECK_INT_EQ(clu_view_get(&two->memory->node[2].cpu), 501);
  CHECK_INT_EQ(clu_view_get(&two->memory->node[2].memory), 0);
  CHECK_INT_EQ(clu_view_get(&two->memory->node[2].at_hand), 9);
  CHECK_INT_EQ(clu_view_get(&two->memory->node[2].since), 1900);
  CHECK_INT_EQ(clu_view_get(&far->trip), 990);
  /* what is at hand has not begun later because the way took longer */
  clu_near_show_use(&n, &a, 5, told(22, 500), 3000);
  CHECK_INT_EQ(clu_view_get(&two->memory->node[2].since), 1900);
  clu_near_show_state(&n, &a, CLU_PROXY_ENDED, 7, 8);
  CHECK_INT_EQ(clu_view_get(&far->state), CLU_VIEW_HOST_ENDED);
  /* its place is another's then */
  clu_near_show_use(&n, &b, 6, told(22, 0), 2000);
  CHECK_INT_EQ(b.place, a.place);
  CHECK_INT_EQ(clu_view_get(&far->number), 6);
  clu_near_views_take(&n, 2, CLU_NO_FD, 0);
  clu_near_show_use(&n, &b, 6, told(22, 77), 2000);
  CHECK_INT_EQ(clu_view_get(&two->memory->node[2].cpu), 1);
  clu_near_views_fini(&n);
  clu_view_unref(one);
  clu_view_unref(two);
}

TEST(views_of_another_size_are_not_taken_and_of_too_many_the_oldest_goes) {
  clu_near_views n = {0};
  clu_view *v = new_view(1);
  clu_fd fd;
  REQUIRE(clu_os_dup(v->fd, &fd) == CLU_OK);
  clu_near_views_take(&n, 1, fd, 4096);
  CHECK_INT_EQ(n.n, 0);
  for (int i = 0; i < CLU_NEAR_VIEWS + 3; i++) take(&n, (uint64_t)i + 1, v);
  CHECK_INT_EQ(n.n, CLU_NEAR_VIEWS);
  CHECK_INT_EQ(n.at[0].cluster, 4);
  clu_near_views_fini(&n);
  clu_view_unref(v);
}

/* ---- what comes from elsewhere ---- */

TEST(an_answer_that_is_none_ends_the_link) {
  for (int k = 0; k < 4; k++) {
    one o;
    unsigned char bytes[72] = {0};
    const size_t sizes[] = {31, 33, 71, 0};
    one_up_and_resumed(&o);
    record(&o, CLU_L_USE, 1, bytes, 72); /* of a node that nobody knows: nothing happens */
    CHECK_INT_EQ(turns(&o, 3), CLU_OK);
    record(&o, CLU_L_USE, 1, bytes, sizes[k]);
    expect_end(&o, "what came over the connection");
    one_down(&o);
  }
}

TEST(the_other_side_has_nothing_to_ask) {
  one o;
  one_up_and_resumed(&o);
  record(&o, CLU_L_ASK, 1, NULL, 0);
  expect_end(&o, "what came over the connection");
  one_down(&o);
}
