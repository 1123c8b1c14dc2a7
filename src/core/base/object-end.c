#include "core/base/object-end.h"

#include <string.h>

/* The types of R's objects, and the codes that the format has beside them. */
enum {
  SYMBOL = 1,
  PAIRLIST,
  CLOSURE,
  ENVIRONMENT,
  PROMISE,
  LANGUAGE,
  SPECIAL,
  BUILTIN,
  STRING,
  LOGICAL,
  INTEGER = 13,
  DOUBLE,
  COMPLEX,
  STRINGS,
  DOTS,
  LIST = 19,
  EXPRESSIONS,
  POINTER = 22,
  WEAK_REFERENCE,
  BYTES,
  S4,
  ALTERNATIVE = 238,
  BASE_ENVIRONMENT = 241,
  EMPTY_ENVIRONMENT,
  PERSISTENT = 247,
  PACKAGE,
  NAMESPACE,
  BASE_NAMESPACE,
  MISSING_ARGUMENT,
  UNBOUND,
  GLOBAL_ENVIRONMENT,
  NOTHING,
  REFERENCE
};

#define HAS_ATTRIBUTES 0x200u
#define HAS_TAG 0x400u
#define MOST INT32_MAX

static uint32_t number(const unsigned char *bytes, size_t at) {
  const unsigned char *p = bytes + at;
  uint32_t own;
  if (bytes[0] == 'X')
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | (uint32_t)p[3];
  memcpy(&own, p, sizeof own);
  return own;
}

/* Tells how many items of an item of that type follow as parts of it, beside its attributes. Or -1:
 * its size is a number of its own. */
static int parts(uint32_t type, uint32_t flags) {
  switch (type) {
  case BASE_ENVIRONMENT:
  case EMPTY_ENVIRONMENT:
  case BASE_NAMESPACE:
  case MISSING_ARGUMENT:
  case UNBOUND:
  case GLOBAL_ENVIRONMENT:
  case NOTHING:
  case WEAK_REFERENCE:
  case S4: return 0;
  case SYMBOL: return 1;
  case POINTER: return 2;
  case ALTERNATIVE: return 3;
  case PAIRLIST:
  case CLOSURE:
  case PROMISE:
  case LANGUAGE:
  case DOTS: return flags & HAS_TAG ? 3 : 2;
  default: return -1;
  }
}

/* Says how many bytes each element of this type has; 0: its elements are items. */
static size_t width(uint32_t type) {
  switch (type) {
  case SPECIAL:
  case BUILTIN:
  case STRING:
  case BYTES: return 1;
  case LOGICAL:
  case INTEGER: return 4;
  case DOUBLE: return 8;
  case COMPLEX: return 16;
  default: return 0;
  }
}

static int header(clu_object_end *o, const unsigned char *bytes, size_t n) {
  uint32_t version;
  size_t size = 2 + 3 * 4;
  if (n < size) return CLU_OBJECT_GOES_ON;
  if (memcmp(bytes, "X\n", 2) != 0 && memcmp(bytes, "B\n", 2) != 0) return CLU_OBJECT_UNKNOWN;
  version = number(bytes, 2);
  if (version == 3) { /* the encoding's name */
    uint32_t name;
    if (n < size + 4) return CLU_OBJECT_GOES_ON;
    name = number(bytes, size);
    if (name > MOST) return CLU_OBJECT_UNKNOWN;
    size += 4 + (size_t)name;
  } else if (version != 2) {
    return CLU_OBJECT_UNKNOWN;
  }
  o->at = size;
  o->items = 1;
  return CLU_OBJECT_GOES_ON;
}

/* Tells whether so many elements from `at` on would end where no memory of this machine is. */
static int is_too_far(size_t at, size_t bytes, uint32_t length) {
  const size_t most = SIZE_MAX / 2;
  return at > most || (length > 0 && bytes > (most - at) / length);
}

/* Passes over the item that begins at o->at. 0: it is not all there yet. -1: unknown. */
static int item(clu_object_end *o, const unsigned char *bytes, size_t n) {
  uint32_t flags, type, length;
  uint64_t more;
  size_t size = 4;
  int k;
  if (o->at + 4 > n) return 0;
  flags = number(bytes, o->at);
  type = flags & 0xFF;
  more = flags & HAS_ATTRIBUTES && type != STRING ? 1 : 0;
  k = parts(type, flags);
  if (k >= 0) {
    o->at += size;
    o->items += more + (uint64_t)k - 1;
    return 1;
  }
  if (type == REFERENCE) { /* its number is among the flags, or follows them */
    o->at += flags >> 8 ? size : size + 4;
    o->items--;
    return 1;
  }
  if (type == ENVIRONMENT) { /* whether it is locked; enclosure, frame, hash table, attributes */
    o->at += size + 4;
    o->items += 4 - 1;
    return 1;
  }
  if (type == PERSISTENT || type == PACKAGE || type == NAMESPACE) { /* a 0, then as strings */
    size += 4;
    type = STRINGS;
    more = 0;
  }
  if (o->at + size + 4 > n) return 0;
  length = number(bytes, o->at + size);
  size += 4;
  if (type == STRING && length == UINT32_MAX) length = 0; /* NA */
  if (length > MOST) return -1;
  if (width(type)) {
    if (is_too_far(o->at + size, width(type), length)) return -1;
    size += width(type) * length;
  } else if (type == STRINGS || type == LIST || type == EXPRESSIONS) {
    more += length;
  } else {
    return -1;
  }
  o->at += size;
  o->items += more - 1;
  return 1;
}

int clu_object_look(clu_object_end *o, const unsigned char *bytes, size_t n) {
  int rc = 1;
  if (!o->at) {
    rc = header(o, bytes, n);
    if (rc != CLU_OBJECT_GOES_ON || !o->at) return rc;
  }
  do {
    if (!o->items) break;
    rc = item(o, bytes, n);
  } while (rc > 0);
  if (rc < 0) return CLU_OBJECT_UNKNOWN;
  if (o->items || o->at > n) return CLU_OBJECT_GOES_ON;
  return o->at == n ? CLU_OBJECT_ENDS : CLU_OBJECT_UNKNOWN;
}
