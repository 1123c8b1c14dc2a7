/* A proxy whose connection has bytes in its own memory, as TLS has, while its descriptor is not
 * readable. */
#include "test.h"

#include "core/link/proxy.h"

typedef struct script {
  unsigned char bytes[400];
  size_t n, at;
} script;

static int ready(clu_conn *s) {
  (void)s;
  return CLU_OK;
}

/* One byte a call. */
static int read_one(clu_conn *s, void *p, size_t n, size_t *got) {
  script *x = s->own;
  if (x->at == x->n || n == 0) return CLU_AGAIN;
  *(unsigned char *)p = x->bytes[x->at++];
  *got = 1;
  return CLU_OK;
}

static int write_all(clu_conn *s, const void *p, size_t n, size_t *put) {
  (void)s, (void)p;
  *put = n;
  return CLU_OK;
}

static unsigned wants(const clu_conn *s, unsigned what) {
  (void)s;
  return what;
}

static int pending(const clu_conn *s) {
  const script *x = s->own;
  return x->at < x->n;
}

/* Makes what the other side says first. */
static void make_script(script *x) {
  clu_link l;
  const unsigned char *p;
  REQUIRE(clu_link_init(&l, 0, 1 << 20, 10000000000u) == CLU_OK);
  clu_link_connected(&l, clu_os_now());
  p = clu_link_out(&l, &x->n);
  REQUIRE(x->n > 20 && x->n < sizeof x->bytes);
  memcpy(x->bytes, p, x->n);
  x->at = 0;
  clu_link_fini(&l);
}

/* A proxy whose connection is such a script. */
typedef struct scripted_proxy {
  script x;
  clu_proxy *r;
  clu_loop loop;
  clu_fd pair[2];
  clu_err e;
} scripted_proxy;

static void begin(scripted_proxy *f, const clu_conn_kind *kind) {
  clu_proxy_options how = {.near = 1, .epoch = 4711, .beat = 10000000000u};
  clu_conn *s = calloc(1, sizeof *s);
  make_script(&f->x);
  REQUIRE(s && clu_loop_init(&f->loop, &f->e) == CLU_OK && clu_os_pair(f->pair, &f->e) == CLU_OK);
  REQUIRE(f->r = clu_proxy_new(&f->loop, &how));
  s->kind = kind;
  s->fd = f->pair[0];
  s->own = &f->x;
  REQUIRE(clu_proxy_connect(f->r, s) == CLU_OK);
}

static void finish(scripted_proxy *f) {
  clu_proxy_free(f->r);
  clu_loop_fini(&f->loop);
  clu_os_close(f->pair[1]);
}

TEST(bytes_that_make_no_descriptor_readable_are_read_at_once) {
  static const clu_conn_kind kind = {ready, read_one, write_all, ready,
                                     ready, wants,    pending,   NULL};
  scripted_proxy f;
  clu_proxy_status now;
  double from;
  begin(&f, &kind);
  from = test_ms();
  do {
    CHECK_INT_EQ(clu_proxy_turn(f.r), CLU_OK);
    CHECK_INT_EQ(clu_loop_pump(&f.loop, 500000000, &f.e), CLU_OK);
  } while (f.x.at < f.x.n && test_ms() < from + 5000);
  CHECK_INT_EQ(f.x.at, f.x.n);
  CHECK(test_ms() < from + 2000);
  clu_proxy_status_of(f.r, &now);
  CHECK(now.connected);
  finish(&f);
}

static int is_stuck; /* what was written waits in the connection's memory */

static int flush(clu_conn *s) {
  (void)s;
  return is_stuck ? CLU_AGAIN : CLU_OK;
}

static unsigned wants_more(const clu_conn *s, unsigned what) {
  (void)s;
  return is_stuck ? what | CLU_WRITE : what;
}

/* A process that ends then takes it along. */
TEST(a_last_word_that_waits_in_the_memory_of_its_connection_has_not_left) {
  static const clu_conn_kind kind = {ready, read_one,   write_all, flush,
                                     ready, wants_more, pending,   NULL};
  scripted_proxy f;
  clu_proxy_status now;
  is_stuck = 0;
  begin(&f, &kind);
  CHECK_SOON((clu_proxy_turn(f.r), clu_loop_pump(&f.loop, 0, &f.e), clu_proxy_status_of(f.r, &now),
              now.state == CLU_PROXY_UP),
             5000);
  is_stuck = 1;
  clu_proxy_say_bye(f.r, "it ends");
  for (int k = 0; k < 5; k++) {
    CHECK_INT_EQ(clu_proxy_turn(f.r), CLU_OK);
    CHECK_INT_EQ(clu_loop_pump(&f.loop, 0, &f.e), CLU_OK);
    clu_proxy_status_of(f.r, &now);
    CHECK(!now.has_said_bye && clu_proxy_is_behind(f.r));
  }
  is_stuck = 0;
  CHECK_INT_EQ(clu_proxy_turn(f.r), CLU_OK);
  clu_proxy_status_of(f.r, &now);
  CHECK(now.has_said_bye && !clu_proxy_is_behind(f.r));
  finish(&f);
}
