/* Two links, and a wire between them that cuts, loses and splits what travels. */
#include "test.h"

#include "core/base/err.h"
#include "core/link/link.h"
#include "core/wire/frame.h"

enum { WINDOW = 1 << 16, BEAT = 1000 };

typedef struct side {
  clu_link l;
  uint64_t sent, got; /* numbers of the records by their content */
  int bye;
} side;

/* This is what was written and has not been read, for each direction. */
typedef struct wire {
  unsigned char bytes[1 << 20];
  size_t n;
} wire;

typedef struct pair {
  side a, b;
  wire ab, ba;
  uint64_t now;
} pair;

static pair p;

static void up(size_t window) {
  memset(&p, 0, sizeof p);
  p.now = 1;
  REQUIRE(clu_link_init(&p.a.l, 77, window, BEAT) == CLU_OK);
  REQUIRE(clu_link_init(&p.b.l, 0, window, BEAT) == CLU_OK);
}

static void connect_both(void) {
  p.ab.n = p.ba.n = 0;
  clu_link_connected(&p.a.l, p.now);
  clu_link_connected(&p.b.l, p.now);
}

static void cut_both(void) {
  clu_link_cut(&p.a.l);
  clu_link_cut(&p.b.l);
  p.ab.n = p.ba.n = 0;
}

static void down(void) {
  clu_link_fini(&p.a.l);
  clu_link_fini(&p.b.l);
}

/* The content says which record it is, and how long it has to be. */
static size_t length_of(uint64_t k) { return 8 + (size_t)(k * 7919u % 301u); }

static void send_one(side *s) {
  unsigned char body[CLU_LINK_MOST];
  uint64_t k = ++s->sent;
  size_t n = length_of(k);
  memset(body, (int)(k & 255), n);
  clu_put64(body, k);
  REQUIRE(clu_link_send(&s->l, CLU_L_BYTES, 1000 + k, body, n) == CLU_OK);
}

/* At most `most` bytes of what it has to say go onto the wire. How many. */
static size_t say(side *s, wire *w, size_t most) {
  size_t done = 0, n;
  const unsigned char *out;
  while (done < most && (out = clu_link_out(&s->l, &n)) && n > 0) {
    if (n > most - done) n = most - done;
    if (n > sizeof w->bytes - w->n) n = sizeof w->bytes - w->n;
    if (n == 0) break;
    memcpy(w->bytes + w->n, out, n);
    w->n += n;
    done += n;
    clu_link_written(&s->l, n, p.now);
  }
  return done;
}

/* 0, or the negative code. */
static int take_records(side *s) {
  clu_link_record r;
  int rc;
  while ((rc = clu_link_next(&s->l, &r)) == 1) {
    if (r.type == CLU_L_BYE) {
      s->bye = 1;
      continue;
    }
    s->got++;
    CHECK_INT_EQ(r.type, CLU_L_BYTES);
    CHECK_INT_EQ(r.stream, 1000 + s->got);
    if (!CHECK(r.n == length_of(s->got))) return -1;
    CHECK_INT_EQ(clu_get64(r.bytes), s->got);
    CHECK(r.bytes[r.n - 1] == (s->got & 255) || r.n == 8);
  }
  return rc;
}

static int hear(side *s, wire *w, size_t most) {
  while (w->n > 0 && most > 0) {
    size_t n;
    unsigned char *to = clu_link_in(&s->l, &n);
    int rc;
    if (n > w->n) n = w->n;
    if (n > most) n = most;
    memcpy(to, w->bytes, n);
    memmove(w->bytes, w->bytes + n, w->n -= n);
    most -= n;
    clu_link_read(&s->l, n, p.now);
    if ((rc = take_records(s)) != 0) return rc;
  }
  return 0;
}

