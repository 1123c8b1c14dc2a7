/* Where a serialized object ends: at its last byte, and not one before. */
#include "test.h"

#include <stdlib.h>

#include "core/base/object-end.h"

/* An object in one of the two formats, number by number. */
typedef struct {
  unsigned char bytes[4096];
  size_t n;
} object;

static void number(object *o, uint32_t x) {
  unsigned char *p = o->bytes + o->n;
  if (o->bytes[0] == 'X')
    for (int i = 0; i < 4; i++) p[i] = (unsigned char)(x >> (24 - 8 * i));
  else
    memcpy(p, &x, 4);
  o->n += 4;
}

static void text(object *o, const char *s) {
  memcpy(o->bytes + o->n, s, strlen(s));
  o->n += strlen(s);
}

static void filler(object *o, size_t n) {
  memset(o->bytes + o->n, 0xAB, n);
  o->n += n;
}

static void string(object *o, const char *s) {
  number(o, 9 | 0x40000);
  number(o, (uint32_t)strlen(s));
  text(o, s);
}

static void begin(object *o, char format, uint32_t version) {
  o->n = 0;
  o->bytes[0] = (unsigned char)format;
  o->bytes[1] = '\n';
  o->n = 2;
  number(o, version);
  number(o, 0x40202);
  number(o, 0x30500);
  if (version == 3) {
    number(o, 5);
    text(o, "UTF-8");
  }
}

#define LISTSXP 2
#define HAS_ATTR 0x200
#define HAS_TAG 0x400

/* list(a = 1:2, b = "X\n") as R writes it, with a name that comes twice */
static void named_list(object *o) {
  number(o, 19 | HAS_ATTR);
  number(o, 2);
  number(o, 13);
  number(o, 2);
  filler(o, 8);
  number(o, 16);
  number(o, 1);
  string(o, "X\n");
  number(o, LISTSXP | HAS_TAG);
  number(o, 1); /* a symbol */
  string(o, "names");
  number(o, 16);
  number(o, 2);
  string(o, "a");
  string(o, "b");
  number(o, 254);
}

static void vectors(object *o) {
  static const uint32_t type[] = {10, 13, 14, 15, 24}, size[] = {4, 4, 8, 16, 1};
  number(o, 19);
  number(o, 5);
  for (int i = 0; i < 5; i++) {
    number(o, type[i]);
    number(o, 3);
    filler(o, 3 * size[i]);
  }
}

/* 1:3: its class, its state, its attributes */
static void sequence(object *o) {
  number(o, 238);
  number(o, LISTSXP);
  number(o, 1);
  string(o, "compact_intseq");
  number(o, LISTSXP);
  number(o, 1);
  string(o, "base");
  number(o, LISTSXP);
  number(o, 13);
  number(o, 1);
  number(o, 13);
  number(o, 254);
  number(o, 14);
  number(o, 3);
  filler(o, 24);
  number(o, 254);
}

/* A function with an environment that refers to itself, a namespace, a builtin, NA, and what has no
 * parts */
static void others(object *o) {
  number(o, 19);
  number(o, 7);
  number(o, 3 | HAS_ATTR | HAS_TAG);
  number(o, 254);   /* attributes */
  number(o, 4);     /* its environment, */
  number(o, 0);     /* not locked: */
  number(o, 253);   /* enclosure, */
  number(o, 0x1FF); /* frame: a reference, */
  number(o, 255);   /* hash table: one with a number of its own, */
  number(o, 70000);
  number(o, 254); /* attributes */
  number(o, 254); /* formals */
  number(o, 6);   /* body: a call */
  number(o, 0x2FF);
  number(o, 254);
  number(o, 249);
  number(o, 0);
  number(o, 2);
  string(o, "stats");
  string(o, "4.2.2");
  number(o, 8);
  number(o, 3);
  text(o, "sum");
  number(o, 16);
  number(o, 1);
  number(o, 9);
  number(o, UINT32_MAX); /* NA */
  number(o, 22 | HAS_ATTR);
  number(o, 254);
  number(o, 254);
  number(o, 254);
  number(o, 23);
  number(o, 25 | HAS_ATTR | 0x100);
  number(o, 254);
}

static void nothing(object *o) { number(o, 254); }

static void (*const kinds[])(object *) = {named_list, vectors, sequence, others, nothing};

#define KINDS (4 * (int)(sizeof kinds / sizeof *kinds))

/* Each of them in both formats and both versions */
static void make(object *o, int k) {
  begin(o, k & 1 ? 'X' : 'B', k & 2 ? 3 : 2);
  kinds[k / 4](o);
}

