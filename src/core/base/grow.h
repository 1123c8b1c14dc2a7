/* Arrays that grow while items come one by one. Each time there is no room they get twice as much
 * of it, so that an item is moved twice at most, on average.
 */
#ifndef CLUTCH_GROW_H
#define CLUTCH_GROW_H

#include <stdint.h>
#include <stdlib.h>

#define CLU_GROW_FIRST 8 /* items */

/* The array `items` with room for `need` items of `size` bytes, at least; it had room for `*cap`,
 * and NULL has room for none. It may be elsewhere then. NULL without memory: it is as it was. */
static inline void *clu_grow(void *items, size_t *cap, size_t need, size_t size) {
  size_t more = *cap ? *cap : CLU_GROW_FIRST;
  void *p;
  if (need <= *cap) return items;
  while (more < need) {
    if (more > SIZE_MAX / 2 / size) return NULL;
    more *= 2;
  }
  p = realloc(items, more * size);
  if (p) *cap = more;
  return p;
}

#endif
