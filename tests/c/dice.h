/* Random numbers of which a seed gives the same again: xorshift64* (Vigna 2016). */
#ifndef CLUTCH_TEST_DICE_H
#define CLUTCH_TEST_DICE_H

#include <stdint.h>

static uint64_t dice_state = 4711;

/* From 0 to n - 1. */
static uint64_t dice(uint64_t n) {
  dice_state ^= dice_state >> 12;
  dice_state ^= dice_state << 25;
  dice_state ^= dice_state >> 27;
  return (dice_state * 2685821657736338717ull >> 11) % n;
}

#endif