TEST(it_ends_with_its_last_byte_however_it_comes) {
  object o;
  for (int k = 0; k < KINDS; k++) {
    clu_object_end byte_by_byte = {0, 0};
    make(&o, k);
    for (size_t n = 0; n <= o.n; n++) {
      clu_object_end at_once = {0, 0};
      int want = n < o.n ? CLU_OBJECT_GOES_ON : CLU_OBJECT_ENDS;
      CHECK_INT_EQ(clu_object_look(&at_once, o.bytes, n), want);
      CHECK_INT_EQ(clu_object_look(&byte_by_byte, o.bytes, n), want);
    }
  }
}

TEST(bytes_behind_the_end_are_not_of_it) {
  object o;
  for (int k = 0; k < KINDS; k++) {
    clu_object_end end = {0, 0};
    make(&o, k);
    o.bytes[o.n] = 0;
    CHECK_INT_EQ(clu_object_look(&end, o.bytes, o.n + 1), CLU_OBJECT_UNKNOWN);
  }
}

TEST(what_it_does_not_know_it_says) {
  static const uint32_t unknown[] = {21, 0, 11, 12, 18, 26, 100, 237, 239, 243, 244, 245, 246};
  object o;
  for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
    clu_object_end end = {0, 0};
    begin(&o, 'X', 3);
    number(&o, unknown[i]);
    number(&o, 1);
    CHECK_INT_EQ(clu_object_look(&end, o.bytes, o.n), CLU_OBJECT_UNKNOWN);
  }
  for (uint32_t version = 0; version < 6; version++) {
    clu_object_end end = {0, 0};
    int known = version == 2 || version == 3;
    begin(&o, 'X', version);
    nothing(&o);
    CHECK_INT_EQ(clu_object_look(&end, o.bytes, o.n), known ? CLU_OBJECT_ENDS : CLU_OBJECT_UNKNOWN);
  }
  {
    clu_object_end end = {0, 0};
    begin(&o, 'X', 3);
    number(&o, 13); /* a long vector: -1, then two numbers */
    number(&o, UINT32_MAX);
    CHECK_INT_EQ(clu_object_look(&end, o.bytes, o.n), CLU_OBJECT_UNKNOWN);
  }
  for (uint32_t type = 14; type < 16; type++) { /* on 32 bit its size is 16 bytes, cut off */
    clu_object_end end = {0, 0};
    begin(&o, 'X', 3);
    number(&o, type);
    number(&o, (type == 14 ? 0x20000000u : 0x10000000u) + 16 / (type == 14 ? 8 : 16));
    filler(&o, 16);
    CHECK(clu_object_look(&end, o.bytes, o.n) != CLU_OBJECT_ENDS);
  }
  {
    clu_object_end end = {0, 0};
    begin(&o, 'X', 3);
    o.bytes[0] = 'A';
    CHECK_INT_EQ(clu_object_look(&end, o.bytes, o.n), CLU_OBJECT_UNKNOWN);
  }
}

TEST(whether_bytes_of_a_known_number_are_to_come) {
  object o;
  clu_object_end end = {0, 0};
  begin(&o, 'X', 3);
  number(&o, 13);
  CHECK_INT_EQ(clu_object_look(&end, o.bytes, o.n), CLU_OBJECT_GOES_ON);
  CHECK(!clu_object_in_data(&end, o.n));
  number(&o, 2);
  CHECK_INT_EQ(clu_object_look(&end, o.bytes, o.n), CLU_OBJECT_GOES_ON);
  CHECK(clu_object_in_data(&end, o.n));
  filler(&o, 7);
  CHECK_INT_EQ(clu_object_look(&end, o.bytes, o.n), CLU_OBJECT_GOES_ON);
  CHECK(clu_object_in_data(&end, o.n));
  filler(&o, 1);
  CHECK_INT_EQ(clu_object_look(&end, o.bytes, o.n), CLU_OBJECT_ENDS);
}

/* Whatever the bytes are, nothing behind them is read, and it comes to an end. */
TEST(any_bytes_do_no_harm) {
  object o;
  srand(1);
  for (int k = 0; k < 2000 * KINDS; k++) {
    clu_object_end end = {0, 0};
    unsigned char *exact;
    size_t n;
    make(&o, k % KINDS);
    n = 1 + (size_t)rand() % o.n;
    exact = malloc(n);
    REQUIRE(exact);
    memcpy(exact, o.bytes, n);
    for (int i = rand() % 4; i >= 0; i--) exact[(size_t)rand() % n] = (unsigned char)rand();
    for (size_t i = 1; i <= n; i += 1 + (size_t)rand() % 9)
      if (clu_object_look(&end, exact, i) != CLU_OBJECT_GOES_ON) break;
    free(exact);
  }
}