/* Until nobody has anything to say. */
static void settle(void) {
  for (int k = 0; k < 100000; k++) {
    size_t n = p.ab.n + p.ba.n;
    n += say(&p.a, &p.ab, 1 << 20) + say(&p.b, &p.ba, 1 << 20);
    if (!CHECK_INT_EQ(hear(&p.b, &p.ab, 1 << 20), 0)) return;
    if (!CHECK_INT_EQ(hear(&p.a, &p.ba, 1 << 20), 0)) return;
    if (n == 0) return;
  }
  test_fail(__FILE__, __LINE__, "they do not come to an end");
}

TEST(records_arrive_in_order_both_ways) {
  up(WINDOW);
  connect_both();
  settle();
  CHECK_INT_EQ(p.a.l.state, CLU_LINK_UP);
  CHECK_INT_EQ(p.b.l.state, CLU_LINK_UP);
  CHECK_INT_EQ(p.b.l.epoch, 77);
  for (int i = 0; i < 1000; i++) {
    send_one(&p.a);
    if (i % 3 == 0) send_one(&p.b);
    if (i % 50 == 0) settle();
  }
  settle();
  CHECK_INT_EQ(p.b.got, p.a.sent);
  CHECK_INT_EQ(p.a.got, p.b.sent);
  down();
}

TEST(what_is_queued_before_the_connection_waits) {
  up(WINDOW);
  for (int i = 0; i < 20; i++) send_one(&p.a);
  connect_both();
  settle();
  CHECK_INT_EQ(p.b.got, 20);
  down();
}

/* The connection is cut when `k` bytes of it have come, for every k, in both directions. */
TEST(a_cut_at_every_byte_loses_nothing) {
  for (size_t k = 0; k < 700; k++) {
    up(WINDOW);
    connect_both();
    for (int i = 0; i < 3; i++) send_one(&p.a);
    for (int i = 0; i < 2; i++) send_one(&p.b);
    say(&p.b, &p.ba, 1 << 20);
    CHECK_INT_EQ(hear(&p.a, &p.ba, k % 5 ? k : 1 << 20), 0);
    say(&p.a, &p.ab, 1 << 20);
    CHECK_INT_EQ(hear(&p.b, &p.ab, k), 0);
    say(&p.b, &p.ba, k);
    CHECK_INT_EQ(hear(&p.a, &p.ba, k), 0);
    cut_both();
    send_one(&p.b);
    connect_both();
    settle();
    CHECK_INT_EQ(p.b.got, 3);
    CHECK_INT_EQ(p.a.got, 3);
    down();
  }
}

/* Only one side knows of a cut for a while: the other goes on with what is lost. */
TEST(random_cuts_and_splits_lose_nothing_and_repeat_nothing) {
  for (unsigned seed = 1; seed <= 300; seed++) {
    srand(seed);
    up((size_t)1 << (10 + seed % 8));
    connect_both();
    for (int i = 0; i < 2000; i++) {
      size_t n = (size_t)(rand() % 900);
      switch (rand() % 12) {
      case 0:
      case 1:
        if (clu_link_room(&p.a.l)) send_one(&p.a);
        break;
      case 2:
        if (clu_link_room(&p.b.l)) send_one(&p.b);
        break;
      case 3:
      case 4: say(&p.a, &p.ab, n); break;
      case 5:
      case 6: say(&p.b, &p.ba, n); break;
      case 7:
      case 8: CHECK_INT_EQ(hear(&p.b, &p.ab, n), 0); break;
      case 9:
      case 10: CHECK_INT_EQ(hear(&p.a, &p.ba, n), 0); break;
      default:
        if (rand() % 12 == 0) {
          cut_both();
          connect_both();
        } else if (rand() % 2) {
          p.now += BEAT + 1;
          p.a.l.heard = p.b.l.heard = p.now;
          CHECK_INT_EQ(clu_link_tick(&p.a.l, p.now), CLU_OK);
          CHECK_INT_EQ(clu_link_tick(&p.b.l, p.now), CLU_OK);
        }
      }
      CHECK(p.b.got <= p.a.sent && p.a.got <= p.b.sent);
    }
    settle();
    CHECK_INT_EQ(p.b.got, p.a.sent);
    CHECK_INT_EQ(p.a.got, p.b.sent);
    down();
  }
}

