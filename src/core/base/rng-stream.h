/* Random number streams: L'Ecuyer's combined multiple recursive generator MRG32k3a, split into
 * streams 2^127 numbers apart, as R's "L'Ecuyer-CMRG" and parallel::nextRNGStream() have it.
 *
 * P. L'Ecuyer, R. Simard, E. J. Chen, W. D. Kelton: An object-oriented random-number package with
 * many long streams and substreams. Operations Research 50 (2002) 1073-1075. */
#ifndef CLUTCH_RNG_STREAM_H
#define CLUTCH_RNG_STREAM_H

#include <stdint.h>

/* The stream `n` streams after the one whose state is `s`: O(log n). Overwrites `s`. */
void clu_stream_jump(uint32_t s[6], uint64_t n);

#endif
