/* The start of a node over TCP on Windows, as far as it needs no R: a session of src/core and a
 * program that it starts, which joins it as src/r/node/join.c does. */
#define TEST_PARTS
#include "test.h"

#include "core/base/os-output.h"
#include "core/net/resolve.h"
#include "core/node/acceptor.h"
#include "core/node/joiner.h"
#include "core/node/transports.h"

#define MS 1000000ull

static clu_pid parent;

static int parent_lives(void) { return clu_os_kill(parent, 0, 0) == 0; }

/* ---- the node ---- */

static void say(clu_chan *c, int kind, uint64_t seq, const void *p, size_t n) {
  clu_chan_send_bytes(c, kind, seq, p, n, CLU_NO_FD);
  while (clu_chan_flush(c) == CLU_AGAIN) continue;
}

/* Answers calls with what it was sent until it is told to end. */
static int serve(clu_chan *c) {
  for (;;) {
    clu_msg m;
    int r = clu_chan_next(c, &m), rc;
    if (r < 0) return 45;
    if (r == 0) {
      if ((rc = clu_chan_fill(c)) != CLU_OK && rc != CLU_AGAIN) return 46;
      continue;
    }
    if (m.kind == CLU_K_DONE) return 7;
    if (m.kind == CLU_K_CALL) {
      clu_chan_send(c, CLU_K_VALUE, m.seq, m.body, CLU_NO_FD);
      while (clu_chan_flush(c) == CLU_AGAIN) continue;
    }
    clu_blob_unref(m.body);
  }
}

/* Arguments: the port, the session's process id, and maybe the slot. */
static int test_part(const char *name, int argc, char **argv) {
  unsigned char secret[CLU_SECRET], pid[8];
  char *hex = getenv("CLUTCH_SECRET");
  clu_err e = {0, 0, ""};
  clu_join j;
  clu_chan c;
  clu_msg m;
  clu_fd memory;
  int rc;
  if (strcmp(name, "joins") != 0 || argc < 2) return 99;
  parent = (clu_pid)atoll(argv[1]);
  if (!hex || !clu_secret_from_hex(hex, secret)) return 41;
  clu_os_wipe(hex, strlen(hex));
  if (clu_os_setenv("CLUTCH_SECRET", NULL) != CLU_OK || getenv("CLUTCH_SECRET")) return 42;
  if (argc > 2) {
    clu_shared *s;
    if (clu_os_kept(0, &memory) != CLU_OK || clu_shared_map(&s, memory, &e) != CLU_OK) return 43;
    s->cancel[atoi(argv[2])] = 17;
    clu_os_close(memory);
  }
  memset(&j, 0, sizeof j);
  j.host = "127.0.0.1";
  j.port = atoi(argv[0]);
  j.secret = secret;
  j.rank = 1;
  j.deadline = clu_os_now() + 20000 * MS;
  j.go_on = parent_lives;
  rc = clu_join_cluster(&j, &c, &m, &e);
  if (rc != CLU_OK) {
    fprintf(stderr, "%s\n", e.text);
    return rc == CLU_CANCELLED ? 51 : 44;
  }
  clu_blob_unref(m.body);
  clu_os_set_blocking(c.fd, 1);
  clu_put64(pid, (uint64_t)clu_os_getpid());
  say(&c, CLU_K_HELLO, 0, pid, sizeof pid);
  rc = serve(&c);
  clu_chan_fini(&c);
  return rc;
}

/* ---- the session ---- */

typedef struct cluster {
  clu_session *session;
  clu_acceptor *acceptor;
  clu_node *node;
  int port, slot;
} cluster;

static void open_cluster(cluster *k) {
  clu_addr at[CLU_MAX_ADDRS];
  clu_err e = {0, 0, ""};
  clu_blob *settings = clu_blob_new(8);
  int n = 0, granted;
  memset(k, 0, sizeof *k);
  k->slot = -1;
  REQUIRE((k->session = clu_session_new(&e)) != NULL);
  REQUIRE(clu_os_ask_name("127.0.0.1", 1, at, &n) == 0 && n > 0);
  REQUIRE(clu_acceptor_open(k->session, &at[0], -1, NULL, &k->acceptor, &granted, &k->port, &e) ==
          CLU_OK);
  REQUIRE(clu_node_new_tcp(k->session, &k->node, &e) == CLU_OK);
  clu_node_set_rank(k->node, 1);
  clu_blob_append(settings, "settings", 8);
  REQUIRE(clu_acceptor_expect(k->acceptor, k->node, 1, settings) == CLU_OK);
  clu_blob_unref(settings);
}

/* The environment has the secret, as clu_process_start() of src/r/session sees to. */
static void start_node(cluster *k, int with_memory) {
  char port[16], pid[24], slot[16], secret[16 + 2 * CLU_SECRET] = "CLUTCH_SECRET=";
  char *argv[] = {test_program, (char *)"--part", (char *)"joins", port, pid, NULL, NULL};
  char *envp[100] = {secret};
  int n = 1;
  clu_err e = {0, 0, ""};
  clu_fd memory = CLU_NO_FD;
  clu_spawn s;
  memset(&s, 0, sizeof s);
  s.file = test_program;
  s.argv = argv;
  s.envp = envp;
  s.in = CLU_NO_FD;
  s.new_session = s.follow = 1;
  REQUIRE(clu_os_open_append("/dev/null", &s.out, &e) == CLU_OK);
  s.err = s.out;
  snprintf(port, sizeof port, "%d", k->port);
  snprintf(pid, sizeof pid, "%lld", (long long)clu_os_getpid());
  clu_secret_to_hex(clu_acceptor_secret(k->acceptor), secret + strlen(secret));
  for (char **v = clu_os_environ(); *v && n < 99; v++) envp[n++] = *v;
  if (with_memory) {
    REQUIRE(clu_child_slot(clu_session_children(k->session), &k->slot, &memory, &e) == CLU_OK);
    snprintf(slot, sizeof slot, "%d", k->slot);
    argv[5] = slot;
    s.keep = &memory;
    s.nkeep = 1;
  }
  if (clu_node_start(k->node, &s, k->slot, NULL, &e) != CLU_OK)
    test_fail(__FILE__, __LINE__, "%s", e.text);
  clu_os_close(s.out);
}

static int is_ready(void *k) { return clu_node_is_ready(((cluster *)k)->node); }
static int has_ended(void *k) { return !clu_node_is_open(((cluster *)k)->node); }

static void close_cluster(cluster *k) {
  clu_acceptor_free(k->acceptor);
  clu_node_free(k->node);
  clu_session_free(k->session);
}

static void a_node_joins(int with_memory) {
  cluster k;
  clu_node_status t;
  open_cluster(&k);
  start_node(&k, with_memory);
  REQUIRE(clu_session_pump_for(k.session, is_ready, &k, clu_os_now() + 20000 * MS));
  if (with_memory) CHECK_INT_EQ(clu_session_children(k.session)->shared->cancel[k.slot], 17);
  clu_node_stop(k.node, 10000);
  CHECK(clu_session_pump_for(k.session, has_ended, &k, clu_os_now() + 20000 * MS));
  clu_node_await_end(k.node);
  clu_node_status_of(k.node, &t);
  CHECK(t.how_known && !t.how.by_signal);
  CHECK_INT_EQ(t.how.code, 7);
  close_cluster(&k);
}

TEST(a_program_that_is_started_joins_serves_and_ends) { a_node_joins(0); }
TEST(it_shares_memory_with_the_session) { a_node_joins(1); }