TEST(what_is_kept_is_bounded_by_the_window) {
  size_t most = 0;
  up(WINDOW);
  connect_both();
  settle();
  while (clu_link_room(&p.a.l)) send_one(&p.a);
  most = p.a.l.tail - p.a.l.head;
  CHECK(most < WINDOW + CLU_LINK_MOST + CLU_LINK_HEADER);
  settle();
  CHECK_INT_EQ(p.b.got, p.a.sent);
  CHECK(clu_link_room(&p.a.l) >= WINDOW - WINDOW / 8 - 400);
  /* over a long time the memory does not grow */
  for (int i = 0; i < 20000; i++) {
    if (clu_link_room(&p.a.l))
      send_one(&p.a);
    else
      settle();
  }
  CHECK(p.a.l.cap <= 512 << 10);
  down();
}

TEST(large_records_fill_the_buffer_and_arrive) {
  static unsigned char big[CLU_LINK_MOST];
  clu_link_record r;
  int got = 0;
  up(8 << 20);
  connect_both();
  settle();
  for (int i = 0; i < 50; i++) {
    memset(big, i, sizeof big);
    REQUIRE(clu_link_send(&p.a.l, CLU_L_PIECE, 5, big, sizeof big) == CLU_OK);
  }
  for (int k = 0; k < 10000 && got < 50; k++) {
    size_t n;
    unsigned char *to;
    say(&p.a, &p.ab, 100000);
    to = clu_link_in(&p.b.l, &n);
    if (n > p.ab.n) n = p.ab.n;
    memcpy(to, p.ab.bytes, n);
    memmove(p.ab.bytes, p.ab.bytes + n, p.ab.n -= n);
    clu_link_read(&p.b.l, n, p.now);
    while (clu_link_next(&p.b.l, &r) == 1) {
      CHECK_INT_EQ(r.n, CLU_LINK_MOST);
      CHECK_INT_EQ(r.bytes[r.n - 1], got);
      got++;
    }
  }
  CHECK_INT_EQ(got, 50);
  down();
}

TEST(silence_is_noticed_and_a_beat_prevents_it) {
  up(WINDOW);
  connect_both();
  settle();
  CHECK(clu_link_due(&p.a.l) <= p.now + BEAT / 3);
  for (int i = 0; i < 10; i++) {
    p.now += BEAT / 3;
    CHECK_INT_EQ(clu_link_tick(&p.a.l, p.now), CLU_OK);
    CHECK_INT_EQ(clu_link_tick(&p.b.l, p.now), CLU_OK);
    settle();
  }
  p.now += BEAT - 1;
  CHECK_INT_EQ(clu_link_tick(&p.a.l, p.now), CLU_OK);
  CHECK(clu_link_due(&p.a.l) <= p.now + 1);
  p.now += 1;
  CHECK_INT_EQ(clu_link_tick(&p.a.l, p.now), CLU_TIMEOUT);
  clu_link_cut(&p.a.l);
  CHECK(clu_link_due(&p.a.l) == UINT64_MAX);
  CHECK_INT_EQ(clu_link_tick(&p.a.l, p.now + 100 * BEAT), CLU_OK);
  down();
}

/* Every single byte of a header that is changed ends the connection or is of no effect on order. */
TEST(a_repeated_or_missing_record_is_noticed) {
  wire copy;
  up(WINDOW);
  connect_both();
  settle();
  send_one(&p.a);
  say(&p.a, &p.ab, 1 << 20);
  copy = p.ab;
  CHECK_INT_EQ(hear(&p.b, &p.ab, 1 << 20), 0);
  p.ab = copy; /* once more */
  CHECK_INT_EQ(hear(&p.b, &p.ab, 1 << 20), -CLU_PROTO);
  CHECK_INT_EQ(p.b.got, 1);
  cut_both();
  connect_both();
  settle();
  send_one(&p.a);
  say(&p.a, &p.ab, 1 << 20);
  p.ab.n = 0; /* lost by something that is not TCP */
  p.a.sent++;
  REQUIRE(clu_link_send(&p.a.l, CLU_L_BYTES, 1, "x", 1) == CLU_OK);
  say(&p.a, &p.ab, 1 << 20);
  CHECK_INT_EQ(hear(&p.b, &p.ab, 1 << 20), -CLU_PROTO);
  down();
}

