/* The hosts of a link process, which is the test here: what it says of them, and what it is told of
 * a host whose command has ended. */
#include "test.h"

#include <poll.h>

#include "core/link/hosts.h"
#include "core/link/proxy.h"
#include "core/node/node-private.h"
#include "core/wire/frame.h"

static void stop(clu_node *nd, uint32_t grace_ms) { (void)nd, (void)grace_ms; }
static void closed(clu_node *nd) { (void)nd; }
static int end_known(const clu_node *nd) { return nd->how_known; }
static void free_node(clu_node *nd) { free(nd); }
static const clu_transport transport = {
    .stop = stop, .closed = closed, .end_known = end_known, .free = free_node};

static struct {
  clu_session *session;
  clu_link_hosts *hosts;
  clu_node *link, *command;
  clu_chan far; /* the link process' end */
} x;

static clu_node *new_node(void) {
  clu_node *nd = calloc(1, sizeof *nd);
  REQUIRE(nd);
  clu_node_init(nd, &transport, x.session);
  return nd;
}

static void up(void) {
  clu_fd pair[2];
  memset(&x, 0, sizeof x);
  REQUIRE(x.session = clu_session_new(NULL));
  REQUIRE(x.hosts = clu_link_hosts_new(x.session));
  x.link = new_node();
  x.command = new_node();
  REQUIRE(clu_os_pair(pair, NULL) == CLU_OK);
  REQUIRE(clu_node_connect(x.link, pair[0], 0, NULL) == CLU_OK);
  REQUIRE(clu_chan_init(&x.far, pair[1], INT64_MAX, CLU_TAKES_NONE) == CLU_OK);
  clu_link_hosts_set_process(x.hosts, x.link);
  REQUIRE(clu_link_hosts_add(x.hosts, 7));
  REQUIRE(clu_link_hosts_add(x.hosts, 8));
  clu_link_host_set_command(clu_link_hosts_find(x.hosts, 7), clu_node_id(x.command), 0);
}

static void down(void) {
  clu_chan_fini(&x.far);
  clu_link_hosts_free(x.hosts);
  clu_node_free(x.link);
  clu_node_free(x.command);
  clu_session_free(x.session);
}

static void says(uint64_t rank, int state, const char *why) {
  unsigned char body[100] = {0};
  body[0] = (unsigned char)state;
  for (unsigned i = 0; i < 3; i++) clu_put64(body + 1 + 8 * i, 10 + i);
  clu_put64(body + 25, clu_os_now());
  memcpy(body + 33, why, strlen(why));
  REQUIRE(clu_chan_send_bytes(&x.far, CLU_K_HOST_STATE, rank, body, 33 + strlen(why), CLU_NO_FD) ==
          CLU_OK);
  REQUIRE(clu_chan_flush(&x.far) == CLU_OK);
  REQUIRE(clu_loop_pump(clu_session_loop(x.session), 1000000000, NULL) == CLU_OK);
}

/* Waits for what the link process is told next, within so many ms: the host, 0: nothing. */
static uint64_t is_told(char *text, size_t room, int ms) {
  uint64_t end = clu_os_now() + (uint64_t)ms * 1000000;
  text[0] = 0;
  while (clu_os_now() < end) {
    clu_msg m;
    REQUIRE(clu_loop_pump(clu_session_loop(x.session), 1000000, NULL) == CLU_OK);
    clu_os_set_blocking(x.far.fd, 0);
    clu_chan_fill(&x.far);
    if (clu_chan_next(&x.far, &m) != 1) continue;
    CHECK_INT_EQ(m.kind, CLU_K_HOST_STATE);
    if (m.body) snprintf(text, room, "%.*s", (int)m.body->size, (const char *)m.body->data);
    clu_blob_unref(m.body);
    return m.seq;
  }
  return 0;
}

TEST(what_is_said_of_a_host_is_kept) {
  const clu_link_host *h;
  char text[100];
  up();
  clu_link_hosts_ask(x.hosts);
  CHECK_INT_EQ(is_told(text, sizeof text, 5000), 7);
  CHECK_INT_EQ(is_told(text, sizeof text, 5000), 8);
  CHECK_STR_EQ(text, ""); /* a question */
  CHECK(!clu_link_hosts_are_answered(x.hosts));
  says(7, CLU_PROXY_UP, "");
  says(8, CLU_PROXY_ENDED, "no beat");
  says(9, CLU_PROXY_UP, "there is none of this number");
  CHECK(clu_link_hosts_are_answered(x.hosts));
  CHECK_INT_EQ(clu_link_hosts_count(x.hosts), 2);
  h = clu_link_hosts_at(x.hosts, 1);
  CHECK_INT_EQ(h->rank, 8);
  CHECK_INT_EQ(h->state, CLU_PROXY_ENDED);
  CHECK_INT_EQ(h->counts[2], 12);
  CHECK_STR_EQ(h->why, "no beat");
  down();
}

TEST(a_host_that_is_cut_off_is_given_up_when_its_command_has_ended) {
  char text[200];
  up();
  says(7, CLU_PROXY_UP, "");
  says(8, CLU_PROXY_CUT, "no command of it is known");
  says(7, CLU_PROXY_CUT, "reset");
  CHECK_INT_EQ(is_told(text, sizeof text, 150), 0); /* its command goes on */
  x.command->how.code = 3;
  x.command->how_known = 1;
  clu_node_close(x.command);
  CHECK_INT_EQ(is_told(text, sizeof text, 5000), 7);
  CHECK_STR_EQ(text, "the command that had started it has ended, with exit status 3");
  down();
}

TEST(ssh_that_has_lost_its_own_connection_says_nothing_of_the_host) {
  char text[200];
  up();
  says(7, CLU_PROXY_CUT, "reset");
  x.command->how.code = 255;
  x.command->how_known = 1;
  clu_node_close(x.command);
  CHECK_INT_EQ(is_told(text, sizeof text, 150), 0);
  down();
}