TEST(changed_headers_never_give_a_record_out_of_order) {
  for (size_t at = 0; at < CLU_LINK_HEADER; at++) {
    for (int bit = 0; bit < 8; bit++) {
      clu_link_record r;
      size_t n;
      unsigned char *to;
      int rc;
      up(WINDOW);
      connect_both();
      settle();
      send_one(&p.a);
      send_one(&p.a);
      say(&p.a, &p.ab, 1 << 20);
      p.ab.bytes[at] ^= (unsigned char)(1 << bit);
      to = clu_link_in(&p.b.l, &n);
      REQUIRE(p.ab.n <= n);
      memcpy(to, p.ab.bytes, p.ab.n);
      clu_link_read(&p.b.l, p.ab.n, p.now);
      rc = clu_link_next(&p.b.l, &r);
      CHECK(rc == 0 || rc == 1 || rc == -CLU_PROTO);
      if (at >= 1 && at <= 3) CHECK_INT_EQ(rc, -CLU_PROTO);
      if (at >= 16) CHECK_INT_EQ(rc, -CLU_PROTO);
      CHECK(p.b.l.received <= 2);
      down();
    }
  }
}

TEST(another_proxy_than_before_is_refused) {
  clu_link other;
  clu_link_record r;
  size_t n;
  const unsigned char *out;
  unsigned char *in;
  up(WINDOW);
  connect_both();
  settle();
  send_one(&p.b);
  settle();
  cut_both();
  REQUIRE(clu_link_init(&other, 0, WINDOW, BEAT) == CLU_OK);
  clu_link_connected(&other, p.now);
  clu_link_connected(&p.a.l, p.now);
  out = clu_link_out(&other, &n);
  in = clu_link_in(&p.a.l, &(size_t){0});
  memcpy(in, out, n);
  clu_link_read(&p.a.l, n, p.now);
  CHECK_INT_EQ(clu_link_next(&p.a.l, &r), -CLU_DEAD);
  clu_link_fini(&other);
  down();
}

TEST(any_other_version_is_refused) {
  static const uint32_t versions[] = {0, CLU_LINK_VERSION + 1, UINT32_MAX};
  for (size_t k = 0; k < sizeof versions / sizeof *versions; k++) {
    unsigned char resume[CLU_LINK_HEADER + 12] = {CLU_L_RESUME, 0, 0, 0, 12};
    clu_link_record r;
    size_t room;
    up(WINDOW);
    connect_both();
    clu_put32(resume + CLU_LINK_HEADER, versions[k]);
    memcpy(clu_link_in(&p.a.l, &room), resume, sizeof resume);
    clu_link_read(&p.a.l, sizeof resume, p.now);
    CHECK_INT_EQ(clu_link_next(&p.a.l, &r), -CLU_PROTO);
    CHECK_INT_EQ(p.a.l.state, CLU_LINK_RESUMING);
    CHECK(p.a.l.other_version == versions[k]);
    down();
  }
}

TEST(bye_ends_it_and_outlives_a_cut) {
  up(WINDOW);
  connect_both();
  settle();
  clu_link_say_bye(&p.a.l, "the session has ended");
  say(&p.a, &p.ab, 10);
  cut_both();
  connect_both();
  settle();
  CHECK_INT_EQ(p.b.bye, 1);
  CHECK_INT_EQ(p.b.l.state, CLU_LINK_ENDED);
  clu_link_cut(&p.b.l);
  CHECK_INT_EQ(p.b.l.state, CLU_LINK_ENDED);
  down();
}
